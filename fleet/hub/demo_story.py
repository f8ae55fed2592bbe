"""The demo's story, and the two ways in which a person may type it: with kubectl, or with `fleet` alone."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from fleet.cli.failure import Failure
from fleet.cli.hub import connect
from fleet.hub.demo import EXAMPLES, ROOT
from fleet.hub.demo_steps import Steps

FIRST, SECOND = "pytorchjob/pytorch-test", "pytorchjob/pytorch-second"
BATCH = "job/batch-test"
_PATHS = {"pytorchjob": "/apis/kubeflow.org/v1", "job": "/apis/batch/v1"}
STEP_LIMIT_S = 120.0
POLL_S = 0.2


class User(Protocol):
    """A person at a terminal: each method types a command or two, and shows their output."""

    def apply(self, manifest: str, *, refused: bool = False) -> None: ...
    def queues(self) -> None: ...
    def wait_until(self, job: str, condition: str) -> None: ...
    def jobs(self, kinds: str = "pytorchjob") -> None: ...
    def events(self, job: str) -> None: ...
    def in_members(self, kind: str) -> None: ...
    def why(self, job: str) -> None: ...
    def remove(self, job: str) -> None: ...
    def remove_jobs(self) -> None: ...


def _quota(user: User) -> None:
    user.apply("quota-tree.yaml")
    user.queues()


def _policy(user: User) -> None:
    user.apply("policy-gang-queue.yaml")


def _first(user: User) -> None:
    user.apply("pytorchjob.yaml")
    user.wait_until(FIRST, "Running")
    user.jobs()
    user.events(FIRST)


def _members(user: User) -> None:
    user.in_members("pytorchjob")
    user.in_members("pod")


def _second(user: User) -> None:
    user.apply("pytorchjob-second.yaml")
    user.why(SECOND)
    user.jobs()


def _turn(user: User) -> None:
    user.wait_until(FIRST, "Succeeded")
    user.wait_until(SECOND, "Running")
    user.jobs()
    user.in_members("pytorchjob")


def _batch(user: User) -> None:
    user.apply("policy-batch.yaml")
    user.apply("batch-job.yaml")
    user.why(BATCH)
    user.remove(SECOND)
    user.wait_until(BATCH, "Complete")
    user.jobs("pytorchjob,job")


def _refused(user: User) -> None:
    user.apply("refused.yaml", refused=True)


def _removed(user: User) -> None:
    user.remove_jobs()
    user.in_members("pod")


# The walk-through and the parts after it, by title.
STORY: dict[str, Callable[[User], None]] = {
    "One queue, at most one running job in it (max-jobs: 1)": _quota,
    "PyTorchJobs are gangs: placed whole in one member, and queued first": _policy,
    "A job with one master and two workers, a GPU each": _first,
    "The same, looked at in the members": _members,
    "A second job has to wait, and says why": _second,
    "When the first has ended, the second starts by itself": _turn,
    "A batch Job waits in the same queue, and starts when the second is deleted": _batch,
    "A job that could never start is refused at once": _refused,
    "Deleted on the hub, gone from the members": _removed,
}


class _Terminal:
    """Runs commands in the checkout, shows them and their output, and stops the demo at the first that fails."""

    def __init__(self, folder: Path, steps: Steps) -> None:
        self._steps = steps
        self._hub = connect(folder / "kubeconfig")
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(folder / "kubeconfig"),
            "FLEET_DATA_DIR": str(folder),
            "FLEET_KUBECONFIG": "",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        }

    def _type(
        self,
        *words: str,
        program: str | None = None,
        command_line: str = "",
        only: Callable[[str], str] = str,
        refused: bool = False,
    ) -> None:
        """`program` is what runs for the first word; `only` cuts the output as `command_line` would.
        `refused`: the command must fail."""
        print(f"\n$ {command_line or shlex.join(words)}", flush=True)
        with self._steps.waiting(" ".join(words[:2])):
            done = subprocess.run(
                [program or words[0], *words[1:]],
                cwd=ROOT,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=STEP_LIMIT_S,
                check=False,
            )
        print(only(done.stdout).rstrip("\n"), flush=True)
        if (done.returncode != 0) != refused:
            raise Failure(f"{shlex.join(words)} ended with exit status {done.returncode}")

    def _until(self, what: str, probe: Callable[[], bool]) -> None:
        """Wait; the demo fails at the limit."""
        deadline = time.monotonic() + STEP_LIMIT_S
        with self._steps.waiting(f"until {what}"):
            while not probe():
                if time.monotonic() > deadline:
                    raise Failure(f"not within {STEP_LIMIT_S:.0f} s: {what}")
                time.sleep(POLL_S)

    def _await_reason(self, job: str) -> None:
        def waits() -> bool:
            unit = self._hub.find(f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/queueunits/{_unit(job)}")
            return bool(unit and (unit.get("status") or {}).get("message"))

        self._until(f"{job} says why it waits", waits)

    def _await_queues(self) -> None:
        path = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/kube-queue/queues"
        self._until("one Queue for each node of the tree", lambda: len(self._hub.list(path)) >= 2)

    def _await_condition(self, job: str, condition: str) -> None:
        def holds() -> bool:
            kind, _, name = job.partition("/")
            found = self._hub.find(f"{_PATHS[kind]}/namespaces/default/{kind}s/{name}")
            conditions = ((found or {}).get("status") or {}).get("conditions") or []
            return any(c.get("type") == condition and c.get("status") == "True" for c in conditions)

        self._until(f"{job} is {condition}", holds)

    def _await_no_pods(self) -> None:
        bindings = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings"
        self._until("the jobs have left the members", lambda: not self._hub.list(bindings))


class KubectlUser(_Terminal):
    """Types kubectl commands."""

    def __init__(self, folder: Path, steps: Steps, kubectl: str) -> None:
        super().__init__(folder, steps)
        self._program = kubectl

    def _kubectl(self, *words: str, shown: str = "", only: Callable[[str], str] = str, refused: bool = False) -> None:
        self._type("kubectl", *words, program=self._program, command_line=shown, only=only, refused=refused)

    def apply(self, manifest: str, *, refused: bool = False) -> None:
        self._kubectl("apply", "-f", str(EXAMPLES / manifest), refused=refused)

    def queues(self) -> None:
        self._await_queues()
        self._kubectl("get", "queue", "-n", "kube-queue")

    def wait_until(self, job: str, condition: str) -> None:
        self._kubectl("wait", job, f"--for=condition={condition}", f"--timeout={STEP_LIMIT_S:.0f}s")

    def jobs(self, kinds: str = "pytorchjob") -> None:
        self._kubectl("get", kinds)

    def events(self, job: str) -> None:
        shown = f"kubectl describe {job} | sed -n '/^Events:/,$p'"
        self._kubectl("describe", job, shown=shown, only=_events)

    def in_members(self, kind: str) -> None:
        self._kubectl("amc", "get", kind, "-M")

    def why(self, job: str) -> None:
        self._await_reason(job)
        self._kubectl("get", "queueunit", _unit(job), "-o", "jsonpath={.status.message}")
        self.events(job)

    def remove(self, job: str) -> None:
        self._kubectl("delete", job)

    def remove_jobs(self) -> None:
        self._kubectl("delete", "pytorchjob,job", "--all")
        self._await_no_pods()


class FleetUser(_Terminal):
    """Types `fleet` commands, and the plugin by its own name."""

    def _fleet(self, *words: str, refused: bool = False) -> None:
        self._type("fleet", *words, program=str(Path(sys.executable).parent / "fleet"), refused=refused)

    def apply(self, manifest: str, *, refused: bool = False) -> None:
        self._fleet("submit", str(EXAMPLES / manifest), refused=refused)

    def queues(self) -> None:
        self._await_queues()
        self._fleet("queues")

    def wait_until(self, job: str, condition: str) -> None:
        print(f"\n(until {job} is {condition})", flush=True)
        self._await_condition(job, condition)

    def jobs(self, kinds: str = "") -> None:
        self._fleet("jobs")

    def events(self, job: str) -> None:
        self._fleet("explain", job)

    def in_members(self, kind: str) -> None:
        self._type("kubectl-amc", "get", kind, "-M", program=str(Path(sys.executable).parent / "kubectl-amc"))

    def why(self, job: str) -> None:
        self._await_reason(job)
        self._fleet("explain", job)

    def remove(self, job: str) -> None:
        self._fleet("delete", job)

    def remove_jobs(self) -> None:
        for job in (FIRST, BATCH):
            self.remove(job)
        self._await_no_pods()


def _events(description: str) -> str:
    """The part of `kubectl describe` that `sed -n '/^Events:/,$p'` leaves."""
    _, found, events = description.partition("\nEvents:")
    return f"Events:{events}" if found else description


def _unit(job: str) -> str:
    """The QueueUnit of kind/name."""
    kind, _, name = job.partition("/")
    return f"{name}-{kind}-rb-qu"
