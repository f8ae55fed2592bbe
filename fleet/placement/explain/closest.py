"""The member that comes closest to taking a whole gang, and its lack; and the nodes that do not take a pod, by cause.

A person can act on few numbers, so a lack names only the resources that bind. Devices that do not suffice are named
alone. Otherwise a lack names each resource of which, taken alone, too little is free. Where each alone would suffice,
and all together do not (one node has the CPU, another the memory), a lack names the fewest that show this.

The question about nodes is whether any node could ever take the pod, so a node counts as empty. kube-scheduler stops at
the first filter that a node fails: taints before selectors and affinity, these before resources. Of resources it names
all that are short. Nodes that take no new pods at all (cordoned, not ready) stand in no pool; members count them apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from difflib import get_close_matches

from fleet.model.bounds import BOUNDS
from fleet.model.matching import domain_of, pool_takes, repelled_by
from fleet.model.member import Member, Pool
from fleet.model.reason import Code, Reason, human
from fleet.placement.packing.room import MemberRoom, Part, Shape, Space

_ALIKE = 0.75  # how near a name must come to be meant, as difflib measures


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
    told = [f"{count} {cause}" for count, cause in ranked[: BOUNDS.causes]]
    others = f", {len(ranked) - len(told)} other causes" if len(ranked) > len(told) else ""
    return ", ".join(told) + others


def _nearest(name: str, known: Iterable[str]) -> str:
    """The resource that a misspelt name means, or ""."""
    by_lower = {other.lower(): other for other in sorted(known)}
    whole = [other for lower, other in by_lower.items() if lower.rpartition("/")[2] == name.lower()]
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=_ALIKE)
    return whole[0] if whole else by_lower[close[0]] if close else ""


NO_MATCH = "matching labels and tolerated taints"
_UNITS = {"cpu": "CPU"}


def closest(shape: Shape, rooms: Sequence[MemberRoom], space: Space, *, empty: bool) -> dict[str, str | int]:
    """The numbers of a reason: the room that leaves the fewest pods of the gang outside, and their lack there.
    `empty`: the rooms are as if nothing ran in them."""
    pods = sum(part.replicas for part in shape)
    devices = frozenset(range(space.devices))
    best: tuple[int, MemberRoom, Set[int]] | None = None
    for room in rooms:
        among: Set[int] = devices
        missing = _missing(shape, room, devices, space)
        if not _lacks(shape, missing, devices):
            among = frozenset(index for part in shape for index, _ in part.need)
            missing = room.missing(shape, space.devices)
        if best is None or sum(missing) < best[0]:
            best = (sum(missing), room, among)
    if best is None:
        return {"pods": pods, "member": "none", "short": pods, "what": "room"}
    _, room, among = best
    binding = _binding(shape, room, among, space)
    missing = _missing(shape, room, binding, space)
    worst = max(range(len(shape)), key=lambda index: missing[index])
    part = _only(shape[worst], binding)
    numbers: dict[str, str | int] = {"pods": pods, "member": room.name, "short": missing[worst]}
    lacks = {"lacks": ", ".join(space.resources[index] for index, _ in part.need)} if part.need else {}
    return {**numbers, "what": _what(part, room, space, empty=empty), **lacks}


def _binding(shape: Shape, room: MemberRoom, among: Set[int], space: Space) -> Set[int]:
    """The resources of `among` that keep pods out; all of them where none does."""
    asked = {index for part in shape for index, _ in part.need} & among
    if len(asked) < 2:
        return asked
    alone = {index for index in asked if _lacks(shape, _missing(shape, room, {index}, space), {index})}
    if alone:
        return alone
    for index in sorted(asked, reverse=True):
        fewer = asked - {index}
        if _lacks(shape, _missing(shape, room, fewer, space), fewer):
            asked = fewer
    return asked


def _missing(shape: Shape, room: MemberRoom, resources: Set[int], space: Space) -> list[int]:
    """How many pods of each part find no place, if they asked for these resources only."""
    return room.missing(tuple(_only(part, resources) for part in shape), space.devices)


def _lacks(shape: Shape, missing: Sequence[int], resources: Set[int]) -> bool:
    """Whether a part that is left out asks for one of these resources; any other part lacks another thing."""
    return any(out and any(i in resources for i, _ in part.need) for part, out in zip(shape, missing, strict=True))


def _only(part: Part, resources: Set[int]) -> Part:
    """The part as if it asked for these resources only."""
    return replace(part, need=tuple((index, amount) for index, amount in part.need if index in resources))


def _what(part: Part, room: MemberRoom, space: Space, *, empty: bool) -> str:
    names = space.resources
    sizes = ", ".join(f"{human(amount, names[i])} {_UNITS.get(names[i], names[i])}" for i, amount in part.need)
    free = "" if empty else " free"
    within = f" within one {space.topologies[part.topology - 1]}" if part.topology else ""
    return f"{sizes}{free}{within}{_among(part, room)}" if sizes else NO_MATCH


def _among(part: Part, room: MemberRoom) -> str:
    """How many nodes its selector, affinity and tolerations leave it, where these are not all."""
    total = sum(sum(pool.counts.values()) for pool in room.pools)
    match = sum(sum(pool.counts.values()) for pool in room.pools if pool.takes[part.claim])
    return f" among the {match} of {total} nodes that match it" if match < total else ""
