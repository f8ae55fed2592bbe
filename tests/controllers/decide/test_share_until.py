"""A start from a head's reservation counts as within its leaf's share for a time: stored, and read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fleet.controllers.decide.commit import PlanCommitter
from fleet.controllers.decide.snapshot import Picture, SnapshotBuilder
from fleet.core.model.plan import Placement
from fleet.core.model.unit import Unit
from tests.controllers.decide.checks import answer, reserves
from tests.controllers.world import World, hub, member, policy, pytorchjob

UNTIL = 2_000_000_000.0


def seen(world: World, name: str) -> Unit:
    """The unit as the next decision sees it."""
    units = SnapshotBuilder(world.store, world.members).build(world.hub.clock.now()).snapshot.units.values()
    return next(unit for unit in units if unit.name == f"default/{name}")


@pytest.fixture
def from_a_reservation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every placement says that it starts from a head's reservation."""
    commit = PlanCommitter.commit

    async def marked(
        self: PlanCommitter, picture: Picture, placements: Sequence[Placement], decided_at: float = 0.0
    ) -> int:
        return await commit(
            self, picture, [replace(placement, share_until=UNTIL) for placement in placements], decided_at
        )

    monkeypatch.setattr(PlanCommitter, "commit", marked)


@pytest.mark.usefixtures("from_a_reservation")
async def test_a_unit_that_runs_remembers_until_when_it_is_within_its_share() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), pytorchjob("train"))
        await world.running("train")
        assert seen(world, "train").share_until == UNTIL
        await world.kill()
        world.start()
        assert seen(world, "train").share_until == UNTIL


async def test_a_unit_that_starts_otherwise_is_within_nothing() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), pytorchjob("train"))
        await world.running("train")
        assert seen(world, "train").share_until is None


@pytest.mark.usefixtures("from_a_reservation")
async def test_a_reserved_unit_hands_it_on_to_its_start() -> None:
    async with hub(member("cfa")) as world:
        await reserves(world, "budget")
        assert seen(world, "one").share_until == UNTIL
        await answer(world, "Ready")
        await world.running("one")
        assert seen(world, "one").share_until == UNTIL
