"""Whether the hub works, for people: /fleet/v1/status, the notice above jobs, and what is said of a job meanwhile."""

from __future__ import annotations

from api.loops.controller import Controller
from fleet import __version__
from fleet.bindings.heartbeat import LEASE
from fleet.rest.hubmodels import HubStatus
from fleet.rest.models import JobList
from fleet.values.ports import Body
from fleet.values.times import rfc3339_micro
from tests.controllers.fastloop import EPOCH, eventually, settle
from tests.controllers.world import cluster, member, policy, pytorchjob, tree
from tests.rest.rest import rest


def grow_old(lease: Body, now: float) -> bool:
    lease["spec"].update(dict.fromkeys(("acquireTime", "renewTime"), rfc3339_micro(now - 60)))
    return True


async def test_a_hub_whose_controllers_run_is_well_but_for_members_that_are_not_ready() -> None:
    async with rest(member("cfa"), objects=[tree(), policy(queue=True)]) as hub, hub.world.beating() as heart:
        await eventually(lambda: hub.world.hub.metrics.looked_at > EPOCH)
        heart.note()
        await heart.beat(hub.world.store.commit)
        found = await hub.get("/status")
        HubStatus.model_validate(found)
        assert (found["leader"]["name"], found["database"], found["failing"]) == ("host-1", "ok", [])
        assert found["looked"] and found["aside"] == {"count": 0, "first": []}
        assert found["problems"] == ["member cfa is not ready: it has not been looked at yet"]
        assert found["members"][0]["silent_s"] in range(20)
        jobs = await hub.get("/jobs")
        JobList.model_validate(jobs)
        assert jobs["notice"] is None


async def test_a_hub_whose_controllers_are_gone_says_since_when_and_blames_no_policy() -> None:
    async with rest(member("cfa"), objects=[tree(), policy(queue=True)]) as hub:
        async with hub.world.beating():
            pass
        await hub.world.kill()
        now = hub.world.hub.clock.now()
        await hub.world.hub.edit(LEASE, lambda lease: grow_old(lease, now))  # as if a minute had passed
        await hub.world.apply(pytorchjob("one"))
        found = await hub.get("/status")
        assert not found["healthy"] and found["problems"][0].startswith("nobody decides since ")
        assert found["members"][0]["silent_s"] is None
        jobs = await hub.get("/jobs")
        assert jobs["notice"] == found["problems"][0]
        assert jobs["items"][0]["reason"]["code"] == "NobodyDecides"
        assert "nobody decides since" in (await hub.job("one"))["reason"]["text"]
        refusal = await hub.refused("GET", "/jobs/default/PyTorchJob/one/explanation")
        assert "nobody decides since" in refusal["message"]


async def test_a_waiting_job_is_explained_with_the_notice() -> None:
    async with rest(member("cfa"), objects=[tree(max_jobs=0), policy(queue=True), pytorchjob("one")]) as hub:
        await eventually(lambda: hub.world.message("one"))
        await settle(1)  # the snapshot that explains it is written after the reason
        found = await hub.get("/jobs/default/PyTorchJob/one/explanation")
        assert found["notice"].startswith("nobody decides: no controllers have led this hub yet")


async def test_who_may_not_list_clusters_may_not_see_it() -> None:
    async with rest(member("cfa"), objects=[cluster("cfa")]) as hub:
        assert (await hub.refused("GET", "/status", "bob-token"))["code"] == 403


async def test_the_parts_of_the_hub_take_the_right_to_their_path() -> None:
    async with rest(start=False) as hub:
        assert (await hub.refused("GET", "/parts", "bob-token"))["code"] == 403
        await hub.grant("bob", {"nonResourceURLs": ["/fleet/v1/parts"], "verbs": ["get"]})
        assert (await hub.refused("GET", "/parts", "bob-token"))["code"] == 404  # this process has none


async def test_a_loop_that_fails_says_on_what_and_the_leader_names_its_version() -> None:
    async with rest(member("cfa"), objects=[tree(), policy(queue=True)]) as hub, hub.world.beating() as heart:
        loop = next(loop for loop in hub.world.hub.metrics.loops if isinstance(loop, Controller))
        loop._count("pytorchjobs default/x", ValueError("odd"))
        heart.note()
        await heart.beat(hub.world.store.commit)
        [failing] = (found := await hub.get("/status"))["failing"]
        HubStatus.model_validate(found)
        assert failing["error"] == "pytorchjobs default/x: ValueError('odd')"
        assert f"the loop {loop.name} fails: 1 failure, 0 restarts" in " ".join(found["problems"])
        assert found["version"] == __version__
