"""From stored objects and the members' inventories to a Snapshot: everything that one decision looks at.

A cycle must cost what changed, not what exists: the expensive part of a unit (parsing its components, resolving its
affinity) is kept per revision of its binding, and the whole unit until its binding, its QueueUnit, its pods or its
copies are others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fleet.bindings import binding as b
from fleet.bindings.claims import claim_of
from fleet.bindings.components import components_of
from fleet.bindings.conditions import is_true
from fleet.bindings.failures import backoff_until, backoffs, failures_of, gave_up
from fleet.bindings.heads import head_of
from fleet.bindings.nomination import nomination_of
from fleet.bindings.trees import read_tree, tree_object
from fleet.bindings.unit import active, evicted, priority_of, queue_of, walltime_of
from fleet.controllers.cluster.matching import (
    Candidate,
    affinity_groups,
    affinity_matches,
    candidate,
    cluster_tolerations,
)
from fleet.controllers.fields.starting import SHARE_UNTIL
from fleet.controllers.queue.turns import PODS_RUN_S, Waits
from fleet.members.members import Members, PodView
from fleet.members.nodes import ANY_VALUE
from fleet.model.amounts import NOTHING
from fleet.model.member import Member, Pool
from fleet.model.quantity import BadQuantity
from fleet.model.times import seconds
from fleet.model.unit import Component, Phase, Seat, Unit
from fleet.model.untyped import number, text
from fleet.ports import Body, Key, Store, Stored
from fleet.quota.leaf import leaf_for
from fleet.quota.tree import QuotaTree
from fleet.snapshot import Config, Snapshot
from fleet.wellknown import (
    ANNOTATION_CHECKPOINT,
    ANNOTATION_CREATOR,
    ANNOTATION_DOMAIN,
    ANNOTATION_QUOTA_FULLNAME,
    ANNOTATION_TOPOLOGY,
    CLUSTER,
    PREEMPTIBLE_LABELS,
    QUEUE,
    QUEUE_NAMESPACE,
    WORK,
    unit_name,
)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a unit came from: what its commit must find unchanged."""

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

    @property
    def waiting(self) -> list[Unit]:
        return [unit for unit in self.snapshot.units.values() if unit.phase is Phase.WAITING]


_NOWHERE = (Seat("", -1, NOTHING, NOTHING),)  # of a unit whose pods have all ended or are gone: it frees nothing


