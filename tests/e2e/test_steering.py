"""Fields that steer controllers: a job with a time to live runs once, and a copy that somebody removes is lost."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

from tests.e2e.hub import BIN, World
from tests.e2e.jobs import Jobs
from tests.simulate.kinds_table import LIVES, Body
from tests.slow import repeated

Team = Callable[..., str]
BATCH = next(life for life in LIVES if life.kind == "Job")


def recorded(world: World, namespace: str, name: str) -> Body:
    """What the history has of the job."""
    named = (name, "-n", namespace, "--kubeconfig", str(world.hub.kubeconfig))
    done = subprocess.run(
        [str(BIN / "fleet"), "show", *named, "-o", "json"], capture_output=True, text=True, timeout=60, check=True
    )
    found: Body = json.loads(done.stdout)["history"]
    return found


@pytest.mark.parametrize("seconds", repeated([0, 2], short=["2"]))
def test_a_job_with_a_time_to_live_runs_once_and_then_leaves_hub_and_member(
    world: World, team: Team, seconds: int
) -> None:
    jobs = Jobs(world, BATCH, team())
    body = BATCH.job("short", run_for="2s")
    body["spec"]["ttlSecondsAfterFinished"] = seconds
    world.kubectl.apply(body, namespace=jobs.namespace)
    path = f"/apis/batch/v1/namespaces/{jobs.namespace}/jobs"
    copies: list[Body] = []

    def over() -> bool:
        copies.extend(one for member in world.members for one in world.kubectl.in_member(member, path))
        return world.kubectl.try_run("get", "job", "short", "-n", jobs.namespace).code != 0

    world.until("the hub has deleted the job", over)
    assert len({one["metadata"]["uid"] for one in copies}) == 1, "one copy, all the time"
    assert not any("ttlSecondsAfterFinished" in one["spec"] for one in copies)
    world.until("nothing of it is left", lambda: not jobs.in_members() and not jobs.on_hub())
    life = recorded(world, jobs.namespace, "short")
    assert (life["state"], life["attempts"]) == ("Succeeded", 1)


def test_a_copy_that_somebody_removes_while_it_runs_is_lost_and_does_not_run_again(world: World, team: Team) -> None:
    jobs = Jobs(world, BATCH, team())
    jobs.submit("gone")
    world.until("it runs", lambda: jobs.phase("gone") == "Running")
    [(member, _)] = world.copies(f"/apis/batch/v1/namespaces/{jobs.namespace}/jobs")
    path = f"/apis/cluster.karmada.io/v1alpha1/clusters/{member}/proxy/apis/batch/v1/namespaces/{jobs.namespace}/jobs"
    world.kubectl.run("delete", "--raw", f"{path}/gone?propagationPolicy=Background")
    world.until("its unit has failed", lambda: jobs.phase("gone") == "Failed")
    conditions = world.kubectl.get("job", "gone", "-n", jobs.namespace)["status"]["conditions"]
    assert [(c["status"], c["reason"]) for c in conditions if c["type"] == "Failed"] == [("True", "Lost")]
    world.until("its pods are gone", lambda: not jobs.in_members())
    assert jobs.phase("gone") == "Failed"
    jobs.delete("gone")
