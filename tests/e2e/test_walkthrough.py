"""The walk-through, letter for letter, on simulated and on real members: what its reader types, and what he reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import REAL, SIMULATED
from tests.e2e.hub import World

EXAMPLES = Path(__file__).parents[2] / "examples" / "walkthrough"
AGE = r"(?:\d+[smhd]){1,2}"


@pytest.fixture(params=[SIMULATED, REAL])
def world(request: pytest.FixtureRequest) -> World:
    chosen: World = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture
def clean(world: World) -> Iterator[World]:
    yield world
    kubectl = world.kubectl
    kubectl.run("delete", "pytorchjob", "--all", timeout_s=240)
    world.until("nothing is left in a member", lambda: not world.pods_in_members("default"))
    kubectl.run("delete", "propagationpolicy", "--all")
    kubectl.run("delete", "elasticquotatree", "--all", "-n", "kube-system")


def test_the_walk_through_runs_letter_for_letter(clean: World) -> None:
    world, kubectl = clean, clean.kubectl
    kubectl.run("apply", "-f", str(EXAMPLES / "quota-tree.yaml"))

    def queues() -> bool:
        header, *rows = kubectl.run("get", "queue", "-n", "kube-queue").splitlines()
        assert re.fullmatch(r"NAME +AGE", header), header
        assert len(rows) == 2, rows
        root = next(row for row in rows if re.fullmatch(rf"root-[a-z0-9]{{5}} +{AGE}", row))
        (leaf,) = [row for row in rows if row != root]
        assert re.fullmatch(rf"root-child-2-[a-z0-9]{{5}} +{AGE}", leaf), rows
        return True

    world.until("one Queue for each node of the tree", queues)

    kubectl.run("apply", "-f", str(EXAMPLES / "policy-gang-queue.yaml"))
    kubectl.run("apply", "-f", str(EXAMPLES / "pytorchjob.yaml"))
    kubectl.run("wait", "pytorchjob/pytorch-test", "--for=condition=Running", "--timeout=120s", timeout_s=180)

    header, row = kubectl.run("get", "pytorchjob").splitlines()
    assert re.fullmatch(r"NAME +STATE +AGE", header)
    assert re.fullmatch(rf"pytorch-test +Running +{AGE}", row)

    events = kubectl.run("describe", "pytorchjob", "pytorch-test").split("Events:\n", 1)[1]
    assert re.search(
        rf"  Normal +ScheduleBindingSucceed +{AGE} +default-scheduler +Binding has been scheduled successfully\. "
        r"Result: \{cf\w+:0,\[\{master 1\} \{worker 2\}\]\}\n",
        events,
    ), events
    member = world.placed("pytorch-test", "default")
    assert member in world.members

    header, row = kubectl.run("amc", "get", "pytorchjob", "-M").splitlines()
    assert re.fullmatch(r"NAME +CLUSTER +STATE +AGE +ADOPTION", header)
    assert re.fullmatch(rf"pytorch-test +{member} +Running +{AGE} +Y", row)

    header, *rows = kubectl.run("amc", "get", "pod", "-M").splitlines()
    assert re.fullmatch(r"NAME +CLUSTER +READY +STATUS +RESTARTS +AGE", header)
    assert [re.sub(rf"{AGE}$", "AGE", re.sub(" +", " ", row)) for row in rows] == [
        f"pytorch-test-master-0 {member} 1/1 Running 0 AGE",
        f"pytorch-test-worker-0 {member} 1/1 Running 0 AGE",
        f"pytorch-test-worker-1 {member} 1/1 Running 0 AGE",
    ]

    text = kubectl.run("amc", "get", "pytorchjob", "pytorch-test", "-m", member, "-oyaml")
    assert re.search(r"^kind: PyTorchJob$", text, re.M) and re.search(r"^  name: pytorch-test$", text, re.M)


def test_the_second_job_waits_says_why_and_starts_by_itself(clean: World) -> None:
    world, kubectl = clean, clean.kubectl
    for name in ("quota-tree.yaml", "policy-gang-queue.yaml", "pytorchjob.yaml"):
        kubectl.run("apply", "-f", str(EXAMPLES / name))
    world.until("the first runs", lambda: world.state("pytorch-test", "default") == "Running")
    kubectl.run("apply", "-f", str(EXAMPLES / "pytorchjob-second.yaml"))
    second = "pytorch-second"
    world.until("the second says why it waits", lambda: "at most 1" in world.message(second, "default"))
    assert world.unit(second, "default")["status"]["phase"] == "Enqueued"
    assert world.state(second, "default") == "Queuing"
    assert not [name for _, name in world.pods_in_members("default") if name.startswith(second)]
    kubectl.run("delete", "pytorchjob", "pytorch-test")
    world.until("the second starts by itself", lambda: world.state(second, "default") == "Running")
