"""Members with reservation, and the pods that hold room in them."""

from __future__ import annotations

from typing import Any

from fleet.core.model.pod import PodView
from tests.controllers.fakemember import FakeMember
from tests.controllers.world import World, policy, pytorchjob, tree

ROOM = "fleet.io/room"


async def enable(world: World, *names: str, **spec: Any) -> None:
    for name in names:
        await world.edit("Cluster", name, lambda body: body["spec"].update(enableReservation=True, **spec))


async def submit(world: World, *names: str, **job: Any) -> None:
    """The walk-through's tree and policy, reservation enabled in these members, and job `one`."""
    await enable(world, *names)
    await world.apply(tree(max_jobs=5), policy(queue=True))
    await world.apply(pytorchjob("one", **job))


def placeholders(one: FakeMember) -> list[PodView]:
    return [pod for pod in one.pods.values() if pod.placeholder]


def rival(one: FakeMember, node: str, gpus: int) -> None:
    """A foreign pod there, which the hub has not seen yet."""
    room = one.nodes[node]
    one.nodes[node] = room.minus(type(room).of({"nvidia.com/gpu": gpus}))
