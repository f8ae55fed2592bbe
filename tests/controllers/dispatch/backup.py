"""A hub whose database goes back to an older backup."""

from __future__ import annotations

import orjson

from fleet.controllers.runtime.hub import ControllerConfig
from fleet.values.ports import Body, StoredObject
from tests.controllers.fakemember import FakeMember
from tests.controllers.world import World, policy, pytorchjob

CONFIG = ControllerConfig(sweep_s=5.0)
RECORD = "unknown-copies-cfa"


def backup(world: World) -> tuple[int, list[StoredObject]]:
    return world.store._view.revision, world.store._view.everything()


def restore(world: World, copy: tuple[int, list[StoredObject]]) -> None:
    world.store._view.reset(*copy)


def names(one: FakeMember) -> set[str]:
    return {key.name for key in one.objects}


def record(world: World) -> list[Body]:
    found = world.see("ConfigMap", RECORD, "fleet-system")
    return orjson.loads(found["data"]["copies"]) if found is not None else []


async def went_back(world: World) -> Body:
    """Job a runs; the database is copied; job b runs; the database is put back. Returns the copy of b."""
    await world.apply(policy(), pytorchjob("a"))
    await world.running("a")
    old = backup(world)
    await world.apply(pytorchjob("b"))
    await world.running("b")
    await world.kill()
    restore(world, old)
    world.start()
    one = world.members.by_name["cfa"]
    return next(body for key, body in one.objects.items() if key.name == "b")
