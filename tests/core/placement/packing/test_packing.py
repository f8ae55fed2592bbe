"""A packing that simple orders miss is searched for by planner and checker alike, and the checker verifies it.

The verifier here tries every way to put the pods onto the nodes; it knows nothing of the search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.core.check import check
from fleet.core.check.packer import Gang, first_unpackable
from fleet.core.decide import decide
from fleet.core.model.bounds import BOUNDS
from fleet.core.model.member import Taint
from fleet.core.model.packing import Counts, PackingProposal, Vector, packing
from fleet.core.model.plan import Plan
from fleet.core.model.rule import PlacementRule, Rules
from fleet.core.placement.packing.layout import lay_out, packed_anew
from fleet.core.placement.packing.room import MemberRoom
from fleet.core.placement.packing.space import Shape, Space
from fleet.core.snapshot import Config, Snapshot
from fleet.core.solver.cpsat import CpSat
from tests.builders import ANYWHERE, GPU, NOW, MemberBuilder, amounts, member, snapshot, unit
from tests.core.placement.packing.verifier import committed, packs

Node = tuple[Vector, tuple[bool, ...]]
KINDS = st.lists(st.tuples(st.tuples(st.integers(0, 5), st.integers(0, 4)), st.integers(0, 3)), min_size=1, max_size=3)
NODES = st.lists(
    st.tuples(st.tuples(st.integers(-1, 8), st.integers(0, 6)), st.lists(st.booleans(), min_size=3, max_size=3)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=300, deadline=None)
@given(KINDS, NODES)
def test_a_packing_is_found_exactly_when_there_is_one(
    kinds: list[tuple[Vector, int]], nodes: list[tuple[Vector, list[bool]]]
) -> None:
    found = packing(kinds, nodes).counts
    pods = tuple(
        (size, tuple(takes[number] for _, takes in nodes))
        for number, (size, count) in enumerate(kinds)
        for _ in range(count)
    )
    nothing_below_zero = tuple(tuple(max(0, amount) for amount in free) for free, _ in nodes)
    assert (found is not None) == packs(nothing_below_zero, pods)
    if found is not None:
        assert [sum(counts[number] for counts in found) for number in range(len(kinds))] == [n for _, n in kinds]
        for (free, takes), counts in zip(nodes, found, strict=True):
            assert all(takes[number] or not count for number, count in enumerate(counts))
            for index, have in enumerate(free):
                used = sum(size[index] * count for (size, _), count in zip(kinds, counts, strict=True))
                assert used <= max(0, have)


def odd(times: int) -> tuple[list[tuple[Vector, int]], list[Node]]:
    """Nodes of 6 and 7, all of which pods of 5, 3, 3 and 2 fill in one way only: 3 and 3, 5 and 2."""
    nodes: list[Node] = [((free,), (True, True, True)) for free in (6, 7) for _ in range(times)]
    return [((5,), times), ((3,), 2 * times), ((2,), times)], nodes


def test_nodes_are_used_up_where_largest_first_leaves_something_out() -> None:
    assert packing(*odd(1)).counts == [(0, 2, 0), (1, 0, 1)]
    assert packing(*odd(4)).counts == [(0, 2, 0)] * 4 + [(1, 0, 1)] * 4


def test_the_search_is_bounded_and_says_nothing_past_its_bounds() -> None:
    pods, nodes = odd(4)
    assert packing(pods, nodes, most_steps=10) == PackingProposal(None, frozenset({"packing_steps"}))
    one = [((1,), 1)]
    assert packing(one, [((1,), (True,))] * BOUNDS.packing_nodes).counts is not None
    assert packing(one, [((1,), (True,))] * (BOUNDS.packing_nodes + 1)).bounds == {"packing_nodes"}
    assert packing([((0,), BOUNDS.packing_pods)], [((1,), (True,))]).counts is not None
    assert packing([((0,), BOUNDS.packing_pods + 1)], [((1,), (True,))]).bounds == {"packing_pods"}
    kinds = BOUNDS.packing_kinds + 1
    assert packing([((1,), 1)] * kinds, [((kinds,), (True,) * kinds)]).bounds == {"packing_kinds"}
    assert packing(one, []) == PackingProposal(None)


def crammed() -> MemberBuilder:
    return member("x").nodes(4, free_gpu=6).nodes(4, free_gpu=7)


def all_sizes() -> Snapshot:
    sizes = (5, 3, 3, 2) * 4
    return snapshot(crammed(), *(unit(f"u{i:02}").gpus(gpus).since(99 - i) for i, gpus in enumerate(sizes)))


def test_all_that_fits_together_starts_though_no_simple_order_packs_it() -> None:
    world = all_sizes()
    plan = decide(world, now=NOW, seed=1, solver=CpSat())
    assert len(plan.placements) == 16
    assert not check(world, plan, now=NOW)


def test_what_was_packed_by_a_search_still_lies_there_in_the_next_cycle() -> None:
    world = all_sizes()
    units = committed(world, decide(world, now=NOW, seed=1, solver=CpSat()))
    later = Snapshot.of([*units.values(), unit("late").gpus(1).value], world.members.values())
    assert not decide(later, now=NOW, seed=1, solver=CpSat()).placements, "no room is left, wherever they lie"


ODD = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 7), st.booleans()), min_size=4, max_size=12)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(2, 8), st.integers(0, 2)), min_size=3, max_size=6), ODD)
def test_a_solved_plan_is_no_worse_than_greedy_fits_and_leaves_nothing_to_plan_again(
    nodes: list[tuple[int, int]], wanted: list[tuple[int, int, bool]]
) -> None:
    """CPU is scarce beside GPUs: a few pods ask for one more than a node has for each GPU."""
    made = member("x")
    for gpus, more in nodes:
        made = made.nodes(1, free_gpu=gpus, free_cpu=2 * gpus + more)
    gangs = [
        unit(f"u{i:02}").gang(pods, gpu=gpus, cpu=2 * gpus + hungry).since(99 - i)
        for i, (pods, gpus, hungry) in enumerate(wanted)
    ]
    world = snapshot(Config(solve_limit_s=60.0, head_after_s=0.0), made, *gangs)
    plan = decide(world, now=NOW, seed=1, solver=CpSat())
    greedy = decide(world, now=NOW, seed=1, solver=None)
    assert not check(world, plan, now=NOW)
    assert "checker" not in plan.certificate.why
    assert worth(world, plan) >= worth(world, greedy)
    later = replace(world, units=committed(world, plan))
    assert not decide(later, now=NOW, seed=1, solver=None).placements


def worth(world: Snapshot, plan: Plan) -> int:
    """All are of one band and one age: GPUs count."""
    units = (world.units[placement.unit] for placement in plan.placements)
    return sum(part.requests[GPU] * part.replicas for unit in units for part in unit.components)


def laid_out(rooms: MemberRoom, shapes: Sequence[Shape], space: Space) -> tuple[str, ...]:
    layout = lay_out({"x": rooms}, [(str(number), "x", shape) for number, shape in enumerate(shapes)], space)
    assert all(amount >= 0 for pool in layout.rooms["x"].pools for vector in pool.counts for amount in vector)
    return layout.lost.get("x", ())


def shapes_of(sizes: Sequence[int], rules: Rules = ()) -> tuple[list[Shape], Space]:
    gangs = [unit(f"u{number}").gpus(gpus).value.components for number, gpus in enumerate(sizes)]
    space = Space(gangs, {rules})
    return [space.shape(gang, rules) for gang in gangs], space


def test_a_layout_leaves_nothing_out_that_some_packing_has_room_for() -> None:
    shapes, space = shapes_of((5, 3, 3, 2) * 4)
    assert laid_out(MemberRoom.of(crammed().value, space), shapes, space) == ()
    shapes, space = shapes_of((5, 3, 3, 3) * 4)
    assert laid_out(MemberRoom.of(crammed().value, space), shapes, space) != ()


def test_nodes_that_could_be_added_and_gangs_bound_to_a_rack_are_not_packed_anew() -> None:
    shapes, space = shapes_of((5, 3, 3, 2) * 4)
    assert packed_anew(MemberRoom.of(crammed().value, space), shapes, space) is not None
    grows = member("x").nodes(4, free_gpu=6).could_add(4, free_gpu=7).value
    assert packed_anew(MemberRoom.of(grows, space), shapes, space) is None
    shapes, space = shapes_of((5, 3, 3, 2) * 4, (PlacementRule("rack"),))
    assert packed_anew(MemberRoom.of(crammed().value, space), shapes, space) is None
    large = crammed().nodes(BOUNDS.packing_nodes, free_gpu=8).value
    shapes, space = shapes_of((1,))
    assert packed_anew(MemberRoom.of(large, space), shapes, space) is None


def gangs_of(sizes: Sequence[int]) -> list[Gang]:
    return [Gang(f"g{i:02}", ((1, amounts(gpu=gpus, pods=1), ANYWHERE),)) for i, gpus in enumerate(sizes)]


def test_the_checker_takes_any_packing_that_holds() -> None:
    gangs = gangs_of((5, 3, 3, 2) * 4)
    assert first_unpackable(crammed().value, [], gangs) == []
    assert first_unpackable(crammed().value, gangs[:9], gangs[9:]) == []


def overfull(pods: Sequence[tuple[Vector, int]], nodes: Sequence[Node]) -> list[Counts]:
    return [tuple(count for _, count in pods), *((0,) * len(pods) for _ in nodes[1:])]


def forgetful(pods: Sequence[tuple[Vector, int]], nodes: Sequence[Node]) -> list[Counts]:
    return [(0,) * len(pods) for _ in nodes]


def short(pods: Sequence[tuple[Vector, int]], nodes: Sequence[Node]) -> list[Counts]:
    return []


def negative(pods: Sequence[tuple[Vector, int]], nodes: Sequence[Node]) -> list[Counts]:
    most = tuple(count for _, count in pods)
    return [most, most, tuple(-count for count in most), *((0,) * len(pods) for _ in nodes[3:])]


@pytest.mark.parametrize("proposal", [overfull, forgetful, short, negative])
def test_the_checker_does_not_believe_a_proposal(
    proposal: Callable[..., list[Counts]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet.core.check.packer.packing", lambda pods, nodes: PackingProposal(proposal(pods, nodes)))
    assert first_unpackable(crammed().value, [], gangs_of((5, 3, 3, 3) * 4))


def test_the_checker_does_not_believe_that_a_node_takes_whom_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    x = member("x").nodes(1, taints=(Taint("gpu", "yes", "NoSchedule"),)).value
    monkeypatch.setattr("fleet.core.check.packer.packing", lambda pods, nodes: PackingProposal(overfull(pods, nodes)))
    assert first_unpackable(x, [], gangs_of((1,))) == ["g00"]
