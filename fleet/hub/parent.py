"""The life of a child process of `fleet up`: the child says when it is ready, shows life, and does not outlive its
parent.

A supervisor that is killed with SIGKILL can stop no process, so every child looks after itself: on Linux the kernel
sends it SIGTERM when its parent ends; elsewhere a thread looks once a second.
"""

from __future__ import annotations

import os
import signal
import sys

ENV_PARENT = "FLEET_SUPERVISOR_PID"
ENV_READY_FD = "FLEET_READY_FD"

LIFE_EVERY_S = 1.0
LIFE = "alive"

_PR_SET_PDEATHSIG = 1
_descriptor: int | None = None  # of the pipe to the supervisor


def follow_parent() -> None:
    """End this process (SIGTERM to itself) when the `fleet up` that started it ends. Nothing without one."""
    expected = os.environ.get(ENV_PARENT)
    if not expected:
        return
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    else:
        import threading

        threading.Thread(target=_watch, args=(int(expected),), name="parent", daemon=True).start()
    if os.getppid() != int(expected):  # the parent ended before the line above
        os.kill(os.getpid(), signal.SIGTERM)


def _watch(parent: int) -> None:
    import time

    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGTERM)


def say_ready(detail: str = "") -> None:
    """Tell the supervisor that this process serves now. `detail` is one line of text for it."""
    _tell(f"ready {detail}".rstrip())


async def show_life() -> None:
    """Tell the supervisor, for as long as the event loop turns, that it does: a loop that is stuck, or a process that
    is stopped, tells nothing. Returns at once without a supervisor."""
    import asyncio

    while _tell(LIFE):  # noqa: ASYNC110  # that the loop turns is what is told
        await asyncio.sleep(LIFE_EVERY_S)


def _tell(line: str) -> bool:
    """False where no supervisor listens (any longer)."""
    global _descriptor
    given = os.environ.pop(ENV_READY_FD, None)  # the children of this process are not heard
    if given is not None:
        _descriptor = int(given)
    if _descriptor is None:
        return False
    try:
        os.write(_descriptor, f"{line}\n".encode())
    except BlockingIOError:  # the supervisor is stopped itself, and has enough to read when it wakes
        return True
    except OSError:
        return False
    return True
