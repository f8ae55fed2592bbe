"""Every job kind through its life, as a user sees it with kubectl, on simulated members and on real ones.

Real members run the operators themselves: kube-controller-manager's job controller, and the training operator.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

import pytest

from tests.e2e.hub import World
from tests.e2e.jobs import Jobs
from tests.simulate.kinds_table import LIVES, Life
from tests.slow import repeated

Team = Callable[..., str]
EVERY_KIND = pytest.mark.parametrize("life", repeated(LIVES, short=("Job", "PyTorchJob"), name=attrgetter("kind")))


class Shown(Jobs):
    """Jobs whose leaf runs one at a time."""

    def shown(self, name: str) -> str:
        """The second column of `kubectl get`: STATE, or STATUS of a batch Job."""
        columns = self.world.kubectl.run("get", self.resource, name, "-n", self.namespace, "--no-headers").split()
        return columns[1]

    def until(self, name: str, shown: str, phase: str) -> None:
        def so() -> bool:
            return (self.shown(name), self.phase(name)) == (shown, phase)

        self.world.until(f"{name} is {shown}, its unit {phase}", so)


@EVERY_KIND
def test_a_job_of_every_kind_queues_runs_ends_and_leaves_nothing(world: World, team: Team, life: Life) -> None:
    jobs = Shown(world, life, team(**{"kube-queue/max-jobs": 1}))
    jobs.submit("good", run_for="12s")  # until the next job has been seen to wait
    jobs.until("good", "Running", "Running")
    jobs.submit("bad", run_for="2s", exit_code=3)
    jobs.until("bad", "Queuing", "Enqueued")
    jobs.submit("gone")
    jobs.until("good", life.succeeded, "Succeed")
    jobs.until("bad", "Failed", "Failed")  # the first left its quota to it
    jobs.until("gone", "Running", "Running")
    jobs.suspend("gone", True)
    jobs.until("gone", "Suspended", "Enqueued")
    jobs.suspend("gone", False)
    jobs.until("gone", "Running", "Running")
    jobs.delete("gone", "good", "bad")
    world.until("the members are empty", lambda: not jobs.in_members())
    assert jobs.on_hub() == []
