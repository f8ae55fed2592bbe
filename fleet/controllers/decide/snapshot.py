"""From stored objects and the members' inventories to a Snapshot: everything that one decision looks at.

The cost of a cycle must follow from the changes, not from the number of objects: the expensive part of a unit (parsing
its components, resolving its affinity) is kept per revision of its binding, and the whole unit until its binding, its
QueueUnit, its pods or its copies are others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fleet.bindings import binding as b
from fleet.bindings.components import WANTED, wanted_of
from fleet.bindings.conditions import condition, is_true
from fleet.bindings.elastic import least_of
from fleet.bindings.lost import lost_copies, why_held
from fleet.bindings.trees import read_tree, tree_object
from fleet.bindings.unit import owned_by, queue_of, unit_key
from fleet.controllers.cluster.idle import idle_kinds
from fleet.controllers.cluster.matching import (
    PREFER,
    Candidate,
    candidate,
)
from fleet.controllers.decide.units import asked_of_nodes, base_inputs, base_unit, now_unit, unreadable_unit
from fleet.controllers.queue.sweeps import Sweep, sweep_of
from fleet.controllers.queue.turns import PODS_RUN_S, Waits
from fleet.members.members import Members, PodView
from fleet.model.amounts import NOTHING
from fleet.model.member import Member, Pool
from fleet.model.unit import Phase, Seat, Unit
from fleet.model.untyped import text
from fleet.ports import Body, Key, Store, Stored
from fleet.quota.tree import QuotaTree
from fleet.snapshot import Config, Snapshot
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

    binding: Stored
    unit: Stored | None


@dataclass(frozen=True, slots=True)
class Picture:
    """A snapshot with its sources by unit id, and the tree object it was read with."""

    snapshot: Snapshot
    sources: Mapping[str, Sources]
    tree: Stored | None
    one_by_one: frozenset[str] = frozenset()  # leaves of which one unit starts at a time
    again_at: float | None = None  # epoch seconds at which it is another although nothing changed
    growing: tuple[str, ...] = ()  # units that have their room and ask for more
    elastic: tuple[str, ...] = ()  # units that wait, and may start smaller than they ask to be

    @property
    def waiting(self) -> list[Unit]:
        return [unit for unit in self.snapshot.units.values() if unit.phase is Phase.WAITING]


_NOWHERE = (Seat("", -1, NOTHING, NOTHING),)  # of a unit whose pods have all ended or are gone, and free nothing


@dataclass(slots=True)
class _Kept:
    """A unit and its inputs. `pools`: of its member, as the room of its pods was read."""

    revision: int
    around: tuple[object, ...]
    base: Unit
    unit_key: Key
    unit_revision: int
    queue_unit: Stored | None  # its own
    pods: Sequence[PodView]
    copies: Sequence[tuple[str, Body]]
    unit: Unit | None
    asked: frozenset[tuple[str, str]]  # label pairs that its pods ask nodes for
    base_of: object = None  # all that `base` and `asked` were read from, but `around`
    pools: tuple[Pool, ...] | None = None
    failed: Exception | None = None  # why it could not be read
    grows: bool = False  # it has its room, and asks for more
    elastic: bool = False  # its job can start with fewer replicas
    sweep: Sweep | None = None  # its job belongs to

    def reads(
        self, binding: Stored, unit_revision: int, pods: Sequence[PodView], copies: Sequence[tuple[str, Body]]
    ) -> bool:
        """Whether it was read from these very inputs."""
        same = self.revision == binding.revision and self.unit_revision == unit_revision
        return same and self.pods is pods and self.copies is copies


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
        self._kept: dict[str, _Kept] = {}
        self._around: tuple[object, ...] = ()  # the settings that all bases were made with
        self._lost = lost_copies(store)
        self._tree: QuotaTree | None = None
        self._tree_mark: tuple[int, int, int] | None = None  # its sources
        self._trees = 0  # so many were read, one after the other
        self._named: frozenset[tuple[str, str]] = frozenset()
        self._waits = Waits(pods_run_s)
        self.unreadable: Mapping[Key, Exception] = {}  # keys that stand as `unreadable_unit` in the newest picture
        self._last = Snapshot()

    def build(self, now: float = 0.0) -> Picture:
        """The state that this process has seen, at once. `now`: epoch seconds, for what ends with time."""
        stored_tree = tree_object(self._store)
        tree, tree_mark = self._read_tree(stored_tree)
        clusters = [candidate(s.body) for s in self._store.scan(CLUSTER, "clusters")]
        self._lost = lost_copies(self._store)
        around = (tree_mark, _mark(clusters), self._lost)
        if around != self._around:
            self._around = around
        units: dict[str, Unit] = {}
        sources: dict[str, Sources] = {}
        kept: dict[str, _Kept] = {}
        named: set[tuple[str, str]] = set()
        unreadable: dict[Key, Exception] = {}
        growing: list[str] = []
        elastic: list[str] = []
        sweeps: dict[str, Sweep] = {}
        for stored in self._store.scan(WORK, "resourcebindings"):
            known = self._kept.get(stored.uid)
            if known is not None and known.around is not self._around:
                known = None
            if known is None and not b.is_gang(stored.body):
                continue
            key = known.unit_key if known else unit_key(stored.key)
            queue_unit = self._store.peek(key)
            revision = queue_unit.revision if queue_unit else 0
            pods, copies = self._members.pods_of(stored.uid), self._members.copies(stored.uid)
            if known is None or not known.reads(stored, revision, pods, copies):
                known = self._read(stored, queue_unit, known, pods, copies, tree, clusters)
            kept[stored.uid] = known
            if known.failed is not None:
                unreadable[stored.key] = known.failed
            if known.unit is not None:
                named |= known.asked
                units[known.unit.id] = known.unit
                sources[known.unit.id] = Sources(stored, known.queue_unit)
                if known.sweep is not None:
                    sweeps[known.unit.id] = known.sweep
                if known.grows:
                    growing.append(known.unit.id)
                if known.elastic and known.unit.phase is Phase.WAITING:
                    elastic.append(known.unit.id)
        self._kept, self.unreadable = kept, unreadable
        if named != self._named:
            self._named = frozenset(named)
            self._members.tell_apart(self._named)
        members = self._read_members(now)
        units.update(self._seated(kept.values(), members))
        queues = self._store.scan(QUEUE, "queues", namespace=QUEUE_NAMESPACE)
        units.update(self._waits.look(queues, units, lambda key: sources[key].unit, self._members.pods_of, now, sweeps))
        config = self._waiting_config if self.unread() else self._config
        waits = self._waits
        self._last = Snapshot(tree, units, members, config).following(self._last)
        sized = tuple(growing), tuple(elastic)
        return Picture(self._last, sources, stored_tree, waits.one_by_one, waits.again_at, *sized)

    def _read(
        self, stored: Stored, queue_unit: Stored | None, known: _Kept | None, pods: Sequence[PodView],
        copies: Sequence[tuple[str, Body]], tree: QuotaTree | None, clusters: Sequence[Candidate],
    ) -> _Kept:  # fmt: skip
        """A binding read anew. `known`: the binding as it was read before, beside the same tree and Clusters."""
        failed: Exception | None = None
        base_of: object = None
        revision = queue_unit.revision if queue_unit else 0
        if queue_unit is not None and not owned_by(queue_unit.body, stored.uid):
            queue_unit = None  # of an earlier binding of this name
        try:
            base_of = base_inputs(stored.body)
            sound = known is not None and known.failed is None and known.base_of == base_of
            base = known.base if known and sound else base_unit(stored.body, tree, clusters)
            unit = now_unit(base, stored.body, queue_unit.body if queue_unit else None, pods, copies)
            if unit is not None and unit.phase is Phase.WAITING and not unit.held:
                why = why_held(stored.body, copies, self._lost)
                unit = replace(unit, held=True, held_why=why) if why else unit
            unit = self._as_admitted(unit, queue_unit)
            asked = known.asked if known and sound else asked_of_nodes(base, wanted_of(stored.body))
        except Exception as error:  # this one alone is left out
            base, asked = unreadable_unit(stored, error), frozenset()
            unit = base if not b.clusters_of(stored.body) and queue_unit is not None else None
            failed = error
        return _Kept(
            stored.revision, self._around, base, known.unit_key if known else unit_key(stored.key),
            revision, queue_unit, pods, copies, unit, asked, base_of, failed=failed,
            grows=bool(b.spec_of(stored.body).get(WANTED)), elastic=bool(least_of(stored.body)),
            sweep=sweep_of(stored.body),
        )  # fmt: skip

    def _as_admitted(self, unit: Unit | None, queue_unit: Stored | None) -> Unit | None:
        """Work that holds quota is charged to the queue that it came out of, wherever its namespace hangs by now."""
        if unit is None or unit.phase is Phase.WAITING or unit.leaf is None or queue_unit is None:
            return unit
        queue = self._store.peek(Key(QUEUE, "queues", QUEUE_NAMESPACE, queue_of(queue_unit.body)))
        path = b.annotation(queue.body, ANNOTATION_QUOTA_FULLNAME) if queue is not None else ""
        return replace(unit, leaf=path) if path and path != unit.leaf else unit

    def _seated(self, kept: Iterable[_Kept], members: Mapping[str, Member]) -> Iterable[tuple[str, Unit]]:
        """The units that have or had pods, each with their nodes in the member as `members` shows them; read again only
        when its pods or the room of its member are others."""
        for known in kept:
            unit = known.unit
            if unit is None or unit.member is None or unit.member not in members:
                continue
            leaving = unit.phase is Phase.EVICTING
            if not known.pods and not leaving:
                continue
            pools = members[unit.member].pools
            if known.pools is not pools:
                mine = [pod for pod in known.pods if pod.member == unit.member]
                gone = leaving and not any(name == unit.member for name, _ in known.copies)
                seats = self._members.seats(unit.member, mine) or (_NOWHERE if mine or gone else ())
                if seats != unit.seats:
                    known.unit = unit = replace(unit, seats=seats)
                known.pools = pools
            yield unit.id, unit

    def unread(self) -> list[str]:
        """Members that are not read though their Clusters say that they are ready. After a start there are some, and
        for a moment when a member falls silent; evicting waits for them."""
        said = self._store.scan(CLUSTER, "clusters")
        ready = [stored.key.name for stored in said if is_true(stored.body, "Ready") and not b.deleting(stored.body)]
        return [name for name in ready if not self._members.ready(name)]

    def _read_tree(self, stored: Stored | None) -> tuple[QuotaTree | None, int]:
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


def _mark(clusters: Sequence[Candidate]) -> object:
    last = {c.name: repr([taint for taint in c.taints if taint.get("effect") == PREFER]) for c in clusters}
    return tuple(
        (c.name, tuple(sorted(c.labels.items())), tuple(sorted(c.fields.items())), last[c.name]) for c in clusters
    )
