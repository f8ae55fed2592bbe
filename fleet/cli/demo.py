"""`fleet demo`: the walk-through of examples/walkthrough, run for a person who watches.

A hub with three simulated members starts in a directory that is thrown away afterwards. Every command is printed as
one would type it, with its real output. Where the machine has kubectl, kubectl is what runs; where it has none, the
same story is told through `fleet` itself.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.failure import Failure
from fleet.cli.parent import ENV_PARENT

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = Path("examples") / "walkthrough"
MEMBERS = 3
READY_LIMIT_S = 120.0
STOP_LIMIT_S = 60.0
GONE_LIMIT_S = 10.0


def demo(
    kubectl: Annotated[
        str | None, typer.Option(help='Which kubectl to use (default: the one on PATH; "none": show it without).')
    ] = None,
) -> None:
    """Run the whole walk-through here, then stop everything."""
    from fleet.cli.demo_story import FleetUser, KubectlUser, tell

    if not (ROOT / EXAMPLES).is_dir():
        raise Failure(f"the demo needs the manifests of {EXAMPLES}: run it from a checkout (make demo)")
    program = None if kubectl == "none" else shutil.which(kubectl or "kubectl")
    if kubectl not in (None, "none") and program is None:
        raise Failure(f"no program {kubectl}")
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="fleet-demo-"))
    try:
        print(f"A hub, its database and {MEMBERS} simulated members, in {folder}:\n", flush=True)
        with running_hub(folder) as ready:
            print(f"{ready}\n", flush=True)
            if program is None:
                print("This machine has no kubectl: the same is shown through fleet.\n")
            tell(KubectlUser(folder, program) if program else FleetUser(folder))
        left = _left_running(folder)
        if left:
            raise Failure(f"still running after the demo: {', '.join(left)}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\nDone in {time.monotonic() - began:.0f} s; nothing is left running.")


@contextlib.contextmanager
def running_hub(folder: Path) -> Iterator[str]:
    """`fleet up` for the length of a `with` block; gives its `ready` line."""
    command = [sys.executable, "-P", "-m", "fleet.cli.main", "up", "--data-dir", str(folder), "--listen", "127.0.0.1:0"]
    environment = {**os.environ, ENV_PARENT: str(os.getpid()), "FLEET_DATABASE_URL": ""}
    process = subprocess.Popen(
        [*command, "--members", str(MEMBERS)], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
        env=environment, start_new_session=True,
    )  # fmt: skip
    try:
        yield _ready_line(process)
        print("\nThat was all. Stopping the hub …", flush=True)
    finally:
        status = _stop(process)
    if status != 0:
        raise Failure(f"the hub did not stop cleanly: exit status {status}")


def _ready_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    deadline = time.monotonic() + READY_LIMIT_S
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            if not selector.select(timeout=0.5):
                continue
            line = process.stdout.readline().strip()
            if line.startswith("ready"):
                return line
            if not line:
                raise Failure(f"the hub did not start: exit status {process.wait(STOP_LIMIT_S)}")
    raise Failure(f"the hub is not ready after {READY_LIMIT_S:.0f} s")


def _stop(process: subprocess.Popen[str]) -> int:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        return process.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _left_running(folder: Path) -> list[str]:
    """Processes that still name the demo's directory, after a moment of grace."""
    import psutil

    deadline = time.monotonic() + GONE_LIMIT_S
    while True:
        left = []
        for process in psutil.process_iter(["pid", "name", "cmdline"]):
            if process.pid != os.getpid() and any(str(folder) in part for part in process.info["cmdline"] or ()):
                left.append(f"{process.info['name']} ({process.pid})")
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)