@dataclass(slots=True)
class _Kept:
    """A unit and what it was made from. `pools`: of its member, as its seats were read."""

    revision: int
    around: tuple[object, ...]
    base: Unit
    unit_key: Key
    unit_revision: int
    pods: Sequence[PodView]
    copies: Sequence[tuple[str, Body]]
    unit: Unit | None
    asked: frozenset[tuple[str, str]]  # label pairs that its pods ask nodes for
    pools: tuple[Pool, ...] | None = None
    failed: Exception | None = None  # why it could not be read


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
        self._around: tuple[object, ...] = ()  # what all bases were made with
        self._tree: QuotaTree | None = None
        self._tree_mark: tuple[int, int, int] | None = None  # what it was read from
        self._trees = 0  # so many were read, one after the other
        self._named: frozenset[tuple[str, str]] = frozenset()
        self._waits = Waits(pods_run_s)
        self.unreadable: Mapping[Key, Exception] = {}  # of the newest picture: what stands in it as `_unreadable`
        self._last = Snapshot()

    def build(self, now: float = 0.0) -> Picture:
        """What this process has seen, at once. `now`: epoch seconds, for what ends with time."""
        stored_tree = tree_object(self._store)
        tree, tree_mark = self._read_tree(stored_tree)
        clusters = [candidate(s.body) for s in self._store.scan(CLUSTER, "clusters")]
        around = (tree_mark, _mark(clusters))
        if around != self._around:
            self._around = around
        units: dict[str, Unit] = {}
        sources: dict[str, Sources] = {}
        kept: dict[str, _Kept] = {}
        named: set[tuple[str, str]] = set()
        unreadable: dict[Key, Exception] = {}
        for stored in self._store.scan(WORK, "resourcebindings"):
            known = self._kept.get(stored.uid)
            if known is not None and (known.revision != stored.revision or known.around is not self._around):
                known = None
            if known is None and not b.is_gang(stored.body):
                continue
            key = known.unit_key if known else _unit_key(stored.key)
            queue_unit = self._store.peek(key)
            revision = queue_unit.revision if queue_unit else 0
            pods, copies = self._members.pods_of(stored.uid), self._members.copies(stored.uid)
            if known is None or not (known.unit_revision == revision and known.pods is pods and known.copies is copies):
                failed: Exception | None = None
                try:
                    sound = known is not None and known.failed is None
                    base = known.base if known and sound else base_unit(stored.body, tree, clusters)
                    unit = now_unit(base, stored.body, queue_unit.body if queue_unit else None, pods, copies)
                    unit = self._as_admitted(unit, queue_unit)
                    asked = known.asked if known and sound else asked_of_nodes(base)
                except Exception as error:  # this one alone is left out
                    base, asked = _unreadable(stored, error), frozenset()
                    unit = base if not b.clusters_of(stored.body) and queue_unit is not None else None
                    failed = error
                known = _Kept(
                    stored.revision, self._around, base, key, revision, pods, copies, unit, asked, failed=failed
                )
            kept[stored.uid] = known
            if known.failed is not None:
                unreadable[stored.key] = known.failed
            if known.unit is not None:
                named |= known.asked
                units[known.unit.id] = known.unit
                sources[known.unit.id] = Sources(stored, queue_unit)
        self._kept, self.unreadable = kept, unreadable
        if named != self._named:
            self._named = frozenset(named)
            self._members.tell_apart(self._named)
        members = self._read_members()
        units.update(self._seated(kept.values(), members))
        queues = self._store.scan(QUEUE, "queues", namespace=QUEUE_NAMESPACE)
        units.update(self._waits.look(queues, units, lambda key: sources[key].unit, self._members.pods_of, now))
        config = self._config if self.all_read() else self._waiting_config
        waits = self._waits
        self._last = Snapshot(tree, units, members, config).following(self._last)
        return Picture(self._last, sources, stored_tree, waits.one_by_one, waits.again_at)

    def _as_admitted(self, unit: Unit | None, queue_unit: Stored | None) -> Unit | None:
        """Work that holds quota is charged to the queue that it came out of, wherever its namespace hangs by now."""
        if unit is None or unit.phase is Phase.WAITING or unit.leaf is None or queue_unit is None:
            return unit
        queue = self._store.peek(Key(QUEUE, "queues", QUEUE_NAMESPACE, queue_of(queue_unit.body)))
        path = b.annotation(queue.body, ANNOTATION_QUOTA_FULLNAME) if queue is not None else ""
        return replace(unit, leaf=path) if path and path != unit.leaf else unit

    def _seated(self, kept: Iterable[_Kept], members: Mapping[str, Member]) -> Iterable[tuple[str, Unit]]:
        """Those that have or had pods, each with its seats in the member as `members` shows it; read again only when
        its pods or the room of its member are others."""
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

    def all_read(self) -> bool:
        """Whether every member is read, or its Cluster says that it is not ready. After a start it is not so yet, and
        for a moment when a member falls silent; evicting waits for it."""
        return all(
            self._members.ready(stored.key.name)
            for stored in self._store.scan(CLUSTER, "clusters")
            if is_true(stored.body, "Ready") and not b.deleting(stored.body)
        )

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

    def _read_members(self) -> dict[str, Member]:
        going = {s.key.name for s in self._store.scan(CLUSTER, "clusters") if b.deleting(s.body)}
        members: dict[str, Member] = {}
        for name in sorted(self._members.names()):
            model = self._members.model(name)
            if name in going:
                model = replace(model or Member(name), ready=False, not_ready_reason="the cluster is being removed")
            elif model is None:
                model = Member(name, ready=False, not_ready_reason="its inventory has not been read yet")
            elif model.ready and not self._members.ready(name):
                model = replace(model, ready=False, not_ready_reason=model.not_ready_reason or "it does not answer")
            members[name] = model
        return members


def _unit_key(binding: Key) -> Key:
    return Key(QUEUE, "queueunits", binding.namespace, unit_name(binding.name))


