"""Jobs whose pods must lie close together: how they say it, and what their member gets."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.core.model.rule import PlacementRule
from fleet.kinds import interpreter_of
from fleet.kinds.topology import rules_asked, within

RACK = "topology.kubernetes.io/rack"
Body = dict[str, Any]


def job(own: Body | None = None, **templates: Body) -> Body:
    """A PyTorchJob with these annotations on itself and on its pod templates."""
    specs = {
        name: {"replicas": 1, "template": {"metadata": {"annotations": annotations}, "spec": {"containers": []}}}
        for name, annotations in templates.items()
    }
    meta = {"name": "one", "annotations": own or {}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": meta,
        "spec": {"pytorchReplicaSpecs": specs},
    }


def named(body: Body) -> dict[str, str]:
    interpreter = interpreter_of(body["apiVersion"], body["kind"])
    assert interpreter is not None
    fields = rules_asked(body, interpreter.templates(body))
    return {rule.level: field for rule, field in fields.items()}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (job(Master={}), {}),
        (job({"fleet.io/required-topology": RACK}), {RACK: "metadata.annotations[fleet.io/required-topology]"}),
        (
            job(Master={}, Worker={"kueue.x-k8s.io/podset-required-topology": RACK}),
            {
                RACK: "spec.pytorchReplicaSpecs.Worker.template.metadata"
                ".annotations[kueue.x-k8s.io/podset-required-topology]"
            },
        ),
        (
            job({"fleet.io/required-topology": RACK}, Worker={"fleet.io/required-topology": RACK}),
            {RACK: "metadata.annotations[fleet.io/required-topology]"},
        ),
    ],
    ids=["nothing", "on the job", "Kueue's name on a template", "twice the same"],
)
def test_a_job_names_the_label_that_its_pods_share(body: Body, expected: dict[str, str]) -> None:
    assert named(body) == expected


def test_two_labels_are_two_with_the_field_of_each() -> None:
    found = named(job({"fleet.io/required-topology": RACK}, Master={"fleet.io/required-topology": "zone"}))
    assert list(found) == [RACK, "zone"]


def test_pods_require_each_others_rack_and_prefer_the_one_with_room() -> None:
    body = job(Master={}, Worker={})
    own: Body = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "theirs"}]}}
    body["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["affinity"] = own
    interpreter = interpreter_of("kubeflow.org/v1", "PyTorchJob")
    assert interpreter is not None
    changed = within(body, interpreter.templates(body), PlacementRule(RACK), {RACK: "r7"}, {"fleet.io/binding": "b"})
    together = {"labelSelector": {"matchLabels": {"fleet.io/binding": "b"}}, "topologyKey": RACK}
    there = {"matchExpressions": [{"key": RACK, "operator": "In", "values": ["r7"]}]}
    specs = changed["spec"]["pytorchReplicaSpecs"]
    affinity = specs["Master"]["template"]["spec"]["affinity"]
    assert affinity["podAffinity"] == {"requiredDuringSchedulingIgnoredDuringExecution": [together]}
    preferred = [{"weight": 100, "preference": there}]
    assert affinity["nodeAffinity"] == {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    required = specs["Worker"]["template"]["spec"]["affinity"]["podAffinity"]
    assert required == {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "theirs"}, together]}
    assert own == {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "theirs"}]}}
    assert "affinity" not in body["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]


def test_a_batch_job_has_its_template_elsewhere_and_may_have_no_rack_to_prefer() -> None:
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": {"spec": {}}}}
    interpreter = interpreter_of("batch/v1", "Job")
    assert interpreter is not None
    changed = within(body, interpreter.templates(body), PlacementRule(RACK), {}, {"a": "b"})
    assert list(changed["spec"]["template"]["spec"]["affinity"]) == ["podAffinity"]
