"""Elastic jobs start at their smallest where that is what fits, and grow into what becomes free."""

from __future__ import annotations

import base64
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson

from fleet.admission.latest import KIND
from fleet.controllers.decide.manifestunits import unit_in
from fleet.core.model.unit import Phase
from fleet.core.notation.codec import decode_snapshot
from fleet.core.snapshot import Snapshot
from fleet.values.ports import Body
from fleet.wellknown import RESIZED
from tests.controllers.decide.checks import answer, asks
from tests.controllers.decide.elastic import GPU, elastic, has, sent
from tests.controllers.decide.reclaims import job, leaves
from tests.controllers.fakemember import FakeMember
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, member, policy, pytorchjob, tree
from tests.controllers.world import hub as running_hub


@asynccontextmanager
async def queued(*members: FakeMember, max_gpus: int = 100, **how: Any) -> AsyncIterator[World]:
    async with running_hub(*members, **how) as world:
        quota = tree(max_jobs=10)
        quota["spec"]["root"]["children"][0]["max"][GPU] = max_gpus
        await world.apply(quota, policy(queue=True))
        yield world


def why(world: World, name: str) -> Body:
    return world.condition(world.binding(name), RESIZED)


async def test_a_job_that_fits_whole_starts_whole() -> None:
    async with queued(member("cfa", 1)) as world:
        await world.apply(elastic("one", 4, 2, gpus=2))
        await world.running("one")
        assert has(world, "one") == (4, 4) and "wantedComponents" not in (world.binding("one") or {})["spec"]


async def test_a_job_that_finds_no_room_whole_starts_with_what_there_is_and_says_what_lacks() -> None:
    async with queued(member("cfa", 1)) as world:
        await world.apply(elastic("one", 8, 3, gpus=2))
        await world.running("one")
        assert world.events("one", "ScheduleBindingSucceed")[0]["message"].endswith("{cfa:0,[{worker 4}]}")
        assert has(world, "one") == (4, 8)
        await eventually(lambda: sent(world, "one") == 4 and why(world, "one").get("reason") == "NoClusterFit")
        assert (world.unit("one") or {})["spec"]["resource"][GPU] == "8"
        assert (
            "asks for 4 more pods with 2 nvidia.com/gpu; member cfa has room for 0 of them"
            in why(world, "one")["message"]
        )
        assert world.state("one") == "Running" and len(world.members.by_name["cfa"].pods) == 4


async def test_a_job_that_finds_no_quota_whole_starts_at_its_smallest_and_is_charged_for_that() -> None:
    async with queued(member("cfa", 2), max_gpus=8) as world:
        await world.apply(pytorchjob("other", workers=3))
        await world.running("other")
        await world.apply(elastic("one", 8, 2))
        await world.running("one")
        await eventually(lambda: has(world, "one") == (4, 8))
        assert (world.unit("one") or {})["spec"]["resource"][GPU] == "4"
        await world.delete("PyTorchJob", "other")
        await eventually(lambda: has(world, "one") == (8, 8) and sent(world, "one") == 8)
        await eventually(lambda: why(world, "one").get("status") == "True")
        assert world.attempt("one") == 1


async def test_a_job_whose_smallest_does_not_fit_waits_and_its_reason_is_about_that() -> None:
    async with queued(member("cfa", 1), max_gpus=4) as world:
        await world.apply(elastic("one", 8, 5))
        await eventually(lambda: "requested 5, max 4" in world.message("one"))
        assert world.message("one").endswith(" 5 of 8 worker are enough to start.")
        assert world.placed("one") == ""
        assert (world.unit("one") or {})["status"]["reason"]["numbers"]["least"] == "5 of 8 worker"


async def test_a_job_that_waits_for_room_says_how_much_is_enough_also_while_another_starts_small() -> None:
    async with queued(member("cfa", 1)) as world:
        await world.apply(pytorchjob("other", workers=0, gpus=2))
        await world.running("other")
        await world.apply(elastic("one", 8, 3, gpus=2), elastic("two", 8, 2, gpus=2))
        await world.running("one")
        await eventually(
            lambda: world.message("two").endswith("; 2 of 8 worker are enough to start (waits above its fair share)")
        )
        assert world.message("two").startswith("no member has room for all 2 pods at once. Closest is cfa: 2 pods find")


