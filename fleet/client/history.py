"""The past: jobs that were, also deleted ones, and what they add up to. docs/reference/rest.md defines each figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal

from fleet.client.jobs import Words
from fleet.client.steps import Flow, Give, Request, Session, Steps, asked, with_query
from fleet.client.tables import Readers, Record, Rows, moment

HISTORY, REPORTS = "/fleet/v1/history", "/fleet/v1/reports"
PAGE = 1000
By = Literal["user", "queue", "namespace", "member", "model"]


@dataclass(frozen=True, repr=False, kw_only=True)
class PastJob(Record):
    """A job of the history, which may still go on."""

    SHOWN: ClassVar[tuple[str, ...]] = (
        "namespace",
        "name",
        "kind",
        "user",
        "queue",
        "state",
        "submitted",
        "started",
        "ended",
        "gpu_hours",
    )
    READ: ClassVar[Readers] = {"submitted": moment, "started": moment, "ended": moment}
    KEYS: ClassVar[Mapping[str, str]] = {
        "waited_s": "waitedS",
        "ran_s": "ranS",
        "gpu_hours": "gpuHours",
        "lost_gpu_hours": "lostGpuHours",
    }
    uid: str = ""
    namespace: str = ""
    kind: str = ""
    name: str = ""
    user: str | None = None
    queue: str | None = None
    priority: int = 0
    gpus: int = 0
    pods: int = 0
    state: str = ""
    why: str | None = None
    message: str | None = None
    submitted: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None
    waited_s: float = 0.0
    ran_s: float = 0.0
    attempts: int = 0
    evictions: int = 0
    members: tuple[str, ...] = ()
    gpu_hours: float = 0.0
    lost_gpu_hours: float = 0.0


@dataclass(frozen=True, repr=False, kw_only=True)
class Figures(Record):
    """One row of a report; its figures are those of `raw`, each a column."""

    key: str | None = None

    def row(self) -> dict[str, Any]:
        return dict(self.raw)

    _values = row

    def _columns(self) -> tuple[str, ...]:
        return tuple(self.raw)


def history(
    session: Session,
    *,
    namespace: str | None = None,
    all_namespaces: bool = False,
    kind: str | None = None,
    name: str | None = None,
    user: str | None = None,
    queue: str | None = None,
    member: str | None = None,
    model: str | None = None,
    state: Words | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Flow[PastJob]:
    """Jobs of the past and the present, the newest submission first, page by page. `since` and `until`: those that
    were there at some time between."""
    query: dict[str, Words | None] = {
        "namespace": None if all_namespaces else namespace or session.namespace,
        "kind": kind,
        "name": name,
        "user": user,
        "queue": queue,
        "member": member,
        "model": model,
        "state": state,
        "since": _text(since),
        "until": _text(until),
        "limit": str(PAGE),
    }
    while True:
        page = (yield from asked(session, Request("GET", with_query(HISTORY, query)))).body
        for raw in page["items"]:
            yield Give(PastJob.of(raw))
        if page["continue"] is None:
            return
        query["continue"] = page["continue"]


def report(
    session: Session,
    report: Literal["usage", "waits", "efficiency"] = "usage",
    *,
    by: By = "user",
    start: datetime | None = None,
    end: datetime | None = None,
    namespace: str | None = None,
    user: str | None = None,
    queue: str | None = None,
    kind: str | None = None,
    member: str | None = None,
    model: str | None = None,
) -> Steps[Rows[Figures]]:
    """Usage, waits or efficiency of the past, a row for each value of `by`, the largest first. Without `start` and
    `end` of the last 30 days; of all namespaces that the user may see."""
    query = {
        "by": by,
        "from": _text(start),
        "to": _text(end),
        "namespace": namespace,
        "user": user,
        "queue": queue,
        "kind": kind,
        "member": member,
        "model": model,
    }
    found = (yield from asked(session, Request("GET", with_query(f"{REPORTS}/{report}", query)))).body
    return Rows((Figures.of(raw) for raw in found["rows"]), partial=bool(found["partial"]))


def _text(time: datetime | None) -> str | None:
    return time.isoformat() if time is not None else None
