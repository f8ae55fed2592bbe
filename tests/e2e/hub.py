"""A whole hub for the end-to-end tests: `fleet up` as a user starts it, and kubectl as a user types it.

Everything that a test does goes through kubectl and `kubectl amc`; members are looked into through the hub's own proxy.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.testbed.bed import Bed
from tests.testbed.build import parts
from tests.testbed.processes import wait_for

BIN = Path(sys.executable).parent
READY_WITHIN_S = 180.0


@dataclass(frozen=True)
class Output:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.rstrip("\n").split("\n") if self.out else []


class Hub:
    """One `fleet up` process. `ready_line` is what it printed."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self._arguments = arguments
        self._log = folder.with_suffix(".log")
        self._process: subprocess.Popen[str] | None = None
        self.ready_line = ""

    def start(self) -> None:
        command = [
            str(BIN / "fleet"),
            "up",
            "--data-dir",
            str(self.folder),
            "--listen",
            "127.0.0.1:0",
            *self._arguments,
        ]
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True
            )
        self.ready_line = self._await_ready(self._process)

    def stop(self) -> int:
        """Ctrl-C; the exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(60)

    def kill(self) -> None:
        """kill -9 of the supervisor alone."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(10)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    def log(self) -> str:
        """The ends of the logs of the supervisor and its children, for a test that failed."""
        logs = [self._log, *sorted((self.folder / "logs").glob("*.log"))]
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-4000:]}" for path in logs)

    def _await_ready(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        end = time.monotonic() + READY_WITHIN_S
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while time.monotonic() < end:
                if not selector.select(timeout=1.0):
                    continue
                line = process.stdout.readline()
                if line.startswith("ready"):
                    return line
                if not line and process.poll() is not None:
                    raise AssertionError(f"fleet up ended with {process.returncode}:\n{self.log()}")
        raise AssertionError(f"fleet up was not ready within {READY_WITHIN_S:g} s:\n{self.log()}")


class Kubectl:
    """Runs the real kubectl against the hub."""

    def __init__(self, kubeconfig: Path, kubectl: Path | None = None) -> None:
        self._kubectl = kubectl or parts().binary("kubectl")
        self._environment = {
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "KUBECONFIG": str(kubeconfig),
            "HOME": str(kubeconfig.parent),
            "LC_ALL": "C.UTF-8",
        }

    def try_run(self, *arguments: str, stdin: str | None = None, timeout_s: float = 180) -> Output:
        done = subprocess.run(
            [str(self._kubectl), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=self._environment,
            check=False,
        )
        return Output(done.returncode, done.stdout, done.stderr)

    def run(self, *arguments: str, stdin: str | None = None, timeout_s: float = 180) -> str:
        """The output of a command that must succeed."""
        done = self.try_run(*arguments, stdin=stdin, timeout_s=timeout_s)
        assert done.code == 0, f"kubectl {' '.join(arguments)}: {done.code}\n{done.out}\n{done.err}"
        return done.out

    def apply(self, *objects: Mapping[str, Any], namespace: str | None = None) -> str:
        where = ["-n", namespace] if namespace else []
        return self.run("apply", *where, "-f", "-", stdin=yaml.safe_dump_all(objects))

    def get(self, *arguments: str) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.run("get", *arguments, "-o", "json"))
        return parsed

    def items(self, *arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get(*arguments)["items"]
        return found

    def in_member(self, member: str, path: str) -> list[dict[str, Any]]:
        """Items of a list in a member, through the hub's proxy."""
        raw = f"/apis/cluster.karmada.io/v1alpha1/clusters/{member}/proxy{path}"
        found: list[dict[str, Any]] = json.loads(self.run("get", "--raw", raw))["items"]
        return found


@dataclass
class World:
    """A hub with its members, `kind` "simulated" or "real"; `bed` has the processes of real ones."""

    kind: str
    hub: Hub
    kubectl: Kubectl
    members: Sequence[str]
    bed: Bed | None = None

    # `...`: a lambda in a loop binds its variable by a default, which mypy refuses for `[]`
    def until(self, what: str, probe: Callable[..., object], within_s: float = 120) -> None:
        try:
            wait_for(what, probe, within_s, every_s=0.2)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.hub.log()}") from None

    def state(self, name: str, namespace: str) -> str:
        """STATE of a PyTorchJob on the hub."""
        conditions = self.kubectl.get("pytorchjob", name, "-n", namespace).get("status", {}).get("conditions", [])
        return conditions[-1]["type"] if conditions else ""

    def placed(self, name: str, namespace: str) -> str:
        """The member that a job's binding names, or ""."""
        binding = self.kubectl.try_run("get", "rb", f"{name}-pytorchjob", "-n", namespace, "-o", "json")
        clusters = json.loads(binding.out)["spec"].get("clusters", []) if binding.code == 0 else []
        return clusters[0]["name"] if clusters else ""

    def unit(self, name: str, namespace: str) -> dict[str, Any]:
        done = self.kubectl.try_run("get", "queueunit", f"{name}-pytorchjob-rb-qu", "-n", namespace, "-o", "json")
        return json.loads(done.out) if done.code == 0 else {}

    def message(self, name: str, namespace: str) -> str:
        """Why a queued job waits."""
        text: str = self.unit(name, namespace).get("status", {}).get("message", "")
        return text

    def copies(self, path: str) -> list[tuple[str, str]]:
        """(member, name) of everything that a path lists, over all members."""
        return [(m, item["metadata"]["name"]) for m in self.members for item in self.kubectl.in_member(m, path)]

    def jobs_in_members(self, namespace: str) -> list[tuple[str, str]]:
        return self.copies(f"/apis/kubeflow.org/v1/namespaces/{namespace}/pytorchjobs")

    def pods_in_members(self, namespace: str) -> list[tuple[str, str]]:
        return self.copies(f"/api/v1/namespaces/{namespace}/pods")
