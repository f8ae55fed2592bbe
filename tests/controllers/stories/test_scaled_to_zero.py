"""A Deployment or StatefulSet has no field that suspends it: no replicas stop it, and some start it again."""

from __future__ import annotations

import pytest

from fleet.values.ports import Body
from tests.controllers.fastloop import eventually
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree

KINDS = ("Deployment", "StatefulSet")


def served(kind: str, replicas: int) -> Body:
    labels = {"app": "a"}
    container = {"name": "m", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec: Body = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    meta = {"name": "serve", "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": spec}


def selecting() -> Body:
    kinds = [{"apiVersion": "apps/v1", "kind": kind} for kind in KINDS]
    return policy(queue=True, resourceSelectors=[*kinds, {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}])


def placed(world: World, kind: str) -> bool:
    binding = world.binding("serve", kind.lower()) or {"spec": {}}
    return bool(binding["spec"].get("clusters"))


def reason(world: World, kind: str) -> str:
    return str(world.condition(world.binding("serve", kind.lower()), "Scheduled").get("reason", ""))


@pytest.mark.parametrize("kind", KINDS)
async def test_no_replicas_stop_it_and_give_its_room_and_quota_to_others(kind: str) -> None:
    async with hub(member("cfa", 1)) as world:
        await world.apply(tree(max_jobs=1), selecting(), served(kind, 1))
        await eventually(lambda: placed(world, kind))
        await world.edit(kind, "serve", lambda body: body["spec"].update(replicas=0))
        await eventually(lambda: not placed(world, kind))
        await world.apply(pytorchjob("other", workers=0, gpus=8))
        await world.running("other")
        await eventually(lambda: reason(world, kind) == "Suspended")
        await world.delete("PyTorchJob", "other")
        await world.edit(kind, "serve", lambda body: body["spec"].update(replicas=1))
        await eventually(lambda: placed(world, kind))
        assert (world.binding("serve", kind.lower()) or {})["spec"]["components"][0]["replicas"] == 1


async def test_one_that_comes_without_replicas_waits_suspended_and_starts_with_some() -> None:
    async with hub(member("cfa", 1)) as world:
        await world.apply(tree(max_jobs=1), selecting(), served("Deployment", 0))
        await eventually(lambda: reason(world, "Deployment") == "Suspended")
        await world.edit("Deployment", "serve", lambda body: body["spec"].update(replicas=1))
        await eventually(lambda: placed(world, "Deployment"))