async def test_what_becomes_free_goes_to_jobs_that_wait_before_elastic_jobs_grow() -> None:
    async with queued(member("cfa", 1)) as world:
        await world.apply(pytorchjob("first", workers=0, gpus=4))
        await world.running("first")
        await world.apply(elastic("one", 4, 2, gpus=2))
        await world.running("one")
        await world.apply(pytorchjob("waits", workers=0, gpus=4))
        await eventually(lambda: why(world, "one").get("reason") == "NoClusterFit")
        await world.delete("PyTorchJob", "first")
        await world.running("waits")
        await settle(5)
        assert has(world, "one") == (2, 4)
        await world.delete("PyTorchJob", "waits")
        await eventually(lambda: has(world, "one") == (4, 4))


async def test_an_elastic_job_grows_beside_a_job_for_which_there_is_no_room() -> None:
    async with queued(member("cfa", 1)) as world:
        await world.apply(pytorchjob("first", workers=0, gpus=2), pytorchjob("runs", workers=0, gpus=2))
        await world.running("first")
        await world.running("runs")
        await world.apply(elastic("one", 4, 1, gpus=2), pytorchjob("waits", workers=0, gpus=8))
        await world.running("one")
        assert has(world, "one") == (2, 4) and world.placed("waits") == ""
        await world.delete("PyTorchJob", "first")
        await eventually(lambda: has(world, "one") == (3, 4))
        assert world.placed("waits") == ""


