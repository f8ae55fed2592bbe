"""ConfigMaps and Secrets of a job: optional ones may lack, and foreign ones of other content are said."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.values.ports import Body, Key
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, cluster_policy, hub, member, policy, pytorchjob

SETTINGS = Key("", "configmaps", "default", "settings")


def settings(kind: str = "ConfigMap", **data: str) -> Body:
    meta = {"name": "settings", "namespace": "default"}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, "data": data}


def reading(name: str, *sources: Body, **more: Any) -> Body:
    job = pytorchjob(name, workers=0, **more)
    [container] = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"]
    container["envFrom"] = list(sources)
    return job


def sent(world: World, name: str) -> Body:
    return world.condition(world.binding(name), "FullyApplied")


OPTIONAL = (
    {"configMapRef": {"name": "settings", "optional": True}},
    {"secretRef": {"name": "wandb", "optional": True}},
)


async def test_an_optional_object_that_the_hub_does_not_have_is_not_missed() -> None:
    volumes = [{"name": "v", "configMap": {"name": "of-volume", "optional": True}}]
    job = reading("one", *OPTIONAL, volumes=volumes)
    [container] = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"]
    one_key = {"configMapKeyRef": {"name": "of-variable", "key": "k", "optional": True}}
    container["env"] = [{"name": "V", "valueFrom": one_key}]
    async with hub(member("cfa")) as world:
        await world.apply(policy(), job)
        await world.running("one")
        await eventually(lambda: sent(world, "one").get("status") == "True")


async def test_an_optional_object_travels_as_soon_as_the_hub_has_it() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), reading("one", *OPTIONAL))
        await world.running("one")
        await world.apply(settings(a="hub"))
        there = world.members.by_name["cfa"].objects
        await eventually(lambda: SETTINGS in there)


async def test_an_object_without_which_no_pod_starts_is_missed_though_another_pod_calls_it_optional() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), reading("one", OPTIONAL[0], {"configMapRef": {"name": "settings"}}))
        await eventually(lambda: sent(world, "one").get("reason") == "DependencyMissing")
        assert sent(world, "one")["message"] == "cannot be sent: ConfigMap default/settings (not on the hub)"


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
async def test_a_foreign_object_of_other_content_is_left_and_said_without_its_values(kind: str) -> None:
    async with hub(member("cfa")) as world:
        world.members.put_foreign("cfa", settings(kind, a="bWVtYmVy", b="c2FtZQ=="))
        ref = {("configMapRef" if kind == "ConfigMap" else "secretRef"): {"name": "settings"}}
        await world.apply(policy(), settings(kind, a="aHVi", b="c2FtZQ=="), reading("one", ref))
        await world.running("one")
        own = f"{kind} default/settings (member cfa has one of its own, with another value of a)"
        await eventually(lambda: sent(world, "one").get("message") == f"cannot be sent: {own}")
        [event] = world.events("one", "DependencyDiffers")
        assert event["type"] == "Warning" and f"{kind} default/settings of member cfa" in event["message"]
        there = world.members.by_name["cfa"].objects
        assert any(body["metadata"].get("uid") == "foreign" for body in there.values())
        assert "bWVtYmVy" not in str([sent(world, "one"), event])


async def test_a_foreign_object_of_the_same_content_serves_in_silence() -> None:
    async with hub(member("cfa")) as world:
        world.members.put_foreign("cfa", settings(a="same"))
        await world.apply(policy(), settings(a="same"), reading("one", {"configMapRef": {"name": "settings"}}))
        await world.running("one")
        await eventually(lambda: sent(world, "one").get("status") == "True")
        assert not world.events("one", "DependencyDiffers")


async def test_a_policy_that_overwrites_takes_the_foreign_object_over() -> None:
    async with hub(member("cfa")) as world:
        world.members.put_foreign("cfa", settings(a="member"))
        await world.apply(
            cluster_policy(conflictResolution="Overwrite"),
            settings(a="hub"),
            reading("one", {"configMapRef": {"name": "settings"}}),
        )
        await world.running("one")
        await eventually(lambda: sent(world, "one").get("status") == "True")
        assert world.members.by_name["cfa"].objects[SETTINGS]["data"] == {"a": "hub"}


async def test_the_policy_of_a_tenant_overwrites_nothing() -> None:
    async with hub(member("cfa")) as world:
        world.members.put_foreign("cfa", settings(a="member"))
        await world.apply(
            policy(conflictResolution="Overwrite"),
            settings(a="hub"),
            reading("one", {"configMapRef": {"name": "settings"}}),
        )
        await world.running("one")
        await settle(5)
        assert world.members.by_name["cfa"].objects[SETTINGS]["data"] == {"a": "member"}
