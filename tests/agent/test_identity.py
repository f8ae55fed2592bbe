"""A cluster that its agent reaches is judged as any other once it is connected, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fleet.agent.lease import fresh, key_of
from fleet.values.ports import Key
from fleet.wellknown import CLUSTER, SYSTEM_NAMESPACE
from tests.agent.world import agent_hub, member, running
from tests.members.conftest import HUB, LIMITS, eventually
from tests.members.world import World


@pytest.mark.parametrize("first", ["Push", "Pull"])
async def test_a_cluster_has_one_name_however_it_is_reached(tmp_path: Path, first: str) -> None:
    second = "Pull" if first == "Push" else "Push"
    async with agent_hub(tmp_path) as hub, member() as cluster:
        token, dialer = await hub.join("edge"), hub.dialer()
        names = {"Push": "near", "Pull": "edge"}
        world = World(HUB, LIMITS, dialer.dial)
        loop = asyncio.create_task(world.loop.run())
        try:
            await world.join(cluster.kubeconfig, name=names[first], syncMode=first)
            if first == "Pull":
                await eventually(lambda: "it never was" in world.message("edge"))
                assert "id" not in (world.stored("edge") or {})["spec"]
            async with running(hub.agent(hub.processes[0], "edge", token, cluster)):
                await eventually(lambda: world.ready(names[first])[0] == "True")
                assert (world.stored(names[first]) or {})["spec"]["id"] == cluster.identity
                await world.join(cluster.kubeconfig, name=names[second], syncMode=second)
                await eventually(lambda: world.ready(names[second]) == ("False", "SameCluster"))
        finally:
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)
            await world.members.stop()
            await dialer.aclose()


async def test_the_agent_of_a_deleted_cluster_loses_its_token_and_its_lease(world: World) -> None:
    lease, token = key_of("cfa"), Key("", "secrets", SYSTEM_NAMESPACE, "agent-cfa")
    await world.create(lease.group, lease.resource, lease.namespace, fresh("cfa"))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": token.name, "namespace": token.namespace}}
    await world.create("", "secrets", token.namespace, secret)
    await world.join("apiVersion: v1", syncMode="Pull")
    await eventually(lambda: world.ready() == ("False", "BadKubeconfig"))
    await world.hub.delete(Key(CLUSTER, "clusters", "", "cfa"))
    await eventually(lambda: world.stored() is None)
    assert world.hub.store.peek(lease) is None and world.hub.store.peek(token) is None
