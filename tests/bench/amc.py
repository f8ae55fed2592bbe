"""`kubectl amc get pod -M` over many members: `python -m tests.bench.amc`.

Starts a hub with simulated members, puts the same number of pods into each, and runs the plugin as a user does, some
times. Prints the median and the slowest run, from the start of the process to its end. All members are one process.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fleet.amc.client import Client
from fleet.amc.get import member_names, proxy
from fleet.values.kubeconfig.files import load
from tests.cli.hub import Up, fleet

PODS = "/api/v1/namespaces/default/pods"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=50)
    parser.add_argument("--pods", type=int, default=1000, help="in all members together")
    parser.add_argument("--runs", type=int, default=7)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as folder:
        up = Up(Path(folder) / "hub", "--members", str(asked.members), "--nodes", "1")
        try:
            kubeconfig = up.folder / "kubeconfig"
            client = Client(load([kubeconfig]), timeout_s=60)
            names = member_names(client)
            each = asked.pods // len(names)
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda name: fill(client, name, each), names))
            took = [run(kubeconfig, each * len(names)) for _ in range(asked.runs)]
        finally:
            up.stop()
    print(f"members={len(names)} pods={each * len(names)} median={statistics.median(took):.2f}s max={max(took):.2f}s")


def fill(client: Client, member: str, count: int) -> None:
    """Pods without a node: nothing else happens to them."""
    for number in range(count):
        spec = {"containers": [{"name": "a", "image": "x"}], "schedulerName": "none"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p-{number}"}, "spec": spec}
        answer = client.request("POST", proxy(member) + PODS, body)
        assert answer.ok, answer.message


def run(kubeconfig: Path, count: int) -> float:
    """Seconds of one run, which shows all pods."""
    began = time.monotonic()
    done = fleet("get", "pod", "-M", "--kubeconfig", str(kubeconfig), "--member-timeout", "60", program="kubectl-amc")
    took = time.monotonic() - began
    assert done.returncode == 0 and len(done.stdout.splitlines()) == count + 1, done.stderr
    return took


if __name__ == "__main__":
    main()
