"""A person moves one job: it leaves its member, and the next placement is the one that she named."""

from __future__ import annotations

from typing import Any

from fleet.values.ports import Body
from fleet.wellknown import ANNOTATION_MOVE
from tests.controllers.decide.checks import answer, reserves, status
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree


async def move(world: World, job: str, to: str) -> None:
    def mark(body: Body) -> None:
        body["metadata"].setdefault("annotations", {})[ANNOTATION_MOVE] = to

    await world.edit("PyTorchJob", job, mark)


def marked(world: World, job: str) -> bool:
    bodies: list[Any] = [world.see("PyTorchJob", job), world.binding(job)]
    return any(ANNOTATION_MOVE in (body["metadata"].get("annotations") or {}) for body in bodies)


async def test_a_running_job_moves_once_and_the_mark_goes() -> None:
    async with hub(member("cfa"), member("cfb"), member("cfc")) as world:
        await world.apply(tree(max_jobs=9), policy(queue=True), pytorchjob("one"), pytorchjob("two"))
        for target in ("cfc", "cfb", "cfa"):
            await world.running("one")
            sent = sum(len(m.applies) for m in world.members.by_name.values())
            stays = world.placed("one") == target
            await move(world, "one", target)
            await eventually(lambda target=target: world.placed("one") == target)
            await world.running("one")
            await eventually(lambda: not marked(world, "one"))
            assert world.members.where("one") == [target]
            more = sum(len(m.applies) for m in world.members.by_name.values()) - sent
            assert more == (0 if stays else 1), "the mark itself is no change of a copy"
        assert world.attempt("one") >= 3 and world.attempt("two") == 1
        assert any("a person moves it to member" in e["message"] for e in world.events("one"))
        await settle(60)
        assert world.placed("one") == "cfa"


async def test_a_waiting_job_starts_in_the_member_that_is_named_and_nowhere_else() -> None:
    async with hub(member("cfa", 1, 4), member("cfb", 1, 4)) as world:
        await world.apply(policy(), pytorchjob("one", gpus=1), pytorchjob("two", gpus=1))
        first, second = await world.running("one"), await world.running("two")
        assert {first, second} == {"cfa", "cfb"}
        await world.apply(pytorchjob("three", gpus=1))
        await eventually(lambda: world.condition(world.binding("three"), "Scheduled"))
        await move(world, "three", "cfb")
        await settle(5)
        world.members.finish("one" if first == "cfa" else "two")
        await settle(30)
        assert world.placed("three") == "", "there is room in cfa alone"
        world.members.finish("one" if first == "cfb" else "two")
        assert await world.running("three") == "cfb"
        await eventually(lambda: not marked(world, "three"))


async def test_a_job_that_may_not_go_there_runs_on_and_an_event_says_why() -> None:
    placement = {
        **policy()["spec"]["placement"],
        "clusterAffinity": {"exclude": ["cfc"]},
    }
    async with hub(member("cfa"), member("cfb"), member("cfc")) as world:
        await world.apply(policy(placement=placement), pytorchjob("one"))
        here = await world.running("one")
        other = "cfb" if here == "cfa" else "cfa"
        taint = [{"key": "cluster.karmada.io/unschedulable", "effect": "NoSchedule"}]
        await world.edit("Cluster", other, lambda body: body["spec"].update(taints=taint))
        for target, why in (
            ("nowhere", "no member nowhere"),
            ("cfc", "its policy excludes member cfc"),
            (other, "has a taint"),
        ):
            await move(world, "one", target)
            await eventually(lambda why=why: any(why in e["message"] for e in world.events("one")), what=why)
            await eventually(lambda: not marked(world, "one"))
        assert world.placed("one") == here and world.attempt("one") == 1 and world.state("one") == "Running"


async def test_a_job_does_not_leave_a_member_that_does_not_answer() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await world.apply(policy(), pytorchjob("one"))
        here = await world.running("one")
        other = "cfb" if here == "cfa" else "cfa"
        world.members.set_down(here, True)
        await move(world, "one", other)
        await settle(30)
        assert world.placed("one") == here
        world.members.set_down(here, False)
        await eventually(lambda: world.placed("one") == other and world.state("one") == "Running")


async def test_a_job_that_is_reserved_elsewhere_is_decided_anew() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await reserves(world, "budget")
        before = status(world)["nomination"]["member"]
        other = "cfb" if before == "cfa" else "cfa"
        await move(world, "one", other)
        await eventually(lambda: (status(world).get("nomination") or {}).get("member") == other)
        await answer(world, "Ready")
        assert await world.running("one") == other
