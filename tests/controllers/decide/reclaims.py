"""A hub in which leaves take back what they are promised."""

from __future__ import annotations

from fleet.controllers.runtime.hub import ControllerConfig
from fleet.values.ports import Body
from tests.controllers.world import World, policy, pytorchjob, tree

QUICK = ControllerConfig(protection_s=30.0, claim_s=120.0)


def leaves(total: int, **promised: int) -> Body:
    """A tree over `total` GPUs whose leaves are promised so many of them."""
    body, room = tree(), {"nvidia.com/gpu": total}
    children = [
        {"name": name, "min": {"nvidia.com/gpu": gpus}, "namespaces": [f"of-{name}"]} for name, gpus in promised.items()
    ]
    body["spec"]["root"] = {"name": "root", "max": room, "min": room, "children": children}
    return body


def job(name: str, leaf: str, *, gpus: int = 8, workers: int = 1) -> Body:
    body = pytorchjob(name, workers=workers, gpus=gpus)
    body["metadata"]["labels"] = {"quota.scheduling.alibabacloud.com/name": leaf}
    return body


async def borrowed(world: World, *names: str, owned: int = 16) -> None:
    """Gangs of 16 GPUs run, each in the leaf that its name begins with: all there is, `owned` of it leaf b's."""
    total = 16 * len(world.members.by_name)
    await world.apply(leaves(total, a=0, b=owned, c=0), policy(queue=True), *(job(name, name[0]) for name in names))
    for name in names:
        await world.running(name)


def leaving(world: World) -> list[str]:
    return [
        body["metadata"]["name"] for body in world.all("ResourceBinding") if body["spec"].get("gracefulEvictionTasks")
    ]
