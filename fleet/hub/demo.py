"""`fleet demo`: the walk-through of examples/walkthrough, run for a person who watches.

A hub with three simulated members starts in a directory that is thrown away afterwards; with `--keep` that is when
the person presses Ctrl-C. Every command is printed as one would type it, with its real output. Where the machine has
kubectl, kubectl is what runs; where it has none, the same story is told through `fleet` itself.
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
from fleet.hub.console import PATH
from fleet.hub.demo_steps import Steps
from fleet.hub.parent import ENV_PARENT
from fleet.hub.up import DEFAULT_LISTEN, bind, parse_listen

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = Path("examples") / "walkthrough"
MEMBERS = 3
READY_LIMIT_S = 120.0
STOP_LIMIT_S = 60.0
GONE_LIMIT_S = 10.0
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def demo(
    kubectl: Annotated[
        str | None, typer.Option(help='Which kubectl to use (default: the one on PATH; "none": show it without).')
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the hub running afterwards, until Ctrl-C.")] = False,
    listen: Annotated[
        str | None,
        typer.Option(help=f"HOST:PORT of the hub (default: a free port; with --keep {DEFAULT_LISTEN})."),
    ] = None,
) -> None:
    """Run the whole walk-through here, then stop everything."""
    from fleet.hub.demo_story import STORY, FleetUser, KubectlUser

    if not (ROOT / EXAMPLES).is_dir():
        raise Failure(f"the demo needs the manifests of {EXAMPLES}: run it from a checkout (make demo)")
    program = None if kubectl == "none" else shutil.which(kubectl or "kubectl")
    if kubectl not in (None, "none") and program is None:
        raise Failure(f"no program {kubectl}")
    address = listen or (DEFAULT_LISTEN if keep else "127.0.0.1:0")
    bind(*parse_listen(address)).close()  # what is in the way is told before anything starts
    for number in ENDS:
        signal.signal(number, signal.default_int_handler)  # a closed terminal and a kill end as Ctrl-C does
    steps = Steps(len(STORY) + 2)
    folder = Path(tempfile.mkdtemp(prefix="fleet-demo-"))
    try:
        steps.begin(f"A hub, its database and {MEMBERS} simulated members, in {folder}")
        with running_hub(folder, address) as (ready, hub):
            print(f"{ready}\n", flush=True)
            if program is None:
                print("This machine has no kubectl: the same is shown through fleet.\n")
            user = KubectlUser(folder, steps, program) if program else FleetUser(folder, steps)
            for title, step in STORY.items():
                steps.begin(title)
                step(user)
            if keep:
                steps.begin("The hub goes on until Ctrl-C")
                print(_kept(folder, ready.split()[1], program), flush=True)
                _until_interrupted(hub)
            else:
                steps.begin("Stopping the hub")
        left = _left_running(folder)
        if left:
            raise Failure(f"still running after the demo: {', '.join(left)}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\nDone in {steps.seconds:.0f} s; nothing is left running.")
    if not keep:
        print(NEXT)


NEXT = """
Three things to try next:
  make demo KEEP=1                      the same, and the hub stays for you to use until Ctrl-C
  make up                               a hub that keeps its data, for docs/tutorial.md step by step
  docs/how-to/join-a-real-cluster.md    a cluster of your own instead of the simulated ones"""


def _kept(folder: Path, server: str, program: str | None) -> str:
    """What a person may do with a hub that stays."""
    apply = "kubectl apply -f" if program else "fleet submit"
    too_large = f"{apply} {EXAMPLES}/too-large.yaml"
    return f"""
In another terminal, in {ROOT}, paste:
    export KUBECONFIG={folder}/kubeconfig FLEET_DATA_DIR={folder} PATH={Path(sys.executable).parent}:$PATH

Three things to try next:
    {too_large:<58}   a job that fits nowhere: fleet explain pytorch-too-large
    fleet run --gpus 8 --name mine --image train:1 -- train      a job without a manifest: fleet jobs -w
    fleet token create me --group system:masters --ttl 12h       a token for the console: {server}{PATH}

Ctrl-C here stops the hub and removes all of it."""


def _until_interrupted(hub: subprocess.Popen[str]) -> None:
    """Returns at Ctrl-C. Raises Failure where the hub ends before."""
    with contextlib.suppress(KeyboardInterrupt):
        raise Failure(f"the hub ended by itself: exit status {hub.wait()}")


@contextlib.contextmanager
def running_hub(folder: Path, listen: str = "127.0.0.1:0") -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`fleet up` for the length of a `with` block; gives its `ready` line, and its process."""
    command = [sys.executable, "-P", "-m", "fleet.cli.main", "up", "--data-dir", str(folder), "--listen", listen]
    environment = {**os.environ, ENV_PARENT: str(os.getpid()), "FLEET_DATABASE_URL": ""}
    process: subprocess.Popen[str] | None = None
    try:
        with _afterwards():  # else Ctrl-C may come where the hub runs already and nobody knows of it yet
            process = subprocess.Popen(
                [*command, "--members", str(MEMBERS)],
                stdout=subprocess.PIPE,
                stdin=subprocess.DEVNULL,
                text=True,
                env=environment,
                start_new_session=True,
            )
        yield _ready_line(process), process
    finally:
        with _uninterrupted():
            status = _stop(process) if process else 0
    if status != 0:
        raise Failure(f"the hub did not stop cleanly: exit status {status}")


@contextlib.contextmanager
def _afterwards() -> Iterator[None]:
    """A short block at whose end a Ctrl-C that came meanwhile is raised."""
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in ENDS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """A block with a limit of its own, in which a second Ctrl-C would leave parts of the hub behind."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ENDS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
        process.terminate()  # heard from the first moment on, unlike SIGINT, which Python may drop while it starts
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
