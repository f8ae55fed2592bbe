"""Room in a member is held before a gang starts there: Reserved, then started on the held room, or tried elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from api.engine.patch import MERGE
from fleet.controllers.runtime.hub import ControllerConfig
from fleet.core.model.pod import PodView
from fleet.members.members import ActOutcome, ActResult
from tests.controllers.decide.checks import answer, asks, states, status
from tests.controllers.fakemember import FakeMember
from tests.controllers.fastloop import eventually, settle
from tests.controllers.room.placeholders import ROOM, enable, placeholders, rival, submit
from tests.controllers.world import ALICE, World, hub, member, policy, pytorchjob, tree

FAST = ControllerConfig(room_held_s=5.0)


async def held(world: World) -> FakeMember:
    """The only member, with the room of job `one`, which waits for another check."""
    cfa = world.members.by_name["cfa"]
    await enable(world, "cfa")
    await world.apply(tree(max_jobs=5), policy(queue=True))
    await asks(world, "budget")
    await world.apply(pytorchjob("one"))
    await eventually(lambda: len(placeholders(cfa)) == 3)
    return cfa


def working(one: FakeMember) -> list[PodView]:
    return [pod for pod in one.pods.values() if not pod.placeholder]


async def test_a_gang_is_reserved_until_each_of_its_pods_has_a_place_and_gets_these_places() -> None:
    async with hub(member("cfa")) as world:
        cfa = world.members.by_name["cfa"]
        seen: list[tuple[str, ...]] = []
        world.members.subscribe(lambda _: seen.append(tuple(sorted(p.node for p in placeholders(cfa)))))
        await submit(world, "cfa", gpus=4)
        assert await world.running("one") == "cfa"
        held = max(seen, key=len)
        assert len(held) == 3
        assert sorted(pod.node for pod in working(cfa)) == list(held)
        assert all(pod.takes and not pod.gated for pod in working(cfa))
        await eventually(lambda: not placeholders(cfa))
        (reserved,) = world.events("one", "QuotaReserved")
        assert reserved["message"].endswith(": fleet.io/room (for member cfa)")
        (bound,) = world.events("one", "ScheduleBindingSucceed")
        assert bound["message"].endswith("Result: {cfa:0,[{master 1} {worker 2}]}")


async def test_without_reservation_in_the_member_nothing_is_held_and_no_pod_waits_at_a_gate() -> None:
    async with hub(member("cfa")) as world:
        await submit(world)
        assert await world.running("one") == "cfa"
        assert not world.events("one", "QuotaReserved")
        assert not any(pod.takes for pod in working(world.members.by_name["cfa"]))


async def test_a_member_whose_room_a_rival_has_taken_is_left_for_the_next_and_nothing_stays_in_it() -> None:
    async with hub(member("cfa", count=1), member("cfb", count=1), config=FAST) as world:
        one = world.members.by_name["cfa"]
        await enable(world, "cfa", "cfb")
        await world.apply(tree(max_jobs=5), policy(queue=True))
        await asks(world, "budget")
        await world.apply(pytorchjob("one", gpus=2))
        await eventually(lambda: world.phase("one") == "Reserved")
        first = status(world)["nomination"]["member"]
        taken = world.members.by_name[first]
        await eventually(lambda: len(placeholders(taken)) == 3)
        for pod in placeholders(taken):  # the member's own people evict one
            if pod.name.endswith("worker-1"):
                rival(taken, pod.node, 4)
                taken.pods[pod.uid] = replace(pod, node="", reason="Unschedulable: 0/1 nodes are available")
        world.members.set_down(first, False)
        await eventually(lambda: world.events("one", "ScheduleBindingFailed") != [])
        (failed,) = world.events("one", "ScheduleBindingFailed")
        assert failed["message"].startswith(f"member {first} does not hold its room: ")
        assert "worker-1: Unschedulable: 0/1 nodes are available" in failed["message"]
        await eventually(lambda: status(world).get("nomination", {}).get("member") not in ("", None, first))
        await answer(world, "Ready")
        other = "cfb" if one.name == first else "cfa"
        assert await world.running("one") == other
        assert not placeholders(taken)
        assert (world.attempt("one"), world.members.where("one")) == (1, [other])


async def test_a_member_that_refuses_the_placeholders_says_why() -> None:
    async with hub(member("cfa", refuse_pods="pods is forbidden: exceeded quota: small")) as world:
        await submit(world, "cfa")
        await eventually(lambda: world.events("one", "ScheduleBindingFailed") != [])
        (failed, *_) = world.events("one", "ScheduleBindingFailed")
        assert failed["message"] == ("member cfa does not hold its room: pods is forbidden: exceeded quota: small")
        assert world.phase("one") == "TimeoutBackoff"


async def test_room_and_admission_checks_are_two_conditions_of_one_phase() -> None:
    async with hub(member("cfa")) as world:
        cfa = world.members.by_name["cfa"]
        await enable(world, "cfa")
        await world.apply(tree(max_jobs=5), policy(queue=True))
        await asks(world, "budget")
        await world.apply(pytorchjob("one"))
        await eventually(lambda: states(world) == [("budget", "Pending"), (ROOM, "Ready")])
        await settle(5)
        assert (world.phase("one"), len(placeholders(cfa)), working(cfa)) == ("Reserved", 3, [])
        await answer(world, "Ready")
        assert await world.running("one") == "cfa"


async def test_a_check_that_says_no_releases_the_room() -> None:
    async with hub(member("cfa")) as world:
        cfa = await held(world)
        await world.edit(
            "PyTorchJob", "one", lambda body: body["metadata"].update(annotations={"fleet.io/hold": "true"})
        )
        await eventually(lambda: not placeholders(cfa))


async def test_a_job_that_is_deleted_while_it_is_reserved_leaves_nothing() -> None:
    async with hub(member("cfa")) as world:
        await held(world)
        await world.delete("PyTorchJob", "one")
        await eventually(world.nothing_left)


async def test_placeholders_that_a_killed_hub_left_behind_are_removed() -> None:
    async with hub(member("cfa")) as world:
        cfa = await held(world)
        await world.kill()
        left = [replace(pod, uid=f"left-{pod.uid}", binding="nobodys") for pod in placeholders(cfa)]
        cfa.pods.update({pod.uid: pod for pod in left})
        world.start()
        await eventually(lambda: all(pod.binding != "nobodys" for pod in placeholders(cfa)), within_s=60)
        assert len(placeholders(cfa)) == 3


async def test_a_pod_that_its_operator_makes_again_is_let_go() -> None:
    async with hub(member("cfa")) as world:
        cfa = world.members.by_name["cfa"]
        await submit(world, "cfa")
        await world.running("one")
        pod = working(cfa)[0]
        del cfa.pods[pod.uid]
        again = replace(pod, uid="again", node="", takes="", gated=True, phase="Pending", ready=False)
        cfa.pods["again"] = again
        world.members.set_down("cfa", False)
        world.members._tell("cfa", "pod", world.members.job("cfa", "default", "one") or {})
        await eventually(lambda: bool(cfa.pods["again"].node))


async def test_controllers_that_are_killed_at_any_moment_lose_no_room_and_start_the_gang_once() -> None:
    for moment in range(1, 40, 2):
        async with hub(member("cfa", count=1, gpus=3)) as world:
            cfa = world.members.by_name["cfa"]
            await submit(world, "cfa")
            await settle(moment / 100)
            await world.kill()
            world.start()
            assert await world.running("one") == "cfa"
            await eventually(lambda: not placeholders(cfa))  # noqa: B023
            assert (world.attempt("one"), len(working(cfa))) == (1, 3)


async def test_a_member_too_old_for_gates_starts_its_gangs_without() -> None:
    async with hub(member("cfa")) as world:
        kind = world.registry.need("cluster.karmada.io", "clusters")
        old = {"status": {"kubernetesVersion": "v1.27.9"}}
        await world.objects.patch(kind, "", "cfa", old, MERGE, ALICE, "status")
        await submit(world, "cfa")
        assert await world.running("one") == "cfa"
        assert not world.events("one", "QuotaReserved")


async def test_a_member_that_does_not_answer_in_the_middle_of_the_exchange_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with hub(member("cfa")) as world:
        asked, patch = 0, world.members.patch_pod

        async def lossy(name: str, pod: PodView, change: Any, *, status: bool = False) -> ActOutcome:
            nonlocal asked
            asked += 1
            if asked % 3:
                return ActOutcome(ActResult.UNREACHABLE, "no answer")
            return await patch(name, pod, change, status=status)

        monkeypatch.setattr(world.members, "patch_pod", lossy)
        await submit(world, "cfa")
        assert await world.running("one") == "cfa"
        assert asked > 6
