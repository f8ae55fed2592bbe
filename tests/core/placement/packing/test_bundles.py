"""Gangs whose rules bundle their pods, packed into one member."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import event, given, settings

from fleet.core.model.amounts import Amounts
from fleet.core.model.matching import domain_of
from fleet.core.model.member import Member, Pool
from fleet.core.model.nesting import flaws
from fleet.core.model.rule import PlacementRule, Rules
from fleet.core.model.unit import Component
from fleet.core.placement.packing.draft import Fit
from fleet.core.placement.packing.room import MemberRoom
from fleet.core.placement.packing.space import Space
from tests.builders import GPU
from tests.core.exact import ExactModel
from tests.core.ruled import RuledWorld, rack, workers, worlds


def fitted(
    pools: tuple[Pool, ...], components: tuple[Component, ...], rules: Rules
) -> tuple[Fit | None, MemberRoom, Space]:
    assert not list(flaws(rules, components))
    member = Member("cfa", pools=pools)
    space = Space([components], [rules], [member])
    room = MemberRoom.of(member, space)
    return room.fit(space.shape(components, rules), space.devices), room, space


def gpus_by_domain(fit: Fit, room: MemberRoom) -> dict[str, int]:
    """The GPUs that the gang takes, by the finest domain of their nodes."""
    used: Counter[str] = Counter()
    for before, after in zip(room.pools, fit.pools, strict=True):
        used[max(before.domains, key=len)] += before.total[0] - after.total[0]
    return {domain: count for domain, count in used.items() if count}


EIGHT = (8,) * 8


@pytest.mark.parametrize(
    ("pools", "components", "rules", "where"),
    [
        # Slices of four in the tightest racks that take one; the empty rack stays whole.
        (
            (rack("b1/r1", *EIGHT), rack("b1/r2", *EIGHT[:5]), rack("b1/r3", *EIGHT[:4])),
            (workers(8),),
            (PlacementRule("rack", size=4),),
            {"/b1/r3": 32, "/b1/r2": 32},
        ),
        # 24 pods where a domain takes 16 at most: 12 and 12, and not 16 and 8.
        (
            (rack("b1/r1", *EIGHT * 3), rack("b1/r2", *EIGHT * 3)),
            (workers(24),),
            (PlacementRule("rack", size=1, most=16, even=True),),
            {"/b1/r1": 96, "/b1/r2": 96},
        ),
        # The cap alone fills one rack to its cap.
        (
            (rack("b1/r1", *EIGHT * 3), rack("b1/r2", *EIGHT * 3)),
            (workers(24),),
            (PlacementRule("rack", size=1, most=16),),
            {"/b1/r1": 128, "/b1/r2": 64},
        ),
        # The leader stands anywhere, the workers together.
        (
            (rack("b1/r1", 8, 8, 8), rack("b1/r2", 4)),
            (workers(1, 4, "leader"), workers(3)),
            (PlacementRule("rack", ("worker",)),),
            {"/b1/r1": 24, "/b1/r2": 4},
        ),
        # Two slices in one block: b1 has room for the pods, and for one slice only.
        (
            (
                rack("b1/r1", *EIGHT[:6]),
                rack("b1/r2", *EIGHT[:2]),
                rack("b2/r1", *EIGHT[:4]),
                rack("b2/r2", *EIGHT[:4]),
            ),
            (workers(8),),
            (PlacementRule("block"), PlacementRule("rack", size=4)),
            {"/b2/r1": 32, "/b2/r2": 32},
        ),
        # A leader with its two workers in one rack, twice.
        (
            (rack("b1/r1", 8, 8, 1), rack("b1/r2", 8, 8, 1), rack("b1/r3", 8, 1, 1)),
            (workers(2, 1, "leader"), workers(4)),
            (PlacementRule("rack", size=3),),
            {"/b1/r1": 17, "/b1/r2": 17},
        ),
        # Racks of one name in two blocks are two.
        ((rack("b1/r1", 8), rack("b2/r1", 8)), (workers(2),), (PlacementRule("rack"),), None),
        # Soft: one rack where one takes all, the tightest of these.
        (
            (rack("b1/r1", *EIGHT), rack("b1/r2", 8, 8, 8), rack("b1/r3", 8, 8)),
            (workers(3),),
            (PlacementRule("rack", hard=False),),
            {"/b1/r2": 24},
        ),
        # Soft: else one block, and few racks in it. b2 has the fewest racks for it, b1 the largest one.
        (
            (rack("b1/r1", 8, 8, 8), rack("b1/r2", 8), rack("b2/r1", 8, 8), rack("b2/r2", 8, 8), rack("b2/r3", 8)),
            (workers(4),),
            (PlacementRule("rack", hard=False),),
            {"/b1/r1": 24, "/b1/r2": 8},
        ),
        # Soft: else few racks anywhere, the fullest first and the tightest last.
        (
            (rack("b1/r1", 8, 8, 8), rack("b1/r2", 8), rack("b2/r1", 8, 8), rack("b3/r1", 8, 8, 8)),
            (workers(8),),
            (PlacementRule("rack", hard=False),),
            {"/b1/r1": 24, "/b2/r1": 16, "/b3/r1": 24},
        ),
        # Hard and soft together: one block, and in it one rack where one takes all.
        (
            (rack("b1/r1", 8, 8), rack("b1/r2", 8), rack("b2/r1", 8, 8, 8)),
            (workers(3),),
            (PlacementRule("block"), PlacementRule("rack", hard=False)),
            {"/b1/r1": 16, "/b1/r2": 8},
        ),
    ],
)
def test_a_gang_lies_where_its_rules_say(
    pools: tuple[Pool, ...], components: tuple[Component, ...], rules: Rules, where: dict[str, int] | None
) -> None:
    fit, room, _ = fitted(pools, components, rules)
    assert (gpus_by_domain(fit, room) if fit is not None else None) == where


@settings(max_examples=300, deadline=None)
@given(worlds())
def test_what_fits_keeps_every_rule(world: RuledWorld) -> None:
    """And what does not fit has no packing, by the exact model; the few that the greedy search misses are counted."""
    pools, components, rules = world
    fit, room, space = fitted(pools, components, rules)
    exact = ExactModel(Member("cfa", pools=pools), [(components, rules)])
    if fit is None:
        event(f"no fit, exact: {exact.packs()}")
        return
    for before, after in zip(room.pools, fit.pools, strict=True):
        alike = [pool for pool in pools if tuple(domain_of(pool, level) for level in space.levels) == before.domains]
        exact.use(alike, Amounts.of({GPU: before.total[0] - after.total[0]}))
    assert exact.packs(), (pools, components, rules)
