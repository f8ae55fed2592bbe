"""Evicting a gang as one commit: its binding, its unit's phase, and the event that tells of it."""

from __future__ import annotations

from dataclasses import replace

import structlog

from api.engine.status import conflict
from fleet.bindings import binding as b
from fleet.bindings import notice
from fleet.bindings.conditions import drop_condition, set_condition
from fleet.bindings.failures import AttemptFailure, backoff_until, backoffs, failures_of, with_failure
from fleet.bindings.nomination import reserved_placement_of
from fleet.bindings.preserved import preserve
from fleet.bindings.unit import BACKING_OFF, ENQUEUED, EVICTED, QUOTA_RESERVED, unit_of
from fleet.controllers.fields import reserving
from fleet.controllers.fields.evict import evict
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.hub import Hub
from fleet.values.ports import Body, CommitResult, StaleEpoch, StoredObject, StoreUnavailable, Write
from fleet.values.times import rfc3339
from fleet.wellknown import EVICT_SUCCEED, STATE_NOT_KEPT, WORK

log = structlog.get_logger(__name__)

FAILURE_TEXT_MAX = 300  # characters of it that are kept on the binding


class Evictor:
    """Carries out the evictions that failover, dispatch and observe decide; evict.py has their meaning."""

    def __init__(self, hub: Hub, events: EventRecorder) -> None:
        self._hub = hub
        self._events = events

    async def evict(
        self,
        stored: StoredObject,
        *,
        reason: str,
        message: str,
        failure: AttemptFailure | None = None,
        left_behind: bool = False,
        hold: bool = False,
    ) -> bool:
        """False when the binding changed meanwhile: look at it again. `hold`: its unit waits until a person makes it
        active again."""
        unit = unit_of(self._hub.store.peek, stored.key, stored.uid)
        writes = self.writes(
            stored, unit, reason=reason, message=message, failure=failure, left_behind=left_behind, hold=hold
        )
        if not isinstance(await self._hub.commit(writes), CommitResult):
            return False
        self._hub.metrics.evictions.labels(reason).inc()
        return True

    async def evict_one(self, stored: StoredObject, *, reason: str, message: str) -> bool:
        """The same for one of many: a binding that cannot be written counts as changed, and costs itself alone."""
        try:
            return await self.evict(stored, reason=reason, message=message)
        except (StaleEpoch, StoreUnavailable):
            raise
        except Exception as error:
            log.warning("a job cannot be evicted", key=str(stored.key), error=repr(error)[:300])
            return False

    def writes(
        self,
        stored: StoredObject,
        unit: StoredObject | None,
        *,
        reason: str,
        message: str,
        failure: AttemptFailure | None = None,
        left_behind: bool = False,
        hold: bool = False,
        exactly: bool = False,
    ) -> list[Write]:
        """The writes of `evict`, to be committed beside others. The commit loses when the binding has changed.
        `exactly`: the commit loses as well when the unit has, and is refused (409) when the job is over by then."""
        binding, now = stored.body, self._hub.clock.now()
        until = (
            None
            if left_behind or not b.clusters_of(binding)
            else notice.of_task(binding, reason, now).get(notice.EVICT_AT)
        )
        if until is not None:
            message = f"{message}; it has notice until {until}"
        reserved_placement = reserved_placement_of(unit.body) if unit is not None else None
        members = ", ".join(b.clusters_of(binding)) or (
            reserved_placement.member if reserved_placement is not None else ""
        )
        if failure is not None:
            failure = replace(failure, message=message[:FAILURE_TEXT_MAX])

        def change(body: Body) -> Body | None:
            if exactly and (b.finished(body) or b.deleting(body)):
                raise conflict(WORK, "resourcebindings", stored.key.name, "its job is over")
            done = evict(body, now=now, reason=reason, message=message, failure=failure, left_behind=left_behind)
            if (
                not done and reserved_placement is not None
            ):  # a unit with nothing in the member yet, which only gives its room up
                reserving.tell_back(body, failures if failure else (), reason, message, now)
                return body
            return body if done else None

        failures = failures_of(binding)
        if failure is not None:
            failures = with_failure(failures, failure)
        generation = binding["metadata"].get("generation")
        writes: list[Write] = [self._hub.change(stored.key, change, uid=stored.uid, generation=generation)]
        if unit is not None:
            requeued = b.wants_queue(binding)
            writes.append(
                self._hub.change(
                    unit.key,
                    lambda body: _requeued(body, failures, reason, message, requeued, now, hold),
                    uid=unit.uid,
                    generation=unit.body["metadata"].get("generation") if exactly else None,
                )
            )
        text = f"Evicted from cluster {members}: {message}"
        writes.append(self._events.write(binding["spec"]["resource"], EVICT_SUCCEED, text))
        troubles = preserve(binding, lost=left_behind).troubles if b.clusters_of(binding) else ()
        if troubles:
            told = f"statePreservation: {'; '.join(troubles)}"
            writes.append(self._events.write(binding["spec"]["resource"], STATE_NOT_KEPT, told, warning=True))
        return writes


def _requeued(
    unit: Body,
    failures: tuple[AttemptFailure, ...],
    reason: str,
    message: str,
    requeued: bool,
    now: float,
    hold: bool,
) -> Body:
    if hold:
        unit["spec"]["active"] = False
    reserving.give_up(unit)
    status = unit["status"]
    until = backoff_until(failures)
    status["phase"] = BACKING_OFF if until is not None and until > now else ENQUEUED
    status["message"] = message
    status["lastUpdateTime"] = rfc3339(now)
    status["podState"] = {"running": 0, "pending": 0}
    for name in ("admissions", "charged"):
        status.pop(name, None)
    if until is not None and requeued:
        status["requeueState"] = {"count": backoffs(failures), "requeueAt": rfc3339(until)}
    set_condition(unit, EVICTED, True, reason, message, now)
    for type_ in (QUOTA_RESERVED, "Admitted"):
        set_condition(unit, type_, False, reason, "", now)
    for type_ in ("PodsReady", "Finished"):
        drop_condition(unit, type_)
    return unit
