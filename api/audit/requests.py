"""The log of requests: a line for each request that writes, and for each that is refused.

A line has the id that the answer says in `Audit-ID`. No line has a query, a body or a message: those may hold secrets.
Lines are bounded in number, so that a client that is refused again and again does not fill a disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from api.engine.kind import Kind
from api.objects.writing import WriteOutcome
from fleet.values.ports import Body, Clock, StoredObject
from fleet.values.untyped import mapping, text

if TYPE_CHECKING:
    from api.wire.http import Request, Scope

LINES_PER_S = 100
BURST = 1000  # lines at once, after a silence
PATH_CHARACTERS_MAX = 300
NAME_CHARACTERS_MAX = 253
OBJECTS_MAX = 1000  # of one request
_KEY = "fleet.about"  # in the scope of a request
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """The object that a request writes, as far as it is known."""

    group: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""

    def as_record(self) -> dict[str, str]:
        found = {"namespace": self.namespace, "kind": self.kind, "name": self.name, "uid": self.uid}
        return {key: value for key, value in found.items() if value}


def tell(scope: Scope, group: str, kind: str, namespace: str, body: Body, *, stored: bool = True) -> None:
    """The request writes this object: as it came, and then as it was stored, with the uid that the hub gave it."""
    metadata = mapping(body.get("metadata"))
    name, uid = text(metadata.get("name"))[:NAME_CHARACTERS_MAX], text(metadata.get("uid")) if stored else ""
    namespace = namespace or text(metadata.get("namespace"))[:NAME_CHARACTERS_MAX]
    _note(scope, WriteTarget(group, kind, namespace, name, uid))


def tell_written(scope: Scope, kind: Kind, written: WriteOutcome) -> None:
    """The same of what has been written."""
    what = written.what
    if isinstance(what, StoredObject):
        _note(scope, WriteTarget(kind.group, kind.kind, what.key.namespace, what.key.name, what.uid))
    else:
        tell(scope, kind.group, kind.kind, "", what)


def _note(scope: Scope, now: WriteTarget) -> None:
    written: list[WriteTarget] | None = scope.get(_KEY)
    if written is None:
        return
    if written and not written[-1].uid:
        written[-1] = now
    elif len(written) < OBJECTS_MAX:
        written.append(now)


@dataclass(frozen=True, slots=True)
class RequestedWrite:
    """What a request did to an object. `code` 0: the client was gone before; `took` in seconds."""

    audit_id: str
    verb: str
    code: int
    took: float
    about: WriteTarget


@dataclass
class RequestLog:
    """Of one API process."""

    clock: Clock
    traced: Callable[[Request, RequestedWrite], None] | None = None  # asked with each object that a request wrote
    unlogged: int = 0  # since the last line
    _room: float = BURST
    _filled: float = field(default=0.0)

    def begin(self, request: Request, audit_id: str) -> float:
        """The request has come; returns the monotonic time. Lines that its answer causes name it."""
        request.scope[_KEY] = []
        structlog.contextvars.bind_contextvars(request=audit_id)
        return self.clock.monotonic()

    def over(self, request: Request, audit_id: str, code: int, began: float) -> None:
        """The answer is sent; `code` 0: the client was gone before."""
        writes = request.method not in ("GET", "HEAD", "OPTIONS")
        if not writes and code < 400:
            return
        now, wanted = self.clock.monotonic(), request.attributes
        verb = wanted.verb if wanted is not None else request.method.lower()
        named = WriteTarget("", "", wanted.namespace, wanted.name) if wanted is not None else WriteTarget()
        for about in request.scope[_KEY] or (named,):
            if self._has_room(now):
                missed = {"unlogged": self.unlogged} if self.unlogged else {}
                say = log.info if code < 500 else log.warning
                say(
                    "request",
                    user=request.user.name,
                    verb=verb,
                    path=request.path[:PATH_CHARACTERS_MAX],
                    code=code,
                    ms=round((now - began) * 1000, 1),
                    **about.as_record(),
                    **missed,
                )
                self.unlogged = 0
            else:
                self.unlogged += 1
            if self.traced is not None and writes:
                self.traced(request, RequestedWrite(audit_id, verb, code, now - began, about))

    def _has_room(self, now: float) -> bool:
        self._room = min(float(BURST), self._room + (now - self._filled) * LINES_PER_S)
        self._filled = now
        if self._room < 1:
            return False
        self._room -= 1
        return True
