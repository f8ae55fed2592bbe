"""Queues that consider only some of their jobs: Kube Queue's annotations, and the threshold of Intelligent queues."""

from __future__ import annotations

import pytest

from fleet.bindings.trees import threshold_of
from fleet.controllers.queue.turns import Turns, turns_of
from fleet.controllers.runtime.hub import ControllerConfig
from fleet.values.ports import Body
from fleet.wellknown import ANNOTATION_QUOTA_FULLNAME
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree

LEAF = "root/child-2"


async def tune(world: World, policy_name: str = "Priority", **annotations: str) -> None:
    """`kubectl annotate queue`, and its policy."""
    await eventually(lambda: LEAF in world.queues())

    def change(queue: Body) -> None:
        queue["spec"]["queuePolicy"] = policy_name
        queue["metadata"]["annotations"].update(annotations)

    await world.edit("Queue", world.queues()[LEAF], change, namespace="kube-queue")


async def stop(world: World, policy_name: str) -> None:
    """`fleet hold queue/…`, and `fleet release`."""
    await world.edit(
        "Queue",
        world.queues()[LEAF],
        lambda queue: queue["spec"].update(stopPolicy=policy_name),
        namespace="kube-queue",
    )


def priority_class(name: str, value: int) -> Body:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def run(world: World, job: str) -> bool:
    """Whether all its pods do, in the member itself."""
    pods = [pod for m in world.members.by_name.values() for pod in m.pods.values() if pod.name.startswith(f"{job}-")]
    return bool(pods) and all(pod.phase == "Running" for pod in pods)


@pytest.mark.parametrize(
    ("annotations", "turns"),
    [
        ({"kube-queue/max-depth": "3"}, Turns(3)),
        ({"koord-queue/max-depth": "0"}, Turns(0)),
        ({"kube-queue/max-depth": "-1"}, None),
        ({"kube-queue/max-depth": "many"}, None),
        ({"koord-queue/wait-for-pods-running": "true"}, Turns(None, True)),
        ({"kube-queue/wait-for-pods-running": "false"}, None),
    ],
)
def test_what_a_queue_asks_for(annotations: dict[str, str], turns: Turns | None) -> None:
    queue = {"metadata": {"annotations": {ANNOTATION_QUOTA_FULLNAME: "root/a", **annotations}}}
    assert turns_of([queue]).get("root/a") == turns


@pytest.mark.parametrize(
    ("annotations", "threshold"),
    [
        ({}, None),
        ({"kube-queue/priority-threshold": "7"}, 7),
        ({"koord-queue/priority-threshold": "-3"}, -3),
        ({"kube-queue/priority-threshold": "high"}, None),
    ],
)
def test_the_threshold_that_a_queue_gives(annotations: dict[str, str], threshold: int | None) -> None:
    assert threshold_of({"metadata": {"annotations": annotations}}) == threshold


async def test_an_intelligent_queue_blocks_behind_urgent_work_and_passes_the_rest() -> None:
    async with hub(member("cfa", 1)) as world:
        await world.apply(priority_class("urgent", 10), tree(max_jobs=9), policy(queue=True))
        await tune(world, "Intelligent", **{"kube-queue/priority-threshold": "10"})
        await world.apply(pytorchjob("fills", workers=4))
        await world.running("fills")
        await world.apply(pytorchjob("calm", workers=5))
        await eventually(lambda: "no member has room" in world.message("calm"))
        await world.apply(pytorchjob("small", workers=0))
        await world.running("small")  # it passes one that is not urgent
        await world.apply(pytorchjob("hasty", workers=5, priorityClassName="urgent"))
        await eventually(lambda: "no member has room" in world.message("hasty"))
        await world.apply(pytorchjob("late", workers=0))
        await eventually(lambda: "waits for default/hasty" in world.message("late"))
        await tune(world, "Intelligent", **{"kube-queue/priority-threshold": "11"})
        await world.running("late")


