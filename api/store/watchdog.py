"""Starts a PostgreSQL server, and ends it when no process uses it any more.

A hub that is killed stops nothing, and neither does a test run. But the kernel takes back the locks of a process that
is gone, and every user of an embedded server holds a shared lock on `users.lock` of its directory, coming and going
under `start.lock` (embedded.py). So the watchdog, which stands between the users and the server in a session of its
own, looks twice a second whether a user is left, and else asks the server for a fast shutdown, which loses nothing.
Should this process be killed, the kernel asks the server for the same (`prefix_of_server`), and its users start both
again.

Run as a file, on its own. The watchdog imports nothing of Fleet, so that it stays small.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

FILE = Path(__file__).resolve()
EVERY_S = 0.5
# Fast: disconnect all clients, and write a checkpoint. Then at once, to be recovered at the next start. Then by force.
STOPPING = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))


def command(directory: Path, server: Sequence[str]) -> list[str]:
    """The command line that runs `server` for as long as `directory` has users."""
    return [sys.executable, "-I", "-S", str(FILE), str(directory), *server]


def prefix_of_server(*options: str) -> list[str]:
    """The words before a server's command line that make the kernel end it with its parent; `options` are more of
    setpriv's. Nothing on a system without that program."""
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    return [setpriv, "--pdeathsig=INT", *options, "--"] if setpriv is not None else []


def run(directory: Path, server: Sequence[str]) -> int:
    """Until the server ends; its exit status."""
    child = subprocess.Popen(server)
    signal.signal(signal.SIGTERM, lambda *_: child.send_signal(signal.SIGINT))
    waiting = threading.Thread(target=child.wait, daemon=True)
    waiting.start()
    while waiting.is_alive():
        waiting.join(EVERY_S)
        if waiting.is_alive():
            _end_unless_used(directory, child, waiting)
    return child.wait()


def _end_unless_used(directory: Path, child: subprocess.Popen[bytes], waiting: threading.Thread) -> None:
    """A user that comes meanwhile waits for `start.lock` until the server is gone, and starts another."""
    with contextlib.ExitStack() as locks:
        try:
            for name in ("start.lock", "users.lock"):
                fcntl.flock(locks.enter_context((directory / name).open("rb+")), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        except FileNotFoundError:
            pass  # the directory is gone, and so are its users
        for number, patience_s in STOPPING:
            if waiting.is_alive():
                child.send_signal(number)
                waiting.join(patience_s)


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), sys.argv[2:]))
