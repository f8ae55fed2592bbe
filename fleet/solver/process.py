"""The solver in a child process that can be killed at its deadline. The only file of the core that does I/O.

A solver library may overrun its own time limit, abort its process, or use up its memory; none of that may reach the
decider. So a child gets problems and streams answers over pipes. The child ends at a missed deadline, with the decider,
or by itself; then the best answer so far counts, and the next problem gets a new child. The start of a child takes a
second or two: `warm()` does it ahead of the first problem, and a missed deadline ahead of the next.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import select
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Any, BinaryIO

from fleet.placement.problem import Answer, Problem, VictimProblem

_HEADER = struct.Struct("!I")
_LARGEST_MESSAGE = 1 << 28
_START_LIMIT_S = 60.0
STARTING, LATE, FAILED = "the solver is still starting", "the solver was stopped at its deadline", "the solver failed"
_CHILD = (sys.executable, "-c", "from fleet.solver.process import serve; serve()")


class _Gone(Exception):
    """The child ended, or said something that is no message."""


class _Late(Exception):
    """The deadline passed."""


class ProcessSolver:
    """The `Solver` for production. Safe to share between threads: problems are solved one after the other."""

    def __init__(self, command: Sequence[str] = _CHILD) -> None:
        """`command` starts a child that speaks as `serve` does; only tests give another."""
        self._command = tuple(command)
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._ready = False
        self._buffer = bytearray()
        self._number = 0

    def warm(self) -> None:
        """Start the child if there is none, without waiting for it."""
        with self._lock:
            self._ensure()

    def close(self) -> None:
        """End the child. The next problem starts a new one."""
        with self._lock:
            self._kill()

    @property
    def pid(self) -> int | None:
        """The child's process id, while there is one."""
        child = self._child
        return child.pid if child is not None and child.poll() is None else None

    def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer:
        """An answer within `limit_s` seconds: the child's last word, or the best it had streamed before it was killed,
        or none; `why` names the failure, if there was one."""
        deadline = time.monotonic() + limit_s
        best = Answer()
        with self._lock:
            try:
                self._ensure()
                if not self._ready:
                    self._receive(deadline)
                    self._ready = True
                self._number += 1
                self._send(
                    (self._number, problem, seed, max(0.05, 0.9 * (deadline - time.monotonic()) - 0.1)), deadline
                )
                while True:
                    number, last, answer = self._receive(deadline)
                    if number == self._number and isinstance(answer, Answer):
                        best = answer
                        if last:
                            return best
            except _Late:
                if not self._ready and time.monotonic() - self._started < _START_LIMIT_S:
                    return Answer(why=STARTING)
                self._kill()
                with contextlib.suppress(OSError):
                    self._ensure()  # while the answer is packed and checked: the next problem should find one
                return _with(best, f"{LATE} of {limit_s:g} s")
            except (_Gone, OSError, pickle.PickleError, EOFError, AttributeError, ValueError, TypeError) as error:
                status = self._kill()
                detail = f"exit status {status}" if isinstance(error, (_Gone, OSError)) else type(error).__name__
                return _with(best, f"{FAILED} ({detail})")

    def _ensure(self) -> None:
        if self._child is not None and self._child.poll() is None:
            return
        self._kill()
        # a session of its own: Ctrl-C is for the parent, and the parent's end closes the pipe and so ends the child
        self._child = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, bufsize=0
        )
        self._started = time.monotonic()
        self._ready = False
        self._buffer.clear()
        for pipe in (self._child.stdin, self._child.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)

    def _kill(self) -> int | None:
        child, self._child = self._child, None
        self._ready = False
        self._buffer.clear()
        if child is None:
            return None
        if child.poll() is None:
            # an end of its own accord, seen as a closed pipe, deserves its true status
            with contextlib.suppress(subprocess.TimeoutExpired):
                if child.stdout is not None and select.select([child.stdout], [], [], 0)[0]:
                    child.wait(0.05)
            child.kill()
        status = child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        return status

    def _send(self, message: object, deadline: float) -> None:
        assert self._child is not None and self._child.stdin is not None
        pipe = self._child.stdin.fileno()
        view = memoryview(_framed(message))
        while view:
            if not select.select([], [pipe], [], _left(deadline))[1]:
                raise _Late
            with contextlib.suppress(BlockingIOError):
                view = view[os.write(pipe, view) :]

    def _receive(self, deadline: float) -> tuple[Any, Any, Any]:
        assert self._child is not None and self._child.stdout is not None
        pipe = self._child.stdout.fileno()
        while True:
            if len(self._buffer) >= _HEADER.size:
                (size,) = _HEADER.unpack_from(self._buffer)
                if size > _LARGEST_MESSAGE:
                    raise _Gone
                if len(self._buffer) >= _HEADER.size + size:
                    message = pickle.loads(bytes(self._buffer[_HEADER.size : _HEADER.size + size]))
                    del self._buffer[: _HEADER.size + size]
                    number, last, answer = message
                    return number, last, answer
            if not select.select([pipe], [], [], _left(deadline))[0]:
                raise _Late
            data = os.read(pipe, 1 << 16)
            if not data:
                raise _Gone
            self._buffer += data


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise _Late
    return left


def _with(answer: Answer, why: str) -> Answer:
    return Answer(answer.admitted, answer.placed, answer.stages, why)


def _framed(message: object) -> bytes:
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _HEADER.pack(len(data)) + data


def _exactly(pipe: BinaryIO, size: int) -> bytes:
    """`size` bytes. At the end of the pipe the parent is gone, and so is this process, even in mid-solve."""
    data = b""
    while len(data) < size:
        more = pipe.read(size - len(data))
        if not more:
            os._exit(0)
        data += more
    return data


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    text = "".join(traceback.format_exception(kind, error, trace))
    said = {"event": "the solver's process failed", "level": "error", "exception": text}
    print(json.dumps(said), file=sys.stderr, flush=True)


def serve() -> None:
    """Solve problems from stdin and answer on stdout, until stdin ends: the child, which logs its bugs as the
    controllers do, since it shares their log."""
    sys.excepthook = _uncaught
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # the output of a library must not get between the messages
    source = os.fdopen(os.dup(0), "rb", buffering=0)
    problems: list[tuple[int, Problem | VictimProblem, int, float]] = []
    arrived = threading.Semaphore(0)

    def read() -> None:
        while True:
            (size,) = _HEADER.unpack(_exactly(source, _HEADER.size))
            problems.append(pickle.loads(_exactly(source, size)))
            arrived.release()

    threading.Thread(target=read, daemon=True).start()

    def say(number: int, last: bool, answer: Answer | None) -> None:
        view = memoryview(_framed((number, last, answer)))
        while view:
            view = view[out.write(view) or 0 :]

    from fleet.solver.cpsat import CpSat

    say(0, True, None)
    solver = CpSat(time.monotonic)
    while True:
        arrived.acquire()
        number, problem, seed, limit_s = problems.pop(0)
        answer = solver.solve(problem, seed=seed, limit_s=limit_s, emit=partial(say, number, False))
        say(number, True, answer)
