"""The decider looks again when time alone makes a difference, and no earlier."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.controllers.decide.waking import next_change
from fleet.core.model.reason import Code, Reason
from fleet.core.model.tier import Tier
from fleet.core.model.unit import Claim, Nomination
from fleet.core.snapshot import Config
from tests.builders import NOW, UnitBuilder, snapshot, unit

RECLAIM = Config(reclaim=True, protection_s=60, head_after_s=0)
NO_HEADS = Config(head_after_s=0)
HEADS = Config(head_after_s=90)
HEAD = unit("h").having(head=Nomination("x", NOW - 5, NOW))
OVERDUE = Config(head_after_s=90, guarantee_delay_s=40)
OLD = HEAD.since(175)
HUNGRY = Reason(Code.NO_MEMBER_FITS, {}, Tier.GUARANTEED)
RUNS = unit("r").queue("root/a").runs_in("x").having(placed_at=NOW - 10)

STORIES: dict[str, tuple[list[UnitBuilder], Config, Reason, float | None]] = {
    "nothing is due": ([unit("w")], RECLAIM, HUNGRY, None),
    "a back-off ends": ([unit("w").having(backoff_until=NOW + 5)], RECLAIM, HUNGRY, 5),
    "a claim ends": ([unit("w").having(claim=Claim("x", NOW + 7)), RUNS], NO_HEADS, HUNGRY, 7),
    "what is over already": ([unit("w").having(backoff_until=NOW - 5, claim=Claim("x", NOW))], RECLAIM, HUNGRY, None),
    "a gang's protection ends": ([unit("w"), RUNS], RECLAIM, HUNGRY, 51),
    "nobody may evict": ([unit("w"), RUNS], NO_HEADS, HUNGRY, None),
    "nobody wants to evict": ([unit("w"), RUNS], RECLAIM, Reason(Code.HELD), None),
    "who borrows evicts nobody": ([unit("w"), RUNS], RECLAIM, Reason(Code.MAX_JOBS, {}, Tier.BORROWED), None),
    "its room is claimed": ([unit("w"), RUNS], RECLAIM, Reason(Code.ROOM_CLAIMED, {}, Tier.SHARE), None),
    "it has waited long enough to become a head": ([unit("w")], HEADS, HUNGRY, 31),
    "what borrows may become one, if it is the first": (
        [unit("w")],
        HEADS,
        Reason(Code.NO_MEMBER_FITS, {}, Tier.BORROWED),
        31,
    ),
    "what never starts becomes no head": ([unit("w")], HEADS, Reason(Code.TOO_LARGE), None),
    "its leaf has a head already": ([unit("w"), HEAD], Config(head_after_s=90, guarantee_delay_s=0), HUNGRY, None),
    "it is before the head of its leaf": ([unit("w").priority(1), HEAD], HEADS, HUNGRY, 31),
    "what crosses its leaf's share may evict once it is a head": (
        [unit("w"), RUNS],
        replace(HEADS, reclaim=True),
        Reason(Code.NO_MEMBER_FITS, {}, Tier.CROSSING),
        31,
    ),
    "a head that waits for a gang's protection to end": (
        [OLD, RUNS],
        replace(OVERDUE, reclaim=True, protection_s=11),
        HUNGRY,
        2,
    ),
    "guaranteed work begins to wait for a head": ([OLD], OVERDUE, HUNGRY, 6),
    "guaranteed work has waited for a head long enough": ([HEAD.since(180)], OVERDUE, HUNGRY, 41),
    "guaranteed work passed a head for one bound": ([HEAD.since(220)], OVERDUE, HUNGRY, 91),
    "guaranteed work waits for no head": ([OLD], replace(OVERDUE, guarantee_delay_s=0), HUNGRY, None),
    "it may not be evicted": ([unit("w"), RUNS.having(preemptible=False)], RECLAIM, HUNGRY, None),
}


@pytest.mark.parametrize("story", STORIES)
def test_the_next_look(story: str) -> None:
    units, config, reason, after_s = STORIES[story]
    assert NOW % 1 == 0
    found = next_change(snapshot(*units, config), {"w": reason}, NOW)
    assert found == (None if after_s is None else NOW + after_s)


def test_of_those_that_borrow_only_the_first_of_a_leaf_is_waited_for() -> None:
    borrows = Reason(Code.NO_MEMBER_FITS, {}, Tier.BORROWED)
    world = snapshot(unit("first").since(80).priority(1), unit("second").since(85), HEADS)
    assert next_change(world, {"first": borrows, "second": borrows}, NOW) == NOW + 11
