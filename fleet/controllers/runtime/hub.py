"""The tools of every loop of the controllers: the hub's objects under the leader's fence, the members, time, and
bounds.

Loops read what this process has seen (`peek`, `scan`: level-triggered work may be a moment behind) and write through
`Objects`, so that the engine's rules hold for Fleet's own writes too. Every commit carries the leadership epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from api.engine.kind import Kind
from api.engine.registry import Registry
from api.engine.status import StatusError
from api.lifecycle.authority import Authority
from api.objects.objects import Objects
from api.objects.writing import Options, User
from fleet.controllers.runtime.metrics import Metrics
from fleet.members.members import Members
from fleet.values.ports import Body, Clock, CommitResult, Conflict, Ids, Key, Store, StoredObject, Write
from fleet.values.untyped import mapping, text
from fleet.wellknown import CONTROLLERS_USER, FIELD_MANAGER, PLACEHOLDER_IMAGE

if TYPE_CHECKING:
    from fleet.traces.traces import Traces

CONTROLLER = User(name=CONTROLLERS_USER, groups=("system:masters",), hub=True)


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """Bounds and pauses of the loops, in seconds unless the name says otherwise."""

    reclaim: bool = True  # whether a job within its guarantee or share may evict what others borrowed
    protection_s: float = 300.0  # no unit is evicted for so long after its start
    claim_s: float = 900.0  # a claim keeps freed room for so long
    head_after_s: float = 600.0  # a job that has waited so long has room collected for it; 0: none ever
    guarantee_delay_s: float | None = None  # guaranteed jobs wait so long for an overdue head; None: head_after_s
    members_read_s: float = 15.0  # a process that begins decides nothing until the members are read, or for so long
    members_heard_s: float = 2.0  # of a member that shows no life for so long: the others are enough to begin with
    gather_s: float = 0.03  # decide waits this long for more after the first change
    chunk_units_max: int = 200  # of one commit of a plan
    reason_writes_per_s: int = 100  # reasons of waiting units, all together
    reason_repeat_s: float = 5.0  # of one unit, when only the numbers changed
    reason_shown_s: float = 15.0  # the same of its binding and job
    gang_whole_s: float = 60.0  # from dispatch until every pod has a node, else the gang is withdrawn
    held_whole_s: float = 600.0  # the same where its room is held, or the member has a gang scheduler
    nodes_added_s: float = 900.0  # the same in a member whose Cluster lists nodes that its autoscaler could add
    status_interval_s: float = 1.0  # between two status writes of one job, after the first
    member_fails_s: float = 120.0  # a member that answers and fails on one job is tried for so long, then the next
    unhealthy_s: float = 300.0  # a failed job is moved after this, where the policy does not say
    member_lost_s: float = 300.0  # a lost member's jobs are moved after this, where the policy opts in and does not say
    member_reported_s: float = 10.0  # a job says MemberUnreachable after its member was silent for this long
    lost_evictions_per_minute: int = 30  # jobs that leave one lost member, where their policies opt in
    calls_per_member_max: int = 16  # dispatches in flight to one member
    pods_run_s: float = 600.0  # a queue with wait-for-pods-running waits for the pods of one job at most this long
    admission_checks_s: float = 3600.0  # a unit stays Reserved for this long, where its Queue does not say
    room_held_s: float = 30.0  # the room of a gang must be held in its member within this time, else the next is tried
    room_refused_s: float = 2.0  # a placeholder that has no node for so long has been refused
    placeholder_image: str = PLACEHOLDER_IMAGE
    withdrawn_s: float = 300.0  # after their grace, pods that still do not leave a member are named as the reason
    sweep_s: float = 30.0  # between two searches for orphans in the members
    event_ttl_s: float = 3600.0
    outgoing_allow: tuple[str, ...] = ()  # networks and hosts that notifications may go to, beside public addresses
    root_certificate: str = ""  # PEM of the authority behind the API's certificate, for a ConfigMap in each namespace
    record_decisions: bool = True
    finished_job_ttl_s: float = 0.0  # finished jobs are deleted so long after their end; 0: only those that say it
    history_days: int = 400  # jobs, attempts and waits are kept so long, by whole months; 0: for ever
    usage_days: int = 400  # likewise usage by the minute


@dataclass(slots=True)
class Hub:
    """See the module. `hub_id` marks everything that this hub puts into members."""

    store: Store
    objects: Objects
    registry: Registry
    members: Members
    clock: Clock
    ids: Ids
    hub_id: str
    epoch: int | None = None
    config: ControllerConfig = field(default_factory=ControllerConfig)
    metrics: Metrics = field(default_factory=Metrics)
    authority: Authority | None = None  # signs client certificates
    history_dsn: str = ""  # of the database that the history is recorded in; "": none is recorded
    traces: Traces | None = None  # of jobs, where somebody wants them

    @property
    def options(self) -> Options:
        return Options(user=CONTROLLER, manager=FIELD_MANAGER, field_validation="Ignore", epoch=self.epoch)

    # -- reading
    def peek(self, group: str, resource: str, namespace: str, name: str) -> Body | None:
        stored = self.store.peek(Key(group, resource, namespace, name))
        return stored.body if stored is not None else None

    def scan(self, group: str, resource: str, namespace: str | None = None) -> Sequence[StoredObject]:
        return self.store.scan(group, resource, namespace=namespace)

    def bodies(self, group: str, resource: str, namespace: str | None = None) -> list[Body]:
        return [stored.body for stored in self.store.scan(group, resource, namespace=namespace)]

    # -- writing
    def new(self, group: str, resource: str, namespace: str, body: Body) -> Write:
        """A write that creates the object, status included, and loses when an object of the name exists."""
        kind = self.registry.need(group, resource)
        return self.objects.prepare_new(kind, namespace, body, self.options, with_status=True)

    def change(
        self,
        key: Key,
        change: Callable[[Body], Body | None],
        *,
        uid: str | None = None,
        generation: int | None = None,
    ) -> Write:
        """A write that changes the whole object, spec and status at once, and loses when the object is missing or has
        another uid or generation."""
        kind = self.registry.need(key.group, key.resource)
        return self.objects.prepare_change(
            kind, key.namespace, key.name, change, self.options, uid=uid, generation=generation
        )

    async def commit(self, writes: Iterable[Write]) -> CommitResult | Conflict:
        return await self.store.commit(list(writes), epoch=self.epoch)

    async def create(self, group: str, resource: str, namespace: str, body: Body) -> bool:
        """False when an object of the name exists."""
        return isinstance(await self.commit([self.new(group, resource, namespace, body)]), CommitResult)

    async def edit(self, key: Key, change: Callable[[Body], bool], *, uid: str | None = None) -> bool:
        """Change the object in place and store it; `change` says whether it changed anything. The first try is on the
        object as this process has seen it, so that an edit which is not needed costs nothing. False when nothing was
        written."""
        seen = self.store.peek(key)
        if seen is None or not change(orjson.loads(seen.raw)):
            return False
        return isinstance(await self.commit([self.change(key, _if_changed(change), uid=uid)]), CommitResult)

    async def edit_all(self, edits: Iterable[tuple[Key, str, Callable[[Body], bool]]]) -> bool:
        """Several edits (key, uid, change) as one commit, those left out that are not needed. False when one of the
        objects is gone or another by now; then nothing was written."""
        writes: list[Write] = []
        for key, uid, change in edits:
            seen = self.store.peek(key)
            if seen is not None and seen.uid == uid and change(orjson.loads(seen.raw)):
                writes.append(self.change(key, _if_changed(change), uid=uid))
        return not writes or isinstance(await self.commit(writes), CommitResult)

    async def delete(self, key: Key, *, uid: str | None = None) -> None:
        """Ask for the object's deletion; finalizers hold it. An object that is gone, or another by now, is no error."""
        kind = self.registry.need(key.group, key.resource)
        preconditions: dict[str, Any] = {"preconditions": {"uid": uid}} if uid else {}
        try:
            await self.objects.delete(kind, key.namespace, key.name, self.options, preconditions)
        except StatusError as error:
            if error.code not in (404, 409):
                raise


def _if_changed(change: Callable[[Body], bool]) -> Callable[[Body], Body | None]:
    return lambda body: body if change(body) else None


def kind_of(registry: Registry, resource: object) -> Kind | None:
    """The kind of the object that a binding's `spec.resource` (or any reference) names."""
    said = mapping(resource)
    return registry.kind_of(text(said.get("apiVersion")), text(said.get("kind")))


def object_key(registry: Registry, resource: object) -> Key | None:
    """The key of the object that a binding's `spec.resource` names; None while its kind is not known, and for what
    names none."""
    kind, said = kind_of(registry, resource), mapping(resource)
    name = text(said.get("name"))
    return Key(kind.group, kind.resource, text(said.get("namespace")), name) if kind is not None and name else None
