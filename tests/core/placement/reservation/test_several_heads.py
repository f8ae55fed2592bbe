"""Heads beside one another: by which moment each is measured when others pass it. (Stories: tests/scenarios.)"""

from __future__ import annotations

from fleet.core.model.unit import Nomination
from tests.builders import GPU, NOW, member, tree
from tests.core.placement.reservation.heads import decided, gang, small


def test_a_head_that_has_no_seat_beside_one_that_passes_it_keeps_its_member_from_others() -> None:
    """Any other gang that came in would be there for as long as any."""
    ahead = gang("h", 2, leaf="root/c")
    head = gang("g", 8).having(head=Nomination("x", NOW - 60, NOW - 60, turn=NOW - 600))
    promised = tree(a={}, b={}, c={"min": {GPU: 4}})
    _, plan = decided(ahead, head, small("s"), member("x").nodes(1), promised)
    assert {p.unit for p in plan.placements} == {"h"}
    assert [(h.unit, h.nomination.member, h.nomination.became) for h in plan.heads] == [("g", "x", NOW - 600)]
