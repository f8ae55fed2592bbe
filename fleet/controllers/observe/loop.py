"""The members' state → status on the hub: of the binding, of its unit, of the job itself; one commit for all three.

Users look at the job, queues at the unit, the decider at the binding. All three must agree, so they are written
together. Every step of a job's life is written at once, but that it left its queue is written with the first state of
its copy. Details in between (counts, timestamps) are written at most once a second a job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fleet.bindings import binding as b
from fleet.bindings.components import components_of, to_body, total
from fleet.bindings.conditions import PODS_PENDING, condition, drop_condition, is_true, set_condition
from fleet.bindings.failures import Failure
from fleet.bindings.faults import FAILURE, Fault, fault_of
from fleet.bindings.faults import to_body as to_status
from fleet.bindings.unit import DEQUEUED, FAILED, QUEUED_PHASES, RUNNING, SUCCEEDED, binding_of, phase_of, unit_of
from fleet.controllers.fields.evictor import Evictor
from fleet.controllers.observe.podless import untouched, why_podless
from fleet.controllers.runtime.aside import kept
from fleet.controllers.runtime.controller import Controller, Source
from fleet.controllers.runtime.hub import Hub, object_key
from fleet.controllers.runtime.index import BindingIndex
from fleet.kinds import Health, Interpreter, State, interpreter_of
from fleet.members.members import Changed, PodView
from fleet.model.times import rfc3339, seconds
from fleet.ports import Body, Event, Key, Stored
from fleet.wellknown import (
    ANNOTATION_GANG,
    ANNOTATION_POTENTIAL,
    ANNOTATION_ROOM,
    CLUSTER,
    FULLY_APPLIED,
    GANG_WHOLE,
    PENDING,
    QUEUE,
    QUEUING,
    RESIZED,
    SCHEDULED,
    WORK,
)

GATHER_S = 0.1  # changes of one job in a member within this time are one write: its pods, their nodes, its conditions
FIRST_STATE_S = 0.2  # a copy that was sent mostly has its first status by then
UNSENT_S = 5.0  # after this a job says that it has left its queue, though it could not be sent yet
STARTED_PARTLY_FACTOR = 10  # a gang whose later pods are made by its earlier ones (MPI) may take this much longer
_OVER = {State.SUCCEEDED: "Succeeded", State.FAILED: "Failed"}


@dataclass(frozen=True, slots=True)
class Sight:
    """The view of a placed gang: its copy of the current attempt and that copy's pods."""

    copy: Body | None
    pods: Sequence[PodView]
    state: State
    message: str
    health: Health
    over_time: frozenset[str] = frozenset()  # components whose pods come and go
    fault: Fault | None = None  # of a job that has failed
    by_pods: bool = False  # its status says nothing, and its pods say that it runs
    in_turn: bool = False  # some of its pods are made only when others run or have ended

    @property
    def over(self) -> str:
        """Succeeded, Failed, or "" while it is not over."""
        return _OVER.get(self.state, "")


class ObserveLoop:
    """Keeps the status of gangs; withdraws those that do not become whole."""

    name = "observe"

    def __init__(self, hub: Hub, evictor: Evictor, index: BindingIndex) -> None:
        self._hub = hub
        self._evictor = evictor
        self._index = index
        self._written: dict[Key, tuple[float, object]] = {}
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

    def _on_member(self, changed: Changed) -> None:
        key = self._index.key(changed.binding)
        if key is not None:
            self.controller.queue.add_after(key, GATHER_S)

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
        pause = await self._write(stored, interpreter, sight)
        patience = await self._watch_over(stored, sight) if sight is not None else None
        return min((p for p in (pause, patience) if p is not None), default=None)

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
            return Sight(None, pods, State.UNKNOWN, "", Health.UNKNOWN)
        over_time = frozenset(c["name"] for c in b.component_bodies(binding) if not interpreter.together(c["name"]))
        standing = interpreter.state(copies[0].get("status"))
        health = interpreter.health(copies[0]) if self._hub.members.ready(member) else Health.UNKNOWN
        failed = standing.state is State.FAILED and self._hub.members.ready(member)
        fault = fault_of(pods, lambda pod: self._hub.members.node_ready(pod.member, pod.node)) if failed else None
        turns = interpreter.in_turn(copies[0])
        sight = Sight(
            copies[0], pods, standing.state, standing.message, health, over_time, fault, in_turn=turns
        )  # fmt: skip
        return self._by_pods(binding, member, sight) if standing.state is State.UNKNOWN else sight

    def _by_pods(self, binding: Body, member: str, sight: Sight) -> Sight:
        """A job whose status says nothing (a TrainJob's, until its end) runs once all its pods have started."""
        if not whole(binding, replace(sight, pods=[pod for pod in sight.pods if pod.phase != "Pending"])):
            return sight
        health = Health.HEALTHY if self._hub.members.ready(member) else Health.UNKNOWN
        return replace(sight, state=State.RUNNING, health=health, by_pods=True)

    async def _write(self, stored: Stored, interpreter: Interpreter, sight: Sight | None) -> float | None:
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
        if unit is not None and sight is not None and sight.copy is not None:
            edits.append((unit.key, unit.uid, lambda body: _settle_unit(body, binding, sight, now)))
        if job_key is not None:
            uid = str(binding["spec"]["resource"].get("uid"))
            edits.append((job_key, uid, lambda body: _settle_job(body, binding, interpreter, sight)))
        before = self._hub.store.peek(key)
        if not await self._hub.edit_all(edits):
            return interval
        self._written[key] = (clock, step)
        return None if before is not None else interval

    async def _watch_over(self, stored: Stored, sight: Sight) -> float | None:
        """A gang that is not whole in time gives its room back. Returns the seconds until it is to be judged."""
        binding, member = stored.body, b.clusters_of(stored.body)[0]
        sent = condition(binding, FULLY_APPLIED)
        if sent is None or (sent["status"] != "True" and sent.get("reason") != "DependencyMissing"):
            return None
        if is_true(binding, GANG_WHOLE) or whole(binding, sight) or sight.over or sight.state is State.SUSPENDED:
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

    async def _withdraw(self, stored: Stored, member: str, reason: str, message: str) -> None:
        failure = Failure(member, self._hub.clock.now(), reason)
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


