"""Who may see and do what under /fleet/v1: the same roles as on the Kubernetes face, and the same refusals."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.rest.mount import PREFIX
from tests.controllers.world import cluster, pytorchjob, tree
from tests.rest.rest import Rest, fill, rest

JOB = "/jobs/default/PyTorchJob/job-00000"
JOBS = {"apiGroups": ["kubeflow.org"], "resources": ["pytorchjobs"]}
EVERY_JOB = {"apiGroups": ["kubeflow.org", "batch", "batch.volcano.sh", "apps"], "resources": ["*"]}
DECISIONS = {"nonResourceURLs": ["/fleet/v1/decisions", "/fleet/v1/decisions/*"]}


async def ask(hub: Rest, method: str, path: str, token: str = "alice-token") -> Any:
    """The answer, with a job in the body of a POST."""
    json = {"edits": []} if path == "/what-if" else pytorchjob("new") if method == "POST" else None
    return await hub.client(token).request(method, f"{PREFIX}{path}", json=json)


# (method, path, what must be granted in namespace "default"; a rule without one is granted everywhere)
ROUTES: list[tuple[str, str, list[tuple[str, Any]], str]] = [
    ("GET", "/jobs?namespace=default&kind=PyTorchJob", [("default", {**JOBS, "verbs": ["list"]})], "pytorchjobs"),
    ("GET", "/jobs?namespace=default", [("default", {**EVERY_JOB, "verbs": ["list"]})], "cannot list"),
    ("GET", "/jobs?kind=PyTorchJob", [("", {**JOBS, "verbs": ["list"]})], "at the cluster scope"),
    ("GET", JOB, [("default", {**JOBS, "verbs": ["get"], "resourceNames": ["job-00000"]})], "cannot get"),
    ("POST", "/jobs", [("default", {**JOBS, "verbs": ["create"]})], "cannot create"),
    ("DELETE", JOB, [("default", {**JOBS, "verbs": ["delete"]})], "cannot delete"),
    (
        "GET",
        "/clusters",
        [("", {"apiGroups": ["cluster.karmada.io"], "resources": ["clusters"], "verbs": ["list"]})],
        "clusters.cluster.karmada.io",
    ),
    (
        "GET",
        "/nodes",
        [("", {"apiGroups": ["cluster.karmada.io"], "resources": ["clusters"], "verbs": ["list"]})],
        "clusters.cluster.karmada.io",
    ),
    (
        "GET",
        "/queues",
        [
            ("kube-queue", {"apiGroups": ["scheduling.x-k8s.io"], "resources": ["queues"], "verbs": ["list"]}),
            (
                "kube-system",
                {"apiGroups": ["scheduling.sigs.k8s.io"], "resources": ["elasticquotatrees"], "verbs": ["list"]},
            ),
        ],
        "queues.scheduling.x-k8s.io",
    ),
    ("GET", "/decisions", [("", {**DECISIONS, "verbs": ["get"]})], 'cannot get path "/fleet/v1/decisions"'),
    ("GET", "/decisions/1", [("", {**DECISIONS, "verbs": ["get"]})], 'cannot get path "/fleet/v1/decisions/1"'),
    ("GET", "/decisions/1/record", [("", {**DECISIONS, "verbs": ["get"]})], "/fleet/v1/decisions/1/record"),
    ("POST", "/decisions/1/replay", [("", {**DECISIONS, "verbs": ["post"]})], "cannot post path"),
    ("GET", "/snapshot", [("", {"nonResourceURLs": ["/fleet/v1/snapshot"], "verbs": ["get"]})], "/fleet/v1/snapshot"),
    (
        "POST",
        "/what-if",
        [("", {"nonResourceURLs": ["/fleet/v1/what-if"], "verbs": ["post"]})],
        'cannot post path "/fleet/v1/what-if"',
    ),
]


NOTHING_YET = ("/decisions/1", "/decisions/1/record", "/decisions/1/replay", "/snapshot", "/what-if")


@pytest.mark.parametrize(("method", "path", "grants", "says"), ROUTES, ids=[f"{r[0]} {r[1]}" for r in ROUTES])
async def test_a_route_is_closed_without_its_role_and_open_with_it(
    method: str, path: str, grants: list[tuple[str, Any]], says: str
) -> None:
    async with rest(start=False) as hub:
        await fill(hub, 1)
        before = await hub.world.store.revision()
        denied = await ask(hub, method, path)
        body = denied.json()
        assert (denied.status_code, body["kind"], body["reason"]) == (403, "Status", "Forbidden"), denied.text
        assert 'User "alice"' in body["message"] and says in body["message"], body["message"]
        assert await hub.world.store.revision() == before
        for namespace, rule in grants:
            await hub.grant("alice", rule, namespace)
        given = await ask(hub, method, path)
        assert given.status_code in (200, 201) or (path in NOTHING_YET and given.status_code == 404), given.text
        assert (await ask(hub, method, path, "bob-token")).status_code == 403


@pytest.mark.parametrize(
    "path", ["/jobs", JOB, "/queues", "/clusters", "/decisions", "/faults", "/snapshot", "/docs/", "/nothing"]
)
async def test_nobody_gets_an_answer_without_credentials(path: str) -> None:
    async with rest(start=False) as hub:
        for token in ("", "wrong"):
            status = (await hub.client(token).get(f"{PREFIX}{path}")).json()
            assert (status["kind"], status["code"], status["reason"]) == ("Status", 401, "Unauthorized")


@pytest.mark.parametrize("path", ["", "/docs", "/openapi.json"])
async def test_a_browser_reads_the_documentation_without_credentials_and_changes_nothing(path: str) -> None:
    async with rest(start=False) as hub:
        for token in ("", "wrong"):
            shown = await hub.client(token).get(f"{PREFIX}{path}")
            assert shown.status_code == 200 and "List jobs" in shown.text
            assert (await hub.client(token).post(f"{PREFIX}{path}", json={})).status_code == 401


async def test_a_right_in_one_namespace_is_none_in_another() -> None:
    async with rest(start=False) as hub:
        await hub.grant("alice", {**JOBS, "verbs": ["create", "list", "get", "delete"]}, "default")
        other = await hub.client("alice-token").post(f"{PREFIX}/jobs", json=pytorchjob("one", namespace="team-b"))
        assert other.status_code == 403 and 'in the namespace "team-b"' in other.json()["message"]
        own = await hub.client("alice-token").post(f"{PREFIX}/jobs", json=pytorchjob("one"))
        assert own.status_code == 201, own.text
        status = await hub.refused("GET", "/jobs/team-b/PyTorchJob/one", token="alice-token")
        assert status["code"] == 403


async def test_a_list_without_kind_has_the_kinds_that_the_user_may_list_and_says_that_it_is_a_part() -> None:
    async with rest(start=False) as hub:
        await hub.world.apply(pytorchjob("one"))
        await hub.grant("alice", {**JOBS, "verbs": ["list"]})
        found = await hub.get("/jobs", "alice-token")
        assert ([job["name"] for job in found["items"]], found["partial"]) == (["one"], True)
        assert (await hub.get("/jobs", "alice-token", kind="PyTorchJob"))["partial"] is False
        assert (await hub.refused("GET", "/jobs?kind=TFJob", token="alice-token"))["code"] == 403


async def test_the_heads_of_a_queue_show_only_jobs_that_the_user_may_list() -> None:
    rules = [
        ("kube-queue", {"apiGroups": ["scheduling.x-k8s.io"], "resources": ["queues"], "verbs": ["list"]}),
        (
            "kube-system",
            {"apiGroups": ["scheduling.sigs.k8s.io"], "resources": ["elasticquotatrees"], "verbs": ["list"]},
        ),
    ]
    async with rest(start=False, objects=[tree(name="big")]) as hub:
        await fill(hub, 2)
        for namespace, rule in rules:
            await hub.grant("alice", rule, namespace)
        leaf = (await hub.get("/queues", "alice-token"))["items"][1]
        assert (leaf["path"], leaf["waiting"], leaf["heads"]) == ("root/big", 2, [])
        await hub.grant("alice", {**JOBS, "verbs": ["list"]}, "default")
        leaf = (await hub.get("/queues", "alice-token"))["items"][1]
        assert [head["name"] for head in leaf["heads"]] == ["job-00001", "job-00000"]


async def test_an_administrator_sees_as_somebody_else_sees() -> None:
    async with rest(start=False, objects=[cluster("cfa")]) as hub:
        answer = await hub.client().get(f"{PREFIX}/clusters", headers={"impersonate-user": "alice"})
        assert answer.status_code == 403 and 'User "alice"' in answer.json()["message"]
