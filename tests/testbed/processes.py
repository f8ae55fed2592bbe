"""Starting, watching and ending the processes of a test bed, and waiting for things with a bound."""

from __future__ import annotations

import ctypes
import fcntl
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TypeVar

T = TypeVar("T")

PORTS = range(20_000, 32_000)
_CLAIMS: list[IO[str]] = []  # of the ports that this process has been given; the kernel ends them with it

_LIBC = ctypes.CDLL("libc.so.6", use_errno=True)
_PR_SET_PDEATHSIG = 1


# `...`: a lambda in a loop binds its variable by a default, which mypy refuses for `[]`
def wait_for(what: str, probe: Callable[..., T | None], within_s: float = 120.0, every_s: float = 0.1) -> T:
    """Call `probe` until it returns something true; an exception counts as "not yet". Fails naming `what` and the last
    thing seen."""
    end = time.monotonic() + within_s
    last: object = None
    while time.monotonic() < end:
        try:
            answer = probe()
            if answer:
                return answer
            last = answer
        except Exception as error:
            last = error
        time.sleep(every_s)
    raise TimeoutError(f"{what}: not within {within_s:g} s; last seen: {last!r}")


def free_port() -> int:
    """A port that nobody listens on, for a server that is told it and starts later. It lies below those that the
    kernel gives to outgoing connections, and no other test process is given it while this one lives."""
    folder = _claims_folder()
    for port in random.sample(PORTS, len(PORTS)):
        claim = (folder / str(port)).open("w")
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.create_server(("127.0.0.1", port)):
                _CLAIMS.append(claim)
                return port
        except OSError:
            claim.close()
    raise AssertionError(f"no port is free among {PORTS}")


def claim_port(port: int, within_s: float = 300.0) -> None:
    """Wait for a port that a server insists on, and keep other test processes from it while this one lives."""
    path = _claims_folder() / str(port)
    if not any(claim.name == str(path) for claim in _CLAIMS):
        claim = path.open("w")
        wait_for(f"the claim of port {port}", lambda: _locks(claim), within_s)
        _CLAIMS.append(claim)
    wait_for(f"port {port} free", lambda: _binds(port), within_s)


def _locks(claim: IO[str]) -> bool:
    fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return True


def _binds(port: int) -> bool:
    with socket.create_server(("", port)):
        return True


def _claims_folder() -> Path:
    folder = Path(tempfile.gettempdir()) / "fleet-test-ports"
    folder.mkdir(exist_ok=True)
    return folder


class Processes:
    """Named child processes, each with a log file; they die with this process, also when it is killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: Sequence[object], environment: Mapping[str, str] | None = None) -> None:
        """Call from the main thread: the kernel ties the children's end to the thread that made them."""
        with (self._folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    def log(self, name: str, lines: int = 20) -> str:
        text = (self._folder / f"{name}.log").read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def signal(self, name: str, number: signal.Signals) -> None:
        self._running[name].send_signal(number)

    def stop(self, names: Sequence[str], within_s: float = 8.0) -> None:
        """Ask the named ones to end, kill those that do not within the bound."""
        chosen = [self._running.pop(name) for name in names if name in self._running]
        for process in chosen:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        end = time.monotonic() + within_s
        for process in chosen:
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)

    def names(self) -> list[str]:
        return list(self._running)

    def ended(self) -> list[str]:
        return [name for name, process in self._running.items() if process.poll() is not None]


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
