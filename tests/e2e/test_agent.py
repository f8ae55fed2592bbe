"""A real member behind a firewall: its kubeconfig leads nowhere, and only its agent reaches it."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import yaml

from tests.e2e.agent import command_of, hide
from tests.e2e.hub import BIN, Hub, Kubectl, World
from tests.e2e.manifests import gang_policy, leaf, pytorchjob, quota_tree
from tests.members.conftest import inline

# It may be the first of its group, and then starts the real clusters.
pytestmark = [pytest.mark.xdist_group("e2e-real"), pytest.mark.timeout(900)]
MEMBER = "edge"


@dataclass
class Edge:
    """The world with one member, and its agent as the Deployment would run it."""

    world: World
    folder: Path
    command: list[str]
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "agent.log").open("a") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)

    def ready(self) -> tuple[str, str]:
        cluster = self.world.kubectl.get("clusters.cluster.karmada.io", MEMBER)
        conditions = cluster.get("status", {}).get("conditions", [])
        return next(((c["status"], c["message"]) for c in conditions if c["type"] == "Ready"), ("", ""))


@pytest.fixture
def edge(real: World, tmp_path: Path) -> Iterator[Edge]:
    """A hub of its own, on a member that another hub reaches directly."""
    assert real.bed is not None
    shared = real.bed.members["cfa"].kubeconfig
    kubeconfig = tmp_path / "member.kubeconfig"
    address = hide(inline(shared), kubeconfig)
    hub = Hub(tmp_path / "hub")
    hub.start()
    edge = Edge(World("real", hub, Kubectl(hub.kubeconfig), (MEMBER,), real.bed), tmp_path, [])
    try:
        join = [str(BIN / "fleet"), "join", MEMBER, "--agent", "--kubeconfig", str(kubeconfig)]
        join += ["--data-dir", str(hub.folder), "-o", str(tmp_path / "agent.yaml")]
        subprocess.run(join, check=True, timeout=180)
        member = Kubectl(shared)
        assert "deployment.apps/fleet-agent created" in member.run("apply", "-f", str(tmp_path / "agent.yaml"))
        _pod_is_admitted(member, tmp_path / "agent.yaml")
        edge.command = command_of(tmp_path, address)
        edge.start()
        yield edge
    finally:
        edge.kill()
        assert hub.stop() == 0, hub.log()


def _pod_is_admitted(member: Kubectl, manifest: Path) -> None:
    """The bed makes no pods of Deployments: its API server is asked whether the namespace would take this one."""
    template = list(yaml.safe_load_all(manifest.read_text()))[-1]["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] = {**pod["metadata"], "name": "agent", "namespace": "fleet-agent"}
    member.run("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(pod))


def test_a_job_runs_in_a_member_that_only_its_agent_reaches(edge: Edge) -> None:
    world, kubectl = edge.world, edge.world.kubectl
    world.until("the member is ready", lambda: edge.ready()[0] == "True")
    kubectl.run("create", "namespace", "team")
    kubectl.apply(quota_tree(leaf("team", "team")))
    kubectl.apply(gang_policy(queue=True), pytorchjob("train", workers=1), namespace="team")
    world.until("the job runs", lambda: world.state("train", "team") == "Running")
    assert world.placed("train", "team") == MEMBER
    rows = kubectl.run("amc", "get", "pod", "-n", "team", "-M").splitlines()[1:]
    assert [row.split()[:2] for row in rows] == [["train-master-0", MEMBER], ["train-worker-0", MEMBER]]

    edge.kill()
    missing = "its agent is not connected (since "
    world.until("the agent is missed", lambda: missing in edge.ready()[1])
    assert world.state("train", "team") == "Running"
    edge.start()
    world.until("the member is back", lambda: edge.ready()[0] == "True")

    api = next(p for p in psutil.Process(world.hub.pid).children() if "api" in p.cmdline())
    api.kill()
    with contextlib.suppress(AssertionError):
        kubectl.run("get", "ns")
    world.until("the API is back, and the agent with it", lambda: _reached(world))
    kubectl.run("delete", "pytorchjob", "train", "-n", "team", timeout_s=120)
    world.until("nothing is left in the member", lambda: not world.pods_in_members("team"))


def _reached(world: World) -> bool:
    with contextlib.suppress(AssertionError):
        return len(world.jobs_in_members("team")) == 1
    return False
