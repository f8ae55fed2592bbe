"""PropagationPolicies."""

from __future__ import annotations

from typing import Any

from tests.admission.conftest import Body

JOBS = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}
MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}


def policy(**spec: Any) -> Body:
    return {
        "apiVersion": "policy.one.alibabacloud.com/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "p"},
        "spec": {"resourceSelectors": [MAPS], **spec},
    }


def gang(**placement: Any) -> Body:
    scheduling = {"replicaSchedulingType": "Divided", "customSchedulingType": "Gang"}
    return {"placement": {"replicaScheduling": scheduling, **placement}}
