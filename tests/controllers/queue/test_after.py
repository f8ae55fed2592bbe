"""Jobs that start after others, as the annotation fleet.io/after of each says."""

from __future__ import annotations

from typing import Any

import pytest

from api.engine.patch import MERGE
from api.engine.status import StatusError
from fleet.admission import rules
from fleet.bindings.after import After, read
from fleet.values.ports import Body
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import ALICE, World, hub, member, policy, pytorchjob, tree


def after(said: str, name: str = "next") -> Body:
    job = pytorchjob(name, workers=0)
    job["metadata"]["annotations"] = {"fleet.io/after": said}
    return job


def code(world: World, job: str = "next") -> str:
    return str(((world.unit(job) or {}).get("status") or {}).get("reason", {}).get("code", ""))


async def begun(world: World, *jobs: Body, moves: bool = False) -> None:
    """A queue with room for all, and the jobs."""
    spec: dict[str, Any] = {} if moves else {"failover": None}
    await world.apply(tree(max_jobs=9), policy(queue=True, **spec), *jobs)


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("a", (After("a"),)),
        ("a:any, b:ok", (After("a", "any"), After("b"))),
        ("pytorchjob/a,a,a:ok", (After("pytorchjob/a"), After("a"))),
    ],
)
def test_the_jobs_that_an_annotation_names(said: str, means: tuple[After, ...]) -> None:
    assert read(said) == means


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", "names no job"),
        ("a:failed", '"a:failed" is not of the form'),
        ("a,:any", '":any" is not of the form'),
        ("x/y/z", '"x/y/z" is not of the form'),
        (",".join(f"a{n}" for n in range(51)), "names 51 jobs, and 50 are the most"),
        ("next:any", "a job cannot start after itself"),
        ("PyTorchJob/next", "a job cannot start after itself"),
    ],
)
async def test_an_annotation_without_a_meaning_is_refused(said: str, why: str) -> None:
    async with hub(start=False) as world:
        world.objects.rules.update(rules())
        with pytest.raises(StatusError) as refusal:
            await world.apply(after(said))
        assert refusal.value.code == 422 and why in refusal.value.causes[0].message
        assert refusal.value.causes[0].field == "metadata.annotations[fleet.io/after]"


@pytest.mark.parametrize(("said", "ends"), [("first", "Succeeded"), ("first:any", "Failed"), ("first:any", "Deleted")])
async def test_a_job_starts_once_the_job_before_it_is_over(said: str, ends: str) -> None:
    async with hub(member("cfa")) as world:
        await begun(world, pytorchjob("first"), after(said))
        await world.running("first")
        await eventually(lambda: code(world) == "WaitsForJobs")
        assert world.message("next") == f"starts after first {'is over' if ':any' in said else 'has succeeded'}"
        await settle(20)
        assert world.placed("next") == ""
        if ends == "Deleted":
            await world.delete("PyTorchJob", "first")
        else:
            world.members.finish("first", ends)
        await world.running("next")


async def test_a_job_that_has_succeeded_counts_when_it_is_gone() -> None:
    async with hub(member("cfa")) as world:
        await begun(world, pytorchjob("first"), pytorchjob("second"), after("first,second"))
        await world.running("second")
        world.members.finish("first")
        await eventually(lambda: world.message("next") == "starts after second has succeeded")
        await world.delete("PyTorchJob", "first")
        await eventually(lambda: world.binding("first") is None)
        world.members.finish("second")
        await world.running("next")


@pytest.mark.parametrize("ends", ["Failed", "Deleted"])
async def test_a_job_whose_condition_can_never_hold_says_so_and_so_do_those_behind_it(ends: str) -> None:
    async with hub(member("cfa")) as world:
        await begun(world, pytorchjob("first"), after("first"), after("next", "last"), after("next:any", "clears"))
        await world.running("first")
        if ends == "Deleted":
            await world.delete("PyTorchJob", "first")
        else:
            world.members.finish("first", ends)
        why = "first has failed" if ends == "Failed" else "first was deleted before it had succeeded"
        await eventually(lambda: code(world) == "DependencyNeverSatisfied" and why in world.message("next"))
        await eventually(lambda: "next never starts" in world.message("last"))
        assert world.message("clears") == "starts after next is over"
        await world.delete("PyTorchJob", "next")
        await world.running("clears")
        await eventually(lambda: "next was deleted" in world.message("last"))
        assert world.placed("last") == ""


async def test_a_job_that_failed_and_moves_is_waited_for() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await begun(world, pytorchjob("first"), after("first:any"), moves=True)
        there = await world.running("first")
        world.members.finish("first", "Failed")
        await eventually(lambda: world.placed("first") not in ("", there), within_s=90)
        assert world.placed("next") == ""
        await world.running("first")
        world.members.finish("first")
        await world.running("next")


