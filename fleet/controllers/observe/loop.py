"""The members' state → status on the hub: of the binding, of its unit, of the job itself; one commit for all three.

Users look at the job, queues at the unit, the decider at the binding. All three must agree, so they are written
together. Every step of a job's life is written at once, but that it left its queue is written with the first state of
its copy. Details in between (counts, timestamps) are written at most once a second a job.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from api.loops.controller import Controller, Source
from fleet.bindings import binding as b
from fleet.bindings.attemptwork import lost_in
from fleet.bindings.components import components_of, to_body, total
from fleet.bindings.conditions import PODS_PENDING, condition, drop_condition, is_true, set_condition
from fleet.bindings.failures import AttemptFailure
from fleet.bindings.faults import FAILURE, fault_of
from fleet.bindings.faults import to_body as to_status
from fleet.bindings.unit import DEQUEUED, FAILED, QUEUED_PHASES, RUNNING, SUCCEEDED, binding_of, phase_of, unit_of
from fleet.controllers.fields.evictor import Evictor
from fleet.controllers.observe.jobstatus import job_status
from fleet.controllers.observe.lostcopies import loss
from fleet.controllers.observe.podless import untouched, why_podless
from fleet.controllers.observe.sight import Sight, whole
from fleet.controllers.runtime.aside import own_conditions
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.gathering import MemberGathering
from fleet.controllers.runtime.hub import Hub, object_key
from fleet.controllers.runtime.index import BindingIndex
from fleet.kinds import Health, Interpreter, JobState, interpreter_of
from fleet.members.members import MemberChange
from fleet.values.ports import Body, Event, Key, StoredObject
from fleet.values.times import rfc3339, seconds
from fleet.wellknown import (
    ANNOTATION_GANG,
    ANNOTATION_POTENTIAL,
    ANNOTATION_ROOM,
    CLUSTER,
    FULLY_APPLIED,
    GANG_WHOLE,
    LOST,
    QUEUE,
    RESIZED,
    SCHEDULED,
    WORK,
)

GATHER_S = 0.1  # changes of one job in a member within this time are one write: its pods, their nodes, its conditions
FIRST_STATE_S = 0.2  # a copy that was sent mostly has its first status by then
UNSENT_S = 5.0  # after this a job says that it has left its queue, though it could not be sent yet
STARTED_PARTLY_FACTOR = 10  # a gang whose later pods are made by its earlier ones (MPI) may take this much longer


class ObserveLoop:
    """Keeps the status of gangs; withdraws those that do not become whole."""

    name = "observe"

    def __init__(self, hub: Hub, events: EventRecorder, evictor: Evictor, index: BindingIndex) -> None:
        self._hub = hub
        self._events = events
        self._evictor = evictor
        self._index = index
        self._written: dict[Key, tuple[float, object]] = {}
        self._turned = MemberGathering(self._where_turned)
        sources = [Source(WORK, "resourcebindings", self._on_binding), Source(QUEUE, "queueunits", self._on_unit)]
        self.controller = Controller(self.name, hub.store, sources, self.reconcile, workers=64)

    async def run(self) -> None:
        self._hub.members.subscribe(self._on_member)
        await self.controller.run()

    def _on_binding(self, event: Event) -> Iterable[Key]:
        self._index.put(event.stored)
        return self._looks(event.stored.key, event.stored.body)

    def _on_unit(self, event: Event) -> Iterable[Key]:
        key = binding_of(event.stored)
        stored = self._hub.store.peek(key)
        return self._looks(key, stored.body) if stored is not None else (key,)

    def _looks(self, key: Key, binding: Body) -> Iterable[Key]:
        """At once, or a little later where the next news of a start is on its way: one write then tells all of it."""
        if not b.clusters_of(binding) or b.deleting(binding):
            return (key,)
        sent = condition(binding, FULLY_APPLIED)
        if sent is None:
            self.controller.queue.add_after(key, UNSENT_S)
        elif sent["status"] == "True" and not is_true(binding, GANG_WHOLE):
            self.controller.queue.add_after(key, FIRST_STATE_S)
        else:
            return (key,)
        return ()

    def _on_member(self, changed: MemberChange) -> None:
        if changed.what == "ready":
            self._turned.add(changed.member)
        key = self._index.key(changed.binding)
        if key is not None:
            self.controller.queue.add_after(key, GATHER_S)

    def _where_turned(self, members: frozenset[str]) -> None:
        """A member that is back may have lost what it had, and no change of a copy tells of that."""
        for stored in self._hub.scan(WORK, "resourcebindings"):
            if not members.isdisjoint(b.clusters_of(stored.body)):
                self.controller.queue.add(stored.key)

    async def reconcile(self, key: Key) -> float | None:
        stored = self._hub.store.peek(key)
        if stored is None or not b.is_gang(stored.body) or b.deleting(stored.body):
            self._written.pop(key, None)
            return None
        resource = stored.body["spec"]["resource"]
        interpreter = interpreter_of(resource["apiVersion"], resource["kind"])
        if interpreter is None:
            return None
        sight = self._look(stored.body, interpreter)
        recheck_s = None
        if sight is not None and sight.copy is None:
            fault, recheck_s = await loss(self._hub, stored)
            if fault is not None:
                sight = replace(sight, state=JobState.FAILED, message=fault.why, health=Health.UNHEALTHY, fault=fault)
        pause = await self._write(stored, interpreter, sight)
        if sight is not None and sight.lost and lost_in(stored.body) is None:
            await self._events.record(stored.body["spec"]["resource"], LOST, sight.message, warning=True)
        patience = await self._watch_over(stored, sight) if sight is not None else None
        return min((p for p in (pause, patience, recheck_s) if p is not None), default=None)

    def _look(self, binding: Body, interpreter: Interpreter) -> Sight | None:
        members, uid = b.clusters_of(binding), binding["metadata"]["uid"]
        if not members:
            return None
        member, attempt = members[0], b.attempt(binding)
        copies = [
            body
            for name, body in self._hub.members.copies(uid)
            if name == member and b.attempt_of_copy(body) == attempt
        ]
        there = [p for p in self._hub.members.pods_of(uid) if p.member == member and p.attempt == attempt]
        pods = [pod for pod in there if not pod.placeholder]
        if not copies:
            return Sight(None, pods, JobState.UNKNOWN, "", Health.UNKNOWN)
        over_time = frozenset(c["name"] for c in b.component_bodies(binding) if not interpreter.together(c["name"]))
        standing = interpreter.state(copies[0].get("status"))
        health = interpreter.health(copies[0]) if self._hub.members.ready(member) else Health.UNKNOWN
        failed = standing.state is JobState.FAILED and self._hub.members.ready(member)
        fault = fault_of(pods, lambda pod: self._hub.members.node_ready(pod.member, pod.node)) if failed else None
        turns = interpreter.in_turn(copies[0])
        sight = Sight(copies[0], pods, standing.state, standing.message, health, over_time, fault, in_turn=turns)
        return self._by_pods(binding, member, sight) if standing.state is JobState.UNKNOWN else sight

    def _by_pods(self, binding: Body, member: str, sight: Sight) -> Sight:
        """A job whose status says nothing (a TrainJob's, until its end) runs once all its pods have started."""
        if not whole(binding, replace(sight, pods=[pod for pod in sight.pods if pod.phase != "Pending"])):
            return sight
        health = Health.HEALTHY if self._hub.members.ready(member) else Health.UNKNOWN
        return replace(sight, state=JobState.RUNNING, health=health, by_pods=True)

    async def _write(self, stored: StoredObject, interpreter: Interpreter, sight: Sight | None) -> float | None:
        """Returns the seconds to wait when it is too early for details."""
        now, clock = self._hub.clock.now(), self._hub.clock.monotonic()
        key, binding = stored.key, stored.body
        step = (
            b.attempt(binding),
            b.queued(binding),
            sight is not None and (sight.state, whole(binding, sight)),
            _waits_for(binding),
            _grows(binding),
        )
        at, last_step = self._written.get(key, (0.0, None))
        interval = self._hub.config.status_interval_s
        if last_step == step and clock - at < interval:
            return at + interval - clock + 0.01
        job_key = object_key(self._hub.registry, binding["spec"]["resource"])
        unit = unit_of(self._hub.store.peek, key, stored.uid)
        edits = [(key, stored.uid, lambda body: _settle_binding(body, sight, now))]
        if unit is not None and sight is not None and (sight.copy is not None or sight.lost or b.finished(binding)):
            edits.append((unit.key, unit.uid, lambda body: _settle_unit(body, binding, sight, now)))
        uid = str(binding["spec"]["resource"].get("uid"))
        job = self._hub.store.peek(job_key) if job_key is not None else None
        if job_key is not None and job is not None and job.uid == uid:  # else its copy runs on without it
            edits.append((job_key, uid, lambda body: _settle_job(body, binding, interpreter, sight, now)))
        before = self._hub.store.peek(key)
        if not await self._hub.edit_all(edits):
            return interval
        self._written[key] = (clock, step)
        return None if before is not None else interval

    async def _watch_over(self, stored: StoredObject, sight: Sight) -> float | None:
        """A gang that is not whole in time gives its room back. Returns the seconds until it is to be judged."""
        binding, member = stored.body, b.clusters_of(stored.body)[0]
        sent = condition(binding, FULLY_APPLIED)
        if sent is None or (sent["status"] != "True" and sent.get("reason") != "DependencyMissing"):
            return None
        if is_true(binding, GANG_WHOLE) or whole(binding, sight) or sight.over or sight.state is JobState.SUSPENDED:
            return None
        since = seconds(sent["lastTransitionTime"])
        if since is None or not self._hub.members.ready(member):
            return None
        homeless = [pod for pod in sight.pods if not pod.node and pod.phase == "Pending"]
        if sight.in_turn and sight.pods:  # the next pods come hours later, and the time counts from then
            if not homeless:
                return None
            since = max(since, *(pod.since for pod in homeless))
        limit = self._whole_s(binding, member) * (1 if homeless or not sight.pods else STARTED_PARTLY_FACTOR)
        podless = sight.copy if not sight.pods else None
        if podless is not None and untouched(podless):
            limit = min(limit, self._hub.config.gang_whole_s)
        left = since + limit - self._hub.clock.now()
        if left > 0:
            return left + 0.01
        if podless is not None:
            told = await why_podless(self._hub, member, podless, limit)
            if told is not None:
                await self._withdraw(stored, member, str(told.code), told.text)
                return None
        have, want = sum(1 for pod in sight.pods if pod.node), _replicas(binding)
        why = next((f": {pod.name}: {pod.reason}" for pod in homeless if pod.reason), "")
        message = f"only {have} of {want} pods found a node in member {member} within {limit:.0f} s{why}"
        await self._withdraw(stored, member, "GangNotWhole", message)
        return None

    async def _withdraw(self, stored: StoredObject, member: str, reason: str, message: str) -> None:
        failure = AttemptFailure(member, self._hub.clock.now(), reason)
        await self._evictor.evict(stored, reason=reason, message=message, failure=failure)

    def _whole_s(self, binding: Body, member: str) -> float:
        """How long a gang there may wait for its nodes: an autoscaler needs minutes to add some. A gang that is held
        together in its member starts whole or not at all."""
        if b.annotation(binding, ANNOTATION_ROOM) or b.annotation(binding, ANNOTATION_GANG):
            return self._hub.config.held_whole_s
        cluster = self._hub.peek(CLUSTER, "clusters", "", member)
        grows = cluster is not None and bool(b.annotation(cluster, ANNOTATION_POTENTIAL))
        return self._hub.config.nodes_added_s if grows else self._hub.config.gang_whole_s


def _replicas(binding: Body) -> int:
    return sum(int(component["replicas"]) for component in b.component_bodies(binding))


def _waits_for(binding: Body) -> str:
    """The part of a waiting binding that gives its reason: another reason is a step of its own."""
    told = condition(binding, SCHEDULED)
    return str(told.get("reason")) + str(told.get("message")) if told is not None and told["status"] == "False" else ""


def _grows(binding: Body) -> object:
    """Likewise of a job that was made larger, or asks for that."""
    told = condition(binding, RESIZED)
    return (told["status"], told["reason"]) if told is not None else None


def _settle_binding(binding: Body, sight: Sight | None, now: float) -> bool:
    members = b.clusters_of(binding)
    if sight is None or not members:
        return False
    if not (sight.lost if sight.copy is None else b.attempt_of_copy(sight.copy) == b.attempt(binding)):
        return False
    status = binding.setdefault("status", {})
    known: Body = next((i for i in b.copies_of(binding) if i["clusterName"] == members[0]), {})
    item = {"applied": True, **known, "clusterName": members[0], "health": str(sight.health)}
    if sight.copy is not None:
        item.pop("status", None)
        if sight.copy.get("status"):
            item["status"] = sight.copy["status"]
    changed = bool(status.get("aggregatedStatus") != [item])
    status["aggregatedStatus"] = [item]
    if sight.over:
        said = condition(binding, b.FINISHED)
        if said is None or said.get("reason") != sight.over:  # failover may have added why it stays so
            if sight.fault is not None:
                status[FAILURE] = to_status(sight.fault)
            changed |= set_condition(binding, b.FINISHED, True, sight.over, sight.message, now)
    else:
        changed |= drop_condition(binding, b.FINISHED) | (status.pop(FAILURE, None) is not None)
    if whole(binding, sight) and not is_true(binding, GANG_WHOLE):
        changed |= set_condition(binding, GANG_WHOLE, True, "GangWhole", "every pod has a node", now)
    return changed | _settle_resized(binding, sight, now)


def _settle_resized(binding: Body, sight: Sight, now: float) -> bool:
    """How far a job is that was made larger. Its new pods may wait for nodes for as long as they like: the member's
    operator goes on, and the pods before them run."""
    told = condition(binding, RESIZED)
    if told is None or told.get("reason") != PODS_PENDING:
        return False
    if whole(binding, sight):
        return set_condition(binding, RESIZED, True, "Resized", "every pod has a node", now)
    have, want = sum(1 for pod in sight.pods if pod.node), _replicas(binding)
    why = next((f": {p.name}: {p.reason}" for p in sight.pods if p.reason and not p.node), "")
    message = f"{have} of {want} pods have a node in member {b.clusters_of(binding)[0]}, which goes on trying{why}"
    return set_condition(binding, RESIZED, False, PODS_PENDING, message, now)


def _settle_charged(status: Body, binding: Body, sight: Sight) -> bool:
    """`status.charged`, only while the member runs more than the unit was admitted with, or pods of a job that is over:
    the hub's API has no pods."""
    over = bool(sight.over) if sight.copy is not None or sight.lost else b.finished(binding)
    admitted = () if over else components_of(binding)
    found = b.charged_components(admitted, sight.pods, over=over)
    told = {"charged": total([to_body(component) for component in found])} if found != admitted else {}
    if status.get("charged") == told.get("charged"):
        return False
    status.pop("charged", None)
    status.update(told)
    return True


def _settle_unit(unit: Body, binding: Body, sight: Sight, now: float) -> bool:
    status = unit.setdefault("status", {})
    if phase_of(unit) in QUEUED_PHASES:
        return False  # put back meanwhile
    if sight.copy is None and not sight.lost:  # over, and cleaned away; its pods may be left
        return _settle_charged(status, binding, sight)
    phase = {"Succeeded": SUCCEEDED, "Failed": FAILED}.get(sight.over)
    if phase is None:
        phase = RUNNING if sight.state is JobState.RUNNING else DEQUEUED
    counts = {
        "running": sum(1 for pod in sight.pods if pod.phase == "Running"),
        "pending": sum(1 for pod in sight.pods if pod.phase == "Pending"),
    }
    changed = bool((phase_of(unit), status.get("podState")) != (phase, counts))
    status["phase"], status["podState"] = phase, counts
    changed |= _settle_charged(status, binding, sight)
    if whole(binding, sight):
        changed |= set_condition(unit, "PodsReady", True, "GangWhole", "", now)
    if sight.over:
        changed |= set_condition(unit, "Finished", True, sight.over, sight.message, now)
    if changed:
        status["lastUpdateTime"] = rfc3339(now)
    return changed


def _settle_job(job: Body, binding: Body, interpreter: Interpreter, sight: Sight | None, now: float) -> bool:
    """The job's status is its member's, after the hub's own condition. While its member shows nothing (yet, or because
    it cannot be reached) what was seen last stays."""
    wanted = job_status(binding, interpreter, sight, now)
    if aside := own_conditions(job):
        wanted["conditions"] = [*aside, *(wanted.get("conditions") or ())]
    if (job.get("status") or {}) == wanted:
        return False
    job["status"] = wanted
    return True
