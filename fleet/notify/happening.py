"""What happened to a job, as people are told: the difference between its life before an event and after it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from fleet.accounts.fold import JobLife
from fleet.accounts.run import AttemptOutcome
from fleet.core.model.notificationevent import NotificationEvent


@dataclass(frozen=True, slots=True)
class Happening:
    """One event of one job. `at`, `submitted`: epoch seconds. `number`: its attempt; with job and event it names the
    happening, so that a repeated look finds the same one. `why`: a code of docs/reference/reasons.md."""

    told: NotificationEvent
    at: float
    uid: str
    namespace: str
    name: str
    kind: str
    number: int = 0
    user: str | None = None
    queue: str | None = None
    gpus: int = 0
    submitted: float = 0.0
    member: str | None = None
    why: str | None = None
    message: str | None = None

    @property
    def key(self) -> str:
        return f"{self.told}-{self.number}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def of_json(found: dict[str, Any]) -> Happening:
        return Happening(**{**found, "told": NotificationEvent(found["told"])})


def happenings(before: JobLife | None, after: JobLife, at: float) -> Iterator[Happening]:
    """What one event has changed. `at`: its time."""
    was, run = before.run if before is not None else None, after.run
    started = was.number if was is not None and was.started is not None else 0
    if run is not None and run.started is not None and run.number > started:
        yield _of(after, NotificationEvent.STARTED, run.started, member=run.member)
    if after.evictions > (before.evictions if before is not None else 0) and run is not None:
        left = next((one for one in (run, *reversed(after.earlier)) if one.outcome == AttemptOutcome.EVICTED), run)
        yield _of(after, NotificationEvent.EVICTED, left.ended or at, member=left.member, why=left.why)
    if after.ended is not None and (before is None or before.ended is None) and after.state in tuple(NotificationEvent):
        member = run.member if run is not None else None
        yield _of(
            after, NotificationEvent(after.state), after.ended, member=member, why=after.why, message=after.message
        )


def waits_long(life: JobLife, at: float) -> Happening:
    """A job that has not started yet; a receiver says how long is long."""
    return _of(life, NotificationEvent.WAITS_LONG, at, why=life.spell[0] if life.spell is not None else None)


def _of(
    life: JobLife,
    news: NotificationEvent,
    at: float,
    *,
    member: str | None = None,
    why: str | None = None,
    message: str | None = None,
) -> Happening:
    return Happening(
        news,
        at,
        life.uid,
        life.namespace,
        life.name,
        life.kind,
        number=life.run.number if life.run else 0,
        user=life.user,
        queue=life.queue,
        gpus=life.gpus,
        submitted=life.submitted,
        member=member,
        why=why,
        message=message,
    )