async def test_a_job_that_its_kind_calls_final_is_not_waited_for_though_its_policy_would_move_it() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        waiting = (after("first"), after("first:any", "clears"))
        await begun(world, pytorchjob("first"), *waiting, moves=True)
        await world.running("first")
        world.members.finish("first", "Failed", message="it was active longer than specified deadline")
        await eventually(lambda: code(world) == "DependencyNeverSatisfied")
        assert "first has failed" in world.message("next")
        await world.running("clears")


async def test_a_job_that_is_not_there_yet_is_waited_for() -> None:
    async with hub(member("cfa")) as world:
        await begun(world, after("first"))
        await eventually(lambda: world.message("next").endswith("first has succeeded; no job first is there yet"))
        await world.apply(pytorchjob("first"))
        await world.running("first")
        world.members.finish("first")
        await world.running("next")


async def test_a_job_goes_when_its_annotation_goes() -> None:
    async with hub(member("cfa")) as world:
        await begun(world, after("first"))
        await eventually(lambda: code(world) == "WaitsForJobs")
        kind = world.registry.need("kubeflow.org", "pytorchjobs")
        patch = {"metadata": {"annotations": {"fleet.io/after": None}}}
        await world.objects.patch(kind, "default", "next", patch, MERGE, ALICE)
        await world.running("next")
        await eventually(lambda: "fleet.io/after-seen" not in (world.binding("next") or {})["metadata"]["annotations"])


async def test_jobs_that_wait_for_each_other_say_so_until_one_of_them_does_not() -> None:
    async with hub(member("cfa")) as world:
        await begun(world, after("c", "a"), after("pytorchjob/a:any", "b"), after("b", "c"), after("a", "behind"))
        for way in ("acba", "bacb", "cbac"):
            told = "it waits for itself: " + " after ".join(f"pytorchjob/{name}" for name in way)
            await eventually(lambda job=way[0], told=told: told in world.message(job))
            assert code(world, way[0]) == "DependencyNeverSatisfied"
        await eventually(lambda: "a never starts" in world.message("behind"))
        kind = world.registry.need("kubeflow.org", "pytorchjobs")
        patch = {"metadata": {"annotations": {"fleet.io/after": None}}}
        await world.objects.patch(kind, "default", "c", patch, MERGE, ALICE)
        await world.running("c")
        await eventually(lambda: world.message("a") == "starts after c has succeeded")
        await eventually(lambda: world.message("behind") == "starts after a has succeeded")


async def test_the_last_job_of_a_circle_is_refused() -> None:
    async with hub(start=False) as world:
        world.objects.rules.update(rules())
        await world.apply(after("b:any", "a"), after("c", "b"))
        with pytest.raises(StatusError) as refusal:
            await world.apply(after("x,a", "c"))
        assert refusal.value.code == 422 and refusal.value.causes[0].field == "metadata.annotations[fleet.io/after]"
        way = " after ".join(f"pytorchjob/{name}" for name in "cabc")
        assert f"the job would never start: it waits for itself: {way}" in refusal.value.causes[0].message
        await world.apply(after("x", "c"))
        await world.apply(after("job/b", "x"))  # of another kind


async def test_a_job_that_has_begun_waits_for_nobody() -> None:
    async with hub(member("cfa")) as world:
        world.objects.rules.update(rules())
        await begun(world, pytorchjob("a", workers=0))
        await world.running("a")
        kind = world.registry.need("kubeflow.org", "pytorchjobs")
        patch = {"metadata": {"annotations": {"fleet.io/after": "b"}}}
        await world.objects.patch(kind, "default", "a", patch, MERGE, ALICE)
        await world.apply(after("a", "b"))
        await eventually(lambda: world.message("b") == "starts after a has succeeded")


async def test_a_hold_comes_first() -> None:
    async with hub(member("cfa")) as world:
        job = after("first")
        job["metadata"]["annotations"]["fleet.io/hold"] = "true"
        await begun(world, job)
        await eventually(lambda: code(world) == "Held")
        assert world.message("next") == "held by a person; starts after it is released"


async def test_what_was_met_while_nobody_looked_is_found_by_the_next_controllers() -> None:
    async with hub(member("cfa")) as world:
        await begun(world, pytorchjob("first"), after("first"))
        await world.running("first")
        await eventually(lambda: code(world) == "WaitsForJobs")
        await world.kill()
        world.members.finish("first")
        world.start()
        await world.running("next")
