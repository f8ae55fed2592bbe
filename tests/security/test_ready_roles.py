"""The ready-made roles: their rights on a fresh hub, and the rights that none of them gives."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from api.policy import Attributes
from fleet.admission.readyroles import READY_ROLES
from fleet.admission.seed import seed
from fleet.objects.writing import User
from tests.security.hub import Hub, open_hub

TRAINING, QUOTA, QUEUE = "kubeflow.org", "scheduling.sigs.k8s.io", "scheduling.x-k8s.io"
MEMBERS, POLICY = "cluster.karmada.io", "policy.one.alibabacloud.com"
MAY = {
    "viewer": {
        ("list", TRAINING, "pytorchjobs"), ("get", QUEUE, "queues"), ("get", MEMBERS, "clusters"),
        ("get", TRAINING, "pytorchjobs/log"), ("get", TRAINING, "pytorchjobs/pods"),
        ("get", "batch", "jobs/log"), ("get", "", "pods/log"),
    },
    "job-submitter": {
        ("create", TRAINING, "pytorchjobs"), ("delete", "batch", "jobs"), ("create", "", "configmaps"),
        ("list", QUEUE, "queueunits"), ("create", "", "pods/exec"), ("create", "", "pods/portforward"),
    },
    "queue-admin": {("update", QUOTA, "elasticquotatrees"), ("patch", QUEUE, "queueunits"), ("use", QUEUE, "queues")},
    "fleet-admin": {
        ("update", QUOTA, "elasticquotatrees"), ("update", MEMBERS, "clusters"),
        ("create", POLICY, "propagationpolicies"), ("create", "scheduling.k8s.io", "priorityclasses"),
    },
}  # fmt: skip
LACKS = {
    "viewer": {
        ("create", TRAINING, "pytorchjobs"),
        ("get", "", "configmaps"),
        ("patch", QUEUE, "queueunits"),
        ("create", "", "pods/exec"),
        ("create", "", "pods/attach"),
    },
    "job-submitter": {("create", POLICY, "propagationpolicies"), ("patch", QUEUE, "queueunits")},
    "queue-admin": {
        ("create", TRAINING, "pytorchjobs"),
        ("update", MEMBERS, "clusters"),
        ("create", "", "pods/exec"),
    },
    "fleet-admin": {("create", TRAINING, "pytorchjobs"), ("create", "", "serviceaccounts/token")},
}
NOBODY = {
    ("get", "", "secrets"), ("bypass", QUEUE, "queues"), ("get", MEMBERS, "clusters/proxy"),
    ("create", MEMBERS, "clusters/dial"),
    ("create", "rbac.authorization.k8s.io", "rolebindings"), ("escalate", "rbac.authorization.k8s.io", "clusterroles"),
    ("impersonate", "", "users"), ("update", TRAINING, "pytorchjobs/status"),
    ("approve", "certificates.k8s.io", "signers"),
}  # fmt: skip


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    async with open_hub() as opened:
        await seed(opened.objects)
        for name in READY_ROLES:
            body = {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
                "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}],
                "roleRef": {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": name},
            }  # fmt: skip
            await opened.create("clusterrolebindings", body, "rbac.authorization.k8s.io")
        opened.app.authorizer.invalidate()
        yield opened


async def test_each_role_gives_its_rights_and_no_other(hub: Hub) -> None:
    def may(role: str, right: tuple[str, str, str]) -> bool:
        verb, group, resource = right
        resource, _, part = resource.partition("/")
        return hub.app.authorizer.allowed(User(role), Attributes(verb, group, resource, part, "team-a", "x"))

    assert set(MAY) == set(LACKS) == set(READY_ROLES)
    for role in READY_ROLES:
        assert {right for right in MAY[role] if not may(role, right)} == set(), role
        assert {right for right in LACKS[role] | NOBODY if may(role, right)} == set(), role
