"""A child process behind a pipe, which can be killed at a deadline. All children of this kind start and end here."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, Pipe
from queue import SimpleQueue
from types import TracebackType
from typing import Any

START_LIMIT_S = 60.0


class SolverChild:
    """At most one process at a time. One thread at a time may use it, but `pid` and `kill` are for any."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = tuple(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self.number = 0  # of the process, counted from 1
        self.ready = False  # whether it said so
        self.pipe: Connection

    @property
    def pid(self) -> int | None:
        """Its process id, while there is one."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    @property
    def starts(self) -> bool:
        """Whether it may still take its time to start."""
        return not self.ready and time.monotonic() < self._started + START_LIMIT_S

    def start(self) -> None:
        """Start a process if there is none."""
        if self.pid is not None:
            return
        self.end()
        self.pipe, theirs = Pipe()
        # a session of its own, since Ctrl-C is for the parent, whose end closes the socket and so ends the child;
        # the output of a library goes to the log
        with theirs:
            self._process = subprocess.Popen(self._command, stdin=theirs.fileno(), stdout=2, start_new_session=True)
        self._started, self.ready = time.monotonic(), False
        self.number += 1

    def kill(self) -> None:
        """Kill it, which ends every wait for a message of it."""
        process = self._process
        if process is not None:
            process.kill()

    def end(self) -> int | None:
        """End the process. Returns its exit status."""
        process, self._process = self._process, None
        if process is None:
            return None
        self.pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.05)  # a child that ended by itself keeps its exit status
        process.kill()
        return process.wait()

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Kill the process after some seconds, unless the block has ended before. The block then ends with a
        TimeoutError where it waited for a message."""
        timer, ends = threading.Timer(seconds, self.kill), time.monotonic() + seconds
        timer.start()
        try:
            yield
        except (EOFError, OSError) as error:
            if time.monotonic() >= ends:
                raise TimeoutError from error
            raise
        finally:
            timer.cancel()


def from_parent(failure: str) -> tuple[Connection, SimpleQueue[Any]]:
    """For a child: the socket at stdin, and the messages that come over it. The process ends with the socket, whatever
    it does then. The child shares the log of the controllers, so its bugs have the form of that log: `failure`."""
    sys.excepthook = lambda kind, error, trace: _uncaught(failure, kind, error, trace)
    pipe: Connection = Connection(0)
    messages: SimpleQueue[Any] = SimpleQueue()

    def read() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                messages.put(pipe.recv())
        os._exit(0)  # the parent is gone; to work on would be for nothing

    threading.Thread(target=read, daemon=True).start()
    return pipe, messages


def _uncaught(failure: str, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    text = "".join(traceback.format_exception(kind, error, trace))
    print(json.dumps({"event": failure, "level": "error", "exception": text}), file=sys.stderr, flush=True)
