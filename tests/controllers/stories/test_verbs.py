"""The verbs of a user by the state of a job: a verb takes effect, is refused, or a warning says what happens.

docs/how-to/hold-hurry-or-stop-a-job.md has the same table.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable

import pytest

from api.engine.patch import APPLY, MERGE
from api.engine.status import StatusError
from fleet.admission import rules
from fleet.values.ports import Body
from tests.controllers.decide.checks import asks
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import ALICE, World, hub, member, policy, pytorchjob, tree

HOLD, RELEASE = ({"metadata": {"annotations": {"fleet.io/hold": value}}} for value in ("true", None))
SUSPEND, RESUME = ({"spec": {"runPolicy": {"suspend": value}}} for value in (True, False))
IMAGE = {"spec": {"runPolicy": {"activeDeadlineSeconds": 9}}}
LATER = 'PyTorchJob "one" has failed here: the change counts from its next attempt'
FINISHED = "nothing runs again: delete it first, or use a new name"
RUNS_ON = "this one runs on, and is held when it next waits; to stop it now, set spec.runPolicy.suspend: true"


async def waiting(world: World) -> None:
    await world.apply(tree(max_jobs=0), pytorchjob("one"))
    await eventually(lambda: world.phase("one") == "Enqueued" and world.state("one") == "Queuing")


async def reserved(world: World) -> None:
    await asks(world, "budget")
    await world.apply(pytorchjob("one"))
    await eventually(lambda: world.phase("one") == "Reserved" and world.state("one") == "Queuing")


async def running(world: World) -> None:
    await world.apply(pytorchjob("one"))
    await world.running("one")


async def leaving(world: World) -> None:
    await running(world)
    world.members.by_name["cfa"].delete_s = 60.0
    await patch(world, SUSPEND)
    await eventually(lambda: world.placed("one") == "" and world.state("one") == "Queuing")
    await patch(world, RESUME)
    await settle(1)
    assert world.members.where("one") == ["cfa"]


async def succeeded(world: World) -> None:
    await running(world)
    world.members.finish("one")
    await eventually(lambda: world.phase("one") == "Succeed" and world.state("one") == "Succeeded")


async def failed(world: World) -> None:
    """Its policy leaves failed jobs where they are."""
    await world.apply(policy(queue=True, failover=None))
    await running(world)
    world.members.finish("one", "Failed")
    await eventually(lambda: world.phase("one") == "Failed" and world.state("one") == "Failed")


async def failed_and_moves(world: World) -> None:
    """Its policy moves it to another member in half a minute."""
    await running(world)
    world.members.finish("one", "Failed")
    await eventually(lambda: world.phase("one") == "Failed" and world.state("one") == "Failed")


async def patch(world: World, body: Body) -> list[str]:
    """The warnings."""
    kind = world.registry.need("kubeflow.org", "pytorchjobs")
    return list((await world.objects.patch(kind, "default", "one", body, MERGE, ALICE)).warnings)


async def apply(world: World, body: Body) -> list[str]:
    """`kubectl apply --server-side`, or `fleet submit`."""
    kind = world.registry.need("kubeflow.org", "pytorchjobs")
    return list((await world.objects.patch(kind, "default", "one", copy.deepcopy(body), APPLY, ALICE)).warnings)


State = Callable[[World], Awaitable[None]]
STATES: tuple[State, ...] = (waiting, reserved, running, leaving, succeeded, failed, failed_and_moves)
OK, REFUSED = "", "refused"
# verb: what comes of it in each of STATES: OK, the warning, or REFUSED
TABLE: dict[str, tuple[Body, tuple[str, ...]]] = {
    "hold": (HOLD, (OK, OK, RUNS_ON, OK, FINISHED, FINISHED, OK)),
    "suspend": (SUSPEND, (OK, OK, OK, OK, REFUSED, REFUSED, LATER)),
    "change": (IMAGE, (OK, OK, OK, OK, REFUSED, REFUSED, LATER)),
    "label": ({"metadata": {"labels": {"seen": "yes"}}}, (OK,) * 7),
    "same again": ({}, (OK, OK, OK, OK, FINISHED, FINISHED, OK)),
}
CASES = [
    pytest.param(state, asked, expected[number], id=f"{verb} {state.__name__}")
    for verb, (asked, expected) in TABLE.items()
    for number, state in enumerate(STATES)
]


@pytest.mark.parametrize(("state", "asked", "expected"), CASES)
async def test_a_verb_takes_effect_or_says_why_not(state: State, asked: Body, expected: str) -> None:
    async with hub(member("cfa")) as world:
        world.objects.rules.update(rules())
        await world.apply(tree(max_jobs=1), policy(queue=True))
        await state(world)
        before = world.see("PyTorchJob", "one")
        if expected == REFUSED:
            with pytest.raises(StatusError) as refusal:
                await patch(world, asked)
            assert refusal.value.code == 422 and FINISHED in refusal.value.causes[0].message
            assert refusal.value.causes[0].field.startswith("spec.runPolicy.")
            assert world.see("PyTorchJob", "one") == before
            return
        warnings = await patch(world, asked)
        assert [expected in warning for warning in warnings] == ([True] if expected else [])


async def effect(world: World, asked: Body) -> str:
    """The one reason that the job waits for, after it was asked."""
    await patch(world, asked)
    await eventually(lambda: world.phase("one") in ("Enqueued", "TimeoutBackoff"), within_s=60)
    await settle(150)  # it may have to leave first
    return why(world)


def why(world: World) -> str:
    """The code of the reason that its unit waits for."""
    return str((world.unit("one") or {})["status"].get("reason", {}).get("code", ""))


@pytest.mark.parametrize("state", [waiting, reserved, leaving, failed_and_moves])
async def test_what_has_not_started_is_held_or_suspended(state: State) -> None:
    for asked, code, back in ((HOLD, "Held", RELEASE), (SUSPEND, "Suspended", RESUME)):
        async with hub(member("cfa")) as world:
            world.objects.rules.update(rules())
            await world.apply(tree(max_jobs=1), policy(queue=True))
            await state(world)
            assert await effect(world, asked) == code
            await patch(world, back)
            await eventually(lambda w=world, c=code: why(w) != c)


async def test_a_running_job_that_is_held_runs_on_and_waits_when_it_next_comes_to_its_queue() -> None:
    async with hub(member("cfa")) as world:
        world.objects.rules.update(rules())
        await world.apply(tree(max_jobs=1), policy(queue=True))
        await running(world)
        await patch(world, HOLD)
        await settle(30)
        assert world.state("one") == "Running"
        await patch(world, SUSPEND)
        await eventually(lambda: world.phase("one") == "Enqueued")
        await patch(world, RESUME)
        await eventually(lambda: why(world) == "Held")


async def test_a_unit_whose_job_runs_and_is_made_inactive_says_that_the_job_runs_on() -> None:
    async with hub(member("cfa")) as world:
        world.objects.rules.update(rules())
        await world.apply(tree(max_jobs=1), policy(queue=True))
        await running(world)
        kind = world.registry.need("scheduling.x-k8s.io", "queueunits")
        off = {"spec": {"active": False}}
        [warning] = (await world.objects.patch(kind, "default", "one-pytorchjob-rb-qu", off, MERGE, ALICE)).warnings
        assert (
            warning == "spec.active: false keeps a job from starting: this one runs on, and is held when it next waits"
        )


async def test_a_finished_job_that_is_applied_again_says_when_it_ended_and_runs_under_its_name_after_a_delete() -> None:
    async with hub(member("cfa")) as world:
        world.objects.rules.update(rules())
        await world.apply(tree(max_jobs=1), policy(queue=True))
        manifest = pytorchjob("one")
        assert await apply(world, manifest) == []
        await world.running("one")
        assert await apply(world, manifest) == []
        world.members.finish("one")
        await eventually(lambda: world.state("one") == "Succeeded")
        revision = await world.store.revision()
        [warning] = await apply(world, manifest)
        assert warning.startswith('PyTorchJob "one" is finished (Succeeded at 2025-') and FINISHED in warning
        assert await world.store.revision() == revision
        changed = pytorchjob("one", workers=3)
        with pytest.raises(StatusError) as refusal:
            await apply(world, changed)
        assert [cause.field for cause in refusal.value.causes] == ["spec.pytorchReplicaSpecs"]
        await patch(world, {"spec": {"runPolicy": {"ttlSecondsAfterFinished": 60}}})  # acts in the member
        await world.delete("PyTorchJob", "one")
        await eventually(lambda: world.nothing_left())
        assert await apply(world, changed) == []
        await world.running("one")


async def test_a_failed_job_is_over_after_its_last_move() -> None:
    async with hub(member("cfa")) as world:
        world.objects.rules.update(rules())
        await world.apply(policy())
        await running(world)

        async def fails() -> None:
            await eventually(lambda: world.state("one") == "Running", within_s=400)
            world.members.finish("one", "Failed")
            await eventually(lambda: world.state("one") == "Failed")

        for number in range(3):
            await fails()
            assert await patch(world, {"spec": {"runPolicy": {"activeDeadlineSeconds": 10 + number}}}) == [LATER]
        await fails()
        with pytest.raises(StatusError) as refusal:
            await patch(world, SUSPEND)
        assert "the job is finished (Failed at 2025-" in refusal.value.causes[0].message
