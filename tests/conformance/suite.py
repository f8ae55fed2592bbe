"""Runs Kubernetes' own end-to-end tests, by name, on one server.

A spec is one `It` of theirs; its name is the text of its containers and its own, as Kubernetes writes names of tests.
One process runs many specs. The suite knows no limit of time for a single one, so the runner watches the output: a spec
that takes too long is interrupted, and the specs after it go on in a new process.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.testbed.build import parts
from tests.testbed.e2e.build import e2e_binary

GROUPS = ("sig-api-machinery", "sig-auth", "sig-cli", "sig-instrumentation")
PASSED, FAILED, SKIPPED, HUNG = "passed", "failed", "skipped", "hung"
BETWEEN = "-" * 30  # what the suite prints before each spec
REASON_CHARACTERS = 400
SERIAL = re.compile(r"\[(Serial|Disruptive)\]")

FLAGS = (
    "--provider=skeleton",
    "--num-nodes=0",
    "--e2e-verify-service-account=false",
    "--dump-logs-on-failure=false",
    "--disable-log-dump",
)


@dataclass(frozen=True)
class Outcome:
    """How a spec ended: `state` is one of PASSED, FAILED, SKIPPED (by itself) and HUNG; `reason` says why."""

    name: str
    state: str
    seconds: float
    reason: str = ""


def group_of(name: str) -> str:
    """`[sig-auth] …` → `sig-auth`."""
    found = re.match(r"\[([a-z-]+)\]", name)
    return found[1] if found else ""


def all_specs(folder: Path) -> list[str]:
    """The names of all specs of GROUPS, in order. Asks no server."""
    report = folder / "specs.json"
    folder.mkdir(parents=True, exist_ok=True)
    focus = rf"\[({'|'.join(GROUPS)})\]"
    command = [e2e_binary(), "--ginkgo.dry-run", f"--ginkgo.focus={focus}", f"--ginkgo.json-report={report}"]
    subprocess.run(list(map(str, command)), cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return sorted(_name(spec) for spec in _specs(report) if spec["State"] == PASSED)


def run_specs_twice(
    kubeconfig: Path,
    names: Iterable[str],
    folder: Path,
    *,
    limit_s: Callable[[str], float],
    at_once: int = 2,
    once: Container[str] = (),
) -> dict[str, Outcome]:
    """The same with a second try, alone, for those that fail and are not in `once`: some specs of theirs wait for
    seconds that a busy machine does not give."""
    outcomes = run_specs(kubeconfig, names, folder / "first", limit_s=limit_s, at_once=at_once)
    again = [name for name, one in outcomes.items() if one.state != PASSED and name not in once]
    return outcomes | run_specs(kubeconfig, again, folder / "second", limit_s=limit_s, at_once=1)


def run_specs(
    kubeconfig: Path, names: Iterable[str], folder: Path, *, limit_s: Callable[[str], float], at_once: int = 2
) -> dict[str, Outcome]:
    """Run the specs in `at_once` processes side by side, and then those that want to be alone in one."""
    together = [name for name in names if not SERIAL.search(name)]
    alone = [name for name in names if SERIAL.search(name)]
    found: dict[str, Outcome] = {}
    lanes = [_Lane(kubeconfig, folder / f"lane-{number}", limit_s, found) for number in range(at_once)]
    threads = [
        threading.Thread(target=lane.run, args=(together[number::at_once],)) for number, lane in enumerate(lanes)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lanes[0].run(alone)
    return found


class _Lane:
    """One process after the other, until all specs of a share have ended."""

    def __init__(
        self, kubeconfig: Path, folder: Path, limit_s: Callable[[str], float], found: dict[str, Outcome]
    ) -> None:
        self._kubeconfig, self._folder, self._limit_s, self._found = kubeconfig, folder, limit_s, found
        self._processes = 0

    def run(self, names: Sequence[str]) -> None:
        left = list(names)
        while left:
            ended = self._some(left)
            if not ended:
                log = self._folder / f"{self._processes}.log"
                for name in left:
                    self._found[name] = Outcome(name, FAILED, 0, f"the suite did not run: see {log}")
                return
            self._found.update(ended)
            left = [name for name in left if name not in ended]

    def _some(self, names: Sequence[str]) -> dict[str, Outcome]:
        """Run them until one hangs; the outcomes of those that ended, that one included."""
        self._processes += 1
        self._folder.mkdir(parents=True, exist_ok=True)
        report = self._folder / f"{self._processes}.json"
        focus = "|".join(re.escape(name) for name in names)
        command = [
            e2e_binary(),
            *FLAGS,
            f"--kubeconfig={self._kubeconfig}",
            f"--kubectl-path={parts().binary('kubectl')}",
            f"--e2e-output-dir={self._folder}",
            f"--ginkgo.focus=({focus})$",
            f"--ginkgo.json-report={report}",
            "--ginkgo.v",
            "--ginkgo.no-color",
            "--ginkgo.grace-period=5s",
            "--ginkgo.timeout=6h",
            "--ginkgo.source-root=/nowhere",
        ]
        environment = {**os.environ, "HOME": str(self._folder), "KUBECONFIG": str(self._kubeconfig)}
        with (self._folder / f"{self._processes}.log").open("w", buffering=1) as log:
            process = subprocess.Popen(
                list(map(str, command)),
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                errors="replace",
            )
            watch = _Watch(process, max(map(self._limit_s, names)))
            watch.start()
            assert process.stdout is not None
            for line in process.stdout:
                log.write(line)
                watch.saw(line)
            process.wait()
        return _outcomes(report, names) if report.exists() else {}


class _Watch(threading.Thread):
    """Interrupts a process whose spec takes longer than the limit, and kills it when that does not help."""

    def __init__(self, process: subprocess.Popen[str], limit_s: float) -> None:
        super().__init__(daemon=True)
        self._process, self._limit_s = process, limit_s
        self._since = time.monotonic()

    def saw(self, line: str) -> None:
        if line.startswith(BETWEEN):
            self._since = time.monotonic()

    def run(self) -> None:
        while self._process.poll() is None:
            time.sleep(0.2)
            if time.monotonic() - self._since > self._limit_s:
                self._process.send_signal(signal.SIGINT)
                try:
                    self._process.wait(30)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                return


def _outcomes(report: Path, names: Sequence[str]) -> dict[str, Outcome]:
    asked = set(names)
    found: dict[str, Outcome] = {}
    for spec in _specs(report):
        name = _name(spec)
        state, why = spec["State"], spec.get("Failure", {})
        if name not in asked or (state == SKIPPED and not why.get("Message")):
            continue  # not reached, after an interruption
        if state not in (PASSED, SKIPPED):
            state = HUNG if state in ("interrupted", "aborted", "timedout") else FAILED
        found[name] = Outcome(name, state, spec["RunTime"] / 1e9, _reason(why))
    return found


def _reason(why: Mapping[str, Any]) -> str:
    progress = why.get("ProgressReport", {})
    at = why.get("FailureNodeLocation", {}) or {}
    text = " ".join(str(why.get("Message", "")).split())
    step = progress.get("CurrentStepText", "")
    place = f"{Path(at.get('FileName', '')).name}:{at.get('LineNumber', '')}" if at.get("FileName") else ""
    return " | ".join(part for part in (step, text[:REASON_CHARACTERS], place) if part)


def _specs(report: Path) -> list[dict[str, Any]]:
    suite: dict[str, Any] = json.loads(report.read_text())[0]
    return [spec for spec in suite["SpecReports"] or [] if spec["LeafNodeType"] == "It"]


def _name(spec: Mapping[str, Any]) -> str:
    return " ".join([*(spec["ContainerHierarchyTexts"] or []), spec["LeafNodeText"]])
