"""Moving gangs away from where they cannot stay: the job failed, the member goes, is lost, or is not allowed any more.

Unreachable alone does not move anything: a second copy beside a live one that merely cannot be seen is worse than
waiting. Only a policy with `failover.cluster` accepts that. A gang has one live copy, so every purge mode but Never
removes the old one first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from api.loops.controller import Controller, Source
from fleet.bindings import binding as b
from fleet.bindings.conditions import condition, drop_condition, set_condition
from fleet.bindings.failures import APPLICATION, AttemptFailure, failed, failures_max, failures_of, first_pause_s
from fleet.bindings.faults import FAILURE, AttemptFault, fault_in, moves_again, to_body
from fleet.bindings.matching import allows, candidate
from fleet.bindings.notice import cluster_failover, purge_mode
from fleet.bindings.unit import binding_of, message_of, reason_of, unit_of, walltime_of
from fleet.controllers.cluster.taints import TAINTED, leaves_at, why
from fleet.controllers.fields.evictor import Evictor
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.gathering import MemberGathering
from fleet.controllers.runtime.hub import Hub
from fleet.controllers.runtime.index import BindingIndex
from fleet.controllers.runtime.news import News
from fleet.core.model.reason import Code, Reason
from fleet.kinds import interpreter_of
from fleet.members.members import MemberChange
from fleet.values.ports import Body, Event, Key, StoredObject
from fleet.values.times import rfc3339, seconds
from fleet.wellknown import ANNOTATION_FORCE_REMOVAL, CLUSTER, EVICT_FAILED, GANG_WHOLE, QUEUE, WORK

ALL_LOST_S = 10.0  # between two looks while no member answers
TAINTS_OF_LOST_MEMBERS = ("cluster.karmada.io/not-ready", "cluster.karmada.io/unreachable")


class FailoverLoop:
    """Evicts gangs that must leave their member."""

    name = "failover"

    def __init__(self, hub: Hub, events: EventRecorder, evictor: Evictor, index: BindingIndex) -> None:
        self._hub = hub
        self._events = events
        self._evictor = evictor
        self._index = index
        self._lost_since: dict[str, float] = {}  # member -> when it was first seen not to answer
        self._turns: dict[str, dict[Key, float]] = {}  # lost member -> when each of its jobs may leave, monotonic
        self._clusters_mark: object = None
        self._news = News()  # of Clusters: their status changes each second
        self._turned = MemberGathering(self._where_turned)
        sources = [
            Source(WORK, "resourcebindings", self._on_binding),
            Source(QUEUE, "queueunits", self._on_unit),
            Source(CLUSTER, "clusters", self._on_cluster),
        ]
        self.controller = Controller(self.name, hub.store, sources, self.reconcile, workers=4)

    async def run(self) -> None:
        self._hub.members.subscribe(self._on_member)
        await self.controller.run()

    def _on_binding(self, event: Event) -> Iterable[Key]:
        self._index.put(event.stored)
        return (event.stored.key,) if b.clusters_of(event.stored.body) else ()

    def _on_unit(self, event: Event) -> Iterable[Key]:
        """Only its limit of time matters here."""
        if not b.spec_of(event.stored.body).get("maximumExecutionTimeSeconds"):
            return ()
        return (binding_of(event.stored),)

    def _on_cluster(self, event: Event) -> Iterable[Key]:
        if not self._news.is_new(event):
            return ()
        clusters = self._hub.bodies(CLUSTER, "clusters")
        mark = repr([(candidate(c), b.deleting(c), b.annotation(c, ANNOTATION_FORCE_REMOVAL)) for c in clusters])
        if mark == self._clusters_mark:
            return ()
        self._clusters_mark = mark
        return self._placed()

    def _placed(self) -> list[Key]:
        return [s.key for s in self._hub.scan(WORK, "resourcebindings") if b.clusters_of(s.body)]

    def _on_member(self, changed: MemberChange) -> None:
        if changed.what == "ready":
            self._turned.add(changed.member)

    def _where_turned(self, members: frozenset[str]) -> None:
        for stored in self._hub.scan(WORK, "resourcebindings"):
            if not members.isdisjoint(b.clusters_of(stored.body)):
                self.controller.queue.add(stored.key)

    async def reconcile(self, key: Key) -> float | None:
        stored = self._hub.store.peek(key)
        if stored is None or b.deleting(stored.body) or not b.is_gang(stored.body) or not b.clusters_of(stored.body):
            return None
        member = b.clusters_of(stored.body)[0]
        cluster = self._hub.peek(CLUSTER, "clusters", "", member)
        if b.finished(stored.body) and (cluster is None or b.deleting(cluster)):
            return await self._failed(stored, member)  # work that is done is not done again elsewhere
        if cluster is None or b.deleting(cluster):
            given_up = cluster is None or b.annotation(cluster, ANNOTATION_FORCE_REMOVAL) == "true"
            message = f"member {member} is being removed" if cluster is not None else f"member {member} is gone"
            await self._evictor.evict(stored, reason="ClusterRemoved", message=message, left_behind=given_up)
            return None
        if not b.finished(stored.body) and not allows(stored.body["spec"].get("placement"), candidate(cluster)):
            message = f"the policy's placement does not allow member {member} any more"
            await self._evictor.evict(stored, reason="PlacementChanged", message=message)
            return None
        if b.suspended(stored.body) and not b.finished(stored.body):
            await self._evictor.evict(stored, reason="Suspended", message="its user suspended the job")
            return None
        if not self._hub.members.ready(member):
            return await self._lost(stored, member)
        self._lost_since.pop(member, None)
        self._turns.pop(member, None)
        await self._hub.edit_all(self._mark_reachable(stored))
        if b.finished(stored.body):
            return await self._failed(stored, member)
        now, tainted = self._hub.clock.now(), candidate(cluster)
        leaves = leaves_at(stored.body["spec"].get("placement"), tainted, now)
        if leaves is not None and leaves <= now:
            done = await self._evictor.evict(stored, reason=TAINTED, message=why(tainted))
            return None if done else 1.0
        pauses = [leaves - now + 0.01] if leaves is not None else []
        pauses += [pause for pause in (await self._over_time(stored),) if pause is not None]
        return min(pauses, default=None)

    # -- a job that runs for longer than it may

    async def _over_time(self, stored: StoredObject) -> float | None:
        """Seconds until its time is up, counted from when all pods of this attempt had a node. A job whose time is up
        would only start again, so it is held, until a person gives it more time and makes its unit active."""
        unit = unit_of(self._hub.store.peek, stored.key, stored.uid)
        limit = walltime_of(unit.body) if unit is not None else None
        began = condition(stored.body, GANG_WHOLE)
        since = seconds(began["lastTransitionTime"]) if began is not None else None
        if not limit or since is None:
            return None
        left = since + limit - self._hub.clock.now()
        if left > 0:
            return left + 0.01
        message = f"it ran longer than its limit of {limit} s"
        done = await self._evictor.evict(stored, reason=b.OVER_TIME, message=message, hold=True)
        return None if done else 1.0

    # -- a member that does not answer

    async def _lost(self, stored: StoredObject, member: str) -> float | None:
        now = self._hub.clock.now()
        since = self._lost_since.setdefault(member, now)
        reported = since + self._hub.config.member_reported_s
        if now < reported:
            return reported - now + 0.01
        reason = Reason(Code.MEMBER_UNREACHABLE, {"member": member})
        if condition(stored.body, b.REACHABLE) is None:
            await self._hub.edit_all(self._mark_unreachable(stored, reason, now))
            resource = stored.body["spec"]["resource"]
            await self._events.record(resource, str(Code.MEMBER_UNREACHABLE), reason.text, warning=True)
        failover = cluster_failover(stored.body)
        if failover is None:
            return None
        given = failover.get("tolerationSeconds")
        default = self._hub.config.member_lost_s if given is None else float(given)
        tolerance = lost_tolerance_s(stored.body["spec"].get("placement") or {}, default)
        if tolerance is None:
            return None
        if now < since + tolerance:
            return since + tolerance - now + 0.01
        if not any(map(self._hub.members.ready, self._hub.members.names())):
            return ALL_LOST_S  # then the hub has lost its network, and there is no other member to go to
        if (turn := self._turn_of(stored.key, member)) > 0:
            return turn
        message = f"member {member} was not reachable for {tolerance:.0f} s; its policy accepts a second copy"
        failure = AttemptFailure(member, now, str(Code.MEMBER_UNREACHABLE), backoff=False)
        done = await self._evictor.evict(
            stored, reason=str(Code.MEMBER_UNREACHABLE), message=message, failure=failure, left_behind=True
        )
        return None if done else 1.0

    def _turn_of(self, key: Key, member: str) -> float:
        """Seconds until this job may leave the lost member: one leaves after the other, at a bounded pace. The pace is
        kept in memory, and a new leader begins it anew."""
        now, turns = self._hub.clock.monotonic(), self._turns.setdefault(member, {})
        step = 60.0 / max(1, self._hub.config.lost_evictions_per_minute)
        if key not in turns:
            turns[key] = max(now, max(turns.values(), default=now - step) + step)
        return max(0.0, turns[key] - now)

    def _mark_unreachable(self, stored: StoredObject, reason: Reason, now: float) -> list[Any]:
        def binding(body: Body) -> bool:
            for item in b.copies_of(body):
                item["health"] = "Unknown"
            return bool(b.clusters_of(body)) and set_condition(
                body, b.REACHABLE, False, str(reason.code), reason.text, now
            )

        def unit(body: Body) -> bool:
            status = body.setdefault("status", {})
            status["message"] = reason.text
            status["reason"] = {"code": str(reason.code), "numbers": reason.figures}
            status["lastUpdateTime"] = rfc3339(now)
            return True

        found = unit_of(self._hub.store.peek, stored.key, stored.uid)
        return [(stored.key, stored.uid, binding), *([(found.key, found.uid, unit)] if found is not None else [])]

    def _mark_reachable(self, stored: StoredObject) -> list[Any]:
        if condition(stored.body, b.REACHABLE) is None:
            return []

        def unit(body: Body) -> bool:
            if reason_of(body).get("code") != str(Code.MEMBER_UNREACHABLE):
                return False
            status = body["status"]
            status["message"] = ""
            del status["reason"]
            return True

        found = unit_of(self._hub.store.peek, stored.key, stored.uid)
        units = [(found.key, found.uid, unit)] if found is not None else []
        return [(stored.key, stored.uid, lambda body: drop_condition(body, b.REACHABLE)), *units]

    # -- a job that failed

    async def _failed(self, stored: StoredObject, member: str) -> float | None:
        over = condition(stored.body, b.FINISHED)
        application = (stored.body["spec"].get("failover") or {}).get("application")
        if over is None or over.get("reason") != "Failed" or application is None:
            return None
        if purge_mode(application.get("purgeMode")) == "Never":
            return None
        now = self._hub.clock.now()
        given = (application.get("decisionConditions") or {}).get("tolerationSeconds")
        tolerance = self._hub.config.unhealthy_s if given is None else float(given)
        leaves = (seconds(over.get("lastTransitionTime") or "") or now) + tolerance
        fault = fault_in(stored.body) or AttemptFault()
        user = not fault.infrastructure
        moves, most = failed(failures_of(stored.body), user=user), failures_max(stored.body, user=user)
        where = f"in member {member}" + (f" by the infrastructure ({fault.why})" if fault.why else "")
        final = not self._retryable(stored, member)
        if now < leaves and not final:
            if moves < most:
                await self._tell(
                    stored, f"the job failed {where}; it starts anew, there or elsewhere, at {rfc3339(leaves)}"
                )
            return leaves - now + 0.01
        if final or moves >= most:
            after = f" after {moves} move{'s' if moves != 1 else ''}"
            told = ", and is not to be tried again, as its WorkloadInterpreter says" if final else after
            message = f"the job failed {where}{told}: it stays Failed"
            await self._stay(stored, message, now, replace(fault, final=final))
            return None
        message = f"the job failed {where}" + (f": {over['message']}" if over.get("message") else "")
        first_s = first_pause_s(stored.body)
        failure = AttemptFailure(member, now, APPLICATION, user=user, nodes=fault.nodes, first_s=first_s)
        if not await self._evictor.evict(stored, reason=APPLICATION, message=message, failure=failure):
            return 1.0
        return None

    def _retryable(self, stored: StoredObject, member: str) -> bool:
        """As the declaration of its kind says, of its copy with the status there."""
        resource = b.resource_of(stored.body)
        interpreter = interpreter_of(resource.get("apiVersion"), resource.get("kind"))
        copies = (body for name, body in self._hub.members.copies(stored.uid) if name == member)
        return interpreter is None or all(map(interpreter.retryable, copies))

    async def _tell(self, stored: StoredObject, message: str) -> None:
        unit = unit_of(self._hub.store.peek, stored.key, stored.uid)
        if unit is not None and message_of(unit.body) != message:
            await self._hub.edit_all(self._told(stored, message, self._hub.clock.now()))

    def _told(self, stored: StoredObject, message: str, now: float) -> list[Any]:
        """The message in the unit of the job; nothing without a unit."""

        def unit(body: Body) -> bool:
            changed = message_of(body) != message
            body.setdefault("status", {}).update(message=message, lastUpdateTime=rfc3339(now))
            return changed

        found = unit_of(self._hub.store.peek, stored.key, stored.uid)
        return [(found.key, found.uid, unit)] if found is not None else []

    async def _stay(self, stored: StoredObject, message: str, now: float, fault: AttemptFault) -> None:
        def binding(body: Body) -> bool:
            said, status = to_body(fault), body["status"]
            changed = fault.final and status.get(FAILURE) != said
            if changed:  # jobs that start after it ask no member
                status[FAILURE] = said
            return set_condition(body, b.FINISHED, True, "Failed", message, now) or changed

        over = condition(stored.body, b.FINISHED)
        if over is not None and over.get("message") == message and not moves_again(stored.body):
            return
        await self._hub.edit_all([(stored.key, stored.uid, binding), *self._told(stored, message, now)])
        await self._events.record(stored.body["spec"]["resource"], EVICT_FAILED, message, warning=True)


def lost_tolerance_s(placement: Mapping[str, Any], default: float) -> float | None:
    """How long a gang whose policy opts in stays in a member that is lost; None: for ever."""
    for toleration in placement.get("clusterTolerations") or ():
        if toleration.get("key") in (*TAINTS_OF_LOST_MEMBERS, None, "") and toleration.get("effect") in (
            "NoExecute",
            None,
            "",
        ):
            given = toleration.get("tolerationSeconds")
            return float(given) if given is not None else None
    return default
