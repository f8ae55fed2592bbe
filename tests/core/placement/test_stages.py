"""Each stage of a decision is whole: it has what its step found out, and nothing that a later step fills in."""

from __future__ import annotations

from dataclasses import MISSING, fields

import pytest

from fleet.core.placement.greedy.situation import ClaimSituation, Situation, SortedSituation, sort, with_claims
from tests.builders import NOW, member, snapshot, unit
from tests.core.placement.situations import situation_of

WORLD = snapshot(unit("a"), member("x").nodes(1))


@pytest.mark.parametrize("stage", [SortedSituation, ClaimSituation, Situation])
def test_no_field_of_a_stage_waits_for_a_later_one(stage: type[SortedSituation]) -> None:
    assert [one.name for one in fields(stage) if (one.default, one.default_factory) != (MISSING, MISSING)] == []


def test_a_step_leaves_the_stage_before_as_it_was() -> None:
    first = sort(WORLD, NOW)
    groups, rooms = list(first.groups), dict(first.rooms)
    second = with_claims(first)
    assert (first.groups, first.rooms) == (groups, rooms) and second.groups == groups
    assert type(situation_of(WORLD)) is Situation and not situation_of(WORLD).new
