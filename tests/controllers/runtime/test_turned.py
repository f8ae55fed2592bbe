"""Members that turn at about the same time are searched for once."""

from __future__ import annotations

from fleet.controllers.runtime.gathering import MemberGathering
from tests.controllers.fastloop import settle


async def test_members_that_turn_together_are_one_search_and_later_ones_another() -> None:
    searched: list[frozenset[str]] = []
    turned = MemberGathering(searched.append)
    for member in ("cfa", "cfb", "cfa"):
        turned.add(member)
    assert searched == []
    await settle(1)
    turned.add("cfc")
    await settle(1)
    assert searched == [{"cfa", "cfb"}, {"cfc"}]
