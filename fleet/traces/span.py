"""A span of the trace of one job, and the ids that follow from the job's uid alone.

Nothing of a trace is stored. The uid of a job has 128 bits, and so has the id of a trace: each process that knows the
job knows its trace. The id of a span is a hash of the uid and of the span's key, so a process knows the ids of spans
that another one sends. Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field

JOB = "job"  # the key of the span of the whole life, which all others are below

# What the requests to a member that serve one span say of it; "": they serve none. No argument: it is a mark for the
# traces, which changes no request otherwise, and all calls below the span carry it.
TRACEPARENT: ContextVar[str] = ContextVar("traceparent", default="")

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?")

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """Of the job `uid`. `start`, `end`: epoch seconds. `key` tells it from the job's other spans; `parent`: the key of
    the span above it, "" for none. `link`: (trace id, span id) of the client's own span. `served`: it is the answer to
    a request from outside; `outgoing`: a request to outside. `error`: why it failed, "" where it did not."""

    uid: str
    key: str
    name: str
    start: float
    end: float
    parent: str = JOB
    attributes: Mapping[str, Value] = field(default_factory=dict)
    link: tuple[int, int] | None = None
    served: bool = False
    outgoing: bool = False
    error: str = ""


def trace_id(uid: str) -> int:
    """The uid's 128 bits; 0, which is the id of no trace, for what is no uid."""
    return int(uid.replace("-", ""), 16) if _UID.fullmatch(uid) else 0


def span_id(uid: str, key: str) -> int:
    """64 bits, never 0."""
    return int.from_bytes(hashlib.blake2b(f"{uid} {key}".encode(), digest_size=8).digest()) or 1


def traceparent(uid: str, key: str) -> str:
    """The header of W3C that names the span as the parent of others."""
    return f"00-{trace_id(uid):032x}-{span_id(uid, key):016x}-01"


def read_traceparent(header: str) -> tuple[int, int] | None:
    """(trace id, span id); None for a header that is missing or names no span."""
    found = _TRACEPARENT.fullmatch(header)
    ids = (int(found[1], 16), int(found[2], 16)) if found is not None else (0, 0)
    return ids if all(ids) else None


def queued(attempt: int) -> str:
    """The key of the wait before an attempt."""
    return f"queued {attempt}"


def attempted(attempt: int) -> str:
    """The key of an attempt."""
    return f"attempt {attempt}"
