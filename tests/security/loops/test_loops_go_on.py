"""A failure costs its own subject alone: a key, an object that cannot be mapped, a loop (controller.py, aside.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from api.loops.controller import ASIDE_AFTER, ASIDE_S, Controller, Source, run_all
from api.store.memory import MemoryStore
from fleet.controllers.bind.loop import BindLoop
from fleet.controllers.dispatch.sweep import SweepLoop
from fleet.controllers.observe.loop import ObserveLoop
from fleet.controllers.runtime.aside import AsideTeller
from fleet.controllers.runtime.events import EventRecorder
from fleet.values.ports import Event, Key, StaleEpoch
from fleet.values.wellknown import HANDLING_FAILED
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree


class Once:
    """A loop that ends as it is told the first times, and then runs."""

    def __init__(self, name: str, *ends: BaseException | None) -> None:
        self.name = name
        self._ends = list(ends)
        self.runs: list[float] = []

    async def run(self) -> None:
        self.runs.append(asyncio.get_running_loop().time())
        if not self._ends:
            await asyncio.Event().wait()
        end = self._ends.pop(0)
        if end is not None:
            raise end


async def test_a_loop_that_ends_is_started_again_alone_after_growing_pauses_and_counted() -> None:
    bad, good, ended, stop = Once("bad", KeyError("x"), None, ValueError()), Once("good"), list[str](), asyncio.Event()
    running = asyncio.create_task(run_all([bad, good], stop, ended.append))
    await eventually(lambda: len(bad.runs) == 4)
    assert ended == ["bad"] * 3 and len(good.runs) == 1
    pauses = [later - sooner for sooner, later in zip(bad.runs, bad.runs[1:], strict=False)]
    assert pauses == sorted(pauses) and pauses[0] > 0.4
    stop.set()
    await running


@pytest.mark.parametrize("end", [StaleEpoch("over"), ExceptionGroup("loops", [ValueError(), StaleEpoch("over")])])
async def test_lost_leadership_ends_all_loops(end: Exception) -> None:
    with pytest.raises(StaleEpoch):
        await run_all([Once("fenced", end), Once("good")], asyncio.Event())
    assert {task.get_name() for task in asyncio.all_tasks()}.isdisjoint({"fenced", "good"})


def sample(world: World, name: str, **labels: str) -> float:
    return world.hub.metrics.registry.get_sample_value(name, labels) or 0.0


async def test_a_loop_of_the_hub_that_ends_is_counted_and_jobs_run_on(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = SweepLoop.run

    async def broken(self: SweepLoop) -> None:
        monkeypatch.setattr(SweepLoop, "run", begun)
        raise RuntimeError("a bug")

    monkeypatch.setattr(SweepLoop, "run", broken)
    async with hub(member("cfa")) as world:
        await world.apply(policy(), pytorchjob("one"))
        await world.running("one")
        await eventually(lambda: sample(world, "fleet_loop_restarts_total", loop="sweep") == 1)


class Failing:
    """A reconcile that fails for keys of these names while `bad` holds them."""

    def __init__(self, *names: str) -> None:
        self.bad = set(names)
        self.tries: dict[str, list[float]] = {}

    async def __call__(self, key: Key) -> None:
        self.tries.setdefault(key.name, []).append(asyncio.get_running_loop().time())
        if key.name in self.bad:
            raise KeyError(f"secret of {key}")


async def controlled(
    world: World, failing: Failing, resource: str = "configmaps"
) -> tuple[Controller, asyncio.Task[None]]:
    controller = Controller("odd", world.store, [Source("", resource)], failing)
    controller.teller = AsideTeller(world.hub, EventRecorder(world.hub))
    return controller, asyncio.create_task(controller.run())


def configmap(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


async def test_a_key_that_keeps_failing_is_set_aside_tried_every_few_minutes_and_when_it_changes() -> None:
    async with hub(start=False) as world:
        failing = Failing("bad")
        controller, running = await controlled(world, failing)
        await world.apply(configmap("bad"), configmap("good"))
        await eventually(lambda: len(failing.tries.get("bad", ())) == ASIDE_AFTER)
        await settle(ASIDE_S * 0.8)
        assert len(failing.tries["bad"]) == ASIDE_AFTER and {key.name for key in controller.aside} == {"bad"}
        (event,) = [e for e in world.all("Event") if e["reason"] == HANDLING_FAILED]
        assert event["involvedObject"]["name"] == "bad" and "KeyError" in event["message"]
        assert "secret of" not in event["message"]
        await settle(ASIDE_S * 0.4)
        assert ASIDE_AFTER < len(failing.tries["bad"]) <= ASIDE_AFTER + 2  # its turn, and a full pass
        failing.bad.clear()
        await world.apply(configmap("bad", changed="x"))
        await eventually(lambda: not controller.aside, within_s=2)
        running.cancel()


def said(world: World, kind: str, name: str) -> dict[str, Any]:
    return world.condition(world.see(kind, name), HANDLING_FAILED)


async def test_a_binding_says_that_it_cannot_be_handled_and_so_does_its_job_until_it_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = ObserveLoop._look

    def broken(self: ObserveLoop, binding: Any, interpreter: Any) -> Any:
        if binding["metadata"]["name"].startswith("poison"):
            raise KeyError("team-b/secret")
        return made(self, binding, interpreter)

    monkeypatch.setattr(ObserveLoop, "_look", broken)
    async with hub(member("cfa", count=4)) as world:
        await world.apply(tree(max_jobs=9), policy(queue=True), pytorchjob("poison"), pytorchjob("good"))
        await world.running("good")
        await eventually(lambda: said(world, "PyTorchJob", "poison"))
        assert said(world, "ResourceBinding", "poison-pytorchjob")["reason"] == "observe:KeyError"
        assert "team-b" not in str(world.binding("poison"))
        assert sample(world, "fleet_keys_aside", loop="observe") == 1
        revision = await world.store.revision()
        await settle(ASIDE_S * 2)
        assert await world.store.revision() - revision < 10  # telling wakes the loops, and must end there
        monkeypatch.undo()
        await world.apply(pytorchjob("poison", workers=3))
        await world.running("poison")
        await eventually(lambda: not said(world, "ResourceBinding", "poison-pytorchjob"))
        assert not said(world, "PyTorchJob", "poison")
        assert sample(world, "fleet_keys_aside", loop="observe") == 0


async def test_an_object_that_cannot_be_mapped_costs_the_others_of_its_source_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with hub(member("cfa")) as world:
        made = BindLoop._on_policy

        def broken(self: BindLoop, event: Event) -> Iterable[Key]:
            if event.stored.key.name == "poison":
                raise TypeError("no policy")
            return made(self, event)

        monkeypatch.setattr(BindLoop, "_on_policy", broken)
        await world.kill()
        world.start()
        await world.apply(policy("poison", resourceSelectors=[{"apiVersion": "v1", "kind": "ConfigMap"}]), policy())
        await world.apply(pytorchjob("one"))
        await world.running("one")
        event = await eventually(lambda: world.events("poison", HANDLING_FAILED))
        assert event[0]["involvedObject"]["kind"] == "PropagationPolicy"


async def test_two_loops_that_fail_on_one_object_do_not_write_by_turns() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), pytorchjob("one"))
        await world.running("one")
        aside = AsideTeller(world.hub, EventRecorder(world.hub))
        key = Key("work.karmada.io", "resourcebindings", "default", "one-pytorchjob")
        await aside.tell("dispatch", key, KeyError())
        revision = await world.store.revision()
        await aside.tell("observe", key, ValueError())
        assert await world.store.revision() == revision
        await aside.handled("observe", key)
        assert said(world, "ResourceBinding", "one-pytorchjob")["reason"] == "dispatch:KeyError"
        await aside.handled("dispatch", key)
        assert not said(world, "ResourceBinding", "one-pytorchjob")


async def test_a_source_that_cannot_be_listed_is_listed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    listed, failures = MemoryStore.list, [RuntimeError("a bug"), RuntimeError("a bug")]

    async def broken(self: MemoryStore, *what: Any, **how: Any) -> Any:
        if failures and what == ("", "configmaps"):
            raise failures.pop()
        return await listed(self, *what, **how)

    async with hub(start=False) as world:
        monkeypatch.setattr(MemoryStore, "list", broken)
        failing = Failing()
        await world.apply(configmap("one"))
        _, running = await controlled(world, failing)
        await eventually(lambda: "one" in failing.tries)
        running.cancel()
