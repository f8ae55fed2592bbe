"""Keeps the processes of a hub running: starts them, restarts one that dies, stops them in order.

A child that dies is started again after a growing pause, for ever. The others serve meanwhile, and the cause of its
death (memory, a full disk, its database) may pass. Only a child that has never been ready is given up, after DEATHS_MAX
deaths within DEATHS_WINDOW_S, or at once where the data is not for it. There the configuration is wrong, and the user
gets its last words. A child that hangs is killed and started again like one that dies: each shows life on a pipe while
its event loop turns. Children run in sessions of their own: Ctrl-C reaches only the supervisor, which then stops them
one after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleet.cli import logs
from fleet.cli.failure import Failure, Misfit
from fleet.cli.logfile import BYTES_MAX, older
from fleet.hub.parent import ENV_PARENT, ENV_READY_FD
from fleet.values.files import append_private

DEATHS_MAX = 5
DEATHS_WINDOW_S = 60.0
PAUSE_FIRST_S = 0.2
PAUSE_MAX_S = 30.0
RAN_WELL_S = 60.0  # a child that ran for so long is started again after the first pause
STOP_LIMIT_S = 10.0
HANGS_S = 30.0  # without a sign of life; then a child is killed
BEGINS_S = 90.0  # until its first sign: loading takes time on a busy machine


@dataclass
class Child:
    """A process: `arguments` follow `fleet`; `inherit` are descriptors that it gets."""

    name: str
    arguments: Sequence[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    inherit: Sequence[int] = ()
    process: asyncio.subprocess.Process | None = None
    ready: asyncio.Event = field(default_factory=asyncio.Event)  # once and for all
    news: asyncio.Event = field(default_factory=asyncio.Event)  # set each time it says so; the reader clears it
    detail: str = ""  # its words beside "ready"
    heard_at: float = 0.0  # on the loop's clock: its last sign of life, or its start
    lives: bool = False  # whether this run of it has shown life


class Supervisor:
    """Runs children until `stop()`; `failed` is set to the reason when one of them never becomes ready."""

    def __init__(self, children: Sequence[Child], hangs_s: float = HANGS_S) -> None:
        """`hangs_s`: a child that shows no life for so long is killed; 0: never."""
        self._children = list(children)
        self._hangs_s = hangs_s
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self.failed: asyncio.Future[Failure] = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        for child in self._children:
            _rotate(child.log)
            self._tasks.append(asyncio.create_task(self._keep(child), name=f"keep:{child.name}"))
        if self._hangs_s > 0:
            self._tasks.append(asyncio.create_task(self._watch(), name="watch"))

    async def wait_ready(self, limit_s: float) -> None:
        """Return when every child has said that it is ready. Raises Failure at the limit, or when one keeps dying."""
        deadline = asyncio.get_running_loop().time() + limit_s
        for child in self._children:
            ready = asyncio.ensure_future(child.ready.wait())
            left = max(0.0, deadline - asyncio.get_running_loop().time())
            both: set[asyncio.Future[Any]] = {ready, self.failed}
            await asyncio.wait(both, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            ready.cancel()
            if self.failed.done():
                raise self.failed.result()
        late = next((child for child in self._children if not child.ready.is_set()), None)
        if late is None:
            return
        raise Failure(f"{late.name} is not ready after {limit_s:.0f} s; its log: {late.log}")

    async def stop(self) -> None:
        """Stop the children one after the other, in the order given, each within STOP_LIMIT_S."""
        self._stopping = True
        for child in self._children:
            process = child.process
            if process is None or process.returncode is not None:
                continue
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_LIMIT_S)
            except TimeoutError:
                _kill(child)
                await process.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep(self, child: Child) -> None:
        clock = asyncio.get_running_loop().time
        deaths: deque[float] = deque(maxlen=DEATHS_MAX)  # of one that has never been ready
        pause = PAUSE_FIRST_S
        while True:
            began = clock()
            status = None
            try:
                status = await self._run_once(child)
                how = _how(status)
            except OSError as error:  # no memory, no processes, a full disk
                how = f"nothing, since it could not be started: {error.strerror or error}"
            if self._stopping:
                return
            last_line = _last_line(child.log)
            if not child.ready.is_set():
                if status == Misfit.exit_status:
                    self._fail(Misfit(last_line.removeprefix("fleet: ")))
                    return
                deaths.append(clock())
                if len(deaths) == DEATHS_MAX and deaths[-1] - deaths[0] < DEATHS_WINDOW_S:
                    why = f"{child.name} died {DEATHS_MAX} times, last with {how}"
                    self._fail(Failure(f"{why}: {last_line}" if last_line else f"{why}; its log: {child.log}"))
                    return
            pause = PAUSE_FIRST_S if clock() - began >= RAN_WELL_S else pause
            _say(f"{child.name} ended with {how}; starting it again in {pause:.1f} s; its log: {child.log}")
            await asyncio.sleep(pause)
            pause = min(PAUSE_MAX_S, 2 * pause)

    def _fail(self, why: Failure) -> None:
        if not self.failed.done():
            self.failed.set_result(why)

    async def _watch(self) -> None:
        """Kill children that hang. A supervisor that was stopped itself begins anew, since it cannot have heard any
        child."""
        clock = asyncio.get_running_loop().time
        every = min(2.0, self._hangs_s / 4)
        while not self._stopping:
            before = clock()
            await asyncio.sleep(every)
            if clock() - before > 2 * every + 1.0:
                for child in self._children:
                    child.heard_at = clock()
                continue
            for child in self._children:
                limit = self._hangs_s if child.lives else max(BEGINS_S, self._hangs_s)
                running = child.process is not None and child.process.returncode is None
                if running and not self._stopping and clock() - child.heard_at > limit:
                    _say(f"{child.name} hangs: no sign of life for {limit:g} s; killing it")
                    child.heard_at = clock()
                    _kill(child)

    async def _run_once(self, child: Child) -> int:
        """Start the child, note when it says that it is ready, and return its exit status."""
        reader, writer = os.pipe()
        os.set_inheritable(writer, True)
        os.set_blocking(writer, False)
        child.lives, child.heard_at = False, asyncio.get_running_loop().time()
        environment = {
            **os.environ,
            **child.environment,
            ENV_PARENT: str(os.getpid()),
            ENV_READY_FD: str(writer),
            "PYTHONUNBUFFERED": "1",
            logs.ENV_OWN: "1",
        }
        loop = asyncio.get_running_loop()
        try:
            with append_private(child.log) as log:
                # -P: a folder called fleet in the present directory is not this program.
                child.process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-P",
                    "-m",
                    "fleet.cli.main",
                    *child.arguments,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment,
                    pass_fds=(*child.inherit, writer),
                    start_new_session=True,
                )
        finally:
            os.close(writer)
        loop.add_reader(reader, _hear, child, reader, bytearray())
        try:
            return await child.process.wait()
        finally:
            loop.remove_reader(reader)
            os.close(reader)


def _hear(child: Child, reader: int, unread: bytearray) -> None:
    said = os.read(reader, 65536)
    if not said:  # the pipe is closed: nothing more will come
        asyncio.get_running_loop().remove_reader(reader)
        return
    child.lives, child.heard_at = True, asyncio.get_running_loop().time()
    unread += said
    *lines, rest = bytes(unread).decode(errors="replace").split("\n")
    unread[:] = rest.encode()
    for line in lines:
        if line == "ready" or line.startswith("ready "):
            child.detail = line.removeprefix("ready").strip()
            child.ready.set()
            child.news.set()


def _kill(child: Child) -> None:
    """With all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        if child.process is not None:
            os.killpg(child.process.pid, signal.SIGKILL)


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # no reader, or its disk is full
        logs.say(text, "warning")


def _how(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def _rotate(log: Path) -> None:
    """Start a new file when the old one has grown large; one old file is kept."""
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > BYTES_MAX:
            log.replace(older(log))


def _last_line(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 4096))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return _plain(lines[-1].strip())[:300] if lines else ""


def _plain(line: str) -> str:
    """The message of a line of a log, for people."""
    try:
        said = json.loads(line)
    except ValueError:
        return line
    return ": ".join(str(said[key]) for key in ("event", "error") if said.get(key)) if isinstance(said, dict) else line
