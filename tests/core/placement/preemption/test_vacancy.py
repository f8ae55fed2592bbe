"""The free room of a member once units have left: from the changes, and the same as reading the member anew."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.core.model.leaving import vacated
from fleet.core.model.member import Member, Pool
from fleet.core.model.unit import Phase, Seat, Unit
from fleet.core.placement.packing.room import MemberRoom
from fleet.core.placement.packing.space import Shape, Space
from fleet.core.placement.preemption.vacancy import Inventory, Vacancy
from fleet.core.snapshot import Snapshot
from tests.builders import GPU, amounts, unit
from tests.core.placement.preemption.victims import random_world


def vacancy_of(
    member: Member, space: Space, *, leaving: Sequence[Unit] = (), coming: Sequence[tuple[str, str, Shape]] = ()
) -> Vacancy:
    return Vacancy(Inventory(member, MemberRoom.of(member, space), space), leaving, coming, ())


def homes_of(member: Member, units: list[Unit]) -> dict[str, int]:
    """The free GPUs on each node of a member of one pool; nodes without a seen unit are numbered."""
    seated = {seat.node: seat.free for unit in units for seat in unit.seats}
    free = {node: vector[GPU] for node, vector in seated.items()}
    for vector, count in member.pools[0].free:
        others = count - sum(taken == vector for taken in seated.values())
        free |= {f"{vector[GPU]}-{number}": vector[GPU] for number in range(others)}
    return free


def ways(free: dict[str, int], pods: list[int]) -> Iterator[dict[str, int]]:
    """Every way to put the pods onto nodes, as what is free then."""
    if not pods:
        yield free
        return
    for node, left in free.items():
        if left >= pods[0]:
            yield from ways({**free, node: left - pods[0]}, pods[1:])


def gpus(unit: Unit) -> list[int]:
    return [part.requests[GPU] for part in unit.components for _ in range(part.replicas)]


def drawn(seed: int) -> tuple[random.Random, Snapshot, Unit, list[Unit]]:
    rng = random.Random(seed)
    world, owner = random_world(rng)
    return rng, world, owner, [u for u in world.units.values() if u.phase is Phase.PLACED]


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.integers(0, 1 << 30))
def test_by_what_changes_as_by_reading_anew(seed: int) -> None:
    rng, world, owner, works = drawn(seed)
    if rng.random() < 0.3:  # whose seats nobody knows
        works = [unit(work.id).gpus(2).runs_in(work.member or "x").value for work in works]
    space = Space([owner.components, *(u.components for u in works)])
    shape = space.shape(owner.components)
    for member in world.members.values():
        here = [u for u in works if u.member == member.name]
        leaving = [u for u in here if rng.random() < 0.3]
        vacancy = vacancy_of(member, space, leaving=leaving)
        for _ in range(4):
            gone = [u for u in here if u not in leaving and rng.random() < 0.5]
            anew = MemberRoom.of(vacated(member, [*leaving, *gone]), space)
            assert vacancy.fits(shape, gone) == (anew.fit(shape, space.devices) is not None)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(0, 1 << 30))
def test_there_is_no_room_but_what_is_left_by_who_is_coming_before_anybody_has_left(seed: int) -> None:
    rng, world, owner, works = drawn(seed)
    extra = [unit(f"comes{i}").gpus(rng.choice((1, 2, 4))).runs_in("x", visible=0).value for i in range(2)]
    space = Space([owner.components, *(u.components for u in (*works, *extra))])
    here = [u for u in works if u.member == "x"]
    free = homes_of(world.members["x"], here)
    landed = list(ways(free, [size for u in extra for size in gpus(u)]))
    if not landed:
        return
    coming = [(u.id, "x", space.shape(u.components)) for u in extra]
    vacancy = vacancy_of(world.members["x"], space, coming=coming)
    for _ in range(4):
        gone = [u for u in here if rng.random() < 0.5]
        more = {seat.node: 0 for u in gone for seat in u.seats}
        for seat in (seat for u in gone for seat in u.seats):
            more[seat.node] += seat.holds[GPU]
        after = ({node: left + more.get(node, 0) for node, left in way.items()} for way in landed)
        if vacancy.fits(space.shape(owner.components), gone):
            assert any(next(ways(left, gpus(owner)), None) is not None for left in after)


def test_who_is_coming_lies_on_what_is_free_now_and_not_where_somebody_leaves() -> None:
    nodes = [amounts(gpu=left, pods=110) for left in (0, 6, 0)]
    old = unit("old").gpus(8).runs_in("x").having(seats=(Seat("n0", 0, nodes[0], amounts(gpu=8, pods=1)),)).value
    half = unit("half").gpus(4).runs_in("x").having(seats=(Seat("n2", 0, nodes[2], amounts(gpu=4, pods=1)),)).value
    x = Member("x", pools=(Pool(free=((nodes[0], 2), (nodes[1], 1)), allocatable=amounts(gpu=8, pods=110)),))
    comes, wide = unit("comes").gpus(3, pods=2).value, unit("wide").gpus(5, pods=2).value
    space = Space([u.components for u in (old, half, comes, wide)])
    vacancy = vacancy_of(x, space, coming=[("comes", "x", space.shape(comes.components))])
    assert not vacancy.fits(space.shape(wide.components), [old, half])
    assert vacancy.fits(space.shape(unit("one").gpus(8).value.components), [old])
    alone = vacancy_of(x, space)
    assert alone.fits(space.shape(wide.components), [old])


def test_nodes_that_the_inventory_has_no_more_are_told_apart_all_the_same() -> None:
    def sits(name: str, node: str, gpu: int, free: int) -> Unit:
        seat = Seat(node, 0, amounts(gpu=free, pods=9), amounts(gpu=gpu, pods=9))
        return unit(name).gpus(gpu).runs_in("x").having(seats=(seat,)).value

    x = Member("x", pools=(Pool(free=((amounts(gpu=1, pods=9), 1),), allocatable=amounts(gpu=8, pods=9)),))
    gone = [sits("a1", "a", 2, 5), sits("b", "b", 3, 2), sits("a2", "a", 4, 5)]
    space = Space([u.components for u in (*gone, unit("six").gpus(6).value, unit("seven").gpus(7).value)])
    vacancy = vacancy_of(x, space)
    assert vacancy.fits(space.shape(unit("six").gpus(6).value.components), gone)
    assert not vacancy.fits(space.shape(unit("seven").gpus(7).value.components), gone)


def test_of_two_gangs_that_come_each_lies_on_nodes_that_take_it() -> None:
    """The large pods use up both whole nodes, so the small ones lie beside the unit that leaves: what has much CPU
    left there has GPUs, too."""
    beside, whole = amounts(gpu=4, cpu=92, pods=110), amounts(gpu=8, cpu=96, pods=110)
    x = Member("x", pools=(Pool(free=((beside, 1), (whole, 2)), allocatable=whole),))
    seat = Seat("n0", 0, beside, amounts(gpu=4, cpu=4, pods=1))
    old = unit("old").gang(1, gpu=4, cpu=4).runs_in("x").having(seats=(seat,)).value
    large, small = unit("large").gang(2, gpu=8, cpu=4).value, unit("small").gang(3, gpu=1, cpu=4).value
    wide, narrow = unit("wide").gang(3, gpu=1, cpu=40).value, unit("narrow").gang(2, gpu=1, cpu=40).value
    space = Space([u.components for u in (old, large, small, wide, narrow)])
    coming = [(u.id, "x", space.shape(u.components)) for u in (large, small)]
    vacancy = vacancy_of(x, space, coming=coming)
    assert vacancy.fits(space.shape(narrow.components), [old])
    assert not vacancy.fits(space.shape(wide.components), [old])