async def test_a_queue_of_a_depth_considers_its_first_jobs_only() -> None:
    async with hub(member("cfa", 1)) as world:
        await world.apply(tree(max_jobs=9), policy(queue=True))
        await tune(world, **{"kube-queue/max-depth": "1"})
        await world.apply(pytorchjob("fills", workers=4))
        await world.running("fills")
        await world.apply(pytorchjob("large", workers=5))
        await eventually(lambda: "no member has room" in world.message("large"))
        await world.apply(pytorchjob("small", workers=0))
        await eventually(lambda: f"{LEAF} considers its first job only" in world.message("small"))
        assert (world.unit("small") or {})["status"]["reason"]["code"] == "NotItsTurn"
        await world.edit("QueueUnit", "large-pytorchjob-rb-qu", lambda unit: unit["spec"].update(active=False))
        await world.running("small")  # one that is held takes no place


@pytest.mark.parametrize("stop", ["Hold", "HoldAndDrain"])
def test_a_held_queue_holds_the_queues_below_it(stop: str) -> None:
    queues: list[Body] = [
        {"metadata": {"annotations": {ANNOTATION_QUOTA_FULLNAME: path}}, "spec": {"stopPolicy": policy}}
        for path, policy in {"root/a": stop, "root/a/b": "None", "root/ab": "None"}.items()
    ]
    assert turns_of(queues) == {"root/a": Turns(stopped="root/a"), "root/a/b": Turns(stopped="root/a")}


async def test_a_held_queue_starts_nothing_until_it_is_released_and_the_tree_leaves_it_held() -> None:
    async with hub(member("cfa", 1)) as world:
        await world.apply(tree(max_jobs=9), policy(queue=True), pytorchjob("runs", workers=0))
        await world.running("runs")
        await stop(world, "Hold")
        await world.apply(pytorchjob("waits", workers=0), tree(max_jobs=8))
        held = f"held: the queue {LEAF} is held, and starts jobs once it is released"
        await eventually(lambda: world.message("waits") == held)
        assert (world.unit("waits") or {})["status"]["reason"]["code"] == "Held"
        await settle(30)
        assert world.placed("waits") == "" and run(world, "runs")
        await stop(world, "None")
        await world.running("waits")


async def test_a_queue_waits_for_pods_that_never_run_for_a_while_only() -> None:
    config = ControllerConfig(pods_run_s=30.0)
    async with hub(member("cfa", start_s=10_000.0), config=config) as world:
        await world.apply(tree(max_jobs=9), policy(queue=True))
        await tune(world, **{"kube-queue/wait-for-pods-running": "true"})
        await world.apply(pytorchjob("stuck", workers=0))
        await eventually(lambda: world.placed("stuck"))
        await world.apply(pytorchjob("next", workers=0))
        await eventually(lambda: "waits for the pods of default/stuck" in world.message("next"))
        await settle(20)
        assert world.placed("next") == ""
        await eventually(lambda: world.placed("next"), within_s=15)


async def test_a_queue_that_waits_for_pods_starts_one_job_at_a_time() -> None:
    async with hub(member("cfa", start_s=20.0)) as world:
        await world.apply(tree(max_jobs=9), policy(queue=True))
        await tune(world, **{"kube-queue/wait-for-pods-running": "true"})
        await world.stop()
        await world.apply(*(pytorchjob(name, workers=0) for name in ("a", "b", "c")))
        world.start()
        await eventually(lambda: world.placed("a"))
        await eventually(lambda: "waits for the pods of default/a to run" in world.message("c"))
        await settle(5)
        assert (world.placed("b"), world.placed("c")) == ("", "")
        await eventually(lambda: world.placed("b"), within_s=40)
        assert run(world, "a")
        await eventually(lambda: "waits for the pods of default/b to run" in world.message("c"))
        await eventually(lambda: world.placed("c"), within_s=40)
        assert run(world, "b")
