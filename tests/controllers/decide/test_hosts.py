"""Gangs that name their nodes."""

from __future__ import annotations

from tests.controllers.fakes import HOSTNAME
from tests.controllers.fastloop import eventually
from tests.controllers.world import hub, member, policy, pytorchjob


async def test_a_gang_that_names_a_host_goes_where_the_host_is() -> None:
    async with hub(member("cfa"), member("cfb", 3)) as world:
        await world.apply(policy(), pytorchjob("one", nodeSelector={HOSTNAME: "n2"}))  # only cfb has a third node
        assert await world.running("one") == "cfb"


async def test_a_gang_larger_than_the_host_that_it_names_waits_and_takes_nothing_elsewhere() -> None:
    async with hub(member("cfa", 4)) as world:
        await world.apply(policy(), pytorchjob("one", workers=1, gpus=8, nodeSelector={HOSTNAME: "n1"}))
        await eventually(lambda: world.condition(world.binding("one"), "Scheduled").get("reason") == "NoClusterFit")
        assert "among the 1 of 4 nodes that match" in world.condition(world.binding("one"), "Scheduled")["message"]


async def test_a_gang_may_name_the_hosts_that_it_keeps_away_from() -> None:
    async with hub(member("cfa", 2)) as world:
        terms = [{"matchExpressions": [{"key": HOSTNAME, "operator": "NotIn", "values": ["n0"]}]}]
        apart = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
        await world.apply(policy(), pytorchjob("large", workers=1, gpus=8, affinity=apart))
        await eventually(lambda: world.condition(world.binding("large"), "Scheduled").get("reason") == "NoClusterFit")
        await world.apply(pytorchjob("small", workers=0, gpus=8, affinity=apart))
        assert await world.running("small") == "cfa"


async def test_a_host_that_nobody_has_is_a_reason() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), pytorchjob("one", nodeSelector={HOSTNAME: "elsewhere"}))
        await eventually(lambda: world.condition(world.binding("one"), "Scheduled").get("reason") == "NoClusterFit")


async def test_a_gang_may_ask_for_hosts_that_have_a_name() -> None:
    async with hub(member("cfa")) as world:
        terms = [{"matchExpressions": [{"key": HOSTNAME, "operator": "Exists"}]}]
        named = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
        await world.apply(policy(), pytorchjob("one", affinity=named))
        assert await world.running("one") == "cfa"
