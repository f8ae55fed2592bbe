"""The ready-made roles: their rights on a fresh hub, and the rights that none of them gives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from api.objects.writing import User
from api.wire.rights import Attributes
from fleet.admission.seed import seed
from fleet.wellknown.readyroles import READY_ROLES
from tests.security.hub import Hub, open_hub

RBAC = "rbac.authorization.k8s.io"
TRAINING, QUOTA, QUEUE = "kubeflow.org", "scheduling.sigs.k8s.io", "scheduling.x-k8s.io"
MEMBERS, POLICY = "cluster.karmada.io", "policy.one.alibabacloud.com"
MAY = {
    "viewer": {
        ("list", TRAINING, "pytorchjobs"),
        ("get", QUEUE, "queues"),
        ("get", MEMBERS, "clusters"),
        ("get", TRAINING, "pytorchjobs/log"),
        ("get", TRAINING, "pytorchjobs/pods"),
        ("get", "batch", "jobs/log"),
        ("get", "", "pods/log"),
    },
    "fleet-operator": {("list", TRAINING, "pytorchjobs"), ("get", QUEUE, "queues"), ("get", MEMBERS, "clusters")},
    "job-submitter": {
        ("create", TRAINING, "pytorchjobs"),
        ("delete", "batch", "jobs"),
        ("create", "", "configmaps"),
        ("list", QUEUE, "queueunits"),
        ("create", "", "pods/exec"),
        ("create", "", "pods/portforward"),
    },
    "queue-admin": {("update", QUOTA, "elasticquotatrees"), ("patch", QUEUE, "queueunits"), ("use", QUEUE, "queues")},
    "fleet-admin": {
        ("update", QUOTA, "elasticquotatrees"),
        ("update", MEMBERS, "clusters"),
        ("create", POLICY, "propagationpolicies"),
        ("create", "scheduling.k8s.io", "priorityclasses"),
    },
}
LACKS = {
    "viewer": {
        ("create", TRAINING, "pytorchjobs"),
        ("get", "", "configmaps"),
        ("patch", QUEUE, "queueunits"),
        ("create", "", "pods/exec"),
        ("create", "", "pods/attach"),
    },
    "fleet-operator": {
        ("create", TRAINING, "pytorchjobs"),
        ("patch", QUEUE, "queueunits"),
        ("get", "", "configmaps"),
        ("create", "", "pods/exec"),
        ("update", MEMBERS, "clusters"),
    },
    "job-submitter": {("create", POLICY, "propagationpolicies"), ("patch", QUEUE, "queueunits")},
    "queue-admin": {
        ("create", TRAINING, "pytorchjobs"),
        ("update", MEMBERS, "clusters"),
        ("create", "", "pods/exec"),
    },
    "fleet-admin": {("create", TRAINING, "pytorchjobs"), ("create", "", "serviceaccounts/token")},
}
READS = (
    "decisions",
    "decisions/7",
    "decisions/7/record",
    "faults",
    "faults/7/snapshot",
    "snapshot",
    "parts",
)
NOBODY = {
    ("get", "", "secrets"),
    ("bypass", QUEUE, "queues"),
    ("get", MEMBERS, "clusters/proxy"),
    ("create", MEMBERS, "clusters/dial"),
    ("create", "rbac.authorization.k8s.io", "rolebindings"),
    ("escalate", "rbac.authorization.k8s.io", "clusterroles"),
    ("impersonate", "", "users"),
    ("update", TRAINING, "pytorchjobs/status"),
    ("approve", "certificates.k8s.io", "signers"),
}


def bound(role: str, user: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{role}-{user}"},
        "subjects": [{"kind": "User", "apiGroup": RBAC, "name": user}],
        "roleRef": {"kind": "ClusterRole", "apiGroup": RBAC, "name": role},
    }


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    async with open_hub() as opened:
        await seed(opened.objects)
        for name in READY_ROLES:
            await opened.create("clusterrolebindings", bound(name, name), RBAC)
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


@pytest.mark.parametrize("role", sorted(READY_ROLES))
async def test_operators_and_admins_of_the_fleet_read_its_views_and_no_others_do(hub: Hub, role: str) -> None:
    def may(verb: str, path: str) -> bool:
        return hub.app.authorizer.allowed(User(role), Attributes(verb, path=path))

    wanted = role in ("fleet-operator", "fleet-admin")
    assert {may("get", f"/fleet/v1/{path}") for path in READS} == {wanted}
    assert {may("post", f"/fleet/v1/{path}") for path in ("what-if", "decisions/7/replay")} == {wanted}
    assert may("get", "/metrics") is wanted
    assert not may("delete", "/fleet/v1/history/users") and not may("post", "/fleet/v1/decisions")


async def test_the_role_opens_the_decisions(hub: Hub) -> None:
    client = hub.client("nobody-token")
    assert (await client.get("/fleet/v1/decisions")).status_code == 403
    await hub.create("clusterrolebindings", bound("fleet-operator", "nobody"), RBAC)
    hub.app.authorizer.invalidate()
    opened = await client.get("/fleet/v1/decisions")
    assert opened.status_code == 200, opened.text
