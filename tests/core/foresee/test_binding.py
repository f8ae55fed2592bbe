"""The obstacles of a job that waits after some edits: the users of the room or quota that it lacks, and remedies."""

from __future__ import annotations

import pytest

from fleet.core.foresee.binding import Holder
from fleet.core.foresee.change import KINDS, ChangeKind
from fleet.core.foresee.edits import Hold, MoveTo, Prioritize, Remove, Resize, Submit
from fleet.core.model.reason import Code
from fleet.core.snapshot import Snapshot
from fleet.core.solver.cpsat import CpSat
from tests.builders import GIB, GPU, member, snapshot, tree, unit
from tests.core.foresee.comparison import asked, running

QUEUES = tree(a={}, b={"max": {GPU: 8}})
FULL = snapshot(
    running("a1").queue("root/a"),
    running("a2").queue("root/a"),
    running("b1").queue("root/b"),
    running("free"),
    member("x").nodes(4),
    QUEUES,
)
"""Member x is full: two jobs of queue a, one of b, and one outside quota, 8 GPUs each."""


def test_holders_of_a_full_fleet_are_told_by_queue_with_what_would_start_the_job() -> None:
    [bound] = asked(FULL, Submit(unit("new").gpus(8).queue("root/a").value)).bound
    assert (bound.unit.id, bound.reason.code, bound.where) == ("new", Code.NO_MEMBER_FITS, ("x",))
    assert bound.holders == (
        Holder("root/a", 2, ((GPU, 16),)),
        Holder("", 1, ((GPU, 8),)),
        Holder("root/b", 1, ((GPU, 8),)),
    )
    assert ChangeKind.NODES in {KINDS[type(change)] for change in bound.answer.changes}


def test_where_quota_refuses_only_who_is_charged_there_is_told() -> None:
    [bound] = asked(FULL, Submit(unit("new").gpus(8).queue("root/b").value)).bound
    assert (bound.reason.code, bound.where) == (Code.QUOTA_EXHAUSTED, ("root/b",))
    assert bound.holders == (Holder("root/b", 1, ((GPU, 8),)),)


def test_only_what_is_short_is_summed() -> None:
    """GPUs are free, memory is not."""
    world = snapshot(
        unit("r").gang(1, gpu=1, memory=700).runs_in("x", visible=0),
        unit("s").gpus(1).runs_in("x", visible=0),
        member("x").nodes(1),
    )
    [bound] = asked(world, Submit(unit("new").gang(1, gpu=1, memory=512).value)).bound
    assert bound.holders == (Holder("", 1, (("memory", 700 * GIB),)),)


def test_who_starts_now_holds_room_too() -> None:
    world = snapshot(unit("first").gpus(8).since(99), member("x").nodes(1))
    [bound] = asked(world, Submit(unit("new").gpus(8).value)).bound
    assert bound.holders == (Holder("", 1, ((GPU, 8),)),)


def test_jobs_of_a_queue_that_may_run_no_more_are_counted() -> None:
    world = snapshot(running("one").queue("root/q"), member("x").nodes(9), tree(q={"jobs": 1}))
    [bound] = asked(world, Submit(unit("new").queue("root/q").value)).bound
    assert bound.holders == (Holder("root/q", 1, ()),)


def test_nobody_holds_what_no_node_has() -> None:
    [bound] = asked(FULL, Submit(unit("new").gpus(16).value)).bound
    assert (bound.reason.code, bound.holders) == (Code.LARGER_THAN_ANY_NODE, ())


WAITS = snapshot(unit("w").gpus(8), running("r"), member("x").nodes(1))


@pytest.mark.parametrize(
    ("world", "edit", "bound"),
    [
        (WAITS, Prioritize("w", 9), ["w"]),
        (WAITS, Hold("w", held=False), ["w"]),
        (WAITS, Hold("w"), []),
        (WAITS, Remove("w"), []),
        (
            snapshot(unit("w").gpus(8).queue("root/a"), running("r"), member("x").nodes(1), QUEUES),
            MoveTo("w", "root/b"),
            ["w"],
        ),
        (snapshot(unit("w").gpus(8, pods=3), running("r"), member("x").nodes(2)), Resize("w", "worker", 2), ["w"]),
        (snapshot(unit("w").gpus(8), member("x").nodes(1)), Prioritize("w", 9), []),
    ],
    ids=["another priority", "released", "held", "removed", "moved to another queue", "made smaller", "it starts"],
)
def test_those_are_told_that_an_edit_is_to_start(world: Snapshot, edit: Prioritize, bound: list[str]) -> None:
    assert [one.unit.id for one in asked(world, edit).bound] == bound


def test_at_most_three_are_looked_into() -> None:
    edits = [Submit(unit(f"new-{number}").gpus(8).value) for number in range(5)]
    found = asked(FULL, *edits)
    assert [bound.unit.id for bound in found.bound] == ["new-0", "new-1", "new-2"] and found.bound_of == 5


def test_changes_that_are_not_found_in_time_are_named() -> None:
    [bound] = asked(FULL, Submit(unit("new").gpus(8).value), enough_changes=lambda: True).bound
    assert bound.answer.changes == () and bound.answer.without


def test_with_a_solver_the_changes_that_it_confirms_are_certain() -> None:
    world = snapshot(member("x").nodes(1, free_gpu=0), unit("b1").gpus(5), unit("b2").gpus(4))
    new = Submit(unit("new").gpus(6).since(999).value)
    [alone] = asked(world, new).bound
    [nodes] = [change for change in alone.answer.changes if KINDS[type(change)] is ChangeKind.NODES]
    assert nodes not in alone.answer.certain, "the decision has a question for a solver"
    [bound] = asked(world, new, solver=CpSat()).bound
    assert nodes in bound.answer.certain
