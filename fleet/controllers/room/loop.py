"""Room in members, held for gangs before they start: the second condition of a Reserved unit.

While a unit is Reserved, the loop keeps placeholders for it in its member, and answers its check: Ready when each of
them has a node; Retry when one is refused or the time is over, and the unit goes back to its queue. Once the job is
sent, its gated pods get the places of the placeholders. Placeholders that nobody wants any more leave at once.

Level-triggered: each look compares the binding and its unit with the pods that the member shows.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import structlog

from api.engine.status import StatusError
from api.loops.controller import Controller, Source
from fleet.bindings import binding as b
from fleet.bindings.conditions import is_true
from fleet.bindings.elastic import with_replicas
from fleet.bindings.matching import candidate
from fleet.bindings.nomination import PENDING, READY, RETRY, ReservedPlacement, reserved_placement_of
from fleet.bindings.unit import binding_of, unit_of
from fleet.controllers.dispatch.dependencies import Dependencies
from fleet.controllers.dispatch.domainpins import pins_for
from fleet.controllers.dispatch.manifests import manifest
from fleet.controllers.dispatch.outgoing import UnsafeManifest
from fleet.controllers.dispatch.overrides import OVERRIDES, BadOverride
from fleet.controllers.fields.rooms import Driver, answer, asks, driver_of, gang_scheduler_of
from fleet.controllers.fields.starting import Way, placed
from fleet.controllers.room.classes import PlaceholderClasses
from fleet.controllers.room.placeholders import placeholders
from fleet.controllers.room.places import Placeholder, of_pod, trouble
from fleet.controllers.room.reservations import SCHEDULER, place, reservations
from fleet.controllers.room.swap import Pair, exchange
from fleet.controllers.runtime.hub import Hub, object_key
from fleet.controllers.runtime.index import BindingIndex
from fleet.core.model.pod import PodView
from fleet.kinds import interpreter_of
from fleet.members.members import ActOutcome, ActResult, MemberChange
from fleet.values.ports import Body, Event, EventType, Key, StoredObject
from fleet.values.quantity import BadQuantity
from fleet.values.times import rfc3339
from fleet.wellknown import ANNOTATION_ROOM, CLUSTER, GANG_WHOLE, GATE, POLICY, QUEUE, TAKES, WORK

log = structlog.get_logger(__name__)

AGAIN_S = 0.5  # after an act that the member did not answer
TTL_BEYOND_S = 600  # placeholders live so much longer than the hub waits, should the hub be gone
ORPHANS_S = 30.0  # between two searches for placeholders without a binding
KIND = {Driver.PLACEHOLDERS: "placeholders", Driver.KOORDINATOR: "Reservations"}


class PlaceholderSet(NamedTuple):
    """The placeholders that a binding wants now: these of one attempt in one member."""

    member: str
    attempt: int
    reserved_placement: ReservedPlacement | None  # while the unit is Reserved; None once the job is sent
    driver: Driver

    def matches(self, pod: PodView) -> bool:
        return (pod.member, pod.attempt) == (self.member, self.attempt)


class RoomLoop:
    """Holds and releases room in members; chooses nothing."""

    name = "room"

    def __init__(self, hub: Hub, index: BindingIndex, dependencies: Dependencies) -> None:
        self._hub = hub
        self._index = index
        self._classes = PlaceholderClasses(hub, dependencies)
        self._deleted_uids: dict[Key, str] = {}  # uids of bindings that were deleted
        self._swapped: dict[str, set[str]] = {}  # uids of pods that are done, by binding: the caches lag behind
        sources = [
            Source(QUEUE, "queueunits", self._on_unit),
            Source(WORK, "resourcebindings", self._on_binding),
        ]
        self.controller = Controller(self.name, hub.store, sources, self.reconcile, workers=16)

    async def run(self) -> None:
        self._hub.members.subscribe(self._on_member)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.controller.run())
            group.create_task(self._sweep())

    # -- events and the keys that they ask for

    def _on_unit(self, event: Event) -> Iterable[Key]:
        key = binding_of(event.stored)
        return (key,) if self._concerns(key) else ()

    def _on_binding(self, event: Event) -> Iterable[Key]:
        self._index.put(event.stored)
        if event.type is EventType.DELETED:
            self._deleted_uids[event.stored.key] = event.stored.uid
        return (event.stored.key,) if self._concerns(event.stored.key) else ()

    def _on_member(self, changed: MemberChange) -> None:
        if changed.what == "ready":
            bindings = {pod.binding for pod in self._hub.members.placeholders(changed.member)}
        else:
            bindings = {changed.binding} if changed.what in ("pod", "job", "status") else set()
        for uid in bindings:
            key = self._index.key(uid)
            if key is not None and self._concerns(key):
                self.controller.queue.add(key)

    def _concerns(self, key: Key) -> bool:
        """Whether room is held for the binding, or is to be: most jobs start without."""
        stored = self._hub.store.peek(key)
        if stored is None or key in self._deleted_uids:
            return True
        held = any(pod.placeholder for pod in self._hub.members.pods_of(stored.uid))
        if held or self._hub.members.companions(stored.uid) or self._classes.sent_for(stored.uid):
            return True
        return b.is_gang(stored.body) and self._wanted(stored.body, self._unit_of(stored)) is not None

    def _unit_of(self, binding: StoredObject) -> StoredObject | None:
        return unit_of(self._hub.store.peek, binding.key, binding.uid)

    async def reconcile(self, key: Key) -> float | None:
        old_uid = self._deleted_uids.pop(key, None)
        stored = self._hub.store.peek(key)
        if old_uid is not None and (stored is None or stored.uid != old_uid):
            self._swapped.pop(old_uid, None)
            released = await self._release(self._hub.members.pods_of(old_uid))
            if not await self._classes.settle(old_uid, "", ()) or not released:
                self._deleted_uids[key] = old_uid
                self.controller.queue.add_after(key, AGAIN_S)  # and the binding that has its name now goes on
        if stored is None or not b.is_gang(stored.body):
            return None
        unit = self._unit_of(stored)
        need = self._wanted(stored.body, unit)
        pods = self._hub.members.pods_of(stored.uid)
        released = await self._release([pod for pod in pods if need is None or not need.matches(pod)])
        released = await self._let_go(stored, need) and released
        sent_for = need.member if need is not None else ""
        released = await self._classes.settle(stored.uid, sent_for, b.clusters_of(stored.body)) and released
        if need is None:
            self._swapped.pop(stored.uid, None)
        elif need.reserved_placement is None and need.driver is Driver.PLACEHOLDERS:
            released = await self._swap(stored, need, [pod for pod in pods if need.matches(pod)]) and released
        elif need.reserved_placement is not None and unit is not None:
            return await self._hold(stored, unit, need, need.reserved_placement)
        return None if released else AGAIN_S

    def _wanted(self, binding: Body, unit: StoredObject | None) -> PlaceholderSet | None:
        if b.deleting(binding) or b.tasks_of(binding):
            return None
        members = b.clusters_of(binding)
        if members:
            held = b.annotation(binding, ANNOTATION_ROOM)
            return PlaceholderSet(members[0], b.attempt(binding), None, Driver(held)) if held in set(Driver) else None
        reserved_placement = reserved_placement_of(unit.body) if unit is not None else None
        if unit is None or reserved_placement is None or not asks(unit.body) or b.suspended(binding):
            return None
        driver = driver_of(self._hub.peek(CLUSTER, "clusters", "", reserved_placement.member))
        return (
            PlaceholderSet(reserved_placement.member, b.attempt(binding) + 1, reserved_placement, driver)
            if driver is not None
            else None
        )

    # -- holding

    async def _hold(
        self, stored: StoredObject, unit: StoredObject, need: PlaceholderSet, reserved_placement: ReservedPlacement
    ) -> float | None:
        now, config = self._hub.clock.now(), self._hub.config
        try:
            bodies = {body["metadata"]["name"]: body for body in self._bodies(stored, need, reserved_placement)}
        except (BadOverride, BadQuantity, StatusError, UnsafeManifest) as error:
            return await self._answer(unit, reserved_placement, RETRY, str(error))
        places = {place.name: place for place in self._places(stored.uid, need) if not place.over}
        if all(name in places and places[name].has_node for name in bodies):
            return await self._answer(unit, reserved_placement, READY, f"held by {len(bodies)} {KIND[need.driver]}")
        grows = (config.nodes_added_s, config.nodes_added_s)  # the pending placeholders are what makes nodes come
        held_s, refused_s = grows if reserved_placement.grows else (config.room_held_s, config.room_refused_s)
        why = trouble(bodies, places, now, reserved_placement.since, held_s, refused_s)
        if why:
            return await self._answer(unit, reserved_placement, RETRY, why)
        put = self._hub.members.put_pod if need.driver is Driver.PLACEHOLDERS else self._hub.members.apply
        missing = [body for name, body in bodies.items() if name not in places]
        lacks = await self._classes.send(stored, reserved_placement.member, missing)
        outcomes = (
            [lacks] if lacks else await asyncio.gather(*(put(reserved_placement.member, body) for body in missing))
        )
        for outcome in outcomes:
            if outcome.did in (ActResult.REFUSED, ActResult.CONFLICT):
                return await self._answer(unit, reserved_placement, RETRY, outcome.message)
        held = sum(place.has_node for place in places.values())
        have = f"{held} of {len(bodies)} {KIND[need.driver]} have a node"
        waits = f"{have}; member {reserved_placement.member} has to add others"
        await self._answer(unit, reserved_placement, PENDING, waits if reserved_placement.grows else "")
        return min(reserved_placement.since + held_s - now, AGAIN_S) + 0.01

    def _places(self, uid: str, need: PlaceholderSet) -> list[Placeholder]:
        """The places of this attempt that its member shows."""
        if need.driver is Driver.PLACEHOLDERS:
            pods = [pod for pod in self._hub.members.pods_of(uid) if need.matches(pod)]
            return [of_pod(pod) for pod in pods if pod.placeholder and not pod.terminating]
        return [
            place(body)
            for member, body in self._hub.members.companions(uid)
            if body["kind"] == "Reservation" and (member, b.attempt_of_copy(body)) == (need.member, need.attempt)
        ]

    def _bodies(self, stored: StoredObject, need: PlaceholderSet, reserved_placement: ReservedPlacement) -> list[Body]:
        """The objects that hold the places."""
        pods = self._placeholders(stored, reserved_placement)
        if need.driver is Driver.PLACEHOLDERS:
            return pods
        cluster = self._hub.peek(CLUSTER, "clusters", "", reserved_placement.member)
        scheduler = gang_scheduler_of(cluster, need.driver).partition("/")[2]
        return reservations(pods, scheduler or SCHEDULER)

    def _placeholders(self, stored: StoredObject, reserved_placement: ReservedPlacement) -> list[Body]:
        """Of the manifest that the job's member will get, were it started now."""
        resource = stored.body["spec"]["resource"]
        key = object_key(self._hub.registry, resource)
        interpreter = interpreter_of(resource["apiVersion"], resource["kind"])
        source = self._hub.store.peek(key) if key is not None else None
        cluster = self._hub.peek(CLUSTER, "clusters", "", reserved_placement.member)
        if source is None or interpreter is None or cluster is None:
            raise UnsafeManifest("its job is gone")
        now = self._hub.clock.now()
        binding = with_replicas(stored, dict(reserved_placement.replicas)).body
        ahead = placed(copy.deepcopy(binding), reserved_placement.member, now, Way(reserved_placement.domain))
        policies = [body for resource in OVERRIDES for body in self._hub.bodies(POLICY, resource)]
        pins = pins_for(ahead, None, lambda: self._hub.members.nodes(reserved_placement.member))
        made = manifest(source.body, ahead, self._hub.hub_id, candidate(cluster), policies, pins=pins)
        ttl_s = max(1, int(reserved_placement.until - reserved_placement.since)) + TTL_BEYOND_S
        return placeholders(made, interpreter, ttl_s, self._hub.config.placeholder_image)

    async def _answer(
        self, unit: StoredObject, reserved_placement: ReservedPlacement, state: str, message: str
    ) -> float | None:
        """Write the state of the check, if the unit still waits for this very nomination."""
        at = rfc3339(self._hub.clock.now())

        def change(body: Body) -> bool:
            return reserved_placement_of(body) == reserved_placement and answer(body, state, message, at)

        await self._hub.edit(unit.key, change, uid=unit.uid)
        return None

    # -- the job takes the place of the placeholders

    async def _swap(self, stored: StoredObject, need: PlaceholderSet, pods: Sequence[PodView]) -> bool:
        """False while the member has not taken a part of it: a pod that stays at its gate changes nothing that would
        bring the binding back by itself."""
        done = self._swapped.setdefault(stored.uid, set())
        done &= {pod.uid for pod in pods}
        due = exchange(pod for pod in pods if pod.uid not in done)
        nominated = await asyncio.gather(*(self._nominate(pair) for pair in due.pairs))
        sure = [pair for pair, outcome in zip(due.pairs, nominated, strict=True) if outcome.did is ActResult.DONE]
        deleted = await self._delete([pair.placeholder for pair in sure])
        opened = [pair for pair, gone in zip(sure, deleted, strict=True) if gone]
        done |= {pair.placeholder.uid for pair in opened}
        taken = len(opened) == len(due.pairs)
        taken = await self._open(need.member, [*(pair.pod for pair in opened), *due.free], done) and taken
        if is_true(stored.body, GANG_WHOLE) or b.finished(stored.body):
            taken = await self._release([pod for pod in pods if pod.uid not in done]) and taken
        return taken

    async def _nominate(self, pair: Pair) -> ActOutcome:
        told = {"type": TAKES, "status": "True", "reason": "RoomHeld", "message": pair.placeholder.name}
        patch = {"status": {"nominatedNodeName": pair.placeholder.node, "conditions": [told]}}
        return await self._hub.members.patch_pod(pair.pod.member, pair.pod, patch, status=True)

    async def _open(self, member: str, pods: Sequence[PodView], done: set[str]) -> bool:
        """Take the gate off; False while the member has not answered for one of them."""
        patch = {"spec": {"schedulingGates": [{"name": GATE, "$patch": "delete"}]}}
        outcomes = await asyncio.gather(*(self._hub.members.patch_pod(member, pod, patch) for pod in pods))
        done |= {pod.uid for pod, outcome in zip(pods, outcomes, strict=True) if outcome.did is ActResult.DONE}
        return all(outcome.did is not ActResult.UNREACHABLE for outcome in outcomes)

    # -- releasing

    async def _release(self, pods: Iterable[PodView]) -> bool:
        """Delete the placeholders among these pods; False while a member has not taken that."""
        return all(await self._delete([pod for pod in pods if pod.placeholder and not pod.terminating]))

    async def _let_go(self, stored: StoredObject, need: PlaceholderSet | None) -> bool:
        """Delete the Reservations that are not wanted; False while a member has not taken that."""
        whole = is_true(stored.body, GANG_WHOLE) or b.finished(stored.body)
        kept = (need.member, need.attempt) if need is not None and not whole else None
        unwanted = [
            (member, body)
            for member, body in self._hub.members.companions(stored.uid)
            if body["kind"] == "Reservation" and not b.deleting(body) and (member, b.attempt_of_copy(body)) != kept
        ]
        outcomes = await asyncio.gather(*(self._hub.members.delete(member, body) for member, body in unwanted))
        return all(outcome.did in (ActResult.DONE, ActResult.NOT_FOUND) for outcome in outcomes)

    async def _delete(self, pods: Sequence[PodView]) -> list[bool]:
        """Whether each of them is gone, or going."""
        outcomes = await asyncio.gather(*(self._hub.members.delete(pod.member, _named(pod), grace_s=0) for pod in pods))
        return [outcome.did in (ActResult.DONE, ActResult.NOT_FOUND) for outcome in outcomes]

    async def _sweep(self) -> None:
        """Placeholders whose binding is gone leave: those of a hub that was killed between two lines (I6)."""
        while True:
            await self._hub.clock.sleep(ORPHANS_S)
            pods = [
                pod
                for member in self._hub.members.names()
                if self._hub.members.ready(member)
                for pod in self._hub.members.placeholders(member)
                if self._index.key(pod.binding) is None
            ]
            if not pods:
                continue
            page = await self._hub.store.list(WORK, "resourcebindings", fresh=True)
            known = {stored.uid for stored in page.items}
            orphans = [pod for pod in pods if pod.binding not in known]
            if orphans:
                log.info("removing placeholders without a binding", pods=len(orphans))
                await self._release(orphans)


def _named(pod: PodView) -> Body:
    meta = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
