"""From stored objects and the members' inventories to a Snapshot: everything that one decision looks at.

The cost of a cycle must follow from the changes, not from the number of objects: the expensive part of a unit (parsing
its components, resolving its affinity) is kept per revision of its binding, and the whole unit until its binding, its
QueueUnit, its pods or its copies are others.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fleet.bindings import binding as b
from fleet.bindings.components import WANTED, wanted_of
from fleet.bindings.conditions import condition, is_true
from fleet.bindings.elastic import least_of
from fleet.bindings.idle import idle_kinds
from fleet.bindings.matching import (
    PREFER,
    ClusterFields,
    candidate,
)
from fleet.bindings.orphans import lost_copies, why_held
from fleet.bindings.trees import read_tree, tree_object
from fleet.bindings.unit import owned_by, queue_of, unit_key
from fleet.controllers.decide.sizes import grows_by_plan, with_surplus
from fleet.controllers.decide.units import asked_of_nodes, base_inputs, base_unit, now_unit, unreadable_unit
from fleet.controllers.queue.sweeps import Sweep, sweep_of
from fleet.controllers.queue.turns import PODS_RUN_S, Waits
from fleet.core.model.amounts import NOTHING
from fleet.core.model.member import Member, Pool
from fleet.core.model.pod import PodView
from fleet.core.model.unit import Phase, Seat, Unit
from fleet.core.quota.tree import QuotaTree
from fleet.core.snapshot import Config, Snapshot
from fleet.members.members import Members
from fleet.values.ports import Body, Key, Store, StoredObject
from fleet.values.untyped import text
from fleet.wellknown import (
    ANNOTATION_QUOTA_FULLNAME,
    CLUSTER,
    QUEUE,
    QUEUE_NAMESPACE,
    WORK,
)


@dataclass(frozen=True, slots=True)
class Sources:
    """The source of a unit: its commit must find this unchanged."""

    binding: StoredObject
    unit: StoredObject | None


@dataclass(frozen=True, slots=True)
class Picture:
    """A snapshot with its sources by unit id, and the tree object it was read with."""

    snapshot: Snapshot
    sources: Mapping[str, Sources]
    tree: StoredObject | None
    again_at: float | None = None  # epoch seconds at which it is another although nothing changed
    growing: tuple[str, ...] = ()  # units that have their room and ask for more
    elastic: tuple[str, ...] = ()  # those of them that take what there is

    @property
    def waiting(self) -> list[Unit]:
        return [unit for unit in self.snapshot.units.values() if unit.phase is Phase.WAITING]


READ_AT_ONCE = 200  # bindings that one look reads without a turn of the event loop, some 10 ms
_NO_LABELS: frozenset[tuple[str, str]] = frozenset()
_Bodies = tuple[Body, Body | None]
_NOWHERE = (Seat("", -1, NOTHING, NOTHING),)  # of a unit whose pods have all ended or are gone, and free nothing


@dataclass(slots=True)
class _KeptUnit:
    """A unit and its inputs. `pools`: of its member, as the room of its pods was read."""

    revision: int
    around: tuple[object, ...]
    base: Unit
    unit_key: Key
    unit_revision: int
    queue_unit: StoredObject | None  # its own
    pods: Sequence[PodView]
    copies: Sequence[tuple[str, Body]]
    unit: Unit | None
    labels: frozenset[tuple[str, str]]  # label pairs that its pods ask nodes for
    base_of: object = None  # all that `base` and `labels` were read from, but `around`
    pools: tuple[Pool, ...] | None = None
    failed: Exception | None = None  # why it could not be read
    grows: bool = False  # it has its room, and asks for more
    by_plan: bool = False  # of more replicas, which it gets one by one
    elastic: Body | None = None  # its binding, where its job can run with fewer replicas
    sweep: Sweep | None = None  # its job belongs to

    def reads(
        self, binding: StoredObject, unit_revision: int, pods: Sequence[PodView], copies: Sequence[tuple[str, Body]]
    ) -> bool:
        """Whether it was read from these very inputs."""
        same = self.revision == binding.revision and self.unit_revision == unit_revision
        return same and self.pods is pods and self.copies is copies


@dataclass(frozen=True, slots=True)
class _Input:
    """All that one unit is read from, but what stands around. `queue_unit`: of its name, perhaps of another binding."""

    stored: StoredObject
    unit_key: Key
    queue_unit: StoredObject | None
    record: _KeptUnit | None
    pods: Sequence[PodView]
    copies: Sequence[tuple[str, Body]]


class SnapshotBuilder:
    """Builds pictures of one store and its members; keeps what is costly between two calls."""

    def __init__(
        self, store: Store, members: Members, config: Config | None = None, pods_run_s: float = PODS_RUN_S
    ) -> None:
        """`pods_run_s`: for so long a queue that starts one job at a time waits for the pods of one."""
        self._store = store
        self._members = members
        self._config = config or Config()
        self._waiting_config = replace(self._config, reclaim=False)
        self._records: dict[str, _KeptUnit] = {}
        self._around: tuple[object, ...] = ()  # the settings that all bases were made with
        self._lost = lost_copies(store)
        self._tree: QuotaTree | None = None
        self._tree_mark: tuple[int, int, int] | None = None  # its sources
        self._trees = 0  # so many were read, one after the other
        self._label_counts: Counter[tuple[str, str]] = Counter()  # label pairs, by how many units ask for them
        self._waits = Waits(pods_run_s)
        self.unreadable: Mapping[Key, Exception] = {}  # keys that stand as `unreadable_unit` in the newest picture
        self._last = Snapshot()

    async def read_ahead(self) -> None:
        """Read the bindings that have changed since the last picture, where these are many, in a thread and in pieces:
        the next `build` finds them read, and holds the event loop for the rest alone."""
        tree, clusters = self._look_around()
        changed: list[_Input] = []
        for stored in self._store.scan(WORK, "resourcebindings"):
            record = self._known(stored)
            if record is not None or b.is_gang(stored.body):
                found = self._input(stored, record)
                if found is not None:
                    changed.append(found)
        if len(changed) <= READ_AT_ONCE:
            return
        for start in range(0, len(changed), READ_AT_ONCE):
            piece = changed[start : start + READ_AT_ONCE]
            bodies = [(item.stored.body, item.queue_unit.body if item.queue_unit else None) for item in piece]

            def read(piece: Sequence[_Input] = piece, bodies: Sequence[_Bodies] = bodies) -> list[_KeptUnit]:
                return [self._read(one, *both, tree, clusters) for one, both in zip(piece, bodies, strict=True)]

            for item, record in zip(piece, await asyncio.to_thread(read), strict=True):
                self._keep(item.stored.uid, record)

    def _look_around(self) -> tuple[QuotaTree | None, Sequence[ClusterFields]]:
        """The tree and the Clusters, beside which all bindings are read."""
        tree, tree_mark = self._read_tree(tree_object(self._store))
        clusters = [candidate(s.body) for s in self._store.scan(CLUSTER, "clusters")]
        self._lost = lost_copies(self._store)
        around = (tree_mark, _mark(clusters), self._lost)
        if around != self._around:
            self._around = around
        return tree, clusters

    def _known(self, stored: StoredObject) -> _KeptUnit | None:
        """The binding as it was read before, beside the same tree and Clusters."""
        record = self._records.get(stored.uid)
        return record if record is not None and record.around is self._around else None

    def _input(self, stored: StoredObject, record: _KeptUnit | None) -> _Input | None:
        """All that a unit is read from; None where it was read from these very inputs."""
        key = record.unit_key if record else unit_key(stored.key)
        queue_unit = self._store.peek(key)
        pods, copies = self._members.pods_of(stored.uid), self._members.copies(stored.uid)
        if record is not None and record.reads(stored, queue_unit.revision if queue_unit else 0, pods, copies):
            return None
        return _Input(stored, key, queue_unit, record, pods, copies)

    def _keep(self, uid: str, record: _KeptUnit | None) -> None:
        """Keep a unit for later pictures; None: no longer."""
        before = self._records.pop(uid, None)
        if record is not None:
            record.unit = self._as_admitted(record.unit, record.queue_unit)
            self._records[uid] = record
        had = before.labels if before is not None and before.unit is not None else _NO_LABELS
        has = record.labels if record is not None and record.unit is not None else _NO_LABELS
        if had is not has:
            self._label_counts.update(has)
            self._label_counts.subtract(had)
            for pair in had - has:
                if not self._label_counts[pair]:
                    del self._label_counts[pair]

    def build(self, now: float = 0.0) -> Picture:
        """The state that this process has seen, at once. `now`: epoch seconds, for what ends with time."""
        stored_tree = tree_object(self._store)
        tree, clusters = self._look_around()
        units: dict[str, Unit] = {}
        sources: dict[str, Sources] = {}
        unread = set(self._records)
        pairs_before = frozenset(self._label_counts)
        unreadable: dict[Key, Exception] = {}
        growing: list[str] = []
        elastic: list[str] = []
        sweeps: dict[str, Sweep] = {}
        for stored in self._store.scan(WORK, "resourcebindings"):
            record = self._known(stored)
            if record is None and not b.is_gang(stored.body):
                continue
            changed = self._input(stored, record)
            if changed is not None:
                own = changed.queue_unit.body if changed.queue_unit else None
                record = self._read(changed, stored.body, own, tree, clusters)
                self._keep(stored.uid, record)
            assert record is not None
            unread.discard(stored.uid)
            if record.failed is not None:
                unreadable[stored.key] = record.failed
            if record.unit is not None:
                units[record.unit.id] = record.unit
                sources[record.unit.id] = Sources(stored, record.queue_unit)
                if record.sweep is not None:
                    sweeps[record.unit.id] = record.sweep
                if record.grows:
                    growing.append(record.unit.id)
                if record.by_plan:
                    elastic.append(record.unit.id)
        self.unreadable = unreadable
        for uid in unread:
            self._keep(uid, None)
        if pairs_before != self._label_counts.keys():
            self._members.tell_apart(frozenset(self._label_counts))
        members = self._read_members(now)
        units.update(self._seated(self._records.values(), members))
        queues = self._store.scan(QUEUE, "queues", namespace=QUEUE_NAMESPACE)
        units.update(self._waits.look(queues, units, lambda key: sources[key].unit, self._members.pods_of, now, sweeps))
        config = self._waiting_config if self.unread() else self._config
        self._last = Snapshot(tree, units, members, config).following(self._last)
        sized = tuple(growing), tuple(elastic)
        return Picture(self._last, sources, stored_tree, self._waits.again_at, *sized)

    def _read(
        self, of: _Input, body: Body, unit_body: Body | None, tree: QuotaTree | None, clusters: Sequence[ClusterFields]
    ) -> _KeptUnit:
        """A binding read anew, perhaps in a thread. `body`, `unit_body`: of the binding and of the unit of its name."""
        failed: Exception | None = None
        base_of: object = None
        record, queue_unit, pods, copies = of.record, of.queue_unit, of.pods, of.copies
        revision = queue_unit.revision if queue_unit else 0
        if unit_body is not None and not owned_by(unit_body, of.stored.uid):
            queue_unit = unit_body = None  # of an earlier binding of this name
        try:
            base_of = base_inputs(body)
            sound = record is not None and record.failed is None and record.base_of == base_of
            base = record.base if record and sound else base_unit(body, tree, clusters)
            unit = now_unit(base, body, unit_body, pods, copies)
            if unit is not None and unit.phase is Phase.WAITING and not unit.held:
                why = why_held(body, copies, self._lost)
                unit = replace(unit, held=True, held_why=why, release_helps=False) if why else unit
            labels = record.labels if record and sound else asked_of_nodes(base, wanted_of(body))
        except Exception as error:  # this one alone is left out
            base, labels = unreadable_unit(of.stored, body, error), _NO_LABELS
            unit = base if not b.clusters_of(body) and queue_unit is not None else None
            failed = error
        return _KeptUnit(
            of.stored.revision,
            self._around,
            base,
            of.unit_key,
            revision,
            queue_unit,
            pods,
            copies,
            unit,
            labels,
            base_of,
            failed=failed,
            grows=bool(b.spec_of(body).get(WANTED)),
            by_plan=grows_by_plan(body),
            elastic=_if_elastic(body),
            sweep=sweep_of(body),
        )

    def _as_admitted(self, unit: Unit | None, queue_unit: StoredObject | None) -> Unit | None:
        """Work that holds quota is charged to the queue that it came out of, wherever its namespace hangs by now."""
        if unit is None or unit.phase is Phase.WAITING or unit.leaf is None or queue_unit is None:
            return unit
        queue = self._store.peek(Key(QUEUE, "queues", QUEUE_NAMESPACE, queue_of(queue_unit.body)))
        path = b.annotation(queue.body, ANNOTATION_QUOTA_FULLNAME) if queue is not None else ""
        return replace(unit, leaf=path) if path and path != unit.leaf else unit

    def _seated(self, records: Iterable[_KeptUnit], members: Mapping[str, Member]) -> Iterable[tuple[str, Unit]]:
        """The units that have or had pods, each with their nodes in the member as `members` shows them; read again only
        when its pods or the room of its member are others."""
        for record in records:
            unit = record.unit
            if unit is None or unit.member is None or unit.member not in members:
                continue
            leaving = unit.phase is Phase.EVICTING
            if not record.pods and not leaving:
                continue
            pools = members[unit.member].pools
            if record.pools is not pools:
                unit = self._with_seats(record, unit, unit.member, leaving)
                record.unit, record.pools = unit, pools
            yield unit.id, unit

    def _with_seats(self, record: _KeptUnit, unit: Unit, member: str, leaving: bool) -> Unit:
        pods = [pod for pod in record.pods if pod.member == member]
        gone = leaving and not any(name == member for name, _ in record.copies)
        seats = self._members.seats(member, pods) or (_NOWHERE if pods or gone else ())
        if seats != unit.seats:
            unit = replace(unit, seats=seats)
        return with_surplus(unit, record.elastic, pods) if record.elastic is not None and not leaving else unit

    def unread(self) -> list[str]:
        """Members that are not read though their Clusters say that they are ready. After a start there are some, and
        for a moment when a member falls silent; evicting waits for them."""
        said = self._store.scan(CLUSTER, "clusters")
        ready = [stored.key.name for stored in said if is_true(stored.body, "Ready") and not b.deleting(stored.body)]
        return [name for name in ready if not self._members.ready(name)]

    def _read_tree(self, stored: StoredObject | None) -> tuple[QuotaTree | None, int]:
        """The tree, and a number that is another when it is. A Queue whose status alone changes leaves both."""
        queues = self._store.scan(QUEUE, "queues", namespace=QUEUE_NAMESPACE)
        mark = (stored.revision if stored else 0, max((q.revision for q in queues), default=0), len(queues))
        if self._tree_mark != mark:
            self._tree_mark = mark
            tree = read_tree(stored, [q.body for q in queues])
            if tree != self._tree:
                self._tree, self._trees = tree, self._trees + 1
        return self._tree, self._trees

    def _read_members(self, now: float) -> dict[str, Member]:
        clusters = {s.key.name: s.body for s in self._store.scan(CLUSTER, "clusters")}
        members: dict[str, Member] = {}
        for name in sorted(self._members.names()):
            model = self._members.model(name)
            cluster = clusters.get(name)
            if cluster is not None and b.deleting(cluster):
                model = replace(model or Member(name), ready=False, not_ready_reason="the cluster is being removed")
            elif model is None:
                said = condition(cluster or {}, "Ready") or {}
                why = text(said.get("message")) if said.get("status") == "False" else ""
                model = Member(name, ready=False, not_ready_reason=why or "its inventory has not been read yet")
            elif model.ready and not self._members.ready(name):
                model = replace(model, ready=False, not_ready_reason=model.not_ready_reason or "it does not answer")
            idle = idle_kinds(cluster, now)
            if idle:
                model = replace(model, idle_kinds=frozenset(idle))
            members[name] = model
        return members


def _if_elastic(binding: Body) -> Body | None:
    return binding if least_of(binding) else None


def _mark(clusters: Sequence[ClusterFields]) -> object:
    last = {c.name: repr([taint for taint in c.taints if taint.get("effect") == PREFER]) for c in clusters}
    return tuple(
        (c.name, tuple(sorted(c.labels.items())), tuple(sorted(c.fields.items())), last[c.name]) for c in clusters
    )
