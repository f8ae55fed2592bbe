"""A job that has its room may be made larger where its quota and its member have what it asks for in addition.

While a job waits, any size may be asked for, and the job is decided anew. A job that has left its queue, or runs
outside of one, keeps its member. Less of anything is taken as it is. More is judged here on the newest snapshot that
the decider left and on the bindings that were placed since, and refused with the amount that lacks. The answer is for
the user. The decider gives the room (controllers/decide/growing.py), so two changes at once take nothing twice: the
second one waits, and says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from api.engine.status import Cause, StatusError
from api.objects.objects import Objects
from api.objects.writing import Review
from fleet.admission.latest import LatestSnapshots, StoredSnapshot
from fleet.admission.perstore import once_per_store
from fleet.admission.quotalabels import holds_quota
from fleet.bindings import binding as b
from fleet.bindings.components import WANTED, components_of, wanted_of
from fleet.bindings.heartbeat import silence_of
from fleet.bindings.names import binding_of
from fleet.core.model.charge import ChargeExcess, beyond
from fleet.core.model.unit import Component, Phase, Unit
from fleet.core.placement.growing import lacks, larger
from fleet.core.snapshot import Snapshot
from fleet.kinds import interpreter_for
from fleet.kinds.interpreter import Interpreter, JobState
from fleet.values.ports import Body, Clock, Store, StoredObject
from fleet.values.quantity import BadQuantity
from fleet.values.untyped import at, rows, text
from fleet.wellknown import ANNOTATION_POLICY, PENDING, QUEUING, WORK

WAITING_MOST = 20  # requests that wait for their answer; more are told to come again
LOOKS, LOOK_S = 6, 0.5  # for a snapshot that shows the job, which may just have started, and the pause between two
_PLACED = (JobState.CREATED, JobState.RUNNING)


async def has_what_it_asks(review: Review, objects: Objects) -> Sequence[Cause]:
    """The check of an object of any kind that has an interpreter now."""
    interpreter = interpreter_for(review.kind)
    if interpreter is None or review.new is None or review.old is None or review.subresource == "status":
        return ()
    if not has_room(review.old, interpreter) or interpreter.suspended(review.old):
        return ()
    try:
        before, after = interpreter.components(review.old), interpreter.components(review.new)
    except BadQuantity:
        return ()  # said by the check of its pods
    more = beyond(after, before)
    if not more:
        return ()
    why = await _desk_of(objects.store).why_not(review, after, objects.clock)
    if why and (less := beyond(before, after)):
        names = ", ".join(sorted({excess.component for excess in less}))
        why = f"{why.rstrip('.')}. What {names} gives back counts once its pods are gone: make it smaller first, alone"
    return _causes(review.new, interpreter, more, why) if why else ()


def _causes(new: Body, interpreter: Interpreter, more: Sequence[ChargeExcess], why: str) -> list[Cause]:
    fields = {template.name: template.path.removesuffix(".template") for template in interpreter.templates(new)}
    return [
        Cause(fields.get(excess.component, "spec"), f"Forbidden: {excess.text}: {why}", "FieldValueForbidden")
        for excess in more
    ]


def has_room(job: Body, interpreter: Interpreter) -> bool:
    """Whether the status of the job says that it left its queue, or runs outside of one, and is not over."""
    conditions = {text(c.get("type")): c.get("status") for c in rows(at(job, "status", "conditions"))}
    if QUEUING in conditions:
        return holds_quota(job)
    return conditions.get(PENDING) != "True" and interpreter.state(job.get("status")).state in _PLACED


class _Desk:
    """Answers the requests of one store, one after the other, since each costs a look at the whole fleet."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._snapshots = LatestSnapshots(store)
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def why_not(self, review: Review, components: Sequence[Component], clock: Clock) -> str:
        """The obstacle to these components; "" where there is none. StatusError 429 when too many ask."""
        now = clock.now()
        kind = review.kind
        stored = binding_of(self._store.peek, kind.group, kind.kind, review.namespace, review.name)
        silent = silence_of(self._store, now)
        if stored is None or not b.annotation(stored.body, ANNOTATION_POLICY):
            return "it is not made larger: no policy takes it any more"
        if silent:
            return f"it is not made larger now: {silent}"
        if self._waiting >= WAITING_MOST:
            raise StatusError(429, "TooManyRequests", "other jobs are being made larger; ask again", retry_after_s=1)
        self._waiting += 1
        try:
            for _ in range(LOOKS):
                async with self._turn:
                    answer = await self._answer(stored, components, clock.now())
                if answer is not None:
                    return answer
                await clock.sleep(LOOK_S)
        finally:
            self._waiting -= 1
        return "it is not made larger now: the decider has not seen it run yet; try again in a moment"

    async def _answer(self, stored: StoredObject, components: Sequence[Component], now: float) -> str | None:
        """None while the newest snapshot does not show the job in its member."""
        try:
            latest = await self._snapshots.latest()
        except StatusError as error:
            return f"it is not made larger now: {error.message}"
        bindings = self._store.scan(WORK, "resourcebindings")
        return await asyncio.to_thread(_obstacle, latest, bindings, stored, components, now)


_desk_of = once_per_store(_Desk)


def _obstacle(
    latest: StoredSnapshot,
    bindings: Sequence[StoredObject],
    binding: StoredObject,
    components: Sequence[Component],
    now: float,
) -> str | None:
    snapshot = _since(latest.snapshot, bindings, binding)
    unit = snapshot.units.get(binding.uid)
    if unit is None or unit.phase is not Phase.PLACED:
        return None
    lack = lacks(snapshot, binding.uid, components, max(now, latest.now))
    return lack.text if lack is not None else ""


def _since(snapshot: Snapshot, bindings: Sequence[StoredObject], binding: StoredObject) -> Snapshot:
    """The snapshot with the units that were placed since, and with the amounts that others have asked for."""
    units: dict[str, Unit] = {}
    for stored in bindings:
        unit = snapshot.units.get(stored.uid)
        if unit is None:
            continue
        members = b.clusters_of(stored.body)
        try:
            if members and unit.phase is Phase.WAITING:  # an elastic unit of any of its sizes
                had = components_of(stored.body)
                unit = replace(
                    unit,
                    phase=Phase.PLACED,
                    member=members[0],
                    components=had,
                    claim=None,
                    head=None,
                    backoff_until=None,
                )
            if stored.uid != binding.uid and b.spec_of(stored.body).get(WANTED):
                unit = replace(unit, components=larger(unit.components, wanted_of(stored.body)))
        except BadQuantity:
            continue
        if unit is not snapshot.units[stored.uid]:
            units[stored.uid] = unit
    return replace(snapshot, units={**snapshot.units, **units}) if units else snapshot
