"""From `kubectl apply` of a job to its pods in a real member, on an idle hub; beside it the same job applied straight
to that member, which is what the user would have without Fleet."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import orjson
import yaml

from tests.bench.report import Figure, Report
from tests.e2e.conftest import join
from tests.e2e.hub import Hub, Kubectl
from tests.e2e.manifests import gang_policy, leaf, pytorchjob, quota_tree
from tests.testbed.bed import Bed, started_bed
from tests.testbed.build import parts
from tests.testbed.member import RealMember
from tests.testbed.processes import wait_for

PODS = 3
NAMES = ("cfa", "cfb", "cfc")


def measure(report: Report, folder: Path, rounds: int) -> None:
    with started_bed(folder / "bed", NAMES) as bed:
        hub = Hub(folder / "hub")
        hub.start()
        try:
            for name in NAMES:
                join(hub, name, bed.members[name].kubeconfig)
            kubectl = Kubectl(hub.kubeconfig)
            kubectl.apply(quota_tree(leaf("bench", "default")))
            kubectl.apply(gang_policy(queue=True))
            through = [_one_round(bed, hub.kubeconfig, f"through-{n}") for n in range(rounds + 1)][1:]
            running = [_one_round(bed, hub.kubeconfig, f"running-{n}", running=True) for n in range(rounds)]
            for name in NAMES:
                reserve = '{"spec":{"enableReservation":true}}'
                kubectl.run("patch", "cluster", name, "--type", "merge", "-p", reserve)
            held = [_one_round(bed, hub.kubeconfig, f"held-{n}", running=True) for n in range(rounds)]
            kubectl.run("delete", "pytorchjob", "--all")
            straight = [_one_round(bed, bed.members["cfa"].kubeconfig, f"straight-{n}") for n in range(rounds + 1)][1:]
        finally:
            hub.stop()
    report.add(Figure("apply → pods in member", "s", tuple(through), "< 1, p95 < 2"))
    report.add(Figure("without Fleet", "s", tuple(straight), beside="latency"))
    report.add(Figure("apply → pods run, room held", "s", tuple(held), "p50 < 2"))
    report.add(Figure("room not held", "s", tuple(running), beside="latency"))


def _one_round(bed: Bed, kubeconfig: Path, name: str, *, running: bool = False) -> float:
    """Seconds from the start of kubectl to the last of the job's pods appearing in whichever member has it, or
    `running` there."""
    watchers = [_PodWatch(member, name, running) for member in bed.members.values()]
    for watcher in watchers:
        watcher.start()
    try:
        for watcher in watchers:
            assert watcher.ready.wait(10), "the watch on a member did not start"
        begin = time.monotonic()
        subprocess.run(
            [str(parts().binary("kubectl")), "--kubeconfig", str(kubeconfig), "apply", "-f", "-"],
            input=yaml.safe_dump(pytorchjob(name)),
            text=True,
            capture_output=True,
            check=True,
            timeout=60,
        )
        done = wait_for(f"pods of {name}", lambda: next((w.complete for w in watchers if w.complete), None), 60, 0.005)
        return done - begin
    finally:
        for watcher in watchers:
            watcher.close()
        subprocess.run(
            [str(parts().binary("kubectl")), "--kubeconfig", str(kubeconfig), "delete", "pytorchjob", name],
            capture_output=True,
            check=True,
            timeout=90,
        )


class _PodWatch(threading.Thread):
    """Follows one member's pods; `complete` is the moment the last pod of the job appeared, or ran."""

    def __init__(self, member: RealMember, job: str, running: bool) -> None:
        super().__init__(daemon=True)
        self.ready = threading.Event()
        self.complete: float | None = None
        self._client = member.new_client(timeout=httpx.Timeout(5, read=70))
        self._job, self._running, self._seen = job, running, set[str]()
        self._stop = threading.Event()

    def run(self) -> None:
        path = "/api/v1/namespaces/default/pods"
        since = self._client.get(path, params={"limit": 1}).json()["metadata"]["resourceVersion"]
        query = {"watch": "true", "resourceVersion": since, "timeoutSeconds": "60"}
        try:
            with self._client.stream("GET", path, params=query) as answer:
                self.ready.set()
                for line in answer.iter_lines():
                    self._note(orjson.loads(line))
                    if self._stop.is_set() or self.complete:
                        return
        except httpx.HTTPError:
            if not self._stop.is_set():
                raise

    def close(self) -> None:
        self._stop.set()
        self._client.close()

    def _note(self, event: dict[str, Any]) -> None:
        name = event["object"]["metadata"]["name"]
        there = event["object"]["status"].get("phase") == "Running" if self._running else event["type"] == "ADDED"
        if there and name.startswith(f"{self._job}-"):
            self._seen.add(name)
            if len(self._seen) == PODS:
                self.complete = time.monotonic()
