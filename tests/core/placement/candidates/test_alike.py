"""Units alike go through a decision together, with the same result as one by one."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.core.model.order import queue_order
from fleet.core.model.tier import Tier
from fleet.core.model.unit import Phase, Unit
from fleet.core.placement.candidates.candidate import service_order
from fleet.core.placement.candidates.grouping import Grouping
from fleet.core.placement.greedy.greedy import AGES_S, age_bucket, place
from fleet.core.placement.linked.model import build
from fleet.core.quota.tiers import UnitGroup
from fleet.core.quota.usage import request_of
from fleet.core.snapshot import Snapshot
from tests.builders import NOW
from tests.core.placement import onebyone
from tests.core.placement.situations import situation_of
from tests.worlds import MEMBERS, members, trees, units

many = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@st.composite
def crowds(draw: st.DrawFn) -> Snapshot:
    """Few kinds of units and several of each, whose turns are mixed."""
    found: dict[str, Unit] = {}
    for kind in range(draw(st.integers(1, 4))):
        first = draw(units(kind)).value
        for number in range(draw(st.integers(1, 5))):
            name = f"u{kind}-{number}"
            waited = draw(st.sampled_from((-9, 0, 1, 60, 900, 9000, 30_000)))
            user, walltime = draw(st.sampled_from(("", "ann", "bob"))), draw(st.sampled_from((None, 300.0, 900.0)))
            found[name] = replace(first, id=name, name=name, enqueued_at=NOW - waited, user=user, walltime_s=walltime)
    there = {made.value.name: made.value for made in (draw(members(name)) for name in MEMBERS)}
    return Snapshot(draw(st.one_of(st.none(), trees())), found, there)


@many
@given(crowds())
def test_the_tiers_of_units_alike_are_those_of_each_one(world: Snapshot) -> None:
    sorted_out = Grouping(world, NOW)
    entitled = sorted_out.entitled
    if entitled is None:
        return
    running: dict[str, list[UnitGroup]] = {}
    queues: dict[str, list[UnitGroup]] = {}
    for unit in world.units.values():
        if unit.phase is not Phase.WAITING and unit.leaf is not None:
            running.setdefault(unit.leaf, []).append(UnitGroup((unit,), request_of(unit)))
    for group in sorted_out.groups:
        never = not group.eligibility.allowed or sorted_out.nevers.of(group.shape, group.eligibility)
        if group.leaf is not None and (group.block or not never):
            queues.setdefault(group.leaf, []).extend(
                UnitGroup((unit,), type(group.request)() if never else group.request, group.block)
                for unit in group.units
            )
    expected: dict[str, Tier] = {}
    for leaf in {*running, *queues}:
        ran = sorted(
            running.get(leaf, []), key=lambda c: (-c.units[0].priority, c.units[0].placed_at or 0.0, c.units[0].name)
        )
        queue = sorted(queues.get(leaf, []), key=lambda c: queue_order(c.units[0]))
        expected |= onebyone.tiers(entitled.promises, entitled.shares, ran, queue)
    assert world.tree is not None
    for key, tier in entitled.running.items():
        assert tier is expected[key]
    for group in sorted_out.groups:
        for index, unit in enumerate(group.units):
            alone = Tier.SHARE if unit.leaf is None else expected.get(unit.id, Tier.BORROWED)
            assert group.candidate(index).tier is alone
    within = [
        [group.candidate(i).tier for i in range(s, e)] for group in sorted_out.groups for _, s, e in group.segments
    ]
    assert all(len(set(tiers)) == 1 for tiers in within)


@many
@given(crowds(), st.sets(st.sampled_from(["u0-0", "u0-1", "u1-0"])), st.sets(st.sampled_from(["u0-2", "u1-1", "u2-0"])))
def test_the_greedy_pass_is_the_one_that_asks_everybody(world: Snapshot, started: set[str], barred: set[str]) -> None:
    situation = situation_of(world)
    everybody = [group.candidate(i) for group in situation.groups for i in range(len(group.units))]
    left = sorted((c for c in everybody if c.unit.id not in started), key=service_order)
    grouped = place(situation.profile(), situation.groups, situation.head_choice.heads, started, barred)
    alone = onebyone.place(situation.profile(), left, situation.head_choice.heads, barred)
    assert [(c.unit.id, c.tier, member) for c, member in grouped.placed] == [
        (c.unit.id, c.tier, member) for c, member in alone.placed
    ]
    assert grouped.stopped == alone.stopped


@many
@given(crowds())
def test_classes_count_every_unit_once_by_age_and_name_the_oldest_first(world: Snapshot) -> None:
    situation = situation_of(world)
    linked = build(situation.groups, situation.profile(), [], now=NOW, config=world.config)
    everybody = [group.candidate(i) for group in situation.groups for i in range(len(group.units))]
    by_id = {candidate.unit.id: candidate for candidate in everybody}
    seen: set[str] = set()
    for cls, alike in zip(linked.problem.classes, linked.units, strict=True):
        found = alike.oldest(cls.count + 1)
        assert len(found) == cls.count
        assert [c.unit.id for c in alike.oldest(2)] == [c.unit.id for c in found[:2]]
        assert found == sorted(found, key=service_order)
        for candidate in found:
            alone = by_id[candidate.unit.id]
            assert candidate.unit.id not in seen
            seen.add(candidate.unit.id)
            assert (alone.tier, -candidate.unit.priority) == linked.bands[cls.band]
            assert (cls.kind.shape, found[0].unit.leaf) == (alone.shape, candidate.unit.leaf)
            assert age_bucket(found[0].unit, NOW) == age_bucket(candidate.unit, NOW)
    assert len(AGES_S) == 3
