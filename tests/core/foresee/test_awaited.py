"""The jobs that a waiting job waits for: named by its reason, or holders of the quota or room that it lacks."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.core.decide import decide
from fleet.core.foresee.blockers import LISTED, MOST, NAMED, BlockingRole, blocking_jobs, document
from fleet.core.model.reason import Code
from fleet.core.snapshot import Config, Snapshot
from fleet.kinds import named_kind
from tests.builders import GPU, NOW, member, snapshot, tree, unit
from tests.core.foresee.comparison import running


def waited(world: Snapshot, name: str = "w") -> tuple[Code, list[tuple[str, BlockingRole, dict[str, int]]]]:
    plan = decide(world, now=NOW, seed=1, solver=None)
    found = blocking_jobs(world, plan, world.units[name], plan.reasons[name])
    return plan.reasons[name].code, [(job.unit.id, job.part, dict(job.amounts)) for job in found.jobs]


def test_where_quota_is_used_up_the_largest_of_its_jobs_come_first() -> None:
    world = snapshot(
        running("small").queue("root/a"),
        running("large", pods=2).queue("root/a"),
        running("other").queue("root/b"),
        unit("w").gpus(8).queue("root/a"),
        member("x").nodes(9),
        tree(a={"max": {GPU: 24}}, b={}),
    )
    assert waited(world) == (
        Code.QUOTA_EXHAUSTED,
        [("large", BlockingRole.HOLDS, {GPU: 16}), ("small", BlockingRole.HOLDS, {GPU: 8})],
    )


def test_where_room_is_short_the_jobs_of_the_closest_member_are_waited_for() -> None:
    world = snapshot(
        running("near"),
        unit("far").gpus(8, pods=3).runs_in("y", visible=0),
        unit("w").gpus(8, pods=2),
        member("x").nodes(2),
        member("y").nodes(3),
    )
    assert waited(world) == (Code.NO_MEMBER_FITS, [("near", BlockingRole.HOLDS, {GPU: 8})])


def test_a_job_that_takes_the_room_now_is_named_first() -> None:
    world = snapshot(
        running("there"), unit("first").gpus(8).since(99), unit("w").gpus(8).since(9), member("x").nodes(2)
    )
    code, jobs = waited(world)
    assert (code, jobs[0][:2]) == (Code.LOST_TO_OTHERS, ("first", BlockingRole.AHEAD))


def test_in_a_strict_queue_the_job_at_its_front_is_waited_for() -> None:
    world = snapshot(
        running("r").queue("root/q"),
        unit("front").gpus(8, pods=2).queue("root/q").since(99),
        unit("w").gpus(8).queue("root/q").since(9),
        member("x").nodes(2),
        tree(q={"policy": "Block"}),
    )
    assert waited(world) == (Code.BEHIND_IN_QUEUE, [("front", BlockingRole.AHEAD, {})])


def test_a_job_that_leaves_is_told_apart() -> None:
    world = snapshot(unit("gone").gpus(8).evicting_from("x"), unit("w").gpus(8), member("x").nodes(1, free_gpu=0))
    assert waited(world)[1] == [("gone", BlockingRole.LEAVES, {GPU: 8})]


@pytest.mark.parametrize(
    "world",
    [
        snapshot(running("r"), unit("w").having(held=True), member("x").nodes(1)),
        snapshot(running("r"), unit("w").gpus(16), member("x").nodes(1)),
        snapshot(running("r"), unit("w").having(backoff_until=NOW + 60), member("x").nodes(1)),
        snapshot(
            running("r").queue("root/q"),
            unit("w").gpus(8, pods=9).queue("root/q"),
            member("x").nodes(9),
            tree(q={"max": {GPU: 16}}),
        ),
    ],
    ids=["held by a person", "larger than any node", "backs off", "larger than its quota"],
)
def test_nobody_is_waited_for_where_no_end_of_a_job_helps(world: Snapshot) -> None:
    assert waited(world)[1] == []


def crowd(count: int) -> Snapshot:
    jobs = [running(f"r{number:03}").queue("root/q") for number in range(count)]
    return snapshot(*jobs, unit("w").gpus(8).queue("root/q"), member("x").nodes(count), tree(q={"jobs": count}))


def told(world: Snapshot, *seen: str) -> dict[str, Any]:
    plan = decide(world, now=NOW, seed=1, solver=None)
    found = blocking_jobs(world, plan, world.units["w"], plan.reasons["w"])
    shown = document(found, named_kind, (lambda unit: unit.id in seen) if seen else None)
    assert shown is not None
    return shown


def test_a_reader_is_told_the_names_that_she_may_see_and_a_count_of_the_rest() -> None:
    said = told(crowd(3), "r001")
    assert said["text"] == "default/r001 (root/q, in x) and 2 jobs that you may not see"
    assert (said["hidden"], said["more"]) == (2, 0)
    assert said["jobs"] == [
        {"job": "default/r001", "kind": None, "part": "Holds", "queue": "root/q", "member": "x", "amounts": {}}
    ]
    assert told(crowd(1), "other")["text"] == "1 job that you may not see"


def test_of_many_jobs_the_first_are_named_and_all_are_counted() -> None:
    said = told(crowd(MOST + 5))
    assert str(said["text"]).endswith(f"in x) and {MOST + 5 - NAMED} more")
    assert (len(said["jobs"]), said["more"], said["hidden"]) == (LISTED, MOST + 5 - LISTED, 0)


def test_a_job_whose_turn_has_not_come_waits_for_the_first_of_its_queue() -> None:
    world = snapshot(
        running("r").queue("root/q"),
        unit("front").gpus(8).queue("root/q").since(99),
        unit("w").queue("root/q").having(held=True, waits_turn=True, held_why="one at a time"),
        member("x").nodes(1),
        tree(q={}),
        Config(),
    )
    assert waited(world) == (Code.NOT_ITS_TURN, [("front", BlockingRole.AHEAD, {})])
