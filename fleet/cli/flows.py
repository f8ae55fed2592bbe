"""Operations of fleet.client, carried out by a command over its own transport: requests, streams, pauses, items.

Several streams are read in threads, which hand over what comes: only the command's own thread prints.
"""

from __future__ import annotations

import queue
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fleet.amc.client import Client, NoAnswer, OpenAnswer, StreamRefusal
from fleet.cli.hub import refusal as refusal
from fleet.client.errors import Refused, Unreachable
from fleet.client.steps import (
    Answer,
    Came,
    Give,
    NextLine,
    NextOf,
    Now,
    Open,
    Pause,
    Request,
    Say,
    lines_of,
    refused,
)

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

AT_HAND = 1000  # lines that are read before the operation takes some
EXACT = "surrogateescape"  # a log is printed byte by byte as it came


class HubOperation:
    """One operation. Iterating carries it out and gives its items; `result` is there at the end. Raises Failure."""

    def __init__(self, hub: HubClient, steps: Any) -> None:
        self.result: Any = None
        self._hub, self._steps, self._method = hub, steps, "GET"
        self._lines: Iterator[str] = iter(())
        self._opened: OpenAnswer | None = None
        self._came: queue.Queue[Came] = queue.Queue(AT_HAND)

    def __iter__(self) -> Iterator[Any]:
        outcome: Any = None
        failed: Exception | None = None
        try:
            while True:
                command = self._steps.throw(failed) if failed is not None else self._steps.send(outcome)
                outcome, failed = None, None
                if isinstance(command, Give):
                    yield command.item
                    continue
                try:
                    outcome = self._outcome(command)
                except NoAnswer as error:
                    failed = unreachable(self._hub.client, error)
        except StopIteration as stop:
            self.result = stop.value
        except Refused as no:
            raise refusal(no.message, no.status) from no
        except Unreachable as lost:
            raise self._hub.no_answer(lost.why, self._method) from lost
        finally:
            self._close()
            self._steps.close()

    def _outcome(self, command: Any) -> Any:
        if isinstance(command, Request):
            return self._asked(command)
        if isinstance(command, NextLine):
            return next(self._lines, None)
        if isinstance(command, Open):
            threading.Thread(target=read, args=(self._hub.client, command, self._came), daemon=True).start()
        elif isinstance(command, NextOf):
            return self._next(command.within_s)
        elif isinstance(command, Say):
            self._hub.note(f"fleet: {command.text}")
        elif isinstance(command, Pause):
            time.sleep(command.seconds)
        return time.monotonic() if isinstance(command, Now) else None

    def _asked(self, request: Request) -> Answer:
        self._close()  # an operation reads one stream at a time
        if request.stream:
            try:
                self._opened = self._hub.client.open(request.path, request.accept, quiet_s=request.quiet_s)
            except StreamRefusal as no:
                return Answer(no.answer.status, no.answer.raw)
            self._lines = lines_of(self._opened.pieces, EXACT)
            return Answer(200, b"", self._opened.headers)
        self._method = request.method
        found = self._hub.client.request(request.method, request.path, request.body, content_type=request.content_type)
        self._hub.warn(found)
        return Answer(found.status, found.raw)

    def _next(self, within_s: float) -> list[Came]:
        found: list[Came] = []
        with suppress(queue.Empty):
            found.append(self._came.get(timeout=within_s))
            while len(found) < AT_HAND:
                found.append(self._came.get_nowait())
        return found

    def _close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened, self._lines = None, iter(())


def read(client: Client, command: Open, came: queue.Queue[Came]) -> None:
    """Put the lines of a stream into `came`, and its end."""
    error: Exception | None = None
    try:
        opened = client.open(command.request.path, command.request.accept, quiet_s=command.request.quiet_s)
        for line in lines_of(opened.pieces, EXACT):
            came.put(Came(command.stream, line))
    except StreamRefusal as no:
        error = refused(Answer(no.answer.status, no.answer.raw))
    except NoAnswer as lost:
        error = unreachable(client, lost)
    came.put(Came(command.stream, None, error))


def unreachable(client: Client, error: NoAnswer) -> Unreachable:
    untrusted = isinstance(error.__cause__, ssl.SSLCertVerificationError)
    return Unreachable(client.access.server, str(error), lasting=untrusted)