def _mark(clusters: Sequence[Candidate]) -> object:
    return tuple((c.name, tuple(sorted(c.labels.items())), tuple(sorted(c.fields.items()))) for c in clusters)


def base_unit(binding: Body, tree: QuotaTree | None, clusters: Sequence[Candidate]) -> Unit:
    """What a binding alone says of its unit, waiting. Components that do not parse make a unit without any, which
    decide refuses with a reason."""
    spec, meta = binding["spec"], binding["metadata"]
    resource = spec["resource"]
    labels = meta.get("labels") or {}
    placement = spec.get("placement") or {}
    try:
        components = components_of(binding)
    except BadQuantity:
        components = ()
    failures, over = failures_of(binding), gave_up(binding)
    group = resource["apiVersion"].rsplit("/", 1)[0] if "/" in resource["apiVersion"] else ""
    preemptible = next((labels[name] for name in PREEMPTIBLE_LABELS if name in labels), "true")
    return Unit(
        id=meta["uid"],
        name=b.job_name(binding),
        components=components,
        leaf=leaf_for(tree, resource.get("namespace", ""), labels) if b.under_quota(binding) else None,
        priority=b.priority_of(binding),
        preemptible=preemptible.lower() != "false",
        created_at=seconds(meta.get("creationTimestamp")) or 0.0,
        enqueued_at=b.enqueued_at(binding),
        affinity_groups=affinity_groups(placement, clusters),
        tolerations=cluster_tolerations(placement),
        needs_kind=f"{group}/{resource['kind']}",
        avoid=frozenset(failure.member for failure in failures if failure.member),
        preferences=_preferences(placement, clusters),
        backoff_until=backoff_until(failures),
        attempts=max(b.attempt(binding), backoffs(failures)),
        failed_why=failures[-1].message if failures and failures[-1].backoff else "",
        held=bool(over),
        held_why=over,
        user=b.annotation(binding, ANNOTATION_CREATOR),
        topology=b.annotation(binding, ANNOTATION_TOPOLOGY),
    )


def _unreadable(binding: Stored, error: Exception) -> Unit:
    """A unit that says so and never starts, for a binding that somebody wrote by hand, or that a bug meets."""
    why = f"its ResourceBinding cannot be read, {type(error).__name__}: {error}"[:300]
    name = text(b.resource_of(binding.body).get("name")) or binding.key.name
    stands_for = Component("unknown", 1, NOTHING)
    return Unit(binding.uid, f"{binding.key.namespace}/{name}", (stands_for,), None, held=True, held_why=why)


def asked_of_nodes(unit: Unit) -> frozenset[tuple[str, str]]:
    """Every label pair that node selectors, required affinities and topologies name, for `Members.tell_apart`."""
    selected = {pair for component in unit.components for pair in component.claim.node_selector}
    terms = (term for component in unit.components for group in component.claim.affinity for term in group)
    close = {(unit.topology, ANY_VALUE)} if unit.topology else set()
    return frozenset(selected | close | {(term.key, value) for term in terms for value in term.values})


def within_domain(unit: Unit, domain: str) -> tuple[Component, ...]:
    """Its components as they are once it was sent to one value of its topology label."""
    if not unit.topology or not domain:
        return unit.components
    there = (unit.topology, domain)
    claims = (replace(c.claim, node_selector=(*c.claim.node_selector, there)) for c in unit.components)
    return tuple(replace(c, claim=claim) for c, claim in zip(unit.components, claims, strict=True))


def _preferences(placement: Mapping[str, object], clusters: Sequence[Candidate]) -> tuple[tuple[str, int], ...]:
    scheduling = placement.get("replicaScheduling")
    weights = (scheduling.get("weightPreference") or {}) if isinstance(scheduling, dict) else {}
    found: dict[str, int] = {}
    for entry in weights.get("staticWeightList") or ():
        for cluster in clusters:
            if affinity_matches(entry.get("targetCluster"), cluster):
                found[cluster.name] = max(found.get(cluster.name, 0), number(entry.get("weight") or 0))
    return tuple(sorted(found.items()))


