"""Bindings → members: wanted objects go there, dependencies first; unwanted objects leave.

Level-triggered in both directions: each look compares the binding with what the members' caches show. Objects carry a
digest, so looking costs no requests. A slow member has a bounded number of calls in flight and its bindings wait for
their turn aside, so that it costs the others nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import structlog

from api.loops.controller import Controller, Source
from fleet.admission.travel import why_not
from fleet.bindings import binding as b
from fleet.bindings.attemptwork import ran
from fleet.bindings.conditions import is_true
from fleet.bindings.failing import avoided_in
from fleet.bindings.failures import AttemptFailure
from fleet.bindings.matching import ClusterFields, candidate
from fleet.bindings.orphans import WAY_OUT, newer_copy
from fleet.bindings.unit import reason_of, unit_of
from fleet.controllers.dispatch.additions import nodes_off
from fleet.controllers.dispatch.classes import classes_of
from fleet.controllers.dispatch.data import without_data
from fleet.controllers.dispatch.dependencies import Dependencies
from fleet.controllers.dispatch.domainpins import pins_for
from fleet.controllers.dispatch.drift import Drift, as_there, with_sizes
from fleet.controllers.dispatch.manifests import DEPENDENCIES, hash_of, manifest, marks, pod_group
from fleet.controllers.dispatch.outgoing import UnsafeManifest
from fleet.controllers.dispatch.overdue import OverdueWithdrawals
from fleet.controllers.dispatch.overrides import OVERRIDES, BadOverride
from fleet.controllers.dispatch.refusals import fails, reason_in, tell_unit
from fleet.controllers.dispatch.results import applied, tasks_done
from fleet.controllers.dispatch.telling import outcome_of
from fleet.controllers.dispatch.withdraw import Withdrawal
from fleet.controllers.fields.evictor import Evictor
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.gathering import MemberGathering
from fleet.controllers.runtime.hub import Hub, object_key
from fleet.controllers.runtime.index import BindingIndex
from fleet.controllers.runtime.news import News
from fleet.controllers.runtime.terms import Terms, stamped
from fleet.core.model.reason import Code, Reason
from fleet.kinds import interpreter_of
from fleet.members.members import ActOutcome, ActResult, MemberChange
from fleet.values.ports import Body, Event, Key, StoredObject
from fleet.values.times import seconds
from fleet.wellknown import (
    CLUSTER,
    FINALIZER_BINDING,
    FULLY_APPLIED,
    LABEL_HUB,
    POLICY,
    SYNC_FAILED,
    SYNC_SUCCEED,
    SYSTEM_NAMESPACE,
    WORK,
)

log = structlog.get_logger(__name__)

RETRY_FIRST_S = 0.5
RETRY_MAX_S = 30.0
GATHER_S = 0.1  # changes of one copy within this time are one look: its status comes in steps, and asks for nothing


class _Busy(Exception):
    """The member has its full number of calls in flight; the key is parked and comes back."""


class DispatchLoop:
    """Keeps the members in line with the bindings."""

    name = "dispatch"

    def __init__(self, hub: Hub, events: EventRecorder, evictor: Evictor, index: BindingIndex, terms: Terms) -> None:
        self._hub = hub
        self._events = events
        self._evictor = evictor
        self._index = index
        self._terms = terms
        self._drift = Drift(hub, events, lambda key, seconds: self.controller.queue.add_after(key, seconds))
        self._dependencies = Dependencies(hub, index, terms, events, self._drift)
        self._withdrawal = Withdrawal(hub, self._dependencies, events)
        self._overdue = OverdueWithdrawals(hub, events)
        self._in_flight: dict[str, int] = {}
        self._parked: dict[str, deque[Key]] = {}
        self._tries: dict[Key, int] = {}
        self._clusters_mark: object = None
        self._turned = MemberGathering(self._where_turned)
        self._news = News()  # of jobs, bindings and Clusters, whose status nothing here follows from
        sources = [
            Source(WORK, "resourcebindings", self._on_binding),
            Source(CLUSTER, "clusters", self._on_cluster),
            *(Source(*resource, self._on_dependency) for resource in DEPENDENCIES.values()),
            *(Source(POLICY, resource, self._on_override) for resource in OVERRIDES),
        ]
        self.controller = Controller(self.name, hub.store, sources, self.reconcile, workers=64)
        self._resources: set[tuple[str, str]] = set()

    @property
    def dependencies(self) -> Dependencies:
        """For others that send some of them: all writers of one copy take turns."""
        return self._dependencies

    async def run(self) -> None:
        self._hub.members.subscribe(self._on_member)
        await self.controller.run()

    # -- events and the keys that they ask for

    def _on_binding(self, event: Event) -> Iterable[Key]:
        self._index.put(event.stored)
        key = object_key(self._hub.registry, event.stored.body["spec"]["resource"])
        if key is not None and (key.group, key.resource) not in self._resources:
            self._resources.add((key.group, key.resource))
            self.controller.follow_only(Source(group, name, self._on_object) for group, name in self._resources)
        return (event.stored.key,) if self._news.is_new(event) else ()

    def _on_object(self, event: Event) -> Iterable[Key]:
        return self._index.of_object(event.stored.key) if self._news.is_new(event) else ()

    def _on_dependency(self, event: Event) -> Iterable[Key]:
        return self._dependencies.bindings_of(event.stored.key)

    def _on_override(self, event: Event) -> Iterable[Key]:
        return [s.key for s in self._hub.scan(WORK, "resourcebindings") if b.clusters_of(s.body)]

    def _on_cluster(self, event: Event) -> Iterable[Key]:
        if not self._news.is_new(event):
            return ()
        mark = self._withdrawal.clusters_mark()
        if mark == self._clusters_mark:
            return ()
        self._clusters_mark = mark
        return [s.key for s in self._hub.scan(WORK, "resourcebindings") if b.attempt(s.body)]

    def _on_member(self, changed: MemberChange) -> None:
        if changed.what == "ready":
            self._turned.add(changed.member)
            return
        key = self._index.key(changed.binding)
        stored_binding = self._hub.store.peek(key) if key is not None else None
        if stored_binding is not None:
            if b.tasks_of(stored_binding.body) or b.deleting(stored_binding.body):
                self.controller.queue.add(stored_binding.key)
            elif changed.what == "job":
                self.controller.queue.add_after(stored_binding.key, GATHER_S)

    def _where_turned(self, members: frozenset[str]) -> None:
        for stored in self._hub.scan(WORK, "resourcebindings"):
            if not members.isdisjoint(self._withdrawal.touched(stored.body)):
                self.controller.queue.add(stored.key)

    # -- the work

    async def reconcile(self, key: Key) -> float | None:
        stored = self._hub.store.peek(key)
        if stored is None:
            self._tries.pop(key, None)
            self._hub.metrics.refused.forget(key)
            return None
        try:
            return await self._settle(stored)
        except _Busy:
            return None

    async def _settle(self, stored: StoredObject) -> float | None:
        binding = stored.body
        stays = b.deleting(binding) and self._stays(binding)
        members = () if b.deleting(binding) and not stays else b.clusters_of(binding)
        members = self._withdrawal.staying(binding, members)
        holders = await self._withdrawal.withdraw(binding, members)
        if stays:
            holders |= await self._withdrawal.let_stay(binding, members)
        if holders:
            await self._overdue.look(stored, holders)
        if b.deleting(binding):
            if holders:
                return self._again(stored.key)
            await self._let_go(stored)
            return None
        if any(task["fromCluster"] not in holders for task in b.tasks_of(binding)):
            await self._hub.edit(stored.key, lambda body: tasks_done(body, holders), uid=stored.uid)
        if b.is_gang(binding) and not members:
            pause = self._withdrawal.pause(binding)
            return min(self._again(stored.key), pause or RETRY_MAX_S) if holders else None
        return await self._send(stored, members, holders)

    async def _send(self, stored: StoredObject, members: Sequence[str], holders: Iterable[str]) -> float | None:
        key = object_key(self._hub.registry, stored.body["spec"]["resource"])
        source = self._hub.store.peek(key) if key is not None else None
        if key is None or source is None or source.uid != stored.body["spec"]["resource"].get("uid"):
            return None  # its object is gone, and it will be
        stays = self._stays_here(stored, key, source)
        if stays:
            await self._refuse(stored, members, stays)
            return None
        if not self._there(stored.body, members, now=True) and self._has_run(stored, members):
            return self._again(stored.key) if holders else None  # its copy has been removed there: not to run again
        outcomes: dict[str, ActOutcome] = {}
        missing: list[str] = []
        for member in members:
            newer = newer_copy(stored.body, self._hub.members.copies(stored.uid)) if b.is_gang(stored.body) else ""
            if newer:  # a restored backup does not know that the job moved on
                outcomes[member] = ActOutcome(ActResult.SUSPENDED, f"a newer copy of it is in {newer}: {WAY_OUT}")
                continue
            if b.dispatching_suspended(stored.body, member):
                outcomes[member] = self._suspended(stored.body, member, key)
                continue
            outcomes[member], lacking = await self._send_to(stored, member, key, source.body)
            missing += [text for text in lacking if text not in missing]
        again = await self._judge(stored, outcomes)
        written = await self._hub.edit(
            stored.key, lambda body: applied(body, outcomes, missing, holders, self._hub.clock.now()), uid=stored.uid
        )
        if written and b.is_gang(stored.body):
            await self._tell_unit(stored, fails(outcomes))
        whole = not missing and all(outcome.did is ActResult.DONE for outcome in outcomes.values())
        if written and whole and members and not is_true(stored.body, FULLY_APPLIED):
            text = f"Successfully applied to cluster {', '.join(members)}"
            await self._events.courtesy(stored.body["spec"]["resource"], SYNC_SUCCEED, text)
            chosen = seconds(b.placed_at(stored.body))
            if b.is_gang(stored.body) and chosen is not None:
                self._hub.metrics.dispatched(members[0], self._hub.clock.now() - chosen)
        if again or holders:
            return self._again(stored.key)
        self._tries.pop(stored.key, None)
        return None

    async def _tell_unit(self, binding: StoredObject, reason: Reason | None) -> None:
        now, unit = self._hub.clock.now(), unit_of(self._hub.store.peek, binding.key, binding.uid)
        if unit is None or (reason is None and reason_of(unit.body).get("code") != Code.MEMBER_FAILS):
            return  # nearly always, and nothing is to be taken off
        await self._hub.edit(unit.key, lambda body: tell_unit(body, reason, now), uid=unit.uid)

    def _stays_here(self, stored: StoredObject, key: Key, source: StoredObject) -> str:
        """Why the object must not go to any member, however its binding was made; "" when it may."""
        if (key.namespace or SYSTEM_NAMESPACE) != stored.key.namespace:
            return f"a binding of namespace {stored.key.namespace} places nothing of namespace {key.namespace}"
        kind = self._hub.registry.need(key.group, key.resource)
        return why_not(kind, key, source.body, tenant=b.of_tenant(stored.body))

    async def _refuse(self, stored: StoredObject, wanted: Sequence[str], why: str) -> None:
        outcomes = {member: ActOutcome(ActResult.REFUSED, why) for member in wanted}
        now = self._hub.clock.now()
        await self._hub.edit(stored.key, lambda body: applied(body, outcomes, (), (), now), uid=stored.uid)

    async def _judge(self, stored: StoredObject, outcomes: dict[str, ActOutcome]) -> bool:
        """Whether to try again. A gang that its member will not take is evicted, with a back-off."""
        again = False
        for member, outcome in outcomes.items():
            if outcome.did in (ActResult.DONE, ActResult.SUSPENDED):
                self._hub.metrics.refused.forget(stored.key)
                continue
            again = True
            now, bound = self._hub.clock.now(), self._hub.config.member_fails_s
            foreign = not self._ours(outcome.body)
            reason = reason_in(member, outcome, stored.body, foreign=foreign, now=now, bound_s=bound)
            if reason.code is Code.MEMBER_UNREACHABLE:
                continue
            self._hub.metrics.refused.note(stored.key, stored.body["spec"]["resource"], reason, now)
            code, message = str(reason.code), reason.text
            await self._events.record(stored.body["spec"]["resource"], SYNC_FAILED, message, warning=True)
            # Running work is not stopped because a change of it was refused: FullyApplied says so.
            if b.is_gang(stored.body) and not self._there(stored.body, [member]):
                failure = AttemptFailure(member, now, code)
                await self._evictor.evict(stored, reason=code, message=message, failure=failure)
        return again

    def _stays(self, binding: Body) -> bool:
        """Whether its copies stay in their members when it goes: its policy says so, and its object is what went."""
        if not binding["spec"].get("preserveResourcesOnDeletion"):
            return False
        key = object_key(self._hub.registry, binding["spec"]["resource"])
        source = self._hub.store.peek(key) if key is not None else None
        gone = source is None or source.uid != binding["spec"]["resource"].get("uid")
        return gone or (source is not None and b.deleting(source.body))

    def _suspended(self, binding: Body, member: str, key: Key) -> ActOutcome:
        """A copy that was sent before stays as it is; nothing new is sent."""
        if self._is_of(binding, self._hub.members.find(member, key)):
            return ActOutcome(ActResult.DONE)
        return ActOutcome(ActResult.SUSPENDED, "its policy suspends dispatching there")

    def _is_of(self, binding: Body, copy: Body | None) -> bool:
        """Whether the copy is this attempt's."""
        return copy is not None and marks(self._hub.hub_id, binding).items() <= copy["metadata"]["labels"].items()

    def _ours(self, body: Body | None) -> bool:
        return body is not None and (body["metadata"].get("labels") or {}).get(LABEL_HUB) == self._hub.hub_id

    async def _send_to(self, stored: StoredObject, member: str, key: Key, source: Body) -> tuple[ActOutcome, list[str]]:
        """The outcome, and the dependencies that the hub does not have."""
        binding = stored.body
        cluster = self._cluster(member)
        overrides = [body for resource in OVERRIDES for body in self._hub.bodies(POLICY, resource)]
        missing: list[str] = []
        if not self._hub.members.ready(member):
            if self._is_of(binding, self._hub.members.find(member, key)):
                return ActOutcome(ActResult.DONE), missing  # as far as the hub knows; looked at again when it answers
            return ActOutcome(ActResult.UNREACHABLE, Reason(Code.MEMBER_UNREACHABLE, {"member": member}).text), missing
        self._enter(member, stored.key)
        try:
            live_copy = self._hub.members.find(member, key)
            is_own = self._is_of(binding, live_copy)
            avoided = nodes_off(live_copy) if is_own else avoided_in(self._hub.peek(CLUSTER, "clusters", "", member))
            own_copy = live_copy if is_own else None
            pins = pins_for(binding, own_copy, lambda: self._hub.members.nodes(member))
            body = manifest(source, binding, self._hub.hub_id, cluster, overrides, avoided, own_copy, pins)
            interpreter = interpreter_of(source["apiVersion"], source["kind"])
            propagates = bool(binding["spec"].get("propagateDeps"))
            if interpreter is not None and not is_own:
                lacks = await without_data(
                    self._hub.members,
                    member,
                    body,
                    interpreter,
                    lambda volume_claim: propagates and self._dependencies.are_sent(volume_claim),
                )
                if lacks is not None:
                    return lacks, missing
            if interpreter is not None:
                named = interpreter.dependencies(source)
                wanted = (
                    named | classes_of(body, interpreter) if propagates else self._dependencies.code_of(source, named)
                )
                optional = named - interpreter.dependencies(source, optional=False)
                outcome, missing = await self._dependencies.send(stored, member, wanted, optional, cluster, overrides)
                if outcome is not None:
                    return outcome, missing
            standing = as_there(body, live_copy if is_own else None, interpreter, binding)
            as_sent = live_copy if live_copy is not None and hash_of(live_copy) == hash_of(body) else None
            changed = self._drift.look(stored, member, standing, as_sent, interpreter)
            if as_sent is not None and not b.deleting(as_sent) and not changed:
                return ActOutcome(ActResult.DONE), missing
            refused = await self._send_group(stored, member, body)
            if refused is not None:
                return refused, missing
            body = stamped(with_sizes(standing, body, interpreter), await self._terms.stamp(stored.revision))
            sending = self._hub.members.apply(member, body, overwrite=b.overwrites(binding))
            outcome = await outcome_of(self._hub, binding, member, sending)
            if outcome.did is ActResult.UNREACHABLE:
                self._withdrawal.uncertain(binding, member)
            elif changed and outcome.did is ActResult.DONE and outcome.body is not None:
                await self._drift.put_back(stored, member, standing, outcome.body, changed, interpreter)
            return outcome, missing
        except BadOverride as error:
            return ActOutcome(ActResult.OVERRIDE, str(error)), missing
        except UnsafeManifest as error:
            return ActOutcome(ActResult.REFUSED, str(error)), missing
        finally:
            self._leave(member)

    async def _send_group(self, stored: StoredObject, member: str, job: Body) -> ActOutcome | None:
        """The PodGroup goes before its pods. An outcome when it could not be sent; a foreign one serves as well."""
        group = pod_group(job, stored.body, self._hub.hub_id)
        if group is None:
            return None
        outcome = await self._hub.members.apply(member, stamped(group, await self._terms.stamp(stored.revision)))
        return None if outcome.did in (ActResult.DONE, ActResult.CONFLICT) else outcome

    def _there(self, binding: Body, wanted: Sequence[str], *, now: bool = False) -> bool:
        """Whether these members show a copy; `now`: of the present attempt."""
        least = b.attempt(binding) if now else 0
        found = self._hub.members.copies(binding["metadata"]["uid"])
        return any(member in wanted and b.attempt_of_copy(copy) >= least for member, copy in found)

    def _has_run(self, stored: StoredObject, wanted: Sequence[str]) -> bool:
        """Whether the job is over, or has run in its member, which answers (observe says what became of it)."""
        answers = all(map(self._hub.members.ready, wanted))
        return b.finished(stored.body) or (answers and ran(stored.body, self._hub.members.pods_of(stored.uid)))

    def _cluster(self, member: str) -> ClusterFields:
        body = self._hub.peek(CLUSTER, "clusters", "", member)
        return candidate(body) if body is not None else ClusterFields(member, {}, {})

    async def _let_go(self, stored: StoredObject) -> None:
        """Nothing is left anywhere: the binding may go."""

        def drop(body: Body) -> Body | None:
            finalizers = body["metadata"].get("finalizers") or []
            if FINALIZER_BINDING not in finalizers:
                return None
            body["metadata"]["finalizers"] = [name for name in finalizers if name != FINALIZER_BINDING]
            return body

        kind = self._hub.registry.need(WORK, "resourcebindings")
        await self._hub.objects.change(
            kind, stored.key.namespace, stored.key.name, drop, self._hub.options, uid=stored.uid
        )
        self._tries.pop(stored.key, None)
        self._withdrawal.forget(stored.uid)

    # -- bounds

    def _again(self, key: Key) -> float:
        """Seconds until the next try: doubling, bounded. Changes in a member bring the key back earlier."""
        tries = self._tries[key] = self._tries.get(key, 0) + 1
        return float(min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** min(tries - 1, 10)))

    def _enter(self, member: str, key: Key) -> None:
        if self._in_flight.get(member, 0) >= self._hub.config.calls_per_member_max:
            self._parked.setdefault(member, deque()).append(key)
            raise _Busy
        self._in_flight[member] = self._in_flight.get(member, 0) + 1

    def _leave(self, member: str) -> None:
        self._in_flight[member] -= 1
        parked = self._parked.get(member)
        if parked:
            self.controller.queue.add(parked.popleft())
