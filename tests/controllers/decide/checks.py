"""Admission checks: queues that ask them, a job that waits for them, and their answers."""

from __future__ import annotations

from typing import Any

from api.engine.patch import JSON
from fleet.values.ports import Body
from tests.controllers.fastloop import eventually
from tests.controllers.world import ALICE, World, policy, pytorchjob, tree


async def asks(world: World, *checks: Any, leaf: str = "root/child-2", **annotations: str) -> None:
    """The leaf's queue asks these checks: names, or entries with a labelSelector."""
    await eventually(lambda: leaf in world.queues())
    asked = [{"name": check} if isinstance(check, str) else check for check in checks]

    def change(queue: Body) -> None:
        queue["spec"]["admissionChecks"] = asked
        queue["metadata"]["annotations"].update(annotations)

    await world.edit("Queue", world.queues()[leaf], change, namespace="kube-queue")


async def reserves(world: World, *checks: Any, **annotations: str) -> None:
    """Job `one` is Reserved in a queue that asks these checks."""
    await world.apply(tree(max_jobs=1), policy(queue=True))
    await asks(world, *checks, **annotations)
    await world.apply(pytorchjob("one"))
    await eventually(lambda: world.phase("one") == "Reserved")


async def answer(world: World, state: str, *, job: str = "one", index: int = 0, message: str = "") -> None:
    """As `kubectl patch --subresource=status --type json` does."""
    kind = world.registry.need("scheduling.x-k8s.io", "queueunits")
    at = f"/status/admissionChecks/{index}"
    patch = [{"op": "replace", "path": f"{at}/{k}", "value": v} for k, v in (("state", state), ("message", message))]
    await world.objects.patch(kind, "default", f"{job}-pytorchjob-rb-qu", patch, JSON, ALICE, "status")


def status(world: World, job: str = "one") -> Body:
    return dict((world.unit(job) or {}).get("status") or {})


def states(world: World, job: str = "one") -> list[tuple[str, str]]:
    return [(check["name"], check["state"]) for check in status(world, job).get("admissionChecks") or ()]