def whole(binding: Body, sight: Sight) -> bool:
    """Whether every replica of every component has a pod with a node (or a pod that ran and is finished). Components
    whose pods come and go are not waited for; a gang of them alone is whole with its first pod."""
    have: dict[str, int] = {}
    for pod in sight.pods:
        if pod.node or pod.phase in ("Succeeded", "Failed"):
            have[pod.component.lower()] = have.get(pod.component.lower(), 0) + 1
    wanted = {c["name"]: int(c["replicas"]) for c in b.component_bodies(binding) if c["name"] not in sight.over_time}
    return all(have.get(name, 0) >= count for name, count in wanted.items()) and (bool(wanted) or bool(have))


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
    if sight is None or sight.copy is None or not members or b.attempt_of_copy(sight.copy) != b.attempt(binding):
        return False
    status = binding.setdefault("status", {})
    known: Body = next((i for i in b.copies_of(binding) if i["clusterName"] == members[0]), {})
    item = {"applied": True, **known, "clusterName": members[0], "health": str(sight.health)}
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
    """`status.charged`, only while the member runs more than the unit was admitted with: the hub's API has no pods."""
    admitted = components_of(binding)
    found = b.charged_components(admitted, sight.pods)
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
    phase = {"Succeeded": SUCCEEDED, "Failed": FAILED}.get(sight.over)
    if phase is None:
        phase = RUNNING if sight.state is State.RUNNING else DEQUEUED
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


def _settle_job(job: Body, binding: Body, interpreter: Interpreter, sight: Sight | None) -> bool:
    """The job's status is its member's, after the hub's own condition. While its member shows nothing (yet, or because
    it cannot be reached) what was seen last stays."""
    wanted = job_status(binding, interpreter, sight)
    if aside := kept(job):
        wanted["conditions"] = [*aside, *(wanted.get("conditions") or ())]
    if (job.get("status") or {}) == wanted:
        return False
    job["status"] = wanted
    return True


def job_status(binding: Body, interpreter: Interpreter, sight: Sight | None) -> Body:
    shown: Body | None = None
    if sight is not None:
        shown = (sight.copy or {}).get("status") or next((item.get("status") for item in b.copies_of(binding)), None)
    own = _own_condition(binding, interpreter)
    if own and own["type"] == PENDING:
        return {**interpreter.first_status, "conditions": [own]}
    merged = interpreter.merge_status({"conditions": [own]} if own else {}, shown)
    if running := _shown_by_pods(binding, interpreter, sight):
        merged["conditions"] = [*(merged.get("conditions") or ()), running]
    for type_ in (RESIZED, b.REACHABLE):
        told = condition(binding, type_)
        if told is None or told["status"] != "False":
            continue
        shown_as = interpreter.condition(type_, "False", told["reason"], told["message"], told["lastTransitionTime"])
        if shown_as:  # first, so that the last one stays what the job's STATE shows
            merged["conditions"] = [shown_as, *(merged.get("conditions") or ())]
    return merged


def _shown_by_pods(binding: Body, interpreter: Interpreter, sight: Sight | None) -> Body | None:
    """The condition Running of a job whose own status never says so."""
    started = condition(binding, GANG_WHOLE)
    if sight is None or not sight.by_pods or started is None or started["status"] != "True":
        return None
    return interpreter.condition("Running", "True", "PodsRunning", "every pod runs", started["lastTransitionTime"])


def _own_condition(binding: Body, interpreter: Interpreter) -> Body | None:
    """The hub's own condition: queuing, with the reason why it still waits; or pending, outside of queues. Empty for a
    kind whose status has no conditions."""
    why, queuing = condition(binding, SCHEDULED), condition(binding, QUEUING)
    waiting = why is not None and why["status"] == "False" and not b.clusters_of(binding)
    if queuing is not None:
        message = str(why["message"]) if waiting and why is not None else queuing.get("message", "")
        at = queuing["lastTransitionTime"]
        return interpreter.condition(QUEUING, queuing["status"], queuing["reason"], message, at)
    if waiting and why is not None:
        return interpreter.condition(PENDING, "True", why["reason"], why["message"], why["lastTransitionTime"])
    return None
