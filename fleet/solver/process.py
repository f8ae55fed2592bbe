"""The solver in a child process that can be killed at its deadline. The only file of the core that does I/O.

A solver library may overrun its own time limit, abort its process, or use up its memory; none of that may reach the
decider. So a child gets problems and streams answers over a socket. A timer kills the child at the deadline, which ends
every wait for an answer. Then the best answer so far counts, and the next problem gets a new child. The start of a
child takes a second or two: `warm()` does it ahead of the first problem, and a missed deadline ahead of the next.
"""

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
from dataclasses import replace
from multiprocessing.connection import Connection, Pipe
from queue import SimpleQueue
from types import TracebackType

from fleet.placement.problem import Answer, Problem, VictimProblem

_START_LIMIT_S = 60.0
STARTING, LATE, FAILED = "the solver is still starting", "the solver was stopped at its deadline", "the solver failed"
_CHILD = (sys.executable, "-c", "from fleet.solver.process import serve; serve()")


class ProcessSolver:
    """The `Solver` for production. Safe to share between threads: problems are solved one after the other."""

    def __init__(self, command: Sequence[str] = _CHILD) -> None:
        """`command` starts a child with the protocol of `serve`; only tests give another."""
        self._command = tuple(command)
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._ready = False
        self._pipe: Connection

    def warm(self) -> None:
        """Start the child if there is none, without waiting for it."""
        with self._lock:
            self._running()

    def close(self) -> None:
        """End the child. The next problem starts a new one."""
        with self._lock:
            self._end()

    @property
    def pid(self) -> int | None:
        """The child's process id, while there is one."""
        child = self._child
        return child.pid if child is not None and child.poll() is None else None

    def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer:
        """An answer within `limit_s` seconds: the child's last answer, or the best one that it streamed before its end,
        or none. `why` names the failure, if there was one."""
        deadline = time.monotonic() + limit_s
        best = Answer()
        with self._lock:
            try:
                child = self._running()
                if not self._ready and not self._pipe.poll(_left(deadline)):
                    if time.monotonic() < self._started + _START_LIMIT_S:
                        return Answer(why=STARTING)
                    child.kill()
                with _killed_after(child, _left(deadline)):
                    if not self._ready:
                        self._ready = self._pipe.recv()
                    self._pipe.send((problem, seed, max(0.05, 0.9 * _left(deadline) - 0.1)))
                    last = False
                    while not last:
                        last, best = self._pipe.recv()
                return best
            except Exception as error:  # a child may fail in any way, and send anything
                late, status = time.monotonic() >= deadline, self._end()
                if late:
                    with contextlib.suppress(OSError):
                        self._running()  # starts while the answer is packed and checked, for the next problem
                    return replace(best, why=f"{LATE} of {limit_s:g} s")
                detail = f"exit status {status}" if isinstance(error, (EOFError, OSError)) else type(error).__name__
                return replace(best, why=f"{FAILED} ({detail})")

    def _running(self) -> subprocess.Popen[bytes]:
        """The child; a new one if there is none."""
        if self._child is None or self._child.poll() is not None:
            self._end()
            self._pipe, theirs = Pipe()
            # a session of its own, since Ctrl-C is for the parent, whose end closes the socket and so ends the child;
            # the output of a library goes to the log
            with theirs:
                self._child = subprocess.Popen(self._command, stdin=theirs.fileno(), stdout=2, start_new_session=True)
            self._started, self._ready = time.monotonic(), False
        return self._child

    def _end(self) -> int | None:
        """End the child. Returns its exit status."""
        child, self._child = self._child, None
        if child is None:
            return None
        self._pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(0.05)  # a child that ended by itself keeps its exit status
        child.kill()
        return child.wait()


@contextlib.contextmanager
def _killed_after(child: subprocess.Popen[bytes], seconds: float) -> Iterator[None]:
    """Kill a child after some seconds, unless the block has ended before."""
    timer = threading.Timer(seconds, child.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    text = "".join(traceback.format_exception(kind, error, trace))
    said = {"event": "the solver's process failed", "level": "error", "exception": text}
    print(json.dumps(said), file=sys.stderr, flush=True)


def serve() -> None:
    """Solve problems from the socket at stdin and answer on it, until the socket closes. The child shares the log of
    the controllers, so its bugs have the form of that log."""
    sys.excepthook = _uncaught
    pipe: Connection = Connection(0)
    problems: SimpleQueue[tuple[Problem | VictimProblem, int, float]] = SimpleQueue()

    def read() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                problems.put(pipe.recv())
        os._exit(0)  # the parent is gone; a solve would go on for nothing

    threading.Thread(target=read, daemon=True).start()
    from fleet.solver.cpsat import CpSat

    pipe.send(True)
    solver = CpSat()
    while True:
        problem, seed, limit_s = problems.get()
        answer = solver.solve(problem, seed=seed, limit_s=limit_s, emit=lambda answer: pipe.send((False, answer)))
        pipe.send((True, answer))
