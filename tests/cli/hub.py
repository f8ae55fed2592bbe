"""`fleet` as a user runs it: real processes, real directories, everything waited for with a bound."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from fleet.cli.hub import HubClient, connect

BIN = Path(sys.executable).parent
READY_WITHIN_S = 180.0


def fleet(*arguments: str, program: str = "fleet", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("FLEET_") and k != "KUBECONFIG"}
    return subprocess.run(
        [str(BIN / program), *arguments],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**clean, **environment},
    )


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of a command that refused what was asked."""
    assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and "Traceback" not in done.stderr, done.stderr
    return lines[0]


# `...`: a lambda in a loop binds its variable by a default, which mypy refuses for `[]`
def until(what: str, probe: Callable[..., bool], within_s: float = 90.0) -> None:
    deadline = time.monotonic() + within_s
    while not probe():
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(0.05)


def processes_of(folder: Path) -> list[psutil.Process]:
    """Every process that names the data directory, PostgreSQL's among them."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        named = any(str(folder) in part for part in process.info["cmdline"] or ())
        if named and process.info["status"] != psutil.STATUS_ZOMBIE and process.pid != os.getpid():
            found.append(process)
    return found


class Up:
    """A running `fleet up`. `program`: the words that start `fleet`."""

    def __init__(
        self, folder: Path, *arguments: str, program: Sequence[str] = (str(BIN / "fleet"),), **environment: str
    ) -> None:
        self.folder = folder
        self.errors = folder.with_suffix(".stderr")
        self.out: list[str] = []
        with self.errors.open("a") as errors:
            self.process = subprocess.Popen(
                [*program, "up", "--data-dir", str(folder), "--listen", "127.0.0.1:0", *arguments],
                stdout=subprocess.PIPE,
                stderr=errors,
                stdin=subprocess.DEVNULL,
                text=True,
                env={k: v for k, v in os.environ.items() if not k.startswith("FLEET_")} | environment,
            )
        self._await_ready()

    def _await_ready(self) -> None:
        assert self.process.stdout is not None
        deadline = time.monotonic() + READY_WITHIN_S
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while time.monotonic() < deadline:
                if not selector.select(timeout=0.5):
                    continue
                line = self.process.stdout.readline()
                assert line, f"fleet up ended with {self.process.wait(10)}:\n{self.errors.read_text()}"
                self.out.append(line)
                if line.startswith("ready"):
                    return
        raise AssertionError(f"not ready within {READY_WITHIN_S:g} s:\n{self.errors.read_text()}")

    @property
    def hub(self) -> HubClient:
        return connect(self.folder / "kubeconfig")

    def child(self, name: str) -> psutil.Process:
        """The child process that runs `fleet NAME`."""
        children = psutil.Process(self.process.pid).children()
        return next(child for child in children if name in child.cmdline())

    def stop(self, how: signal.Signals = signal.SIGINT) -> int:
        """Ask it to stop; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        status = self.process.wait(60)
        assert self.process.stdout is not None
        self.out += self.process.stdout.readlines()
        self.process.stdout.close()
        return status


def run(up: Up, *words: str) -> subprocess.CompletedProcess[str]:
    return fleet(*words, "--data-dir", str(up.folder))


def seen(up: Up, name: str) -> dict[str, Any]:
    found = json.loads(run(up, "jobs", "-o", "json").stdout)
    return next(one for one in found if one["name"] == name)


def place(up: Up, name: str) -> tuple[str, str]:
    line = seen(up, name)
    return line["state"], line["member"]
