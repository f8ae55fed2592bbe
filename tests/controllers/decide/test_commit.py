"""Committing a plan while the world changes: what changed drops out, the rest goes on, nothing is written twice."""

from __future__ import annotations

import pytest

from api.store.memory import MemoryLeadership
from fleet.controllers.decide.commit import PlanCommitter
from fleet.controllers.decide.snapshot import SnapshotBuilder
from fleet.controllers.fields.starting import result_text
from fleet.controllers.runtime.events import EventRecorder
from fleet.values.ports import StaleEpoch
from tests.controllers.decide.plans import waiting
from tests.controllers.world import hub, member, policy, tree


async def test_a_unit_that_changed_drops_out_and_the_rest_goes_on() -> None:
    async with hub(member("cfa")) as world:
        picture, placements, committer = await waiting(world, "one", "two", "three")
        await world.edit("QueueUnit", "two-pytorchjob-rb-qu", lambda unit: unit["spec"].update(active=False))
        assert await committer.commit(picture, placements) == 2
        assert (world.placed("one"), world.placed("two"), world.placed("three")) == ("cfa", "", "cfa")


async def test_the_unit_of_an_earlier_binding_of_the_name_is_not_decided_on() -> None:
    async with hub(member("cfa")) as world:
        before, _, _ = await waiting(world, "one", "two")
        left = "two-pytorchjob-rb-qu"
        await world.edit("QueueUnit", left, lambda unit: unit["metadata"]["ownerReferences"][0].update(uid="earlier"))
        picture = SnapshotBuilder(world.store, world.members).build()
        assert [unit.name for unit in before.snapshot.units.values()] == ["default/one", "default/two"]
        assert [unit.name for unit in picture.snapshot.units.values()] == ["default/one"]


async def test_a_tree_that_changed_means_deciding_again() -> None:
    async with hub(member("cfa")) as world:
        picture, placements, committer = await waiting(world, "one", "two")
        await world.apply(tree(max_jobs=1))
        before = await world.store.revision()
        assert await committer.commit(picture, placements) == 0
        assert await world.store.revision() == before


async def test_a_policy_that_changed_takes_its_units_out() -> None:
    async with hub(member("cfa")) as world:
        picture, placements, committer = await waiting(world, "one", "two")
        await world.apply(policy(queue=True, priority=5))
        assert await committer.commit(picture, placements) == 0


async def test_a_binding_that_is_being_deleted_is_not_placed_and_spoils_nothing() -> None:
    async with hub(member("cfa")) as world:
        picture, placements, committer = await waiting(world, "one", "two")
        await world.delete("ResourceBinding", "one-pytorchjob")
        assert await committer.commit(picture, placements) == 1
        assert (world.placed("one"), world.placed("two")) == ("", "cfa")


async def test_a_plan_is_committed_once_only() -> None:
    async with hub(member("cfa")) as world:
        picture, placements, committer = await waiting(world, "one")
        assert await committer.commit(picture, placements) == 1
        assert await committer.commit(picture, placements) == 0
        assert world.attempt("one") == 1


async def test_a_leader_whose_time_is_over_changes_nothing() -> None:
    async with hub(member("cfa")) as world:
        picture, placements, _ = await waiting(world, "one")
        leadership = MemoryLeadership(world.store)
        world.hub.epoch = await leadership.acquire("controllers", "old")
        await leadership.release()
        await MemoryLeadership(world.store).acquire("controllers", "new")
        before = await world.store.revision()
        with pytest.raises(StaleEpoch):
            await PlanCommitter(world.hub, EventRecorder(world.hub)).commit(picture, placements)
        assert await world.store.revision() == before


async def test_the_result_is_printed_as_the_walk_through_prints_it() -> None:
    binding = {"spec": {"components": [{"name": "master", "replicas": 1}, {"name": "worker", "replicas": 2}]}}
    assert result_text(binding, "cfa") == "{cfa:0,[{master 1} {worker 2}]}"
