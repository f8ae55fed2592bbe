"""Every job kind through its life, as a user sees it with kubectl, on simulated members and on real ones.

Real members run the operators themselves: kube-controller-manager's job controller, and the training operator.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.hub import World
from tests.e2e.manifests import gang_policy
from tests.simulate.kinds_table import LIVES, Life

Team = Callable[..., str]
EVERY_KIND = pytest.mark.parametrize("life", [pytest.param(life, id=life.kind) for life in LIVES])


class Jobs:
    """The jobs of one kind in one namespace whose leaf runs one at a time."""

    def __init__(self, world: World, life: Life, namespace: str) -> None:
        self.world, self.life, self.namespace = world, life, namespace
        selector = {"apiVersion": life.api, "kind": life.kind}
        world.kubectl.apply(gang_policy(queue=True, resourceSelectors=[selector]), namespace=namespace)

    def submit(self, name: str, **how: Any) -> None:
        self.world.kubectl.apply(self.life.job(name, **how), namespace=self.namespace)

    def shown(self, name: str) -> str:
        """The second column of `kubectl get`: STATE, or STATUS of a batch Job."""
        resource = f"{self.life.resource}.{self.life.api.partition('/')[0]}"
        columns = self.world.kubectl.run("get", resource, name, "-n", self.namespace, "--no-headers").split()
        return columns[1]

    def phase(self, name: str) -> str:
        """Of its unit, "" when there is none."""
        unit = f"{name}-{self.life.kind.lower()}-rb-qu"
        done = self.world.kubectl.try_run("get", "qu", unit, "-n", self.namespace, "-o", "jsonpath={.status.phase}")
        return done.out if done.code == 0 else ""

    def until(self, name: str, shown: str, phase: str) -> None:
        def so() -> bool:
            return (self.shown(name), self.phase(name)) == (shown, phase)

        self.world.until(f"{name} is {shown}, its unit {phase}", so)

    def delete(self, name: str) -> None:
        resource = f"{self.life.resource}.{self.life.api.partition('/')[0]}"
        self.world.kubectl.run("delete", resource, name, "-n", self.namespace, timeout_s=240)

    def in_members(self) -> list[tuple[str, str]]:
        path = f"/apis/{self.life.api}/namespaces/{self.namespace}/{self.life.resource}"
        return self.world.copies(path) + self.world.pods_in_members(self.namespace)


@EVERY_KIND
def test_a_job_of_every_kind_queues_runs_ends_and_leaves_nothing(world: World, team: Team, life: Life) -> None:
    jobs = Jobs(world, life, team(**{"kube-queue/max-jobs": 1}))
    jobs.submit("good", run_for="6s")
    jobs.until("good", "Running", "Running")
    jobs.submit("bad", run_for="2s", exit_code=3)
    jobs.until("bad", "Queuing", "Enqueued")
    jobs.submit("gone")
    jobs.until("good", life.succeeded, "Succeed")
    jobs.until("bad", "Failed", "Failed")  # the first left its quota to it
    jobs.until("gone", "Running", "Running")
    patch = life.suspension(True)
    resource = f"{life.resource}.{life.api.partition('/')[0]}"
    suspend = ("patch", resource, "gone", "-n", jobs.namespace, "--type=merge", "-p")
    world.kubectl.run(*suspend, json.dumps(patch))
    jobs.until("gone", "Queuing", "Enqueued")
    world.kubectl.run(*suspend, json.dumps(life.suspension(False)))
    jobs.until("gone", "Running", "Running")
    for name in ("gone", "good", "bad"):
        jobs.delete(name)
    world.until("the members are empty", lambda: not jobs.in_members())
    assert world.kubectl.items("rb", "-n", jobs.namespace) == world.kubectl.items("qu", "-n", jobs.namespace) == []
