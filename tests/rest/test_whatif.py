"""POST /fleet/v1/what-if: what would be otherwise in the fleet as the decider sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.controllers.world import member, policy, pytorchjob, tree
from tests.rest.rest import Rest, causes, rest


@asynccontextmanager
async def busy() -> AsyncIterator[Rest]:
    """Job one runs in member cfa; job two is too large for it."""
    async with rest(member("cfa"), objects=[policy(), pytorchjob("one"), pytorchjob("two", workers=99)]) as hub:
        await hub.world.running("one")
        await hub.seen(one="cfa", two=None)
        yield hub


async def asked(hub: Rest, *edits: dict[str, Any]) -> dict[str, dict[str, Any]]:
    answer = await hub.client().post("/fleet/v1/what-if", json={"edits": list(edits)})
    assert answer.status_code == 200, answer.text
    return {row["job"]: row for row in answer.json()["rows"]}


async def test_who_would_start_and_who_would_stop() -> None:
    async with busy() as hub:
        before = await hub.jobs()
        nodes = [{"count": 100, "nvidia.com/gpu": 8, "cpu": "96", "memory": "800Gi"}]
        added = await asked(hub, {"AddMember": {"member": {"name": "new", "nodes": nodes}}})
        assert added["default/two"]["change"] == "starts" and added["default/two"]["after"]["member"] == "new"
        drained = await asked(hub, {"DrainMember": {"member": "cfa"}})
        assert drained["default/one"]["change"] == "stops"
        assert drained["default/one"]["after"]["reason"]["code"] == "MemberNotReady"
        assert await hub.jobs() == before, "a question makes no job"


@pytest.mark.parametrize(
    ("failover", "leave"), [({}, set()), ({"failover": "policy"}, {"goes"}), ({"failover": None}, {"goes", "stays"})]
)
async def test_of_a_lost_member_the_jobs_leave_whose_policy_says_so(failover: dict[str, Any], leave: set[str]) -> None:
    def selects(name: str, **rules: Any) -> Any:
        selector = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": name}
        return policy(name, resourceSelectors=[selector], failover={"cluster": rules})

    policies = [selects("goes"), selects("stays", purgeMode="Never")]
    async with rest(member("cfa"), objects=[*policies, pytorchjob("goes"), pytorchjob("stays")]) as hub:
        for name in ("goes", "stays"):
            await hub.world.running(name)
        await hub.seen(goes="cfa", stays="cfa")
        rows = await asked(hub, {"LoseMember": {"member": "cfa", **failover}})
        changes = {job: row["change"] for job, row in rows.items()}
        assert changes == {f"default/{name}": "stops" if name in leave else "unreachable" for name in ("goes", "stays")}


async def test_a_unit_may_be_submitted_as_snapshots_have_it() -> None:
    async with busy() as hub:
        found = await asked(hub, {"Submit": {"unit": {"id": "new", "gang": "1x1"}}})
        assert (found["new"]["change"], found["new"]["after"]["member"]) == ("starts", "cfa")


def limit(**fields: Any) -> dict[str, Any]:
    given = {"node": "root/child-2", "limit": "max", "resource": "nvidia.com/gpu", "amount": 1}
    return {"SetLimit": {**given, **fields}}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "edits"),
    ({"edits": 3}, "edits"),
    ({"edits": [], "more": 1}, "more"),
    ({"edits": [3]}, "edits[0]"),
    ({"edits": [{}]}, "edits[0]"),
    ({"edits": [{"Explode": {}}]}, "edits[0].Explode"),
    ({"edits": [{"DrainMember": "m"}]}, "edits[0].DrainMember"),
    ({"edits": [{"DrainMember": {}}]}, "edits[0].DrainMember.member"),
    ({"edits": [{"AddMember": {"member": {"nodes": []}}}]}, "edits[0].AddMember.member.name"),
    ({"edits": [{"Submit": {"unit": {"id": "a", "gang": "1x1", "count": 2}}}]}, "edits[0].Submit.unit.count"),
    ({"edits": [{"Submit": {"unit": {"id": "a", "gang": 7}}}]}, "edits[0].Submit.unit[0].gang"),
    ({"edits": [{"ReplaceTree": {"tree": {"a": 3}}}]}, "edits[0].ReplaceTree.tree[a]"),
    ({"edits": [{"DrainMember": {"member": "m"}}] * 101}, "edits"),
    ({"edits": [{"DrainMember": {"member": "nowhere"}}]}, "edits[0].DrainMember.member"),
    ({"edits": [{"CordonMember": {"member": "nowhere"}}]}, "edits[0].CordonMember.member"),
    ({"edits": [{"MoveTo": {"unit": "x", "leaf": "nowhere"}}]}, "edits[0].MoveTo.leaf"),
    ({"edits": [{"DrainMember": {"member": "cfa"}}, limit(node="nowhere")]}, "edits[1].SetLimit.node"),
    ({"edits": [limit(amount=-1)]}, "edits[0].SetLimit.amount"),
    ({"edits": [limit(limit="min", amount=-1)]}, "edits[0].SetLimit.amount"),
    ({"edits": [limit(amount=10**19)]}, "edits[0].SetLimit.amount"),
    ({"edits": [limit(amount=1.5)]}, "edits[0].SetLimit.amount"),
    ({"edits": [limit(limit="middle")]}, "edits[0].SetLimit.limit"),
    ({"edits": [limit(resource="")]}, "edits[0].SetLimit.resource"),
    ({"edits": [limit(more=1)]}, "edits[0].SetLimit.more"),
    ({"edits": [{"ReplaceTree": {"tree": {"r": {"max": {"cpu": -1}}}}}]}, "edits[0].ReplaceTree.tree[r].max[cpu]"),
    ({"edits": [{"Scale": {"member": "cfa", "pool": 9, "by": 1}}]}, "edits[0].Scale.pool"),
    ({"edits": [{"Scale": {"member": "cfa", "pool": 0, "by": -99}}]}, "edits[0].Scale.by"),
    ({"edits": [{"Scale": {"member": "cfa", "pool": 0, "by": 10**12}}]}, "edits[0].Scale.by"),
    ({"edits": [{"Prioritize": {"unit": "x", "priority": 2**31}}]}, "edits[0].Prioritize.priority"),
    ({"edits": [{"Prioritize": {"unit": "x", "priority": 1}}]}, "edits[0].Prioritize.unit"),
    ({"edits": [{"LoseMember": {"member": "cfa", "failover": ["x"]}}]}, "edits[0].LoseMember.failover"),
    ({"edits": [{"Submit": {"unit": {"id": "", "gang": "1x1"}}}]}, "edits[0].Submit.unit.id"),
    (
        {"edits": [{"Submit": {"unit": {"id": "a", "gang": "1x1", "phase": "Placed", "member": "cfa"}}}]},
        "edits[0].Submit.unit.phase",
    ),
    ({"edits": [{"AddMember": {"member": {"name": ""}}}]}, "edits[0].AddMember.member.name"),
]


async def test_a_question_that_is_wrong_is_refused_with_its_field() -> None:
    async with rest(member("cfa"), objects=[tree(), policy(queue=True), pytorchjob("one")]) as hub:
        await hub.world.running("one")
        await hub.seen(one="cfa")
        for body, field in WRONG:
            status = await hub.refused("POST", "/what-if", json=body)
            assert (status["code"], list(causes(status))) == (422, [field])


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "8,"])
async def test_what_is_no_json_is_refused_before_it_is_read(number: str) -> None:
    async with rest(start=False) as hub:
        asked = (
            f'{{"edits": [{{"SetLimit": {{"node": "root", "limit": "max", "resource": "cpu", "amount": {number}}}}}]}}'
        )
        assert (await hub.refused("POST", "/what-if", content=asked))["code"] == 400


async def test_too_many_edits_are_counted_before_any_is_looked_at() -> None:
    """Each manifest went through all checks of the hub, and the edits were counted afterwards."""
    async with busy() as hub:
        edits = [{"Submit": {"manifest": {"kind": "Nothing"}}}] * 101
        status = await hub.refused("POST", "/what-if", json={"edits": edits})
        assert (status["code"], list(causes(status))) == (422, ["edits"])
        assert "at most 100" in status["message"]
