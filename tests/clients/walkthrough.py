"""The walk-through on a hub with two simulated members, for clients of other people: a tree, a policy, a job that runs
and one that waits behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.hub import Hub, Kubectl, World
from tests.e2e.manifests import gang_policy, leaf, pytorchjob, quota_tree

MEMBERS = ("cfa", "cfb")
JOB, WAITING = "pytorch-test", "pytorch-second"
OBJECTS = (
    quota_tree(leaf("child-2", "default", **{"kube-queue/max-jobs": 1, "nvidia.com/gpu": 8})),
    gang_policy(queue=True),
    pytorchjob(JOB),
)


@contextmanager
def started(folder: Path) -> Iterator[World]:
    """The hub, without the objects."""
    hub = Hub(folder / "hub", "--members", str(len(MEMBERS)))
    hub.start()
    try:
        yield World("simulated", hub, Kubectl(hub.kubeconfig), MEMBERS)
    finally:
        assert hub.stop() == 0, hub.log()


def second_waits(world: World) -> str:
    """Wait for the job of OBJECTS, and send the second one behind it; the member in which the first runs."""
    world.until("the job runs", lambda: world.state(JOB, "default") == "Running")
    world.kubectl.apply(pytorchjob(WAITING))
    world.until("the second says why it waits", lambda: "at most 1" in world.message(WAITING, "default"))
    return world.placed(JOB, "default")
