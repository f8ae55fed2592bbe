"""Why no node takes a pod: the nodes of some members, counted by cause, in the words of kube-scheduler.

A node counts as empty, since the question is whether any node could ever take the pod. kube-scheduler stops at the
first filter that a node fails: taints before selectors and affinity, these before resources. Of resources it names all
that are short. Nodes that take no new pods at all (cordoned, not ready) stand in no pool; members count them apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from fleet.model.matching import domain_of, pool_takes, repelled_by
from fleet.model.member import Member, Pool
from fleet.model.reason import Code, Reason
from fleet.placement.packing.room import Part, Shape, Space

_ALIKE = 0.75  # how near a name must come to be meant, as difflib measures
_MOST_CAUSES = 6  # that are told


@dataclass(frozen=True, slots=True)
class Stock:
    """The nodes of one member, empty: for each pool the number of nodes, and the most that a node has; and the
    `resources` that some node has."""

    unschedulable: int
    pools: tuple[tuple[Pool, int, dict[str, int]], ...]
    resources: frozenset[str]

    @staticmethod
    def of(member: Member) -> Stock:
        counted = ((pool, sum(max(0, n) for _, n in pool.free)) for pool in (*member.pools, *member.potential))
        pools = tuple((pool, nodes, pool.most) for pool, nodes in counted if nodes)
        known = frozenset(name for _, _, has in pools for name, amount in has.items() if amount > 0)
        return Stock(member.unschedulable, pools, known)


def no_node(shape: Shape, stocks: Sequence[Stock], space: Space) -> Reason | None:
    """Why no node of these members, empty, takes one kind of the gang's pods; None where each kind finds a node."""
    for part in shape:
        reason = _Counted(part, stocks, space).reason()
        if reason is not None:
            of = sum(other.replicas for other in shape)
            return Reason(reason.code, {"pods": part.replicas, "of": of, **reason.numbers})
    return None


def no_nodes(members: Iterable[Member]) -> dict[str, str | int]:
    """The numbers of a reason that these members have no node that takes pods."""
    unschedulable = sum(member.unschedulable for member in members)
    causes = _listed(Counter({_UNSCHEDULABLE: unschedulable})) or "the members have no nodes"
    return {"nodes": unschedulable, "causes": causes}


_UNSCHEDULABLE = "node(s) were unschedulable or not ready"


class _Counted:
    """The nodes of some members, by the cause for which they do not take one pod of `part`."""

    def __init__(self, part: Part, stocks: Sequence[Stock], space: Space) -> None:
        self._claim = space.claims[part.claim]
        self._topology = space.topologies[part.topology - 1] if part.topology else ""
        self._asks = {space.resources[index]: amount for index, amount in part.need}
        self._causes: Counter[str] = Counter({_UNSCHEDULABLE: sum(stock.unschedulable for stock in stocks)})
        self._nodes = self._causes[_UNSCHEDULABLE]
        self._fits = False
        self._largest: dict[str, int] = {}  # of each resource, among nodes that only lack resources
        self._known = frozenset[str]().union(*(stock.resources for stock in stocks))
        self._lack: set[tuple[str, ...]] = set()
        for stock in stocks:
            for pool, nodes, has in stock.pools:
                self._count(pool, nodes, has)

    def reason(self) -> Reason | None:
        if self._fits:
            return None
        numbers: dict[str, str | int] = {"nodes": self._nodes, "causes": _listed(self._causes)}
        unknown = [name for name in self._asks if name not in self._known and name != "pods"]
        if unknown:
            near = _nearest(unknown[0], self._known)
            numbers |= {"resource": unknown[0]} | ({"near": near} if near else {})
            return Reason(Code.UNKNOWN_RESOURCE, numbers)
        if not self._lack:
            return Reason(Code.NO_NODE_MATCHES, numbers)
        always = set(self._asks).intersection(*self._lack)  # each of these nodes lacks them
        if always:
            name = min(always, key=lambda name: ("/" not in name, name))
            numbers |= {"resource": name, "request": self._asks[name], "largest": self._largest.get(name, 0)}
        return Reason(Code.LARGER_THAN_ANY_NODE, numbers)

    def _count(self, pool: Pool, nodes: int, has: Mapping[str, int]) -> None:
        self._nodes += nodes
        barred = self._bars(pool)
        if barred:
            self._causes[barred] += nodes
            return
        for name, amount in has.items():
            self._largest[name] = max(self._largest.get(name, 0), amount)
        short = tuple(name for name, amount in self._asks.items() if amount > has.get(name, 0))
        for name in short:
            self._causes["Too many pods" if name == "pods" else f"Insufficient {name}"] += nodes
        self._lack.add(short)
        self._fits = self._fits or not short

    def _bars(self, pool: Pool) -> str:
        taint = repelled_by(pool.taints, self._claim.tolerations)
        if taint is not None:
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
        if not pool_takes(pool, self._claim):
            return "node(s) didn't match Pod's node affinity/selector"
        if self._topology and not domain_of(pool, self._topology):
            return f"node(s) didn't have label {self._topology}"
        return ""


def _listed(causes: Counter[str]) -> str:
    """The causes with their counts, the most frequent first."""
    ranked = sorted(((count, cause) for cause, count in causes.items() if count), key=lambda one: (-one[0], one[1]))
    told = [f"{count} {cause}" for count, cause in ranked[:_MOST_CAUSES]]
    others = f", {len(ranked) - len(told)} other causes" if len(ranked) > len(told) else ""
    return ", ".join(told) + others


def _nearest(name: str, known: Iterable[str]) -> str:
    """The resource that a misspelt name means, or ""."""
    by_lower = {other.lower(): other for other in sorted(known)}
    whole = [other for lower, other in by_lower.items() if lower.rpartition("/")[2] == name.lower()]
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=_ALIKE)
    return whole[0] if whole else by_lower[close[0]] if close else ""
