"""The nodes of one member and the room on them, by pool.

A pool is all nodes alike in labels, taints and places. A label that only tells nodes apart (the host name) makes no
pools. The exception is a node that some gang asks for by such a label, or by the level `host`, which is a pool for as
long as the gang asks. Free vectors
are kept as a multiset that each pod event moves one node within, so an event costs the same in a member of four nodes
and of ten thousand, and the model for the decider is made from the distinct vectors only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice

from fleet.core.model.amounts import NOTHING, Amounts
from fleet.core.model.member import Pool, Taint
from fleet.core.model.unit import Seat
from fleet.kinds.requests import amounts
from fleet.members.hypernodes import HyperNode
from fleet.members.hypernodetree import Places
from fleet.members.members import Closed, NodeView
from fleet.members.placetrees import HOST, LabelTree, PlaceTrees
from fleet.members.texts import labels_of, name_of, one_line
from fleet.values.ports import Body
from fleet.values.quantity import BadQuantity
from fleet.values.untyped import mapping, rows

# Labels that tell nodes apart instead of telling what they are like: kept, they would make every node its own pool.
PER_NODE_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "beta.kubernetes.io/hostname",
        "node.kubernetes.io/instance-id",
        "csi.volume.kubernetes.io/nodeid",
    }
)
# Taints that say "the node is not there": such nodes offer nothing, even to a pod that tolerates them.
ABSENT_TAINTS = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/unschedulable",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cloudprovider.kubernetes.io/shutdown",
        "ToBeDeletedByClusterAutoscaler",
    }
)
NODE_NAME = "metadata.name"  # the field that node affinities may name; shown among the labels of a node
ANY_VALUE = "*"  # of a label, to `tell_apart`; no label has this value
RESOURCES_MAX = 128  # kinds of resources of a node that count, and of a pod
SEATS_PER_NODE = 16  # that are remembered
Labels = tuple[tuple[str, str], ...]
PoolKey = tuple[Labels, tuple[Taint, ...], Places]


@dataclass(slots=True)
class MemberNode:
    name: str
    pool: tuple[Labels, tuple[Taint, ...]]
    allocatable: Amounts
    usable: bool  # schedulable now: ready, not cordoned, not tainted away
    ready: bool
    own: Labels = ()  # its name, and its labels that no other node has
    places: Places = ()  # the domains that it lies in

    @property
    def labels(self) -> dict[str, str]:
        return dict((*self.pool[0], *self.own))

    def labelled_as(self, other: MemberNode) -> bool:
        return self.pool[0] == other.pool[0] and self.own == other.own

    def answers(self, named: frozenset[tuple[str, str]]) -> bool:
        """Whether one of these is a label that it has to itself; ANY_VALUE stands for every value, and HOST for every
        node."""
        keys = (HOST, *(key for key, _ in self.own))
        return not named.isdisjoint(self.own) or any((key, ANY_VALUE) in named for key in keys)

    def offers(self, used: Amounts) -> Amounts:
        """The rest of it; an over-committed resource counts as none, not as less than none."""
        left = self.allocatable.minus(used)
        return Amounts(tuple((name, amount) for name, amount in left.items_ if amount > 0))


def _taint(said: Body) -> Taint:
    return Taint(one_line(said.get("key")), one_line(said.get("value")), one_line(said.get("effect")) or "NoSchedule")


def read_node(body: Body) -> MemberNode:
    """The room that a Node object offers. Quantities that do not parse count as none of that resource."""
    meta, spec, status = body["metadata"], mapping(body.get("spec")), mapping(body.get("status"))
    name = name_of(meta["name"])
    given = sorted(labels_of(meta.get("labels")).items())
    labels = tuple((k, v) for k, v in given if k not in PER_NODE_LABELS and v != name)
    own = (*((k, v) for k, v in given if k in PER_NODE_LABELS or v == name), (NODE_NAME, name))
    hard = [t for t in rows(spec.get("taints")) if t.get("effect") != "PreferNoSchedule"]
    taints = tuple(sorted(map(_taint, hard), key=lambda t: (t.key, t.value, t.effect)))
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in rows(status.get("conditions")))
    absent = any(t.key in ABSENT_TAINTS for t in taints)
    usable = ready and not absent and not spec.get("unschedulable") and not meta.get("deletionTimestamp")
    allocatable: dict[str, int] = {}
    for resource, quantity in islice(labels_of(status.get("allocatable")).items(), RESOURCES_MAX):
        try:
            read = amounts({resource: quantity})
        except (BadQuantity, TypeError, AttributeError):
            continue
        allocatable.update({name: amount for name, amount in read.items() if amount >= 0})
    return MemberNode(name, (labels, taints), Amounts.of(allocatable), usable, ready, own)


@dataclass(slots=True)
class _PoolState:
    free: Counter[Amounts] = field(default_factory=Counter)
    allocatable: Counter[Amounts] = field(default_factory=Counter)
    model: Pool | None = None


class MemberNodes:
    """Nodes, the room that pods use on them, and the pools. Pods may be known before their node and after it."""

    def __init__(self) -> None:
        self._nodes: dict[str, MemberNode] = {}
        self._used: dict[str, Amounts] = {}
        self._pools: dict[PoolKey, _PoolState] = {}
        self._model: tuple[Pool, ...] | None = None
        self._order: dict[PoolKey, int] = {}  # of the pools in `_model`
        self._seats: dict[tuple[str, Amounts], tuple[MemberNode, Amounts, object, Seat]] = {}  # sources and seat
        self._labels: frozenset[tuple[str, str]] = frozenset()
        self._avoided: frozenset[str] = frozenset()
        self._hidden: dict[str, MemberNode] = {}  # avoided nodes as the member shows them
        self.total_allocatable = NOTHING
        self.total_used = NOTHING
        self.ready_count = 0
        self.unschedulable_count = 0
        self._closed: dict[tuple[Labels, tuple[Taint, ...]], Amounts] = {}  # allocatable of nodes that take no pods
        self.trees = PlaceTrees(self._nodes)
        self.version = 0  # grows with every node that comes, goes or changes

    def __len__(self) -> int:
        return len(self._nodes)

    def names(self) -> set[str]:
        return set(self._nodes)

    def put(self, node: MemberNode) -> bool:
        """True when anything that matters changed: heartbeats do not."""
        if node.name in self._avoided:
            self._hidden[node.name] = node
            node = replace(node, usable=False)
        old = self._nodes.get(node.name)
        stays = old is not None and old.labelled_as(node)
        if old is not None and stays:
            node = replace(node, places=old.places)
        if old == node:
            return False
        if old is not None:
            self._drop(old.name)
        self._nodes[node.name] = node
        if not stays:
            self.trees.hypernodes.put(node.name)
            node = self._nodes[node.name] = replace(node, places=self.trees.places(node.name, node.labels))
        self.ready_count += node.ready
        self.unschedulable_count += not node.usable
        self.version += 1
        self.total_allocatable = self.total_allocatable.plus(node.allocatable)
        if node.usable:
            self._move(node, None, node.offers(self._used.get(node.name, NOTHING)))
        else:
            self._close(node, 1)
        return True

    def remove(self, name: str) -> bool:
        self._hidden.pop(name, None)
        self.trees.hypernodes.remove(name)
        return self._drop(name)

    def planting(
        self, trees: Iterable[LabelTree], hypernodes: Iterable[HyperNode], beside: frozenset[str]
    ) -> Iterator[None]:
        """Take these place trees in place of those before, in pieces (`HyperNodeTree.arranging`)."""
        with self._repooled(self._labels):
            self.trees.plant(trees)
        yield from self.trees.hypernodes.arranging(hypernodes, beside)
        self.trees.hypernodes.settle()
        yield from self._placing()

    def _placing(self) -> Iterator[None]:
        """Look anew at the places of all nodes."""
        for name in list(self._nodes):
            node = self._nodes.get(name)
            places = self.trees.places(name, node.labels) if node is not None else ()
            if node is None or places == node.places:
                continue
            free = node.offers(self._used.get(name, NOTHING))
            moved = self._nodes[name] = replace(node, places=places)
            if node.usable:
                self._move(node, free, None)
                self._move(moved, None, free)
            yield

    def ready(self, name: str) -> bool:
        node = self._nodes.get(name)
        return node is not None and node.ready

    def avoid(self, names: frozenset[str]) -> bool:
        """From now on these nodes, and no others, offer nothing although they could. True when that changed any."""
        turned = names ^ self._avoided
        self._avoided = names
        seen = [self._hidden.pop(name, None) or self._nodes.get(name) for name in sorted(turned)]
        changed = [self.put(node) for node in seen if node is not None]
        return any(changed)

    def _drop(self, name: str) -> bool:
        node = self._nodes.pop(name, None)
        if node is None:
            return False
        self.ready_count -= node.ready
        self.unschedulable_count -= not node.usable
        self.version += 1
        self.total_allocatable = self.total_allocatable.minus(node.allocatable)
        if node.usable:
            self._move(node, node.offers(self._used.get(name, NOTHING)), None)
        else:
            self._close(node, -1)
        return True

    def _close(self, node: MemberNode, sign: int) -> None:
        left = self._closed.pop(node.pool, NOTHING).plus(node.allocatable, sign)
        if left.items_:
            self._closed[node.pool] = left

    def closed(self) -> Sequence[Closed]:
        """Labels and allocatable of the nodes that stand in no pool, since they take no pods now."""
        return [(labels, amounts) for (labels, _), amounts in self._closed.items()]

    def views(self) -> Sequence[NodeView]:
        """All nodes, in no order."""
        return [
            NodeView(
                node.name,
                node.pool[0],
                node.allocatable,
                self._used.get(node.name, NOTHING),
                node.usable,
                node.ready,
                node.places,
            )
            for node in self._nodes.values()
        ]

    def use(self, name: str, requests: Amounts, sign: int) -> None:
        """A pod with these requests is on the node now (sign 1), or no longer (sign -1)."""
        before = self._used.get(name, NOTHING)
        after = before.plus(requests, sign)
        if after.items_:
            self._used[name] = after
        else:
            self._used.pop(name, None)
        self.total_used = self.total_used.plus(requests, sign)
        node = self._nodes.get(name)
        if node is not None and node.usable:
            self._move(node, node.offers(before), node.offers(after))

    def count(self, labels: Iterable[tuple[str, str]]) -> int:
        """How many nodes have all these labels, whether pods may go there or not."""
        wanted = set(labels)
        return sum(wanted.issubset({*node.pool[0], *node.own}) for node in self._nodes.values())

    def tell_apart(self, labels: frozenset[tuple[str, str]]) -> bool:
        """From now on the nodes that have one of these labels to themselves are a pool each, the others not. True when
        that changed any pool."""
        turned = labels ^ self._labels
        with self._repooled(turned) as touched:
            self._labels = labels
        return bool(touched)

    @contextmanager
    def _repooled(self, named: frozenset[tuple[str, str]]) -> Iterator[Sequence[MemberNode]]:
        """A change after which the nodes that have one of these labels to themselves may be in other pools."""
        touched = [node for node in self._nodes.values() if node.usable and node.answers(named)]
        for node in touched:
            self._move(node, node.offers(self._used.get(node.name, NOTHING)), None)
        yield touched
        for node in touched:
            self._move(node, None, node.offers(self._used.get(node.name, NOTHING)))

    def _key(self, node: MemberNode) -> PoolKey:
        labels, taints = node.pool
        if not node.answers(self._labels):
            return labels, taints, node.places
        host = self.trees.host_places(node.name, node.labels)
        return tuple(sorted((*labels, *node.own))), taints, (*node.places, *host)

    def _move(self, node: MemberNode, old: Amounts | None, new: Amounts | None) -> None:
        if old == new:
            return
        key = self._key(node)
        pool = self._pools.setdefault(key, _PoolState())
        if old is None:
            pool.allocatable[node.allocatable] += 1
        else:
            pool.free[old] -= 1
            if not pool.free[old]:
                del pool.free[old]
        if new is None:
            pool.allocatable[node.allocatable] -= 1
            if not pool.allocatable[node.allocatable]:
                del pool.allocatable[node.allocatable]
        else:
            pool.free[new] += 1
        pool.model = None
        if not pool.free:
            del self._pools[key]
        self._model = None

    def pools(self) -> tuple[Pool, ...]:
        """For the decider, in a fixed order; the same object until something changes."""
        if self.trees.hypernodes.settle():
            for _ in self._placing():
                pass
        if self._model is None:
            keys = sorted(self._pools, key=_order)
            self._model = tuple(self._pool(key) for key in keys)
            order = {key: number for number, key in enumerate(keys)}
            if order != self._order:
                self._order = order
        return self._model

    def seats(self, requests: Mapping[str, Amounts]) -> tuple[Seat, ...]:
        """`requests`: of some pods on each node. A seat has the room that would be free without them, which is
        less on a node that is overcommitted."""
        self.pools()
        if len(self._seats) > SEATS_PER_NODE * len(self._nodes):
            self._seats.clear()
        return tuple(self._seat(name, requests[name]) for name in sorted(requests))

    def _seat(self, name: str, requests: Amounts) -> Seat:
        """Kept until the node is another or used otherwise, or the pools are others."""
        node, used = self._nodes.get(name), self._used.get(name, NOTHING)
        if node is None or not node.usable:
            return Seat(name, -1, NOTHING, requests)
        known = self._seats.get((name, requests))
        if known is not None and known[0] is node and known[1] is used and known[2] is self._order:
            return known[3]
        free = node.offers(used)
        seat = Seat(name, self._order[self._key(node)], free, node.offers(used.minus(requests)).minus(free))
        self._seats[name, requests] = (node, used, self._order, seat)
        return seat

    def _pool(self, key: PoolKey) -> Pool:
        state = self._pools[key]
        if state.model is None:
            labels, taints, places = key
            free = tuple(sorted(state.free.items(), key=lambda entry: entry[0].items_))
            most: dict[str, int] = {}
            for vector in state.allocatable:
                for name, amount in vector.items_:
                    most[name] = max(most.get(name, 0), amount)
            state.model = Pool(labels, taints, free=free, allocatable=Amounts.of(most), places=places)
        return state.model


def _order(key: PoolKey) -> tuple[object, ...]:
    labels, taints, places = key
    return labels, tuple((t.key, t.value, t.effect) for t in taints), places
