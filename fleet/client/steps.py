"""The protocol without its transport: an operation is a generator that yields commands and is sent their outcomes.

So each operation is written once. A blocking driver, one for asyncio and the one of the command line carry it out
(docs/decisions/0043-one-protocol-for-python-and-the-command-line.md).
"""

from __future__ import annotations

import json
import random
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import urlencode

from fleet.client.config import OWN_VERSION
from fleet.client.errors import BadConfiguration, Refused, Unreachable, refusal

if TYPE_CHECKING:
    from fleet.client.resources import Resource

T = TypeVar("T")
R = TypeVar("R")
JSON, MERGE, APPLY = "application/json", "application/merge-patch+json", "application/apply-patch+yaml"
FIRST_WAIT_S, WAIT_MOST_S = 0.25, 4.0  # between two tries
RETRY_AFTER_MOST_S = 30.0  # a hub that asks for more is not waited for


@dataclass(frozen=True, slots=True)
class Request:
    """One request; the outcome is an Answer. `repeatable`: sent twice, it does what it does once. A `stream` is left
    open after its status 200, for NextLine."""

    method: str
    path: str
    body: Any = None
    content_type: str = JSON
    accept: str = JSON
    repeatable: bool = True
    stream: bool = False
    endless: bool = False  # a stream that may be silent for long, at most `quiet_s`
    quiet_s: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of the server, refusals included; header names are in lower case."""

    status: int
    raw: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def body(self) -> Any:
        """The parsed JSON; None where it is none."""
        try:
            return json.loads(self.raw)
        except ValueError:
            return None

    @property
    def retry_after_s(self) -> float | None:
        said = self.headers.get("retry-after", "")
        return float(said) if said.isdigit() else None


@dataclass(frozen=True, slots=True)
class NextLine:
    """The next line of the open stream, without its end; None after the last."""


@dataclass(frozen=True, slots=True)
class Open:
    """Begin to read the stream of a request beside others; NextOf tells what comes of it. `stream`: its name."""

    stream: str
    request: Request


@dataclass(frozen=True, slots=True)
class NextOf:
    """What has come of the streams that were opened, as a list of Came; empty where nothing comes in time."""

    within_s: float


@dataclass(frozen=True, slots=True)
class Came:
    """A line of a stream, or its end (`line` None): at its own, or by an error."""

    stream: str
    line: str | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Say:
    """Tell the user something beside the result."""

    text: str


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class Now:
    """The seconds of a clock that never goes back."""


@dataclass(frozen=True, slots=True)
class Give(Generic[T]):
    """Hand one item to the program that iterates."""

    item: T


Steps = Generator[Request | NextLine | Open | NextOf | Say | Pause | Now, Any, R]
Flow = Generator[Request | NextLine | Open | NextOf | Say | Pause | Now | Give[T], Any, None]


@dataclass
class Session:
    """What operations of one client share. `sure`: the server is known to be a hub."""

    namespace: str = "default"
    tries: int = 5
    sure: bool = True
    address: str = ""
    resources: list[Resource] = field(default_factory=list)
    job_kinds: dict[str, bool] = field(default_factory=dict)


def asked(session: Session, request: Request, *, missing: bool = False) -> Steps[Answer]:
    """The answer; 404 is one when `missing` is allowed. Raises Unreachable and Refused."""
    if not session.sure:
        yield from _must_be_a_hub(session)
    return (yield from _persistent(session, request, missing))


def _persistent(session: Session, request: Request, missing: bool) -> Steps[Answer]:
    """Asks again where that is safe: after 429, which nothing was done for, and, for repeatable requests, after 503
    and a lost connection."""
    for attempt in range(1, session.tries + 1):
        wait = min(WAIT_MOST_S, FIRST_WAIT_S * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0)
        failed: Unreachable | Refused
        try:
            answer: Answer = yield request
        except Unreachable as error:
            failed, again = error, request.repeatable and not error.lasting
        else:
            if answer.ok or (missing and answer.status == 404):
                return answer
            failed = refused(answer)
            again = answer.status == 429 or (answer.status == 503 and request.repeatable)
            wait = max(wait, failed.retry_after_s or 0.0)
        if not again or attempt == session.tries or wait > RETRY_AFTER_MOST_S:
            raise failed
        yield Pause(wait)
    raise AssertionError("unreachable: the last try returns or raises")


def _must_be_a_hub(session: Session) -> Steps[None]:
    """A kubeconfig of kubectl's often names another cluster, and some operations change things."""
    answer = yield from _persistent(session, Request("GET", "/version"), False)
    version = answer.body
    if OWN_VERSION not in str(version.get("gitVersion") if isinstance(version, dict) else ""):
        raise BadConfiguration(
            f"{session.address} is no Fleet hub: name the hub by kubeconfig=, context=, data_dir= or FLEET_KUBECONFIG"
        )
    session.sure = True


def refused(answer: Answer) -> Refused:
    return refusal(answer.status, answer.body, answer.raw.decode(errors="replace"), answer.retry_after_s)


def got(session: Session, path: str, *, missing: bool = False, **query: str | Sequence[str] | None) -> Steps[Any]:
    """The JSON of a GET; None for 404 when `missing` is allowed."""
    answer = yield from asked(session, Request("GET", with_query(path, query)), missing=missing)
    return answer.body if answer.ok else None


def changed(session: Session, path: str, patch: Mapping[str, Any]) -> Steps[Any]:
    """The object after a merge patch of fixed values, which may be sent twice."""
    answer = yield from asked(session, Request("PATCH", path, patch, MERGE))
    return answer.body


def with_query(path: str, query: Mapping[str, str | Sequence[str] | None]) -> str:
    given = {name: value for name, value in query.items() if value not in (None, "", [], ())}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def lines_of(pieces: Iterable[bytes], errors: str = "replace") -> Iterator[str]:
    """Split at line feeds alone: a progress bar's carriage returns stay within their line."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line.decode(errors=errors) for line in whole)
    if rest:
        yield rest.decode(errors=errors)
