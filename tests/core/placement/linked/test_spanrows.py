"""The solver knows what heads hold: it proposes only what a plan can keep beside them."""

from __future__ import annotations

import pytest

from fleet.core.check import check
from fleet.core.decide import decide
from fleet.core.model.unit import Nomination, Seat
from fleet.core.placement.linked.model import build
from fleet.core.placement.problem import ALONE, GangClass, GangKind, Lane, LimitRow, OutlastedSpans, Problem
from fleet.core.snapshot import Config, Snapshot
from fleet.core.solver.cpsat import CpSat
from tests.builders import GPU, NOW, amounts, member, snapshot, tree, unit
from tests.builders import UnitBuilder as Builder
from tests.core.placement.situations import situation_of

HALF = amounts(gpu=4, pods=1)
SOON = Nomination("x", NOW - 60, NOW + 600, True)


def ends_at_700(name: str, node: str, where: str = "x", leaf: str = "root/r") -> Builder:
    """Four GPUs of a node of eight, for ten minutes more."""
    seat = Seat(node, 0, amounts(gpu=4, cpu=96, memory=768, pods=110), HALF)
    made = unit(name).gpus(4).queue(leaf).runs_in(where)
    return made.having(placed_at=NOW - 100, walltime_s=700.0, seats=(seat,))


HEAD = unit("head").gpus(8).queue("root/h").since(1000).having(head=SOON)
STORIES = {
    "who ends in time may use the head's room, and leaves the other room to who does not": (
        snapshot(
            HEAD,
            ends_at_700("r", "n"),
            unit("soon").gpus(4).queue("root/a").since(99).having(walltime_s=500.0),
            unit("long").gpus(4).queue("root/a"),
            member("x").nodes(1, free_gpu=4).having(price=5),
            member("y").nodes(1, free_gpu=4),
            tree(h={}, a={}, r={}),
        ),
        {"long": "y", "soon": "x"},
    ),
    "of gangs alike the one starts that the head's quota allows, though another is older": (
        snapshot(
            HEAD.queue("root/all/h"),
            ends_at_700("r", "n", leaf="root/all/r"),
            unit("small").gpus(2).queue("root/all/a").since(300).having(walltime_s=500.0),
            unit("long").gpus(3).queue("root/all/a").since(200),
            unit("soon").gpus(3).queue("root/all/a").since(100).having(walltime_s=500.0),
            member("x").nodes(1, free_gpu=4),
            member("y").nodes(2),
            tree(all__h={}, all__a={"attributes": {"shared-weight": "100"}}, all__r={}, all={"max": {GPU: 8}}),
        ),
        {"soon": "y"},
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_the_solver_gets_beside_a_head_what_greedy_does_not(story: str) -> None:
    world, expected = STORIES[story]
    plan = decide(world, now=NOW, seed=1, solver=CpSat())
    assert check(world, plan, now=NOW) == ()
    assert [head.unit for head in plan.heads] == ["head"]
    assert {p.unit: p.member for p in plan.placements} == expected
    greedy = decide(world, now=NOW, seed=1, solver=None)
    assert sum(_gpus(world, p.unit) for p in greedy.placements) < sum(_gpus(world, name) for name in expected)


def _gpus(world: Snapshot, name: str) -> int:
    return world.units[name].total[GPU]


def two(
    room: int, spans: tuple[LimitRow, ...] = (), known: tuple[int, int] | None = None, starts: bool = False
) -> Problem:
    """A head and others that count double, one of them, in one member."""
    classes = (GangClass(GangKind(0, 0), 0, 1, 1, 1), GangClass(GangKind(1, 0, OutlastedSpans(1)), 0, 1, 2, 1))
    lanes = (Lane(GangKind(0, 0), "x", 1, 0), Lane(GangKind(1, 0, OutlastedSpans(1)), "x", 1, 0))
    rows = (LimitRow("x", room, lanes=((0, 1), (1, 1))),)
    hint = (known, known) if known is not None else ((), ())
    return Problem(("all",), classes, lanes, (), rows, spans=spans, heads=((0, 0),) if starts else (), hint=hint)


@pytest.mark.parametrize(
    "room,head,expected", [(2, 0, (1, 1)), (1, 0, (1, 0)), (2, -1, (1, 0))], ids=["both fit", "one fits", "no lift"]
)
def test_what_a_head_keeps_is_kept_unless_it_starts(room: int, head: int, expected: tuple[int, int]) -> None:
    held = (LimitRow("room", 0, lanes=((1, 1),), head=head), LimitRow("quota", 7, classes=((1, 8),), head=head))
    for rows in (held, held[:1], held[1:]):
        assert CpSat().solve(two(room, rows), seed=1, limit_s=9.0).admitted == expected


def test_a_head_that_starts_in_the_known_answer_starts_in_every_answer() -> None:
    assert CpSat().solve(two(1), seed=1, limit_s=9.0).admitted == (0, 1)
    assert CpSat().solve(two(1, known=(1, 0), starts=True), seed=1, limit_s=9.0).admitted == (1, 0)
    broken = two(0, known=(1, 0), starts=True)  # by a limit that the model knows
    assert CpSat().solve(broken, seed=1, limit_s=9.0).admitted == (0, 0)


def test_rows_say_how_many_gangs_of_each_shape_leave_a_head_its_seat() -> None:
    """Three nodes will take a pod of the head each, two are needed. Pods of other gangs may land on
    any of the three, so the head can spare one node: one gang, whatever its size."""
    world = snapshot(
        unit("head").gpus(8, pods=2).queue("root/h").since(1000).having(head=SOON),
        ends_at_700("r", "n"),
        ends_at_700("s", "m").having(seats=(Seat("m", 1, amounts(gpu=4, cpu=96, memory=768, pods=110), HALF),)),
        *(unit(f"{kind}{i}").gpus(size).queue("root/a") for kind, size in (("a", 1), ("b", 4)) for i in range(5)),
        unit("soon").queue("root/a").having(walltime_s=60.0),
        member("x").nodes(1, free_gpu=4).nodes(1, free_gpu=4).nodes(1),
        tree(h={}, a={}, r={}),
    )
    situation = situation_of(world)
    profile = situation.profile()
    problem = build(situation.groups, profile, [], now=NOW, config=Config(), heads=situation.head_choice.heads).problem
    lanes = problem.lanes
    rooms = [row for row in problem.spans if row.lanes]
    assert rooms and all(lanes[index].kind.beside.binding for row in rooms for index, _ in row.lanes)
    for row in rooms:
        shapes = {lanes[index].kind.shape for index, _ in row.lanes}
        if len(shapes) == 1:
            assert row.room == 1
            assert profile.spans[0].spares_room(min(shapes), row.room)
            assert not profile.spans[0].spares_room(min(shapes), row.room + 1)
    (joint,) = (row for row in rooms if len({lanes[index].kind.shape for index, _ in row.lanes}) == 2)
    assert all(amount <= joint.room < 2 * amount for _, amount in joint.lanes), "one of either, and no two"
    assert any(lane.kind.beside == ALONE for lane in lanes), "a gang that ends in time is in no row"
