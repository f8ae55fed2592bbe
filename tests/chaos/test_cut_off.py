"""A member that is cut off with running and waiting work, and one that is removed while it is."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.chaos.client import BINDINGS, CLUSTERS, EVENTS, JOBS, POLICIES, UNITS, Body, Client
from tests.chaos.conftest import end
from tests.chaos.work import COPIES, delete_all, expect_all, name_of, set_up, states
from tests.e2e.conftest import join
from tests.e2e.hub import BIN, Hub, Kubectl, World
from tests.e2e.manifests import gang_policy, leaf, pytorchjob
from tests.testbed.processes import wait_for

pytestmark = pytest.mark.xdist_group("chaos")

PLACED_WITHIN_S = 12.0  # on a busy machine; waiting for a member that hangs would cost REQUEST_S, 15 s


@dataclass
class Far:
    """A member of its own process, joined as "far"."""

    process: subprocess.Popen[bytes]
    kubeconfig: Path

    def cut_off(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def reconnect(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)


@dataclass
class FarWorld:
    """Two near members and a far one; jobs in namespace "near" go to the near ones, jobs in "far" to the far one."""

    world: World
    client: Client
    far: Far

    def send_far_jobs_to(self, *members: str) -> None:
        affinity = {"spec": {"placement": {"clusterAffinity": {"clusterNames": list(members)}}}}
        self.client.patch(f"{POLICIES.format('far')}/gang", affinity)

    def ready(self) -> Body:
        conditions = self.client.get(f"{CLUSTERS}/far").get("status", {}).get("conditions") or []
        return next((c for c in conditions if c["type"] == "Ready"), {})

    def binding(self, name: str) -> Body:
        return next(body for body in self.client.items(BINDINGS) if name_of(body) == f"far/{name}-pytorchjob")

    def place_near(self, name: str) -> float:
        """Seconds from the create of a job for the near members until it is placed."""
        began = time.monotonic()
        self.client.post(JOBS.format("near"), pytorchjob(name, workers=1, run_for="1s"))
        self.world.until(f"{name} is placed", lambda: self.world.placed(name, "near") != "")
        return time.monotonic() - began


@pytest.fixture(scope="module")
def far_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FarWorld]:
    folder = tmp_path_factory.mktemp("far")
    data = folder / "far"
    kubeconfig = data / "members" / "cfa.kubeconfig"
    hub = Hub(folder / "hub", "--members", "2")
    with (folder / "far.log").open("wb") as output:
        command = [str(BIN / "fleet"), "sim", "--data-dir", str(data), "--members", "1"]
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        hub.start()
        world = World("simulated", hub, Kubectl(hub.kubeconfig), ("cfa", "cfb", "far"))
        wait_for("the far member", kubeconfig.exists)
        join(hub, "far", kubeconfig)
        client = Client(world.hub.kubeconfig)
        near = gang_policy(queue=True, placement={"clusterAffinity": {"clusterNames": ["cfa", "cfb"]}})
        set_up(client, leaf("near", "near"), leaf("far", "far"), policy=near)
        far_world = FarWorld(world, client, Far(process, kubeconfig))
        far_world.send_far_jobs_to("far")
        yield far_world
    finally:
        end(hub.folder)
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait(10)


def test_a_member_that_is_cut_off_keeps_its_work_and_costs_the_others_nothing(far_world: FarWorld) -> None:
    world, client, far = far_world.world, far_world.client, far_world.far
    client.post(JOBS.format("far"), pytorchjob("runs"))
    expect_all(world, client, ["far/runs"], "Running")
    client.post(JOBS.format("far"), pytorchjob("ends", workers=1, run_for="8s"))
    expect_all(world, client, ["far/ends"], "Running")
    before = {name_of(body): body["metadata"]["uid"] for body in client.in_member("far", COPIES)}
    far.cut_off()
    client.post(JOBS.format("far"), pytorchjob("early"))  # placed before anybody knows, or waiting
    took = [far_world.place_near(f"near-{number}") for number in range(3)]
    world.until("the Cluster says so", lambda: far_world.ready().get("status") == "False")
    assert far_world.ready()["reason"] == "ClusterNotReachable"
    client.post(JOBS.format("far"), pytorchjob("late"))
    took += [far_world.place_near(f"near-{number}") for number in range(3, 6)]
    assert max(took) < PLACED_WITHIN_S, took

    def told() -> bool:
        conditions = far_world.binding("runs")["status"]["conditions"]
        return any(c["type"] == "MemberReachable" and c["reason"] == "MemberUnreachable" for c in conditions)

    world.until("the binding says so", told)
    assert world.placed("runs", "far") == "far"
    unit = next(body for body in client.items(UNITS) if name_of(body) == "far/runs-pytorchjob-rb-qu")
    assert unit["status"]["reason"]["code"] == "MemberUnreachable" and "far" in unit["status"]["message"]
    reasons = {e["reason"] for e in client.items(EVENTS.format("far")) if e["involvedObject"]["name"] == "runs"}
    assert "MemberUnreachable" in reasons
    assert world.placed("late", "far") == ""
    world.until("the waiting job names the member", lambda: "far" in world.message("late", "far"))

    far.reconnect()
    world.until("it is ready again", lambda: far_world.ready().get("status") == "True")
    expect_all(world, client, ["far/runs", "far/early", "far/late"], "Running")
    expect_all(world, client, ["far/ends"], "Succeeded")
    world.until("the binding is clean", lambda: not told())
    world.until("so is the unit", lambda: not world.unit("runs", "far")["status"].get("reason"))
    after = [(name_of(body), body["metadata"]["uid"]) for body in client.in_member("far", COPIES)]
    assert sorted(name for name, _ in after) == ["far/early", "far/ends", "far/late", "far/runs"]
    assert {name: uid for name, uid in after if name in before} == before, "a copy was made twice"
    assert all(client.in_member(m, "/apis/kubeflow.org/v1/namespaces/far/pytorchjobs") == [] for m in ("cfa", "cfb"))
    expect_all(world, client, [f"near/near-{number}" for number in range(6)], "Succeeded")
    delete_all(world, client)


def test_a_cluster_that_is_cut_off_is_removed_only_by_force_and_its_work_goes_elsewhere(far_world: FarWorld) -> None:
    world, client, far = far_world.world, far_world.client, far_world.far
    client.post(JOBS.format("far"), pytorchjob("runs", workers=1))
    expect_all(world, client, ["far/runs"], "Running")
    far.cut_off()
    far_world.send_far_jobs_to("cfa", "cfb", "far")
    client.delete(f"{CLUSTERS}/far")
    world.until("it wants to leave", lambda: far_world.binding("runs")["spec"].get("gracefulEvictionTasks"))
    assert far_world.place_near("meanwhile") < PLACED_WITHIN_S
    assert "deletionTimestamp" in client.get(f"{CLUSTERS}/far")["metadata"]
    assert world.placed("runs", "far") == "", "a second copy beside one that may be alive"
    client.patch(f"{CLUSTERS}/far", {"metadata": {"annotations": {"fleet.io/force-removal": "true"}}})
    world.until("it runs elsewhere", lambda: world.placed("runs", "far") in ("cfa", "cfb"))
    world.until("the cluster is gone", lambda: all(c["metadata"]["name"] != "far" for c in client.items(CLUSTERS)))
    expect_all(world, client, ["far/runs"], "Running")
    assert set(states(client)) == {"far/runs", "near/meanwhile"}

    far.reconnect()  # it comes back to a hub that does not know it, and is joined again: the old copy goes
    join(world.hub, "far", far.kubeconfig)
    world.until("it is ready", lambda: far_world.ready().get("status") == "True")
    world.until("the old copy is gone", lambda: client.in_member("far", COPIES) == [])
    assert world.placed("runs", "far") in ("cfa", "cfb")
    far_world.send_far_jobs_to("far")
    delete_all(world, client)


def test_a_member_that_is_unjoined_gives_its_work_to_the_others(far_world: FarWorld) -> None:
    world, client = far_world.world, far_world.client
    client.post(JOBS.format("far"), pytorchjob("runs", workers=1))
    expect_all(world, client, ["far/runs"], "Running")
    assert world.placed("runs", "far") == "far"
    far_world.send_far_jobs_to("cfa", "cfb", "far")
    command = [str(BIN / "fleet"), "unjoin", "far", "--data-dir", str(world.hub.folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    assert all(c["metadata"]["name"] != "far" for c in client.items(CLUSTERS))
    world.until("it runs elsewhere", lambda: world.placed("runs", "far") in ("cfa", "cfb"))
    expect_all(world, client, ["far/runs"], "Running")
    join(world.hub, "far", far_world.far.kubeconfig)
    world.until("it is ready", lambda: far_world.ready().get("status") == "True")
    assert client.in_member("far", COPIES) == [], "nothing was left behind in it"
    far_world.send_far_jobs_to("far")
    delete_all(world, client)