async def test_larger_pods_of_an_elastic_job_are_given_whole_or_not_at_all() -> None:
    async with queued(member("cfa", 1), max_gpus=8) as world:
        await world.apply(pytorchjob("other", workers=0, gpus=4))
        await world.running("other")
        await world.apply(elastic("one", 8, 2))
        await world.running("one")
        assert has(world, "one") == (4, 8)

        def larger(body: Body) -> None:
            container = body["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
            container["resources"]["limits"][GPU] = "2"

        await world.edit("PyTorchJob", "one", larger)
        await eventually(lambda: why(world, "one").get("reason") == "QuotaExceeded")
        assert (world.unit("one") or {})["spec"]["resource"][GPU] == "4"


async def test_an_elastic_job_that_may_not_be_preempted_keeps_what_it_has_and_gets_the_rest_whole() -> None:
    leaf, firm = {"quota.scheduling.alibabacloud.com/name": "a"}, "quota.scheduling.alibabacloud.com/preemptible"
    async with running_hub(member("cfa", 1)) as world:
        body = elastic("one", 4, 2)
        body["metadata"]["labels"] = {**leaf, firm: "false"}
        await world.apply(leaves(8, a=8), policy(queue=True), job("other", "a", gpus=5, workers=0), body)
        await world.running("one")
        await settle(5)
        assert has(world, "one") == (2, 4)
        await world.delete("PyTorchJob", "other")
        await eventually(lambda: has(world, "one") == (4, 4))
        await eventually(lambda: why(world, "one").get("status") == "True")
        await world.apply(job("large", "a", gpus=6, workers=0))
        await settle(5)
        assert has(world, "one") == (4, 4) and world.placed("large") == ""


async def test_an_elastic_job_leaves_the_room_of_pods_that_still_come() -> None:
    async with queued(member("cfa", 1)) as world:
        await world.apply(pytorchjob("first", workers=0, gpus=4))
        await world.running("first")
        await world.apply(elastic("one", 4, 2, gpus=2))
        await world.running("one")
        world.members.by_name["cfa"].no_pods = True
        await world.delete("PyTorchJob", "first")
        await world.apply(pytorchjob("comes", workers=0, gpus=2))
        await eventually(lambda: world.placed("comes") == "cfa")
        await settle(5)
        assert has(world, "one")[0] == 3


async def test_a_job_that_can_never_start_keeps_no_elastic_job_small() -> None:
    async with queued(member("cfa", 1)) as world:
        await world.apply(pytorchjob("first", workers=0, gpus=4))
        await world.running("first")
        await world.apply(elastic("one", 4, 2, gpus=2), pytorchjob("never", workers=0, gpus=64))
        await world.running("one")
        await world.delete("PyTorchJob", "first")
        await eventually(lambda: has(world, "one") == (4, 4))


async def test_a_job_that_is_evicted_waits_for_its_whole_size() -> None:
    async with queued(member("cfa", 1), max_gpus=4) as world:
        await world.apply(elastic("one", 8, 2))
        await world.running("one")
        await world.edit("PyTorchJob", "one", lambda job: job["spec"].update(runPolicy={"suspend": True}))
        await eventually(lambda: world.placed("one") == "" and has(world, "one") == (8, 8))
        await world.edit("PyTorchJob", "one", lambda job: job["spec"]["runPolicy"].update(suspend=False))
        await world.running("one")
        await eventually(lambda: has(world, "one") == (4, 8))


async def test_room_is_held_in_its_member_for_a_job_at_its_smallest() -> None:
    async with queued(member("cfa", 1)) as world:
        await world.edit("Cluster", "cfa", lambda body: body["spec"].update(enableReservation=True))
        cfa, seen = world.members.by_name["cfa"], [0]
        world.members.subscribe(lambda _: seen.append(sum(pod.placeholder for pod in cfa.pods.values())))
        await world.apply(elastic("one", 8, 2, gpus=2))
        await eventually(lambda: world.events("one", "ScheduleBindingSucceed"))
        assert (max(seen), has(world, "one")) == (2, (2, 8)) and world.events("one", "QuotaReserved")
        await world.running("one")
        await eventually(lambda: has(world, "one") == (4, 8), what="it grows into what is free beside it")
        assert not any(pod.placeholder for pod in cfa.pods.values())
        await eventually(lambda: sum(bool(pod.node) for pod in cfa.pods.values()) == 4)


async def test_a_job_waits_for_its_admission_checks_at_its_smallest_and_is_charged_for_that() -> None:
    async with queued(member("cfa", 1), max_gpus=4) as world:
        await asks(world, "stock")
        await world.apply(elastic("one", 8, 3))
        await eventually(lambda: world.phase("one") == "Reserved")
        assert (world.unit("one") or {})["status"]["nomination"]["replicas"] == {"worker": 3}
        assert has(world, "one") == (8, 8), "it has asked for all of them, and has none yet"
        await world.apply(pytorchjob("two", workers=1))
        await eventually(lambda: "requested 2, used 3, max 4" in world.message("two"))
        await world.delete("PyTorchJob", "two")
        await answer(world, "Rejected")
        await eventually(lambda: world.phase("one") == "TimeoutBackoff")
        assert "nomination" not in (world.unit("one") or {})["status"]
        await eventually(lambda: world.phase("one") == "Reserved", within_s=60)
        await answer(world, "Ready")
        await world.running("one")
        await eventually(lambda: has(world, "one") == (4, 8))


async def test_questions_about_the_future_know_a_job_that_waits_at_its_smallest() -> None:
    async with queued(member("cfa", 1), max_gpus=4) as world:
        body = elastic("one", 8, 5)
        await world.apply(body)

        async def snapshot() -> Snapshot:
            rows = await world.store.read_history(KIND, limit=1)
            found = zlib.decompress(base64.b64decode(rows[0]["snapshot"])) if rows else b"{}"
            return decode_snapshot(orjson.loads(found)) if rows else Snapshot()

        await eventually(lambda: world.message("one") != "")
        await settle(5)
        (waiting,) = (await snapshot()).units.values()
        assert (waiting.phase, [c.replicas for c in waiting.components]) == (Phase.WAITING, [5])
        submitted = unit_in(world.store, {**body, "metadata": {"name": "two"}}, "default", 0.0, await snapshot())
        assert [c.replicas for c in submitted.components] == [5]
