"""Refusals of many jobs have one cause, and are forgotten when the jobs are taken, or go."""

from __future__ import annotations

from fleet.controllers.runtime.heartbeat import waiting_of
from fleet.controllers.runtime.refusals import CAUSES_MOST, KEPT_MOST, LATELY_S, Refusals
from fleet.core.model.reason import Code, Reason
from fleet.core.snapshot import Snapshot
from fleet.values.ports import Key
from fleet.wellknown import ANNOTATION_CREATOR
from tests.controllers.fastloop import eventually
from tests.controllers.world import hub, member, policy, pytorchjob, tree


def resource(name: str) -> dict[str, str]:
    return {"kind": "PyTorchJob", "namespace": "a", "name": name}


def key(name: str) -> Key:
    return Key("work.karmada.io", "resourcebindings", "a", name)


def override(member: str, message: str = "override policy x: image") -> Reason:
    return Reason(Code.OVERRIDE_FAILED, {"member": member, "message": message})


def test_a_cause_is_one_whichever_the_member_and_names_the_newest_job() -> None:
    found = Refusals()
    for number in range(3):
        found.note(key(f"rb-{number}"), resource(f"job-{number}"), override(f"cf{number}"), 100.0)
    found.note(key("rb-9"), resource("other"), override("cfa", "override policy y: args"), 101.0)
    first, second = found.causes(102.0)
    assert (first["code"], first["jobs"], first["first"]) == ("OverrideFailed", 3, resource("job-2"))
    assert "override policy x" in first["text"] and (second["jobs"], second["first"]["name"]) == (1, "other")
    assert found.by_code() == {"OverrideFailed": 4}


def test_a_job_that_is_taken_or_gone_counts_no_more() -> None:
    found = Refusals()
    found.note(key("rb-1"), resource("one"), override("cfa"), 100.0)
    found.note(key("rb-2"), resource("two"), override("cfa"), 100.0)
    found.note(key("rb-2"), resource("two"), override("cfa"), 500.0)
    found.forget(key("rb-3"))
    assert found.causes(500.0)[0]["jobs"] == 2
    assert found.causes(101.0 + LATELY_S)[0]["jobs"] == 1
    found.forget(key("rb-2"))
    assert found.causes(101.0 + LATELY_S) == []


def test_refusals_take_bounded_room() -> None:
    found = Refusals()
    for number in range(KEPT_MOST + 5):
        found.note(key(f"rb-{number}"), resource("one"), override("cfa", str(number)), float(number) / 100)
    assert found.by_code().total() == KEPT_MOST
    assert len(found.causes(0.0)) == CAUSES_MOST


def test_without_units_nobody_waits() -> None:
    assert waiting_of(Snapshot()) == {"jobs": 0, "user": "", "most": 0}


async def test_waiting_jobs_are_counted_by_user() -> None:
    async with hub(member("cfa")) as world:
        jobs = [pytorchjob(name) for name in ("one", "two", "three", "four")]
        for job, user in zip(jobs, ("alice", "alice", "bob"), strict=False):
            job["metadata"]["annotations"] = {ANNOTATION_CREATOR: user}
        await world.apply(tree(max_jobs=0), policy(queue=True), *jobs)
        await eventually(lambda: waiting_of(world.hub.metrics.snapshot)["jobs"] == 4)
        assert waiting_of(world.hub.metrics.snapshot) == {"jobs": 4, "user": "alice", "most": 2}
