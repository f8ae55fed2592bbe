"""Jobs whose pods are made one after another: the later ones may come hours after the first, and then need nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from api.engine.crd import kind_of
from api.objects.definitions import definitions
from fleet.values.ports import Body
from tests.controllers.fakemember import FakeMember
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, crd, member, policy
from tests.controllers.world import hub as running_hub
from tests.kinds.bodies import pods

HOUR = 3600.0
GROUP, VERSION = "jobset.x-k8s.io", "v1alpha2"


def jobset() -> Body:
    """One pod fetches the data; two pods train when it has ended."""

    def of(count: int) -> Body:
        return {"spec": {"parallelism": count, "completions": count, "template": pods(1)}}

    after = [{"name": "fetch", "status": "Complete"}]
    jobs = [{"name": "fetch", "template": of(1)}, {"name": "train", "template": of(2), "dependsOn": after}]
    meta = {"name": "train", "namespace": "default"}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "JobSet", "metadata": meta, "spec": {"replicatedJobs": jobs}}


@asynccontextmanager
async def hub_with(there: FakeMember) -> AsyncIterator[World]:
    async with running_hub(there) as world:
        made = kind_of(crd(GROUP, VERSION, "JobSet", "jobsets"), definitions())
        assert made is not None
        world.registry.put(made)
        selectors = [{"apiVersion": f"{GROUP}/{VERSION}", "kind": "JobSet"}]
        await world.apply(policy(resourceSelectors=selectors), jobset())
        await eventually(lambda: len(there.pods) == 1, within_s=20, what="the pod that comes first")
        yield world


async def test_a_job_whose_later_pods_come_after_hours_keeps_its_place() -> None:
    there = member("cfa", in_turn_s=5 * HOUR)
    async with hub_with(there) as world:
        await settle(5 * HOUR - 60)
        assert world.members.where("train") == ["cfa"]
        await eventually(lambda: len(there.pods) == 3 and all(pod.node for pod in there.pods.values()), within_s=120)
        await settle(600)
        assert len(there.pods) == 3 and "GangNotWhole" not in str(world.binding("train", "jobset"))


async def test_later_pods_that_find_no_node_have_a_minute_of_their_own() -> None:
    there = member("cfa", count=1, in_turn_s=HOUR)
    async with hub_with(there) as world:
        await settle(HOUR - 60)
        there.nodes = {name: room.minus(room) for name, room in there.nodes.items()}
        await eventually(lambda: len(there.pods) == 3, within_s=120)
        await settle(30)
        assert "GangNotWhole" not in str(world.binding("train", "jobset")), "the hour before does not count"
        await eventually(lambda: "GangNotWhole" in str(world.binding("train", "jobset")), within_s=60)
        await eventually(lambda: world.members.where("train") == [], within_s=20, what="that it gives its room back")
