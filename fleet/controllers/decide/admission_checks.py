"""Reserved units → started, or back in their queue: the answers of the checks, and the time to wait for them.

The service that answers for a check writes its state into the QueueUnit's status: Ready, or Rejected (Retry is the
same). When all are Ready the unit starts where it was nominated. When one is not, or time is up, it backs off as after
any failed attempt, and asks anew the next time. The inputs of its decision may change meanwhile: then the unit goes
back without a pause.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import structlog

from api.engine.status import StatusError, conflict
from api.loops.controller import Controller, Source
from fleet.bindings import binding as b
from fleet.bindings.elastic import with_replicas
from fleet.bindings.failures import AttemptFailure, failures_of, with_failure
from fleet.bindings.matching import candidate, repels
from fleet.bindings.nomination import CHECKS, READY, REJECTED, RETRY, ReservedPlacement, reserved_placement_of
from fleet.bindings.orphans import lost_copies, why_held
from fleet.bindings.stopping import held_by, path_of, stops_of
from fleet.bindings.unit import RESERVED, active, owned_by, phase_of, queue_of, unit_key
from fleet.controllers.decide.commit import PlanCommitter
from fleet.controllers.decide.snapshot import Sources
from fleet.controllers.fields import reserving, rooms
from fleet.controllers.fields.evictor import FAILURE_TEXT_MAX
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.hub import Hub
from fleet.core.model.plan import Placement
from fleet.values.ports import Body, CommitResult, Event, EventType, Key, StoredObject, Write
from fleet.values.untyped import mapping, text
from fleet.wellknown import (
    ANNOTATION_MOVE,
    CLUSTER,
    QUEUE,
    QUEUE_NAMESPACE,
    SCHEDULE_FAILED,
    UNIT_SUFFIX,
    WORK,
)

log = structlog.get_logger(__name__)

REFUSED, TIMED_OUT, VOID = "AdmissionCheckRejected", "AdmissionChecksTimedOut", "NotReserved"
NO_ROOM = "RoomNotHeld"
AGAIN_S = 1.0  # after a commit that lost to another writer


class AdmissionChecksLoop:
    """Looks after units that are Reserved."""

    name = "admission-checks"

    def __init__(self, hub: Hub, events: EventRecorder) -> None:
        self._hub = hub
        self._events = events
        self._committer = PlanCommitter(hub, events)
        self._reserved: set[Key] = set()
        sources = [
            Source(QUEUE, "queueunits", self._on_unit),
            Source(WORK, "resourcebindings", self._on_binding),
            Source(QUEUE, "queues", self._all),
            Source(CLUSTER, "clusters", self._all),
        ]
        self.controller = Controller(self.name, hub.store, sources, self.reconcile, workers=4)

    async def run(self) -> None:
        await self.controller.run()

    def _on_unit(self, event: Event) -> Iterable[Key]:
        key = event.stored.key
        if event.type is EventType.DELETED or phase_of(event.stored.body) != RESERVED:
            self._reserved.discard(key)
            return ()
        self._reserved.add(key)
        return (key,)

    def _on_binding(self, event: Event) -> Iterable[Key]:
        key = unit_key(event.stored.key)
        return (key,) if key in self._reserved else ()

    def _all(self, event: Event) -> Iterable[Key]:
        return tuple(self._reserved)

    async def reconcile(self, key: Key) -> float | None:
        unit = self._hub.store.peek(key)
        if unit is None or phase_of(unit.body) != RESERVED:
            return None
        name = key.name.removesuffix(UNIT_SUFFIX)
        binding = self._hub.store.peek(Key(WORK, "resourcebindings", key.namespace, name))
        if binding is None or b.deleting(binding.body) or not owned_by(unit.body, binding.uid):
            return None  # the unit goes with its binding
        now = self._hub.clock.now()
        reserved_placement = reserved_placement_of(unit.body)
        why = self._void(reserved_placement, unit.body, binding.body)
        if reserved_placement is None or why:
            return await self._back(unit, binding, VOID, why or "its nomination cannot be read")
        queues = reserving.Queues.of(self._hub)
        _, names = reserving.asked_of(self._hub, queues, unit.body, binding.body, reserved_placement.member)
        entries = reserving.answers(unit.body, names, now)
        refused = next((e for e in entries if e["state"] in (REJECTED, RETRY)), None)
        if refused is not None:
            return await self._refused(unit, binding, reserved_placement, refused)
        late = [e["name"] for e in entries if e["state"] != READY]
        if not late:
            return await self._start(unit, binding, reserved_placement, names)
        if now >= reserved_placement.until:
            message = (
                f"admission checks were not ready within {reserved_placement.until - reserved_placement.since:.0f} s: "
            )
            failure = AttemptFailure("", now, TIMED_OUT)
            return await self._back(unit, binding, TIMED_OUT, message + ", ".join(late), failure)
        await self._hub.edit(key, lambda body: _ask(body, names, now), uid=unit.uid)
        return reserved_placement.until - now + 0.01

    def _void(self, reserved_placement: ReservedPlacement | None, unit: Body, binding: Body) -> str:
        """The trouble with the decision that it would start by; "" while it stands."""
        if reserved_placement is None or not b.queued(binding) or b.clusters_of(binding):
            return "it was decided anew"
        if b.suspended(binding) or b.held(binding) or not active(unit):
            return "it was held while its admission checks were waited for"
        moved = b.annotation(binding, ANNOTATION_MOVE)
        if moved and moved != reserved_placement.member:
            return f"a person moves it to member {moved}"
        lost = why_held(binding, self._hub.members.copies(binding["metadata"]["uid"]), lost_copies(self._hub.store))
        if lost:
            return lost
        if binding["metadata"].get("generation") != reserved_placement.generation:
            return "the job or its policy changed while its admission checks were waited for"
        if queue_of(unit) != reserved_placement.queue:
            return "it moved to another queue while its admission checks were waited for"
        held = self._held_by(reserved_placement.queue)
        if held:
            return f"the queue {held} was held while its admission checks were waited for"
        cluster = self._hub.peek(CLUSTER, "clusters", "", reserved_placement.member)
        if (cluster is not None and b.deleting(cluster)) or reserved_placement.member not in self._hub.members.names():
            return f"member {reserved_placement.member} is gone or being removed"
        if cluster is not None and repels(mapping(b.spec_of(binding).get("placement")), candidate(cluster)):
            return f"member {reserved_placement.member} takes no new jobs any more: it has a taint"
        return ""

    def _held_by(self, queue: str) -> str:
        """The held queue, this one or one above it; "" when jobs of the queue may start."""
        named = self._hub.peek(QUEUE, "queues", QUEUE_NAMESPACE, queue)
        if named is None:
            return ""
        return held_by(stops_of(self._hub.bodies(QUEUE, "queues", QUEUE_NAMESPACE)), path_of(named))

    async def _refused(
        self, unit: StoredObject, binding: StoredObject, reserved_placement: ReservedPlacement, check: Body
    ) -> float | None:
        """Room that is not held speaks against the member, any other check against the job."""
        now, why = self._hub.clock.now(), text(check.get("message"))
        if check["name"] == rooms.CHECK:
            message = f"member {reserved_placement.member} does not hold its room: {why}"
            return await self._back(
                unit, binding, NO_ROOM, message, AttemptFailure(reserved_placement.member, now, NO_ROOM)
            )
        message = f"admission check {check['name']} rejected it{f': {why}' if why else ''}"
        return await self._back(unit, binding, REFUSED, message, AttemptFailure("", now, REFUSED))

    async def _start(
        self, unit: StoredObject, binding: StoredObject, reserved_placement: ReservedPlacement, names: Sequence[str]
    ) -> float | None:
        if not self._hub.members.ready(reserved_placement.member):
            return await self._back(unit, binding, VOID, f"member {reserved_placement.member} is not ready")
        placement = Placement(binding.uid, reserved_placement.member, reserved_placement.share_until)
        cluster = self._hub.peek(CLUSTER, "clusters", "", reserved_placement.member)
        room = rooms.driver_of(cluster) if rooms.CHECK in names else None
        writes = self._committer.start_writes(
            Sources(with_replicas(binding, dict(reserved_placement.replicas)), unit),
            placement,
            expected=reserved_placement,
            domain=reserved_placement.domain,
            room=room,
        )
        try:
            done = isinstance(await self._hub.commit(writes), CommitResult)
        except StatusError as error:
            log.warning("a reserved unit was refused", unit=str(unit.key), error=error.message)
            done = False
        return None if done else AGAIN_S

    async def _back(
        self,
        unit: StoredObject,
        binding: StoredObject,
        reason: str,
        message: str,
        failure: AttemptFailure | None = None,
    ) -> float | None:
        now = self._hub.clock.now()
        failures: Sequence[AttemptFailure] = failures_of(binding.body)
        if failure is not None:
            failures = with_failure(failures, replace(failure, message=message[:FAILURE_TEXT_MAX]))

        def waits_again(body: Body) -> Body:
            if phase_of(body) != RESERVED:
                raise conflict(QUEUE, "queueunits", unit.key.name)
            reserving.back_in_queue(body, failures, failure is not None, message, now)
            return body

        def tell(body: Body) -> Body | None:
            if b.clusters_of(body):
                raise conflict(WORK, "resourcebindings", binding.key.name)
            reserving.tell_back(body, failures, reason, message, now)
            return body

        writes: list[Write] = [
            self._hub.change(unit.key, waits_again, uid=unit.uid),
            self._hub.change(binding.key, tell, uid=binding.uid),
            self._events.write(binding.body["spec"]["resource"], SCHEDULE_FAILED, message, warning=True),
        ]
        try:
            done = isinstance(await self._hub.commit(writes), CommitResult)
        except StatusError:
            done = False  # another writer was first: the result of that is on its way here
        return None if done else AGAIN_S


def _ask(unit: Body, names: Sequence[str], now: float) -> bool:
    """The entries of exactly these checks, in place; False when it has them."""
    wanted = reserving.answers(unit, names, now)
    if b.status_of(unit).get(CHECKS) == wanted:
        return False
    unit["status"][CHECKS] = wanted
    return True
