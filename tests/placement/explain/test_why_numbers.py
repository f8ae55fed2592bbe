"""The numbers of a reason: what is used and what is reserved are told apart, and who gets the room is named."""

from __future__ import annotations

from fleet.decide import decide
from fleet.model.reason import Code, Reason
from fleet.model.unit import Claim
from fleet.snapshot import Config
from tests.builders import GPU, MAX_JOBS, NOW, member, snapshot, tree, unit
from tests.decide.test_decide import plan_of
from tests.placement.explain.test_why import reason

IN_X = Claim("x", NOW + 600)


def test_quota_that_is_reserved_for_a_job_that_preempts_is_not_told_as_used() -> None:
    world = snapshot(
        unit("leaves").gpus(8).queue("root/ml").evicting_from("x"),
        unit("takes").gpus(8).queue("root/ml").since(99).having(claim=IN_X),
        unit("a").gpus(8).queue("root/ml"),
        member("x").nodes(1, free_gpu=0).nodes(1),
        tree(ml={"max": {GPU: 8}}),
    )
    assert reason(world, "a") == (
        Code.QUOTA_EXHAUSTED,
        "insufficient unused quota for nvidia.com/gpu in root/ml: requested 8, used 8, reserved 8 for default/takes,"
        " max 8; 16 more needed. Waits for jobs there to finish.",
    )


def test_what_a_job_takes_back_in_the_same_decision_is_reserved_and_not_used() -> None:
    world = snapshot(
        unit("a1").gpus(8).queue("root/org/a").runs_in("x").having(placed_at=NOW - 900),
        unit("a2").gpus(8).queue("root/org/a").runs_in("x").having(placed_at=NOW - 800),
        unit("owner").gpus(8).queue("root/org/b").since(99),
        unit("a").gpus(8).queue("root/org/a"),
        member("x").nodes(2, free_gpu=0),
        tree(org={"max": {GPU: 16}}, org__a={}, org__b={"min": {GPU: 8}}),
        Config(reclaim=True),
    )
    found = decide(world, now=NOW, seed=1, solver=None).reasons
    assert found["owner"].code is Code.ROOM_CLAIMED
    assert (found["a"].numbers["used"], found["a"].numbers["reserved"], found["a"].numbers["preemptor"]) == (
        16, 8, "default/owner"
    )  # fmt: skip


def test_places_for_jobs_that_are_reserved_are_told_apart() -> None:
    world = snapshot(
        unit("leaves").gpus(8).queue("root/ml").evicting_from("x"),
        unit("takes").gpus(8).queue("root/ml").since(99).having(claim=IN_X),
        unit("a").gpus(8).queue("root/ml"),
        member("x").nodes(1, free_gpu=0).nodes(1),
        tree(ml={"jobs": 1}),
    )
    found = plan_of(world).reasons["a"]
    assert (found.code, found.numbers["used"], found.numbers["reserved"]) == (Code.MAX_JOBS, 1, 1)
    assert found.numbers["resource"] == MAX_JOBS
    assert found.text == (
        "root/ml already runs 1 of at most 1 jobs, and 1 reserved for default/takes; waits for them to finish"
    )


def test_a_job_of_another_namespace_for_which_quota_is_reserved_is_not_named() -> None:
    numbers: dict[str, str | int] = {
        "node": "root/ml", "resource": GPU, "request": 8, "used": 8, "max": 8, "short": 16, "reserved": 8,
        "preemptor": "vision/takes and 2 more",
    }  # fmt: skip
    told = Reason(Code.QUOTA_EXHAUSTED, numbers).told_to("speech").text
    assert "reserved 8 for a job of another namespace and 2 more, max 8" in told


def test_a_job_is_told_which_jobs_get_the_room_that_it_would_fit() -> None:
    world = snapshot(
        unit("first").gpus(8).since(99),
        unit("second").gpus(4).since(98),
        unit("a").gpus(8).since(97),
        member("x").nodes(1, labels={"zone": "b"}).nodes(1, gpu=4),
    )
    found = plan_of(world).reasons["a"]
    assert (found.code, found.numbers["where"], found.numbers["taker"]) == (
        Code.LOST_TO_OTHERS, "x", "default/first and 1 more"
    )  # fmt: skip


def test_a_job_that_gets_the_room_is_not_named_in_another_namespace() -> None:
    found = Reason(Code.LOST_TO_OTHERS, {"member": "x", "pods": 1, "short": 1, "what": "8 nvidia.com/gpu free",
                                         "where": "x", "taker": "vision/first"})  # fmt: skip
    assert found.told_to("speech").text == (
        "the room for it in x goes to a job of another namespace. Closest is x: no node has 8 nvidia.com/gpu free"
    )


def test_a_job_that_only_does_not_pack_beside_others_says_so() -> None:
    assert Reason(Code.LOST_TO_OTHERS, {"member": "x"}).text == (
        "x has room for it, but not on the same nodes as the jobs that start there now"
    )
