"""Decisions in a child process, which can be killed at a deadline: a decision holds neither the event loop of the
controllers, nor every start.

The child keeps the last snapshot, so a call sends the differences only. The thread that calls waits on the pipe, and so
leaves the interpreter to the event loop. Questions for the solver come back over the pipe: the solver of the call
answers them. A decision that is not there at its deadline is tried once more in a new child, since a process may be
slow for many reasons; then the call ends with DecisionTooLong. A child that dies, or sends nonsense, is replaced in the
same way. The seconds of the solver do not count, nor does the way of the snapshot, whose steps have a bound each.
"""

from __future__ import annotations

import copyreg
import gc
import pickle
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

import structlog

from fleet.controllers.decide.differences import Piece, SnapshotReceiver, SnapshotSender, merged, regrouped
from fleet.core.decide import BadSnapshot, decide
from fleet.core.model.plan import Answer, Plan
from fleet.core.model.reason import Reason
from fleet.core.placement.problem import Problem, Solver, VictimProblem
from fleet.core.snapshot import Snapshot
from fleet.core.solver.child import START_LIMIT_S, SolverChild, from_parent

log = structlog.get_logger(__name__)

LIMIT_S = 20.0  # of a decision, beside its solver; one about a million waiting units takes two to five
STEP_S = 10.0  # for a piece of the snapshot, for an answer
TRIAL_TIMES = 3.0  # so many times the longest of the last decisions is the limit of a trial,
TRIAL_LEAST_S = 2.0  # and at least this;
TRIAL_FIRST_S = 6.0  # where there was no decision yet
LATELY = 10  # decisions
_CHILD = (sys.executable, "-c", "from fleet.controllers.decide.process import serve; serve()")


class DecisionTooLong(Exception):
    """There is no plan at the deadline."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"it takes too long to decide about: no plan after {limit_s:g} s")


class DeciderFailure(Exception):
    """There is no plan, since the process ended, did not start, or sent what is none."""


@dataclass(frozen=True, slots=True)
class _DecisionCall:
    """A call."""

    snapshot: Snapshot
    now: float
    seed: int
    solver: Solver | None
    mark: Callable[[str], None]


class ProcessDecider:
    """Decides as `fleet.core.decide.decide` does, elsewhere. Safe to share between threads: decisions are made one
    after the other."""

    def __init__(self, command: Sequence[str] = _CHILD, limit_s: float = LIMIT_S) -> None:
        """`command` starts a child with the protocol of `serve`; only tests give another, or another limit."""
        self._lock = threading.Lock()
        self._child = SolverChild(command)
        self._limit_s = limit_s
        self._took_s = 0.0  # by the decision that was made last
        self._lately: deque[float] = deque(maxlen=LATELY)  # the same, without trials, which are about fewer units
        self._interrupts = 0
        self._number = 0  # of the child that knows:
        self._sender = SnapshotSender()
        self._reasons: Mapping[str, Reason] = {}  # of the child's last plan
        self.piece_count = 0  # pieces, for tests

    def warm(self) -> None:
        """Start the child if there is none, without waiting for it."""
        with self._lock:
            self._child.start()

    def interrupt(self) -> None:
        """End the decision that is made now, if one is: its caller gets a DeciderFailure."""
        if self._lock.locked():
            self._interrupts += 1
            self._child.kill()

    def close(self) -> None:
        """End the child, and the decision that it makes. The next one starts a new child."""
        self.interrupt()
        with self._lock:
            self._child.end()

    @property
    def pid(self) -> int | None:
        """The child's process id, while there is one."""
        return self._child.pid

    @property
    def trial_s(self) -> float:
        """The limit of a trial: follows from the last decisions."""
        longest = max(self._lately, default=TRIAL_FIRST_S / TRIAL_TIMES)
        return min(self._limit_s, max(TRIAL_LEAST_S, TRIAL_TIMES * longest))

    def decide(
        self,
        snapshot: Snapshot,
        *,
        now: float,
        seed: int,
        solver: Solver | None,
        mark: Callable[[str], None] = lambda part: None,
    ) -> Plan:
        """The plan, as `fleet.core.decide.decide` makes it. Raises what that raises, DecisionTooLong or
        DeciderFailure."""
        request = _DecisionCall(snapshot, now, seed, solver, mark)
        plan = self._twice(request, self._limit_s, DecisionTooLong, DeciderFailure)
        self._lately.append(self._took_s)
        return plan

    def trial(self, snapshot: Snapshot, *, now: float, seed: int, solver: Solver | None) -> Plan:
        """The same within a shorter limit, for a search that makes many decisions, some of which do not end."""
        return self._twice(_DecisionCall(snapshot, now, seed, solver, lambda part: None), self.trial_s, DeciderFailure)

    def _twice(self, request: _DecisionCall, limit_s: float, *again: type[Exception]) -> Plan:
        """The plan, of a second try after one of the exceptions `again`, which counts where that is too long, too."""
        with self._lock:
            interrupts = self._interrupts
            try:
                return self._plan(request, limit_s)
            except again as error:
                if self._interrupts != interrupts:
                    raise
                log.warning("the decider's process is replaced", why=str(error))
                first = error
            try:
                return self._plan(request, self.trial_s if isinstance(first, DecisionTooLong) else limit_s)
            except DecisionTooLong:
                raise first from None

    def _plan(self, request: _DecisionCall, limit_s: float) -> Plan:
        try:
            self._send(request)
            answer = self._made(request, limit_s)
        except BadSnapshot:  # nothing was sent
            raise
        except Exception as error:
            status = self._child.end()
            with suppress(OSError):
                self._child.start()  # for the next decision
            if isinstance(error, TimeoutError):
                raise DecisionTooLong(limit_s) from None
            if isinstance(error, (EOFError, OSError)):
                how = f"ended with exit status {status}" if status is not None else f"cannot be started ({error})"
                raise DeciderFailure(f"the decider's process {how}") from None
            raise
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _send(self, request: _DecisionCall) -> None:
        """Send all that the child needs to decide."""
        child = self._child
        child.start()
        if child.number != self._number:  # a new one knows nothing
            self._number, self._sender, self._reasons = child.number, SnapshotSender(), {}
        if not child.ready:
            try:
                with child.within(START_LIMIT_S):
                    said = self._received()
            except TimeoutError:
                raise DeciderFailure(f"the decider's process did not start within {START_LIMIT_S:g} s") from None
            if said != "ready":
                raise _nonsense(said)
            child.ready = True
        for piece in self._sender.pieces(request.snapshot):
            with child.within(STEP_S):
                child.pipe.send(piece)
            self.piece_count += 1
        with child.within(STEP_S):
            child.pipe.send((request.now, request.seed, request.solver is not None))

    def _made(self, request: _DecisionCall, limit_s: float) -> Plan | Exception:
        """The plan, or the exception that `decide` ended with."""
        child, left_s = self._child, self._limit_s  # until it begins
        while True:
            began = time.monotonic()
            with child.within(max(0.0, left_s)):
                message = self._after_marks(request.mark)
            left_s -= time.monotonic() - began
            match message:
                case ("begins", None):
                    left_s = limit_s
                case ("solve", (problem, seed, seconds)) if request.solver is not None:
                    answer = request.solver.solve(problem, seed=seed, limit_s=seconds)
                    with child.within(STEP_S):
                        child.pipe.send(answer)
                case ("raised", (Exception() as error, str(where))):
                    error.add_note(where)
                    return error
                case ("plan", Plan() as plan):
                    self._took_s = limit_s - left_s
                    with child.within(self._limit_s):
                        return replace(plan, reasons=self._told())
                case _:
                    raise _nonsense(message)

    def _after_marks(self, mark: Callable[[str], None]) -> Any:
        """The next message that is not about a mark."""
        while True:
            match self._received():
                case ("mark", str(part)):
                    mark(part)
                case message:
                    return message

    def _told(self) -> Mapping[str, Reason]:
        """The reasons of the plan, which come after it."""
        reasons = dict(self._reasons)
        while True:
            match self._received():
                case ("reasons", list(piece)):
                    merged(reasons, piece)
                case ("gone", list(keys)):
                    for key in keys:
                        del reasons[key]
                    self._reasons = reasons
                    return reasons
                case message:
                    raise _nonsense(message)

    def _received(self) -> Any:
        try:
            return self._child.pipe.recv()
        except (EOFError, OSError):
            raise
        except Exception as error:  # of anything that is no message
            raise _nonsense(error) from None


