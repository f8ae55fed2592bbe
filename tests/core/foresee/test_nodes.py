"""Nodes one by one: gangs sit whole, leave what they held, and the member shows it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.core.foresee.nodes import ForwardNodes
from fleet.core.model.leaving import vacated
from fleet.core.model.member import Pool
from fleet.core.model.rule import PlacementRule
from fleet.core.model.unit import Phase, Seat, Unit
from tests.builders import GPU, amounts, member, unit


def free(nodes: ForwardNodes) -> dict[int, int]:
    """GPUs free -> nodes."""
    found: dict[int, int] = {}
    for vector, count in nodes.vectors():
        found[vector[GPU]] = found.get(vector[GPU], 0) + count
    return found


def test_a_gang_takes_the_fullest_nodes_that_take_it_and_gives_them_back() -> None:
    gang = unit("a").gpus(4, pods=3).value
    nodes = ForwardNodes(member("x").nodes(2).nodes(1, free_gpu=4).value, [gang])
    assert nodes.seat(gang)
    assert free(nodes) == {8: 1, 0: 2}
    assert {seat.holds[GPU] for seat in nodes.seats("a")} == {4, 8}
    nodes.release(replace(gang, phase=Phase.PLACED, member="x"))
    assert free(nodes) == {8: 2, 4: 1}
    assert nodes.seats("a") == ()


def test_a_gang_that_does_not_fit_whole_changes_nothing() -> None:
    gang = unit("a").gang(1, gpu=8).gang(3, gpu=4).value
    nodes = ForwardNodes(member("x").nodes(2).value, [gang])
    before = nodes.member
    assert not nodes.fits(gang) and not nodes.seat(gang)
    assert {pool.free for pool in nodes.member.pools} == {pool.free for pool in before.pools}


def test_a_gang_bound_to_a_rack_lies_in_one_rack_and_in_the_fullest_that_takes_it() -> None:
    racks = member("x").nodes(2, labels={"rack": "a"}).nodes(3, labels={"rack": "b"}).nodes(9)
    gang = unit("a").gpus(8, pods=2).within("rack").value
    wide = unit("b").gpus(8, pods=4).within("rack").value
    nodes = ForwardNodes(racks.value, [gang, wide])
    assert not nodes.fits(wide)
    assert nodes.seat(gang)
    assert {seat.pool for seat in nodes.seats("a")} == {0}


def test_a_gang_with_two_rules_lies_on_nodes_with_one_value_of_both_labels() -> None:
    racks = member("x").nodes(1, labels={"rack": "a", "model": "A"}).nodes(1, labels={"rack": "a", "model": "B"})
    racks = racks.nodes(2, labels={"rack": "b", "model": "B"})
    gang = unit("a").gpus(8, pods=2).having(rules=(PlacementRule("rack"), PlacementRule("model"))).value
    nodes = ForwardNodes(racks.value, [gang])
    assert nodes.seat(gang)
    assert {seat.pool for seat in nodes.seats("a")} == {2}


def test_who_sits_already_leaves_its_own_nodes_and_neighbours_are_told() -> None:
    whole = amounts(gpu=8, cpu=96, memory=768, pods=110)
    rest = whole.minus(amounts(gpu=6, pods=2))
    pool = Pool(free=((rest, 1), (whole, 1)), allocatable=whole)
    a = unit("a").gpus(4).runs_in("x").having(seats=(Seat("n1", 0, rest, amounts(gpu=4, pods=1)),)).value
    b = unit("b").gpus(2).runs_in("x").having(seats=(Seat("n1", 0, rest, amounts(gpu=2, pods=1)),)).value
    nodes = ForwardNodes(member("x").having(pools=(pool,)).value, [a, b])
    nodes.release(a)
    assert nodes.changed == {"b"}
    assert nodes.seats("b")[0].free[GPU] == 6
    assert free(nodes) == {8: 1, 6: 1}


def test_of_pods_whose_nodes_nobody_knows_each_leaves_a_place_of_its_own_size() -> None:
    gone = unit("a").gpus(2, pods=2).runs_in("x").value
    nodes = ForwardNodes(member("x").nodes(1, free_gpu=0).value, [gone])
    nodes.release(gone)
    assert free(nodes) == {0: 1, 2: 2}


gangs = st.lists(st.tuples(st.integers(1, 3), st.sampled_from((1, 2, 3, 4, 8)), st.booleans()), max_size=12)


@settings(max_examples=150, deadline=None)
@given(gangs)
def test_nothing_is_ever_overcommitted_and_what_is_shown_agrees_with_the_core(
    made: list[tuple[int, int, bool]],
) -> None:
    units = [unit(f"u{n}").gpus(size, pods=pods).value for n, (pods, size, _) in enumerate(made)]
    start = member("x").nodes(2, labels={"model": "A"}).nodes(2, free_gpu=4).value
    nodes = ForwardNodes(start, units)
    inside: dict[str, Unit] = {}
    for gang, (_, _, leaves) in zip(units, made, strict=True):
        if nodes.seat(gang):
            seen = tuple((part.name, part.replicas) for part in gang.components)
            inside[gang.id] = replace(gang, phase=Phase.PLACED, member="x", visible=seen)
        if leaves and inside:
            nodes.release(inside.pop(min(inside)))
        held = sum(seat.holds[GPU] for key in inside for seat in nodes.seats(key))
        assert held == sum(u.total[GPU] for u in inside.values())
        assert sum(size * count for size, count in free(nodes).items()) + held == 24
        assert min(free(nodes)) >= 0
        shown = [replace(u, seats=nodes.seats(key)) for key, u in inside.items()]
        empty = vacated(nodes.member, shown)
        as_nodes = [sorted((a[GPU], n) for a, n in pool.free) for pool in empty.pools]
        assert as_nodes == [[(8, 2)], [(4, 2)]]


def test_pods_that_are_not_seen_yet_leave_their_nodes_once() -> None:
    placed = unit("a").gpus(8).runs_in("x", visible=0).value
    nodes = ForwardNodes(member("x").nodes(1).value, [placed])
    assert nodes.seat(placed)
    nodes.release(replace(placed, visible=(("worker", 1),)))
    assert sum(count for _, count in nodes.vectors()) == 1


def test_nodes_that_a_pool_names_twice_are_all_there() -> None:
    made = member("x").nodes(1).value
    (vector, _) = made.pools[0].free[0]
    twice = replace(made, pools=(replace(made.pools[0], free=((vector, 1), (vector, 2))),))
    assert free(ForwardNodes(twice)) == {8: 3}
