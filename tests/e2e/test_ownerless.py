"""`kubectl delete --cascade=orphan`: the copy runs on, is listed with its charge, and is ended or taken over."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from tests.e2e.hub import BIN, World
from tests.e2e.jobs import Jobs
from tests.simulate.kinds_table import LIVES

Team = Callable[..., str]
BATCH = next(life for life in LIVES if life.kind == "Job")


def fleet(world: World, *arguments: str) -> str:
    command = [str(BIN / "fleet"), *arguments, "--kubeconfig", str(world.hub.kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stdout


def test_an_orphaned_copy_is_listed_with_its_charge_and_a_new_job_takes_it_over(world: World, team: Team) -> None:
    jobs = Jobs(world, BATCH, team(**{"nvidia.com/gpu": BATCH.pods}))
    here = ("-n", jobs.namespace)
    jobs.submit("left")
    world.until("it runs", lambda: jobs.phase("left") == "Running")
    pods = jobs.in_members()
    world.kubectl.run("delete", "job", "left", "--cascade=orphan", *here)
    world.until("it is listed", lambda: "Ownerless" in fleet(world, "jobs", *here))
    [line] = [line for line in fleet(world, "jobs", *here, "-o", "wide").splitlines() if line.startswith("left ")]
    assert "fleet.io/takes-over=true" in line and "kubectl delete rb left-job" in line
    found = fleet(world, "doctor")
    assert f"Job {jobs.namespace}/left  (ownerless-copy)" in found
    assert f"and charged: {BATCH.pods} pods, {BATCH.pods} GPUs" in found
    assert jobs.in_members() == pods
    jobs.submit("left")

    def why() -> str:
        conditions = world.kubectl.get("job", "left", *here).get("status", {}).get("conditions", [])
        return next((c["message"] for c in conditions if c["reason"] == "NameTaken"), "")

    world.until("the new job says what is in its way", why)
    command = why().split("`")[1]
    assert command.startswith("kubectl annotate job.batch left -n ")
    assert "its name is taken" in fleet(world, "jobs", *here)
    world.kubectl.run(*command.split()[1:])
    world.until("it runs", lambda: "Running" in fleet(world, "jobs", *here))
    assert "Ownerless" not in fleet(world, "jobs", *here)
    assert jobs.in_members() == pods, "the same pods"
    jobs.delete("left")
    world.until("the members are empty", lambda: not jobs.in_members())
    assert jobs.on_hub() == []


def test_the_end_of_its_binding_ends_an_orphaned_copy(world: World, team: Team) -> None:
    jobs = Jobs(world, BATCH, team(**{"nvidia.com/gpu": BATCH.pods}))
    jobs.submit("left")
    world.until("it runs", lambda: jobs.phase("left") == "Running")
    world.kubectl.run("delete", "job", "left", "--cascade=orphan", "-n", jobs.namespace)
    world.kubectl.run("delete", "rb", "left-job", "-n", jobs.namespace, timeout_s=240)
    world.until("the members are empty", lambda: not jobs.in_members())
    assert jobs.on_hub() == []
