"""What users with few rights see of a hub that several teams share: their own jobs, and of the others' sums alone."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.controllers.fastloop import eventually
from tests.controllers.world import cluster_policy, member, pytorchjob, tree
from tests.rest.rest import Rest, causes, rest

JOBS = {
    "apiGroups": ["kubeflow.org", "batch", "batch.volcano.sh", "apps"],
    "resources": ["*"],
    "verbs": ["get", "list", "create"],
}
SECRET = ("secret-job", "secret-waits", "team-b", "cfa")  # what alice may not read anywhere
LEAVES = [("vision", "default"), ("speech", "team-b"), ("open", None)]


def two_leaves() -> dict[str, Any]:
    body: dict[str, Any] = tree()
    [leaf] = body["spec"]["root"]["children"]
    body["spec"]["root"]["children"] = [
        {**leaf, "name": name, "namespaces": [namespace] if namespace else []} for name, namespace in LEAVES
    ]
    return body


def crowded() -> dict[str, Any]:
    """Two jobs in all, any number of them in a leaf."""
    body = two_leaves()
    root = body["spec"]["root"]
    for amounts in (root["min"], root["max"], *(leaf["max"] for leaf in root["children"])):
        amounts["kube-queue/max-jobs"] = 2
    return body


@asynccontextmanager
async def shared(quota: dict[str, Any] | None = None) -> AsyncIterator[Rest]:
    """One job of each team runs in cfa, and one of each waits. Alice may edit in default, bob may look at both."""
    jobs = [pytorchjob("mine"), pytorchjob("secret-job", namespace="team-b")]
    async with rest(member("cfa"), objects=[quota or two_leaves(), cluster_policy(queue=True), *jobs]) as hub:
        await hub.grant("alice", JOBS, "default")
        for namespace in ("default", "team-b"):
            await hub.grant("bob", {**JOBS, "verbs": ["get", "list"]}, namespace)
        for name, namespace in (("mine", "default"), ("secret-job", "team-b")):
            await eventually(lambda n=name, s=namespace: runs(hub, n, s), what=f"{name} runs")
        await hub.world.apply(pytorchjob("waits"), pytorchjob("secret-waits", namespace="team-b"))
        await hub.seen(mine="cfa", waits=None)
        await hub.seen(**{"mine": "cfa", "waits": None, "team-b/secret-waits": None})
        yield hub


def runs(hub: Rest, name: str, namespace: str) -> bool:
    return bool(((hub.world.binding(name, namespace=namespace) or {}).get("spec") or {}).get("clusters"))


async def names(hub: Rest, token: str, **params: Any) -> tuple[list[str], bool]:
    found = await hub.get("/jobs", token, **params)
    return [f"{job['namespace']}/{job['name']}" for job in found["items"]], found["partial"]


async def test_a_list_of_all_namespaces_has_those_that_the_user_may_list_and_says_that_it_is_a_part() -> None:
    async with rest(start=False) as hub:
        for namespace in ("default", "team-b"):
            await hub.world.apply(pytorchjob("one", namespace=namespace))
        await hub.grant("alice", JOBS, "default")
        assert await names(hub, "alice-token") == (["default/one"], True)
        assert await names(hub, "alice-token", namespace="default") == (["default/one"], False)
        assert await names(hub, "admin-token") == (["default/one", "team-b/one"], False)
        refused = await hub.refused("GET", "/jobs?namespace=team-b", "alice-token")
        assert (refused["code"], refused["message"]) == (
            403,
            'jobs are forbidden: User "alice" cannot list jobs in the namespace "team-b"',
        )
        assert (await hub.refused("GET", "/jobs", "bob-token"))["code"] == 403
        for namespace in ("default", "team-b"):
            await hub.grant("bob", JOBS, namespace)
        assert await names(hub, "bob-token", limit=1) == (["default/one"], True)
        assert await names(hub, "bob-token") == (["default/one", "team-b/one"], True)


async def test_a_job_is_found_by_its_name_with_the_right_to_get_it_alone() -> None:
    async with rest(start=False) as hub:
        await hub.world.apply(pytorchjob("one"), pytorchjob("two"))
        rule = {"apiGroups": ["kubeflow.org"], "resources": ["pytorchjobs"], "resourceNames": ["one"], "verbs": ["get"]}
        await hub.grant("alice", rule, "default")
        assert await names(hub, "alice-token", name="one", namespace="default") == (["default/one"], True)
        assert (await hub.refused("GET", "/jobs?namespace=default", "alice-token"))["code"] == 403
        assert (await hub.refused("GET", "/jobs?namespace=default&name=two", "alice-token"))["code"] == 403


async def test_a_tenant_sees_the_leaves_of_her_namespaces_and_what_is_above_them() -> None:
    async with shared() as hub:
        found = await hub.get("/queues", "alice-token")
        nodes = {node["path"]: node for node in found["items"]}
        assert (list(nodes), found["partial"]) == (["root", "root/vision", "root/open"], True)
        assert nodes["root"]["children"] == ["root/vision", "root/open"]
        assert (nodes["root"]["running"], nodes["root"]["waiting"]) == (2, 2)  # sums over everybody
        assert [head["name"] for head in nodes["root/vision"]["heads"]] == ["waits"]
        assert "speech" not in json.dumps(found) and "secret" not in json.dumps(found)
        both = await hub.get("/queues", "bob-token")
        assert (len(both["items"]), both["partial"]) == (4, True)
        assert (await hub.get("/queues"))["partial"] is False


async def asked(hub: Rest, token: str, *edits: dict[str, Any]) -> Any:
    answer = await hub.client(token).post("/fleet/v1/what-if", json={"edits": list(edits)})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_tenant_asks_what_if_about_her_jobs_and_of_the_others_learns_sums() -> None:
    async with shared() as hub:
        await hub.seen(mine="cfa", waits=None)
        found = await asked(hub, "alice-token", {"Remove": {"unit": "default/mine"}})
        assert {row["job"]: row["change"] for row in found["rows"]} == {
            "default/mine": "removed",
            "default/waits": "starts",
        }
        assert found["others"] == []
        raised = {"SetLimit": {"node": "root/vision", "limit": "max", "resource": "kube-queue/max-jobs", "amount": 9}}
        found = await asked(hub, "alice-token", raised)
        assert {row["job"]: row["change"] for row in found["rows"]} == {"default/waits": "starts"}


async def test_edits_of_members_and_the_names_of_all_jobs_take_the_right_to_the_path() -> None:
    edit = {"Prioritize": {"unit": "default/waits", "priority": 10}}
    drain = {"DrainMember": {"member": "cfa"}}
    async with shared() as hub:
        whole = await asked(hub, "admin-token", drain)
        assert {row["job"] for row in whole["rows"]} >= {"default/mine", "team-b/secret-job"}
        assert whole["others"] == []
        refused = await hub.refused("POST", "/what-if", "alice-token", json={"edits": [edit, drain]})
        assert refused["code"] == 403 and "edits[1].DrainMember" in refused["message"]
        await hub.grant("alice", {"nonResourceURLs": ["/fleet/v1/what-if"], "verbs": ["post"]})
        assert "team-b/secret-job" in json.dumps(await asked(hub, "alice-token", drain))


async def test_others_are_counted_by_leaf_and_by_what_becomes_of_them() -> None:
    async with shared(crowded()) as hub:
        removed = await asked(
            hub, "alice-token", {"Remove": {"unit": "default/mine"}}, {"Remove": {"unit": "default/waits"}}
        )
        assert {row["job"] for row in removed["rows"]} == {"default/mine", "default/waits"}
        assert removed["others"] == [{"leaf": "root/speech", "change": "starts", "jobs": 1, "gpus": 3}]
        text = json.dumps(removed)
        assert not [word for word in SECRET[:3] if word in text], text
        seen = await asked(
            hub, "bob-token", {"Remove": {"unit": "default/mine"}}, {"Remove": {"unit": "default/waits"}}
        )
        assert "team-b/secret-waits" in {row["job"] for row in seen["rows"]} and seen["others"] == []


@pytest.mark.parametrize(
    ("edit", "field"),
    [
        ({"Remove": {"unit": "team-b/secret-job"}}, "edits[0].Remove.unit"),
        ({"Remove": {"unit": "team-b/nobody"}}, "edits[0].Remove.unit"),
        ({"MoveTo": {"unit": "default/waits", "leaf": "root/speech"}}, "edits[0].MoveTo.leaf"),
        (
            {"SetLimit": {"node": "root/speech", "limit": "max", "resource": "cpu", "amount": 1}},
            "edits[0].SetLimit.node",
        ),
    ],
)
async def test_what_a_tenant_may_not_see_is_as_if_it_were_not_there(edit: dict[str, Any], field: str) -> None:
    async with shared() as hub:
        refused = await hub.refused("POST", "/what-if", "alice-token", json={"edits": [edit]})
        [(named, why)] = causes(refused).items()
        assert (refused["code"], named) == (422, field) and why.endswith("that you may see"), refused


async def test_a_viewer_of_all_queues_asks_about_each_of_them() -> None:
    edit = {"SetLimit": {"node": "root/speech", "limit": "max", "resource": "kube-queue/max-jobs", "amount": 9}}
    async with shared() as hub:
        for group, resource in (("scheduling.x-k8s.io", "queues"), ("scheduling.sigs.k8s.io", "elasticquotatrees")):
            await hub.grant("alice", {"apiGroups": [group], "resources": [resource], "verbs": ["list"]})
        found = await asked(hub, "alice-token", edit)
        assert found["rows"] == []
        assert found["others"] == [{"leaf": "root/speech", "change": "starts", "jobs": 1, "gpus": 3}]
        assert len((await hub.get("/queues", "alice-token"))["items"]) == 4


async def test_a_manifest_becomes_the_unit_that_the_hub_would_make_of_it_with_the_rights_of_the_asker() -> None:
    async with shared() as hub:
        before = await names(hub, "bob-token")
        submit = {"Submit": {"manifest": pytorchjob("next")}}
        found = await asked(hub, "alice-token", submit)
        [row] = [row for row in found["rows"] if row["job"] == "default/next"]
        assert (row["leaf"], row["change"], row["after"]["reason"]["code"]) == (
            "root/vision",
            "waits",
            "MaxJobsReached",
        )
        assert not [word for word in SECRET if word in json.dumps(found)], found
        assert await names(hub, "bob-token") == before, "the question makes no job"
        theirs = {"Submit": {"manifest": pytorchjob("next", namespace="team-b")}}
        refused = await hub.refused("POST", "/what-if", "alice-token", json={"edits": [theirs]})
        assert refused["code"] == 403 and "cannot create" in refused["message"]
        raw = {"Submit": {"unit": {"id": "new", "gang": "1x1"}}}
        refused = await hub.refused("POST", "/what-if", "alice-token", json={"edits": [raw]})
        assert refused["code"] == 403 and "give it a manifest" in refused["message"]
        assert (await hub.refused("POST", "/what-if", "bob-token", json={"edits": [submit]}))["code"] == 403


async def test_an_explanation_of_an_own_job_names_nobody_elses() -> None:
    async with shared() as hub:
        await hub.seen(waits=None)
        for path in ("", "/explanation"):
            found = await hub.get(f"/jobs/default/PyTorchJob/waits{path}", "alice-token")
            assert not [word for word in SECRET[:3] if word in json.dumps(found)], found
        theirs = await hub.refused("GET", "/jobs/team-b/PyTorchJob/secret-waits/explanation", "alice-token")
        assert theirs["code"] == 403
        assert (await hub.get("/jobs/team-b/PyTorchJob/secret-waits/explanation", "bob-token"))["job"]


async def test_an_explanation_names_the_jobs_that_are_waited_for_as_far_as_the_reader_may_get_them() -> None:
    quota = crowded()
    quota["spec"]["root"]["max"]["cpu"] = quota["spec"]["root"]["min"]["cpu"] = 6  # both run, and no more
    quota["spec"]["root"]["children"][0]["max"]["kube-queue/max-jobs"] = 9
    async with shared(quota) as hub:
        path = "/jobs/default/PyTorchJob/waits/explanation"
        mine, both = [await hub.get(path, token) for token in ("alice-token", "bob-token")]
        assert ([job["job"] for job in mine["waitsFor"]["jobs"]], mine["waitsFor"]["hidden"]) == (["default/mine"], 1)
        assert mine["waitsFor"]["text"].endswith("and 1 job that you may not see")
        assert {job["job"] for job in both["waitsFor"]["jobs"]} == {"default/mine", "team-b/secret-job"}
        assert both["waitsFor"]["hidden"] == 0