def now_unit(
    base: Unit,
    binding: Body,
    queue_unit: Body | None,
    pods: Sequence[PodView],
    copies: Sequence[tuple[str, Body]],
) -> Unit | None:
    """The unit as it stands now; None when it neither waits nor uses anything."""
    meta = binding["metadata"]
    generation = f"{meta.get('generation', 0)}/{_which(queue_unit)}"
    placed, tasks = b.clusters_of(binding), b.tasks_of(binding)
    if not placed and not tasks and not b.deleting(binding):
        if b.queued(binding) and queue_unit is None:
            return None  # enqueue has not made it yet: what is not in the queue does not leave it
        waiting = _as_queued(base, binding, queue_unit)
        reserved = nomination_of(queue_unit)
        if reserved is not None and b.queued(binding):  # it has what it needs, though nothing is in the member yet
            return replace(
                waiting, phase=Phase.PLACED, member=reserved.member, placed_at=reserved.since,
                share_until=reserved.share_until, backoff_until=None, generation=generation,
            )  # fmt: skip
        head = head_of(binding if queue_unit is None else queue_unit)
        return replace(waiting, claim=claim_of(queue_unit), head=head, generation=generation)
    if not b.charged(binding, pods):
        return None
    leaving = bool(tasks) or b.deleting(binding)
    member = tasks[0]["fromCluster"] if tasks else placed[0] if placed else pods[0].member
    copy_there = any(name == member for name, _ in copies)
    there = [pod for pod in pods if pod.member == member]
    charged = b.charged_components(within_domain(base, b.annotation(binding, ANNOTATION_DOMAIN)), there)
    return replace(
        _as_queued(base, binding, queue_unit),
        components=charged,
        phase=Phase.EVICTING if leaving else Phase.PLACED,
        member=member,
        placed_at=seconds(b.placed_at(binding)),
        share_until=seconds(b.status_of(binding).get(SHARE_UNTIL) or ""),
        visible=visible(charged, there, gone=leaving and not copy_there),
        leaving_at=seconds(tasks[0].get("creationTimestamp") or "") if tasks else None,
        checkpoint_at=_checkpoint(binding, there, copies),
        backoff_until=None,
        generation=generation,
    )


def _checkpoint(binding: Body, pods: Iterable[PodView], copies: Iterable[tuple[str, Body]]) -> float | None:
    """The latest that the job, its copy or one of its pods tells of."""
    told = [seconds(b.annotation(body, ANNOTATION_CHECKPOINT)) for body in (binding, *(body for _, body in copies))]
    return max([at for at in (*told, *(pod.checkpoint_at for pod in pods)) if at], default=None)


def _as_queued(base: Unit, binding: Body, queue_unit: Body | None) -> Unit:
    """With what people set while it waits: on its QueueUnit, or on the job itself."""
    suspended, stopped = b.suspended(binding), not active(queue_unit)
    priority, limit = priority_of(queue_unit, binding), walltime_of(queue_unit)
    if not (suspended or stopped or b.held(binding)) and priority == base.priority and limit is None:
        return base
    told = evicted(queue_unit) if stopped else None
    over = told is not None and told.get("reason") == b.OVER_TIME
    return replace(
        base,
        priority=priority,
        walltime_s=float(limit) if limit else None,
        suspended=suspended,
        held=suspended or stopped or b.held(binding) or base.held,
        held_why=str(told["message"]) if over and told is not None else base.held_why,
    )


def _which(queue_unit: Body | None) -> str:
    """Its generation, and what tells it from one of the same name before it, which somebody deleted."""
    if queue_unit is None:
        return "-"
    return f"{queue_unit['metadata'].get('generation', 0)}.{queue_unit['metadata'].get('uid', '')[:8]}"


def visible(components: Sequence[Component], pods: Sequence[PodView], *, gone: bool) -> tuple[tuple[str, int], ...]:
    """How many replicas of each component need no assumed room: their pods have a node, which the inventory counts,
    or are finished. `gone`: no more pods will come."""
    counts: dict[str, int] = {}
    for pod in pods:
        if (pod.node and pod.phase != "Failed") or pod.phase == "Succeeded":
            counts[pod.component.lower()] = counts.get(pod.component.lower(), 0) + 1
    return tuple(
        (component.name, component.replicas if gone else min(component.replicas, counts.get(component.name.lower(), 0)))
        for component in components
    )
