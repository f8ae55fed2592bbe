"""The PriorityClasses of a gang are in a member before placeholders hold room for it there."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.members.members import ActOutcome, ActResult
from fleet.values.ports import Body
from tests.controllers.decide.checks import answer, asks
from tests.controllers.dispatch.priority_classes import HIGH, high, there
from tests.controllers.fastloop import eventually
from tests.controllers.room.placeholders import enable, placeholders
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree


async def waits(world: World, **job: Any) -> None:
    """Job `one`, which names the class and waits for another check than the room."""
    put = world.members.put_pod

    async def admitted(name: str, body: Body) -> ActOutcome:
        """As the admission of a member does."""
        named = body["spec"].get("priorityClassName")
        if named and HIGH not in world.members.by_name[name].objects:
            return ActOutcome(ActResult.REFUSED, f"no PriorityClass with name {named} was found")
        return await put(name, body)

    world.members.put_pod = admitted  # type: ignore[method-assign]
    await enable(world, "cfa")
    await world.apply(high(), tree(max_jobs=5), policy(queue=True, **job))
    await asks(world, "budget")
    await world.apply(pytorchjob("one", priorityClassName="high"))


async def test_the_class_is_sent_before_the_placeholders_that_name_it_and_stays_for_the_job() -> None:
    async with hub(member("cfa")) as world:
        await waits(world)
        await eventually(lambda: len(placeholders(world.members.by_name["cfa"])) == 3)
        assert there(world) is not None
        await answer(world, "Ready")
        await world.running("one")
        assert there(world) is not None
        await world.delete("PyTorchJob", "one")
        await eventually(world.nothing_left)
        assert there(world) is None


@pytest.mark.parametrize("leaves", ["deleted", "held"])
async def test_the_class_of_a_job_that_never_started_leaves_with_its_room(leaves: str) -> None:
    async with hub(member("cfa")) as world:
        await waits(world)
        await eventually(lambda: len(placeholders(world.members.by_name["cfa"])) == 3)
        if leaves == "deleted":
            await world.delete("PyTorchJob", "one")
        else:
            hold = {"annotations": {"fleet.io/hold": "true"}}
            await world.edit("PyTorchJob", "one", lambda body: body["metadata"].update(hold))
        await eventually(lambda: there(world) is None and not placeholders(world.members.by_name["cfa"]))
        assert {body["kind"] for body in world.members.by_name["cfa"].applies} == {"PriorityClass"}


async def test_without_propagate_deps_the_member_is_asked_with_the_classes_that_it_has() -> None:
    async with hub(member("cfa")) as world:
        await waits(world, propagateDeps=False)
        await eventually(lambda: world.events("one", "ScheduleBindingFailed") != [])
        (failed, *_) = world.events("one", "ScheduleBindingFailed")
        assert failed["message"] == ("member cfa does not hold its room: no PriorityClass with name high was found")
        assert there(world) is None