def _nonsense(what: object) -> DeciderFailure:
    return DeciderFailure(f"the decider's process sent nonsense ({type(what).__name__})")


class _Afar:
    """In the child: the solver of the call, asked over the pipe."""

    def __init__(self, pipe: Connection, messages: SimpleQueue[Any]) -> None:
        self._pipe, self._messages = pipe, messages

    def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer:
        self._pipe.send(("solve", (problem, seed, limit_s)))
        answer: Answer = self._messages.get()
        return answer


def serve(decide: Callable[..., Plan] = decide) -> None:
    """Decide for the socket at stdin, until it closes. `decide`: only tests give another."""
    pipe, messages = from_parent("the decider's process failed")
    solver, received = _Afar(pipe, messages), SnapshotReceiver()
    reasons: Mapping[str, Reason] = {}
    gc.disable()  # for as long as a decision takes
    pipe.send("ready")
    while True:
        message = messages.get()
        if isinstance(message, Piece):
            received.take(message)
            continue
        now, seed, solved = message
        snapshot = received.snapshot()
        try:
            snapshot.backlog  # noqa: B018  # made here, since its cost follows from the snapshot and not from the decision
            pipe.send(("begins", None))
            plan = decide(
                snapshot,
                now=now,
                seed=seed,
                solver=solver if solved else None,
                mark=lambda part: pipe.send(("mark", part)),
            )
        except Exception as error:
            where = "In the decider's process:\n" + "".join(traceback.format_tb(error.__traceback__))
            pipe.send(("raised", (_portable(error), where)))
        else:
            pipe.send(("plan", replace(plan, reasons={})))
            for piece in regrouped(reasons, plan.reasons):
                pipe.send(("reasons", piece))
            pipe.send(("gone", [key for key in reasons if key not in plan.reasons]))
            reasons = plan.reasons
        gc.collect()
        gc.freeze()  # looks at the snapshot no more; what it holds lives long, and has no cycles


def _portable(error: Exception) -> Exception:
    """The exception, or one of the same text where it does not survive its way."""
    with suppress(Exception):
        copy = pickle.loads(pickle.dumps(error))
        if type(copy) is type(error) and str(copy) == str(error):
            return error
    return RuntimeError(f"{type(error).__name__}: {error}")


copyreg.pickle(BadSnapshot, lambda error: (BadSnapshot, (error.problems,)))
