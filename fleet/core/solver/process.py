"""The solver in a child process that can be killed at its deadline. The only file of the core that does I/O, beside
child.py.

A solver library may overrun its own time limit, abort its process, or use up its memory; none of that may reach the
decider. So a child gets problems and streams answers over a socket. A timer kills the child at the deadline, which ends
every wait for an answer. Then the best answer so far counts, and the next problem gets a new child. The start of a
child takes a second or two: `warm()` does it ahead of the first problem, and a missed deadline ahead of the next.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from fleet.core.model.cause import Cause, CauseCode
from fleet.core.model.plan import Answer
from fleet.core.placement.problem import Problem, VictimProblem
from fleet.core.solver.child import SolverChild, from_parent

_CHILD = (sys.executable, "-c", "from fleet.core.solver.process import serve; serve()")


class ProcessSolver:
    """The `Solver` for production. Safe to share between threads: problems are solved one after the other."""

    def __init__(self, command: Sequence[str] = _CHILD) -> None:
        """`command` starts a child with the protocol of `serve`; only tests give another."""
        self._lock = threading.Lock()
        self._child = SolverChild(command)

    def warm(self) -> None:
        """Start the child if there is none, without waiting for it."""
        with self._lock:
            self._child.start()

    def close(self) -> None:
        """End the child. The next problem starts a new one."""
        with self._lock:
            self._child.end()

    @property
    def pid(self) -> int | None:
        """The child's process id, while there is one."""
        return self._child.pid

    def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer:
        """An answer within `limit_s` seconds: the child's last answer, or the best one that it streamed before its end,
        or none. `cause` is the failure, if there was one."""
        deadline = time.monotonic() + limit_s
        best = Answer()
        with self._lock:
            child = self._child
            try:
                child.start()
                if not child.ready and not child.pipe.poll(_left(deadline)):
                    if child.starts:
                        return Answer(cause=Cause(CauseCode.STARTING))
                    child.kill()
                with child.within(_left(deadline)):
                    if not child.ready:
                        child.ready = child.pipe.recv()
                    child.pipe.send((problem, seed, max(0.05, 0.9 * _left(deadline) - 0.1)))
                    last = False
                    while not last:
                        last, best = child.pipe.recv()
                return best
            except Exception as error:  # a child may fail in any way, and send anything
                late, status = time.monotonic() >= deadline, child.end()
                if late:
                    with contextlib.suppress(OSError):
                        child.start()  # while the answer is packed and checked, for the next problem
                    return replace(best, cause=Cause(CauseCode.LATE, {"limit_s": limit_s}))
                detail = f"exit status {status}" if isinstance(error, (EOFError, OSError)) else type(error).__name__
                return replace(best, cause=Cause(CauseCode.FAILED, {"detail": detail}))


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def serve() -> None:
    """Solve problems from the socket at stdin and answer on it, until the socket closes."""
    pipe, problems = from_parent("the solver's process failed")
    from fleet.core.solver.cpsat import CpSat

    pipe.send(True)
    solver = CpSat()
    while True:
        problem, seed, limit_s = problems.get()
        answer = solver.solve(problem, seed=seed, limit_s=limit_s, emit=lambda answer: pipe.send((False, answer)))
        pipe.send((True, answer))
