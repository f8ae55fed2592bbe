"""Sending one job to a member, told in the log and in traces; its requests to the member name the span."""

from __future__ import annotations

from collections.abc import Awaitable

import structlog

from fleet.bindings import binding as b
from fleet.controllers.runtime.about import about
from fleet.controllers.runtime.hub import Hub
from fleet.members.members import ActOutcome, ActResult
from fleet.traces.span import TRACEPARENT, TraceSpan, Value, attempted, traceparent
from fleet.values.ports import Body

log = structlog.get_logger(__name__)


async def outcome_of(hub: Hub, binding: Body, member: str, sending: Awaitable[ActOutcome]) -> ActOutcome:
    """The outcome of `sending`. A refusal's text is left out, since it may quote the manifest."""
    fields, attempt = about(binding), b.attempt(binding)
    began, now = hub.clock.monotonic(), hub.clock.now()
    key = f"dispatch {member} {attempt} {now}"
    token = TRACEPARENT.set(traceparent(fields["uid"], key)) if hub.traces is not None else None
    try:
        outcome = await sending
    finally:
        if token is not None:
            TRACEPARENT.reset(token)
    took, good = hub.clock.monotonic() - began, outcome.did is ActResult.DONE
    say = log.info if good else log.warning
    why = {"reason": str(outcome.cause)} if outcome.cause is not None else {}
    say(
        "a job is sent to its member" if good else "a job cannot be sent to its member",
        **fields,
        member=member,
        attempt=attempt,
        outcome=str(outcome.did),
        ms=round(took * 1000, 1),
        **why,
    )
    if hub.traces is not None:
        said: dict[str, Value] = {"fleet.member": member, "fleet.attempt": attempt, "fleet.outcome": str(outcome.did)}
        error = "" if good else str(outcome.did)
        span = TraceSpan(
            fields["uid"], key, "dispatch", now, now + took, attempted(attempt), said, outgoing=True, error=error
        )
        hub.traces.add(span)
    return outcome
