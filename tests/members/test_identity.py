"""One cluster has one name, and one name means one cluster: nothing is read of another, and nothing is sent there."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from fleet.members.clusters import ClusterMembers
from fleet.members.identity import Identity
from fleet.members.members import ActResult
from fleet.simulate.cluster import SimulatedCluster
from fleet.values.ports import Key
from fleet.wellknown import CLUSTER
from tests.members.builders import config_map, ours
from tests.members.conftest import HUB, SimulatedTarget, eventually, simulated_target
from tests.members.world import World


@pytest_asyncio.fixture
async def other() -> AsyncIterator[SimulatedTarget]:
    async with simulated_target("other") as target:
        yield target


async def test_the_uid_of_kube_system_becomes_the_id_of_a_cluster_without_one(
    world: World,
    simulated: SimulatedTarget,
) -> None:
    await world.join(simulated.kubeconfig)
    await eventually(lambda: world.ready() == ("True", "ClusterReady"))
    there = await simulated.get("/api/v1/namespaces/kube-system")
    assert there is not None
    assert (world.stored() or {})["spec"]["id"] == there["metadata"]["uid"] == simulated.cluster.identity


async def test_a_second_name_of_a_cluster_is_not_used_until_the_first_is_gone(
    world: World,
    simulated: SimulatedTarget,
) -> None:
    await world.join(simulated.kubeconfig)
    await eventually(lambda: world.ready() == ("True", "ClusterReady"))
    await world.join(simulated.kubeconfig, name="cfb")
    await eventually(lambda: world.ready("cfb") == ("False", "SameCluster"))
    assert "joined as cfa already" in world.message("cfb")
    assert world.members.model("cfb") is None and not world.members.ready("cfb")
    sent = await world.members.apply("cfb", config_map(ours("default", "x")))
    assert sent.did is ActResult.UNREACHABLE and "joined as cfa already" in sent.message
    assert "id" not in (world.stored("cfb") or {})["spec"]

    await world.hub.delete(Key(CLUSTER, "clusters", "", "cfa"))
    await eventually(lambda: world.ready("cfb") == ("True", "ClusterReady"))


async def test_of_two_that_come_at_once_one_is_used(world: World, simulated: SimulatedTarget) -> None:
    await world.join(simulated.kubeconfig)
    await world.join(simulated.kubeconfig, name="cfb")
    await eventually(
        lambda: {world.ready(), world.ready("cfb")} == {("True", "ClusterReady"), ("False", "SameCluster")}
    )


async def test_of_two_with_the_same_id_stored_one_is_used(world: World, simulated: SimulatedTarget) -> None:
    """As two API processes may store them in the same moment."""
    await world.join(simulated.kubeconfig, name="cfb", id=simulated.cluster.identity)
    await world.join(simulated.kubeconfig, id=simulated.cluster.identity)
    await eventually(
        lambda: {world.ready(), world.ready("cfb")} == {("True", "ClusterReady"), ("False", "SameCluster")}
    )


async def test_a_kubeconfig_that_leads_to_another_cluster_is_not_used_until_it_is_mended(
    world: World,
    simulated: SimulatedTarget,
    other: SimulatedTarget,
) -> None:
    await world.join(simulated.kubeconfig)
    await eventually(lambda: world.ready() == ("True", "ClusterReady"))
    await world.lead_to(other.kubeconfig)
    await eventually(lambda: world.ready() == ("False", "IdentityChanged"))
    assert other.cluster.identity in world.message() and "fleet unjoin cfa" in world.message()
    assert world.members.model("cfa") is None
    await world.lead_to(simulated.kubeconfig)
    await eventually(lambda: world.ready() == ("True", "ClusterReady"))


async def test_another_cluster_that_comes_back_at_the_same_address_is_not_used(
    world: World,
    simulated: SimulatedTarget,
) -> None:
    await world.join(simulated.kubeconfig)
    await eventually(lambda: world.ready() == ("True", "ClusterReady"))
    await simulated.cut_off()
    await eventually(lambda: world.ready() == ("False", "ClusterNotReachable"))
    there = simulated.cluster
    impostor = SimulatedCluster("impostor", (), port=there.port, token=there.token)
    await impostor.start()
    try:
        await eventually(lambda: world.ready() == ("False", "IdentityChanged"))
        model = world.members.model("cfa")
        assert model is not None and not model.ready and model.pools  # what was seen of the real one stays known
    finally:
        await impostor.stop()
    await simulated.reconnect()
    await eventually(lambda: world.ready() == ("True", "ClusterReady"))


async def test_a_cluster_that_does_not_show_its_kube_system_is_not_used_without_an_id(
    world: World,
    simulated: SimulatedTarget,
) -> None:
    await simulated.hide_kube_system()
    await world.join(simulated.kubeconfig)
    await eventually(lambda: world.ready() == ("False", "IdentityUnknown"))
    assert "let the hub's account get namespaces there" in world.message()


async def test_one_whose_id_is_stored_is_used_and_says_what_is_not_checked(
    world: World,
    simulated: SimulatedTarget,
) -> None:
    await simulated.hide_kube_system()
    await world.join(simulated.kubeconfig, id="known-from-before")
    await eventually(lambda: world.ready() == ("True", "ClusterReady"))
    assert "not known to be the cluster of spec.id" in world.message()


async def test_a_simulated_member_that_starts_again_is_the_same_cluster(simulated: SimulatedTarget) -> None:
    asked: list[Identity] = []

    async def judge(name: str, identity: Identity) -> None:
        asked.append(identity)

    again = SimulatedCluster("cfa", (), identity=simulated.cluster.identity)
    await again.start()
    members = ClusterMembers()
    members.judge = judge
    try:
        await members.add("cfa", again.kubeconfig, HUB)
        await eventually(lambda: members.ready("cfa"))
        assert asked == [Identity(simulated.cluster.identity)]
    finally:
        await members.stop()
        await again.stop()
