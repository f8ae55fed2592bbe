"""The whole life of a job of every kind, on a hub with its rules and loops over a simulated member.

The leaf runs one job at a time: a second job queues while the first runs, and its start shows that the quota is free.
"""

from __future__ import annotations

import pytest

from tests.simulate.kinds_table import LIVES, Life
from tests.simulate.whole import Whole, whole

EVERY_KIND = pytest.mark.parametrize("life", [pytest.param(life, id=life.kind) for life in LIVES])


async def runs(world: Whole, life: Life, name: str) -> None:
    await world.until(
        lambda: world.column(life.kind, name) == "Running" and world.phase(life.kind, name) == "Running",
        f"{name} runs: {world.conditions(life.kind, name)}",
    )


async def queues(world: Whole, life: Life, name: str, shown: str = "Queuing") -> None:
    """It waits, and says so in the form of its kind. `shown`: its state for `kubectl get`."""
    await world.until(
        lambda: (
            world.conditions(life.kind, name).get("Queuing") == "True"
            and world.phase(life.kind, name) == "Enqueued"
            and world.column(life.kind, name) == shown
        ),
        f"{name} is queued: {world.conditions(life.kind, name)}",
    )
    conditions = world.see(life.kind, name)["status"]["conditions"]
    assert [condition["type"] for condition in conditions] == ["Queuing", *([] if shown == "Queuing" else [shown])]
    assert {"lastUpdateTime" in condition for condition in conditions} == {bool(life.field)}


@EVERY_KIND
async def test_a_job_queues_runs_succeeds_and_leaves_its_quota_to_the_next(life: Life) -> None:
    async with whole("cfa") as world:
        await world.create(life.job("first"))
        await runs(world, life, "first")
        await world.create(life.job("second"))
        await queues(world, life, "second")
        await world.end_pods()
        await world.until(lambda: world.phase(life.kind, "first") == "Succeed", "the unit of the first is over")
        assert world.conditions(life.kind, "first").get(life.succeeded) == "True"
        assert world.conditions(life.kind, "first")["Queuing"] == "False"
        assert world.column(life.kind, "first") == life.succeeded
        await runs(world, life, "second")


@EVERY_KIND
async def test_a_job_whose_pod_fails_is_failed_and_leaves_its_quota_to_the_next(life: Life) -> None:
    async with whole("cfa") as world:
        await world.create(life.job("first"), life.job("second"))
        await runs(world, life, "first")
        await queues(world, life, "second")
        await world.end_pods(exit_code=3)
        await world.until(lambda: world.phase(life.kind, "first") == "Failed", "the unit of the first is over")
        assert world.conditions(life.kind, "first").get("Failed") == "True"
        assert world.column(life.kind, "first") == "Failed"
        await runs(world, life, "second")


@EVERY_KIND
async def test_a_job_that_is_deleted_while_it_runs_or_waits_leaves_nothing(life: Life) -> None:
    async with whole("cfa") as world:
        await world.create(life.job("first"), life.job("second"), life.job("third"))
        await runs(world, life, "first")
        await queues(world, life, "second")
        await world.delete(life.kind, "second")
        await world.until(lambda: not world.see("ResourceBinding", f"second-{life.kind.lower()}"), "no binding is left")
        await world.until(lambda: not world.phase(life.kind, "second"), "no unit is left")
        assert world.copies(life.kind) == ["first"] and len(world.pods()) == life.pods
        await world.delete(life.kind, "first")
        await runs(world, life, "third")
        assert world.copies(life.kind) == ["third"] and len(world.pods()) == life.pods
        await world.delete(life.kind, "third")
        await world.until(lambda: not world.pods() and not world.copies(life.kind), "the member is empty")
        await world.until(lambda: not world.see("ResourceBinding", f"third-{life.kind.lower()}"), "the hub is empty")


@EVERY_KIND
async def test_a_job_that_is_suspended_leaves_its_member_and_runs_again_when_it_is_resumed(life: Life) -> None:
    async with whole("cfa") as world:
        await world.create(life.job("first"), life.job("second"))
        await runs(world, life, "first")
        await world.patch(life.kind, "first", life.suspension(True))
        await runs(world, life, "second")
        await queues(world, life, "first", shown="Suspended")
        unit = world.see("QueueUnit", f"first-{life.kind.lower()}-rb-qu")
        assert unit["status"]["reason"]["code"] == "Suspended" and world.copies(life.kind) == ["second"]
        await world.patch(life.kind, "first", life.suspension(False))
        await world.end_pods()
        await runs(world, life, "first")


@EVERY_KIND
async def test_a_job_that_is_created_suspended_waits_until_it_is_resumed(life: Life) -> None:
    async with whole("cfa") as world:
        await world.create(life.job("first", suspend=True))
        await queues(world, life, "first", shown="Suspended")
        await world.patch(life.kind, "first", life.suspension(False))
        await runs(world, life, "first")
