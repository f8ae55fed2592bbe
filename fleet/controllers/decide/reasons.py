"""Writing down why units wait: when the code or its numbers change, heads first, never more than the hub can bear.

Ten thousand waiting jobs must not become ten thousand writes a cycle. Reasons that are not written yet wait here, one
for each unit, the newest only. Position and estimate are computed when people look. Where the numbers alone change, the
binding, from which the job has its condition, follows its unit less often, since it costs two writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import structlog

from fleet.bindings import after
from fleet.bindings import binding as b
from fleet.bindings.conditions import condition, set_condition
from fleet.bindings.failures import failures_of
from fleet.bindings.unit import in_queue, message_of, reason_of
from fleet.controllers.decide.commit import SCHEDULER
from fleet.controllers.decide.snapshot import Picture, Sources
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.hub import Hub
from fleet.core.model.order import queue_order
from fleet.core.model.reason import OF_QUOTA, Code, Reason
from fleet.values.ports import Body, Conflict, StaleEpoch, StoreUnavailable, Write
from fleet.values.times import rfc3339
from fleet.values.untyped import mapping
from fleet.wellknown import SCHEDULE_FAILED, SCHEDULED

log = structlog.get_logger(__name__)

CAUSE = "cause"  # number of a back-off
UNITS_AT_ONCE = 25  # in one commit
CONDITION_REASONS = {
    **dict.fromkeys(OF_QUOTA, "QuotaExceeded"),
    Code.NO_MEMBER_FITS: "NoClusterFit",
    Code.NO_MEMBER_ALLOWED: "NoClusterFit",
    Code.MEMBER_NOT_READY: "NoClusterFit",
    Code.NO_MEMBERS: "NoClusterFit",
    Code.TOO_LARGE: "NoClusterFit",
    Code.LARGER_THAN_ANY_NODE: "NoClusterFit",
    Code.NO_NODE_MATCHES: "NoClusterFit",
    Code.UNKNOWN_RESOURCE: "NoClusterFit",
    Code.HELD: "Held",
    Code.AFTER: "WaitsForJobs",
    Code.NEVER_AFTER: "DependencyNeverSatisfied",
    Code.SUSPENDED: "Suspended",
}


@dataclass(slots=True)
class _StoredReason:
    """The stored reason of a unit, and when it was written; `unit` is the uid of the QueueUnit that says it.
    `unit_numbers` and `shown_at` are those of the binding; None: the binding says something else."""

    unit: str
    code: str
    numbers: Mapping[str, object]
    at: float
    unit_numbers: Mapping[str, object] | None
    shown_at: float


@dataclass(frozen=True, slots=True)
class _Due:
    """A reason that is to be written: on its unit, on its binding, or on both."""

    unit_id: str
    reason: Reason
    new_code: bool
    on_unit: bool
    on_binding: bool


class ReasonWriter:
    """Takes the reasons of each plan and writes those that say something new, at a bounded rate."""

    def __init__(self, hub: Hub, events: EventRecorder) -> None:
        self._hub = hub
        self._events = events
        self._records: dict[str, _StoredReason] = {}
        self._picture: Picture | None = None
        self._offered: Mapping[str, Reason] = {}
        self._reasons: dict[str, Reason] = {}
        self._budget, self._budget_at = float(hub.config.reason_writes_per_s), hub.clock.monotonic()

    def offer(self, picture: Picture, reasons: Mapping[str, Reason]) -> None:
        """The reasons of a plan; those of the plan before that are not written yet are forgotten."""
        units = picture.snapshot.units
        self._picture, self._offered = picture, reasons
        waiting = sorted((units[key] for key in reasons if key in units), key=queue_order)
        self._reasons = {unit.id: reasons[unit.id] for unit in waiting}
        self._records = {i: said for i, said in self._records.items() if i in self._reasons}

    def renew(self, picture: Picture) -> None:
        """The plan before still stands, but the objects may be others: a user deleted a QueueUnit, and the new one of
        its name says nothing yet."""
        self._picture = picture
        for unit_id, said in self._records.items():
            sources = picture.sources.get(unit_id)
            if sources is not None and said.unit != _uid(sources) and unit_id in self._offered:
                self._reasons[unit_id] = self._offered[unit_id]

    async def flush(self) -> float | None:
        """Write what may be written now; returns the seconds after which more may be, or None when all is said."""
        if self._picture is None:
            return None
        picture, now = self._picture, self._hub.clock.now()
        rate = self._hub.config.reason_writes_per_s
        clock = self._hub.clock.monotonic()
        self._budget = min(float(rate), self._budget + (clock - self._budget_at) * rate)
        self._budget_at = clock
        batch: list[_Due] = []
        pause: float | None = None
        for unit_id, whole in list(self._reasons.items()):
            binding = picture.sources[unit_id].binding
            reason = with_cause(whole, binding.body).told_to(binding.key.namespace)
            said = self._known(unit_id, picture.sources[unit_id])
            due, wait = self._due(unit_id, reason, said, picture.sources[unit_id].unit is not None, now)
            if due is None and wait == 0:
                assert said is not None
                self._records[unit_id] = said
                del self._reasons[unit_id]
                continue
            if due is None:
                pause = min(wait, pause) if pause is not None else wait
                continue
            if self._budget < 1:
                pause = min(1.0, pause) if pause is not None else 1.0
                break
            self._budget -= 1
            batch.append(due)
        for start in range(0, len(batch), UNITS_AT_ONCE):
            await self._write_each(picture, batch[start : start + UNITS_AT_ONCE], now)
        if any(due.unit_id in self._reasons for due in batch):
            # something went meanwhile, which the next picture knows; or the binding is to follow its unit
            return min(1.0, pause) if pause is not None else 1.0
        return pause

    def _due(
        self, unit_id: str, reason: Reason, record: _StoredReason | None, has_unit: bool, now: float
    ) -> tuple[_Due | None, float]:
        """The reason to write now; or None and the seconds until there is one, 0 when all is said."""
        if record is None or record.code != reason.code:
            return _Due(unit_id, reason, new_code=True, on_unit=has_unit, on_binding=True), 0.0
        numbers, tuned = reason.figures, self._hub.config
        waits = []
        if record.numbers != numbers:
            waits.append(record.at + tuned.reason_repeat_s - now)
        if has_unit and record.unit_numbers != numbers:
            waits.append(record.shown_at + tuned.reason_shown_s - now)
        if not waits or min(waits) > 0:
            return None, min(waits, default=0.0)
        on_unit = has_unit and record.numbers != numbers
        on_binding = not has_unit or record.shown_at + tuned.reason_shown_s <= now
        return _Due(unit_id, reason, new_code=False, on_unit=on_unit, on_binding=on_binding), 0.0

    def _known(self, unit_id: str, sources: Sources) -> _StoredReason | None:
        said = self._records.get(unit_id)
        if said is not None and said.unit == _uid(sources):
            return said
        return self._stored(sources)  # also when a user deleted the QueueUnit: the new one says nothing yet

    def _stored(self, sources: Sources) -> _StoredReason | None:
        """The reason that a process before this one wrote."""
        if sources.unit is not None:
            reason = reason_of(sources.unit.body)
            told = condition(sources.binding.body, SCHEDULED)
            if reason and told is not None and told.get("status") == "False":
                numbers = mapping(reason.get("numbers"))
                shown = numbers if told.get("message") == message_of(sources.unit.body) else None
                return _StoredReason(sources.unit.uid, str(reason.get("code")), numbers, 0.0, shown, 0.0)
        return None

    async def _write_each(self, picture: Picture, batch: list[_Due], now: float) -> None:
        """As `_write`; a reason that cannot be written is forgotten, and costs the others nothing."""
        try:
            await self._write(picture, batch, now)
        except (StaleEpoch, StoreUnavailable):
            raise
        except Exception as error:
            if len(batch) > 1:
                for due in batch:
                    await self._write_each(picture, [due], now)
                return
            key = picture.sources[batch[0].unit_id].binding.key
            log.warning("why it waits cannot be written", key=str(key), error=repr(error)[:300])
            self._reasons.pop(batch[0].unit_id, None)

    async def _write(self, picture: Picture, batch: list[_Due], now: float) -> None:
        """A single commit; a commit for each when some unit of it is gone."""
        writes = [write for due in batch for write in self._writes(picture.sources[due.unit_id], due, now)]
        outcome = await self._hub.commit(writes)
        if isinstance(outcome, Conflict):
            for due in batch if len(batch) > 1 else ():
                await self._write_each(picture, [due], now)
            return
        for due in batch:
            uid, numbers = _uid(picture.sources[due.unit_id]), due.reason.figures
            known = self._records.get(due.unit_id)
            shown, shown_at = (known.unit_numbers, known.shown_at) if known is not None else (None, 0.0)
            if due.on_binding:
                shown, shown_at = numbers, now
            at = now if due.on_unit or not uid or known is None else known.at
            self._records[due.unit_id] = _StoredReason(uid, str(due.reason.code), numbers, at, shown, shown_at)
            if not uid or shown == numbers:
                self._reasons.pop(due.unit_id, None)

    def _writes(self, sources: Sources, due: _Due, now: float) -> list[Write]:
        writes: list[Write] = []
        reason, text, new_code = due.reason, due.reason.text, due.new_code
        if sources.unit is not None and due.on_unit:
            unit = sources.unit
            writes.append(self._hub.change(unit.key, lambda body: _explain_unit(body, reason, text, now), uid=unit.uid))
        binding = sources.binding
        if due.on_binding:
            code = CONDITION_REASONS.get(reason.code) or str(reason.numbers.get(CAUSE) or "Unschedulable")
            writes.append(
                self._hub.change(binding.key, lambda body: _explain_binding(body, code, text, now), uid=binding.uid)
            )
        if new_code and sources.unit is None and _told(binding.body, text):
            return writes  # said before this process started
        if new_code:
            resource = binding.body["spec"]["resource"]
            writes.append(self._events.write(resource, SCHEDULE_FAILED, text, warning=True, component=SCHEDULER))
        return writes


def with_cause(reason: Reason, binding: Body) -> Reason:
    """A back-off with the code of the failure that it follows, so that programs need not read the text. What keeps a
    job behind others may have changed since the decision looked."""
    obstacle = after.obstacle(binding) if reason.code in after.CODES else None
    if obstacle is not None:
        return obstacle.reason
    failures = failures_of(binding) if reason.code is Code.BACK_OFF else ()
    return replace(reason, numbers={**reason.numbers, CAUSE: failures[-1].reason}) if failures else reason


def _uid(sources: Sources) -> str:
    return sources.unit.uid if sources.unit is not None else ""


def _told(binding: Body, text: str) -> bool:
    told = condition(binding, SCHEDULED)
    return told is not None and told["status"] == "False" and told.get("message") == text


def _explain_unit(unit: Body, reason: Reason, text: str, now: float) -> Body | None:
    if not in_queue(unit):
        return None
    status = unit.setdefault("status", {})
    status["message"] = text
    status["reason"] = {"code": str(reason.code), "numbers": reason.figures}
    status["lastUpdateTime"] = rfc3339(now)
    return unit


def _explain_binding(binding: Body, code: str, text: str, now: float) -> Body | None:
    if b.clusters_of(binding) or b.deleting(binding):
        return None
    return binding if set_condition(binding, SCHEDULED, False, code, text, now) else None
