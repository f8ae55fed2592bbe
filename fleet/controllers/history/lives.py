"""The life of jobs as the history records it, told in the log and in traces.

The history is the one place that sees each change of each job once and in order. So the spans of waits, attempts and
whole lives are made here, of the rows of a job before and after one event, and nothing has to be remembered between
two events. A span is sent when it is over: that of the whole life at the job's end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import structlog

from fleet.accounts.fold import JobLife
from fleet.accounts.recorder import JobChange
from fleet.accounts.run import AttemptOutcome, AttemptRun
from fleet.controllers.runtime.hub import Hub
from fleet.core.model.reason import Code
from fleet.traces.span import JOB, TraceSpan, Value, attempted, queued
from fleet.wellknown import NO_POLICY

log = structlog.get_logger(__name__)

_WAITS = {NO_POLICY: "binding", str(Code.ADMISSION_CHECKS): "reserved"}  # the names of spans; of others: waiting


def tell(hub: Hub, changes: Iterable[JobChange]) -> None:
    """`changes`: that are recorded now, each given once."""
    for change in changes:
        before, after = change.before, change.after
        if before is None or before.state != after.state:
            run = after.run
            placed = {"member": run.member, "attempt": run.number} if run is not None and run.ended is None else {}
            why = {"reason": after.why} if after.why else {}
            log.info(
                "job",
                state=after.state,
                namespace=after.namespace,
                kind=after.kind,
                name=after.name,
                uid=after.uid,
                **placed,
                **why,
            )
        if hub.traces is not None:
            hub.traces.add_all(spans(change))


def spans(change: JobChange) -> Iterator[TraceSpan]:
    """Those that this change ends."""
    before, after = change.before, change.after
    if before is not None:
        yield from _wait(before, after, change.at)
    known = {run.number: run for run in _runs(before)}
    for run in _runs(after):
        yield from _attempt(after, known.get(run.number), run, _end_before(after, run))
    if after.over and (before is None or not before.over):
        yield _whole(after)


def _wait(before: JobLife, after: JobLife, at: float) -> Iterator[TraceSpan]:
    """The wait by one reason, where it is over."""
    if before.spell is None or before.spell == after.spell:
        return
    reason, since = before.spell
    name, attempt = _WAITS.get(reason, "waiting"), before.attempts + 1
    parent = JOB if reason == NO_POLICY else queued(attempt)
    yield TraceSpan(before.uid, f"{name} {reason} {since}", name, since, at, parent, {"fleet.reason": reason})


def _attempt(life: JobLife, before: AttemptRun | None, run: AttemptRun, since: float) -> Iterator[TraceSpan]:
    """What has begun or ended of an attempt; `since`: when the wait for it began."""
    attributes: dict[str, Value] = {"fleet.member": run.member, "fleet.attempt": run.number, "fleet.gpus": run.gpus}
    above = attempted(run.number)
    if before is None:
        yield TraceSpan(life.uid, queued(run.number), "queued", since, run.placed, attributes=_queue(life))
    if run.started is not None and (before is None or before.started is None):
        yield TraceSpan(life.uid, f"starting {run.number}", "starting", run.placed, run.started, above, attributes)
    if run.ended is None or (before is not None and before.ended is not None):
        return
    attributes |= {"fleet.outcome": str(run.outcome), **({"fleet.reason": run.why} if run.why else {})}
    if run.started is not None:
        yield TraceSpan(life.uid, f"running {run.number}", "running", run.started, run.ended, above, attributes)
    failed = str(run.outcome) if run.outcome == AttemptOutcome.FAILED else ""
    yield TraceSpan(life.uid, above, "attempt", run.placed, run.ended, attributes=attributes, error=failed)


def _whole(life: JobLife) -> TraceSpan:
    ended = max(time for time in (life.ended, *(run.ended for run in _runs(life))) if time is not None)
    attributes: dict[str, Value] = {
        "k8s.namespace.name": life.namespace,
        "fleet.kind": life.kind,
        "fleet.name": life.name,
        "fleet.uid": life.uid,
        "fleet.state": life.state,
        "fleet.attempts": life.attempts,
        "fleet.evictions": life.evictions,
        "fleet.gpus": life.gpus,
        "fleet.pods": life.pods,
        **_queue(life),
    }
    if life.user:
        attributes["user.name"] = life.user
    failed = life.state if life.state == AttemptOutcome.FAILED else ""
    return TraceSpan(life.uid, JOB, f"job {life.kind}", life.submitted, ended, "", attributes, error=failed)


def _queue(life: JobLife) -> dict[str, Value]:
    return {"fleet.queue": life.queue, "fleet.priority": life.priority} if life.queue else {}


def _runs(life: JobLife | None) -> tuple[AttemptRun, ...]:
    if life is None:
        return ()
    return (*life.earlier, life.run) if life.run is not None else life.earlier


def _end_before(life: JobLife, run: AttemptRun) -> float:
    """When the attempt before this one ended, as far as it is at hand; else when the job was submitted."""
    ends = [one.ended for one in _runs(life) if one.number < run.number and one.ended is not None]
    return max(ends, default=life.submitted)
