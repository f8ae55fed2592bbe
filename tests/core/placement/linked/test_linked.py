"""The parts of placement that stories do not reach: packing order, assumed room, classes of the linked model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.core.check import check
from fleet.core.decide import decide
from fleet.core.model.amounts import Amounts
from fleet.core.model.bounds import BOUNDS
from fleet.core.model.unit import Component
from fleet.core.placement.candidates.candidate import Group
from fleet.core.placement.candidates.eligibility import Policies
from fleet.core.placement.greedy.greedy import age_bucket, weight
from fleet.core.placement.linked.decode import decode
from fleet.core.placement.linked.model import build
from fleet.core.placement.packing.layout import lay_out
from fleet.core.placement.packing.room import MemberRoom
from fleet.core.placement.packing.space import Space
from fleet.core.placement.reservation.profile import Profile
from fleet.core.quota.tiers import Rank
from fleet.core.quota.usage import Usage, request_of
from fleet.core.quota.users import USER_MAX
from fleet.core.snapshot import Config
from fleet.core.snapshot.backlog import Backlog
from fleet.core.solver.cpsat import CpSat
from tests.builders import GPU, NOW, MemberBuilder, NodeClaim, UnitBuilder, member, snapshot, tree, unit
from tests.core.placement.situations import situation_of


def profile_of(units: list[UnitBuilder], members: list[MemberBuilder]) -> tuple[Profile, list[Group]]:
    """All are within their share."""
    space = Space(made.value.components for made in units)
    policies = Policies({made.value.name: made.value for made in members})
    free = {made.value.name: MemberRoom.of(made.value, space) for made in members}
    quota = Usage(tree(ml={"max": {GPU: 16}}))
    groups: list[Group] = []
    for lot in Backlog.of(None, {made.value.id: made.value for made in units}).lots.values():
        first = lot.units[0]
        group = Group(
            lot.units,
            lot.ids,
            space.number(first.components),
            policies.of(first),
            request_of(first),
            False,
            first.leaf,
            first.priority,
            first.preemptible,
            Rank(0, len(lot.units), len(lot.units)),
        )
        groups.append(group)
    return Profile(free, quota, space), groups


def test_ten_thousand_gangs_alike_are_one_class_and_one_lane_per_member() -> None:
    units = [unit(f"u{i}").queue("root/ml") for i in range(10_000)]
    profile, groups = profile_of(units, [member("x").nodes(9), member("y").nodes(1)])
    problem = build(groups, profile, [], now=NOW, config=Config()).problem
    assert [(cls.count, cls.cap) for cls in problem.classes] == [(10_000, 16)]
    assert [(lane.member, lane.cap) for lane in problem.lanes] == [("x", 16), ("y", 8)]


def test_waiting_long_makes_another_class_of_greater_weight() -> None:
    profile, groups = profile_of([unit("young"), unit("old").since(4000)], [member("x").nodes(1)])
    problem = build(groups, profile, [], now=NOW, config=Config()).problem
    assert [cls.weight for cls in problem.classes] == [6, 4]
    assert age_bucket(groups[0].units[0], NOW - 99_999) == 0


def test_gpu_memory_in_bytes_is_no_number_of_devices() -> None:
    asks = Component("worker", 2, Amounts.of({GPU: 1, "example.com/gpu-memory": 80 << 30, "pods": 1}))
    profile, groups = profile_of([unit("a").having(components=(asks,))], [])
    assert weight(profile.space.shapes[groups[0].shape], 0, profile.space) == 2 * 4


def test_only_the_twelve_highest_bands_are_modelled() -> None:
    units = [unit(f"u{i}").priority(i) for i in range(16)]
    profile, groups = profile_of(units, [member("x").nodes(1)])
    assert build(groups, profile, [], now=NOW, config=Config()).bands == tuple((1, -p) for p in range(15, 3, -1))


def test_a_greedy_answer_fits_the_rows_of_the_problem_as_its_hint() -> None:
    units = [unit("a").gpus(4).queue("root/ml"), unit("b").gpus(8).queue("root/ml"), unit("c").gpus(8)]
    profile, groups = profile_of(units, [member("x").nodes(1), member("y").nodes(1)])
    placed = {"a": "x", "c": "y"}
    waiting = [group.candidate(index) for group in groups for index in range(len(group.ids))]
    greedy = [(candidate, placed[candidate.unit.id]) for candidate in waiting if candidate.unit.id in placed]
    problem = build(groups, profile, greedy, now=NOW, config=Config()).problem
    admitted, going = problem.hint
    assert (sum(admitted), sum(going)) == (2, 2)
    for row in problem.quota:
        assert sum(amount * admitted[index] for index, amount in row.classes) <= row.room
    for limit in problem.rooms:
        assert sum(amount * going[index] for index, amount in limit.lanes) <= limit.room


def test_pools_that_nobody_can_tell_apart_are_one() -> None:
    x = member("x").nodes(2, labels={"host": "a"}).nodes(3, labels={"host": "b"}).value
    space = Space([unit("a").value.components])
    (pool,) = MemberRoom.of(x, space).pools
    assert list(pool.counts.values()) == [5]


def test_assumed_room_does_not_depend_on_the_order_of_units() -> None:
    space = Space([unit("a").gpus(3).value.components, unit("b").gpus(5).value.components])
    shapes = [space.shapes[space.number(unit("a").gpus(n).value.components)] for n in (3, 5)]
    free = {"x": MemberRoom.of(member("x").nodes(2).value, space)}
    coming = [("a", "x", shapes[0]), ("b", "x", shapes[1]), ("c", "x", shapes[0])]
    one, two = (lay_out(free, order, space).rooms for order in (coming, coming[::-1]))
    assert one["x"].pools[0].counts == two["x"].pools[0].counts
    assert sum(free["x"].pools[0].counts.values()) == 2


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3), st.sampled_from("ab"), st.integers(1, 3)), max_size=5),
    st.integers(1, 5),
    st.integers(1, 3),
    st.integers(1, 6),
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_gangs_alike_lie_the_same_laid_out_at_once_or_one_by_one(
    nodes: list[tuple[int, int, str, int]], gpus: int, pods: int, times: int
) -> None:
    made = unit("a").gang(pods, gpu=gpus, cpu=4, claim=NodeClaim()).value
    picky = unit("b").gang(1, gpu=1, claim=NodeClaim(node_selector=(("model", "a"),))).value
    space = Space([made.components, picky.components])
    x = member("x")
    for free, cpus, label, count in nodes:
        x = x.nodes(count, free_gpu=free, free_cpu=4 * cpus, labels={"model": label})
    free_room, shape = MemberRoom.of(x.value, space), space.shape(made.components)
    once = lay_out({"x": free_room}, [(f"u{i}", "x", shape) for i in range(times)], space).rooms["x"]
    each = free_room.copy()
    for _ in range(times):
        each.hold(shape, space.devices)
    assert [pool.counts for pool in once.pools] == [pool.counts for pool in each.pools]


def test_what_comes_and_fits_nowhere_takes_all_that_it_could_have_used() -> None:
    space = Space([unit("a").gpus(8).value.components])
    shape = space.shapes[space.number(unit("a").gpus(8, pods=3).value.components)]
    free = {"x": MemberRoom.of(member("x").nodes(3, free_gpu=4).value, space)}
    left = lay_out(free, [("a", "x", shape)], space).rooms["x"].pools[0].counts
    assert {vector[space.index[GPU]] for vector in left} == {0}


def test_users_whose_caps_leave_room_for_all_that_they_wait_for_are_not_told_apart() -> None:
    """Each user's gangs are a class of their own only where the cap counts."""
    capped = tree(ml={"attributes": {USER_MAX: '{"nvidia.com/gpu": 4}'}, "max": {GPU: 16}})
    users = [f"user{number}" for number in range(9)]
    loose = [unit(f"{user}-{i}").queue("root/ml").having(user=user) for user in users for i in range(4)]
    tight = [unit(f"greedy-{i}").gpus(1 + i % 2).queue("root/ml").having(user="greedy") for i in range(6)]
    situation = situation_of(snapshot(*loose, *tight, member("x").nodes(9), capped))
    assert len(situation.groups) == 2
    linked = build(situation.groups, situation.profile(), [], now=NOW, config=Config())
    assert sum(cls.count for cls in linked.problem.classes) == 42
    assert len(linked.problem.classes) <= 3 * len(linked.problem.bands)
    assert sorted(row.name for row in linked.problem.quota) == [f"root/ml {GPU}", f"root/ml//greedy {GPU}"]
    answer = CpSat().solve(linked.problem, seed=1, limit_s=10.0)
    packing = decode(linked, answer, situation.groups, situation.profile)
    packed, dropped = packing.packed, packing.dropped
    assert sum(candidate.request[GPU] for candidate, _ in packed) == 16 and not dropped
    assert sum(candidate.request[GPU] for candidate, _ in packed if candidate.unit.user == "greedy") <= 4


def test_too_many_capped_users_are_no_rows_and_are_cut_down_when_the_answer_is_packed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fleet.core.placement.linked.classes.BOUNDS", replace(BOUNDS, capped_users=1))
    capped = tree(ml={"attributes": {USER_MAX: '{"nvidia.com/gpu": 4}'}})
    waiting = [unit(f"{user}-{i}").queue("root/ml").having(user=user) for user in ("ann", "bob") for i in range(6)]
    world = snapshot(*waiting, member("x").nodes(9), capped)
    situation = situation_of(world)
    linked = build(situation.groups, situation.profile(), [], now=NOW, config=Config())
    assert not any("//" in row.name for row in linked.problem.quota)
    plan = decide(world, now=NOW, seed=1, solver=CpSat())
    assert len(plan.placements) == 8
    assert not check(world, plan, now=NOW)
