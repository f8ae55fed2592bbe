"""The member that comes closest to taking a whole gang, and its lack; and the nodes that do not take a pod, by cause.

A person can act on few numbers, so a lack names only the resources that bind. Devices that do not suffice are named
alone. Otherwise a lack names each resource of which, taken alone, too little is free. Each may suffice alone,
and all together may not, as where one node has the CPU and another the memory. Then a lack names the fewest resources
that show this.

The question about nodes is whether any node could ever take the pod, so a node counts as empty. kube-scheduler stops at
the first filter that a node fails: taints before selectors and affinity, these before resources. Of resources it names
all that are short. Nodes that take no new pods at all (cordoned, not ready) stand in no pool; members count them apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from difflib import get_close_matches
from operator import itemgetter

from fleet.core.model.bounds import BOUNDS
from fleet.core.model.matching import repelled_by
from fleet.core.model.member import Member, Pool
from fleet.core.model.reason import Code, Reason, human
from fleet.core.placement.packing.bundles import around, pods_in
from fleet.core.placement.packing.levels import Levels
from fleet.core.placement.packing.room import MemberRoom
from fleet.core.placement.packing.space import GangPart, Shape, Space, bundle_of, levels_of

_ALIKE = 0.75  # how near a name must come to be meant, as difflib measures


_UNSCHEDULABLE = "node(s) were unschedulable or not ready"
Stock = Sequence[tuple[Pool, int, Mapping[str, int]]]  # each pool with its nodes and the most that a node has, empty


def stock_of(member: Member) -> Stock:
    counted = ((pool, sum(max(0, n) for _, n in pool.free)) for pool in (*member.pools, *member.potential))
    return [(pool, nodes, pool.most) for pool, nodes in counted if nodes]


def no_node(shape: Shape, stock: Stock, unschedulable: int, space: Space) -> Reason | None:
    """Why no node of `stock`, empty, takes one kind of the gang's pods; None where each kind finds a node.
    `unschedulable`: nodes that stand in no pool."""
    for number, part in enumerate(shape):
        reason = _refusal(part, _levels(shape, number), stock, unschedulable, space)
        if reason is not None:
            of = sum(other.replicas for other in shape)
            return Reason(reason.code, {"pods": part.replicas, "of": of, **reason.numbers})
    return None


def no_nodes(members: Iterable[Member]) -> dict[str, str | int]:
    """The numbers of a reason that these members have no node that takes pods."""
    unschedulable = sum(member.unschedulable for member in members)
    causes = _listed(Counter({_UNSCHEDULABLE: unschedulable})) or "the members have no nodes"
    return {"nodes": unschedulable, "causes": causes}


def _levels(shape: Shape, part: int) -> Levels:
    """The levels in a domain of which the pods of a part must stand."""
    bundle = bundle_of(shape)
    inner = [level for one in around(bundle, part) for level in one.levels] if bundle is not None else []
    return (*levels_of(shape), *inner)


def _refusal(part: GangPart, levels: Levels, stock: Stock, unschedulable: int, space: Space) -> Reason | None:
    """Why no node takes one pod of a part, with the nodes counted by cause."""
    asks = space.pod_request(part)
    absent = [name for name, _ in part.absent]
    offered = [(name, amount) for name, amount in asks.items() if name in space.index]
    causes = Counter({_UNSCHEDULABLE: unschedulable})
    lacks: list[set[str]] = []  # of each pool whose nodes only lack resources, of those that some node has
    largest: Counter[str] = Counter()  # of each resource, among these nodes
    names: set[str] = set()
    open_nodes = 0
    for pool, nodes, has in stock:
        names.update([name for name, amount in has.items() if amount > 0])
        barred = _bars(pool, part, levels, space)
        if barred:
            causes[barred] += nodes
            continue
        open_nodes += nodes
        lacks.append({name for name, amount in offered if amount > has.get(name, 0)})
        if not lacks[-1] and not absent:
            return None
        largest |= Counter(has)
        for name in lacks[-1]:
            causes["Too many pods" if name == "pods" else f"Insufficient {name}"] += nodes
    causes.update({f"Insufficient {name}": open_nodes for name in absent})
    all_nodes = unschedulable + sum(nodes for _, nodes, _ in stock)
    numbers: dict[str, str | int] = {
        "nodes": all_nodes,
        "causes": _listed(causes) + _levels_there(levels, stock, space),
    }
    unknown = next((name for name in asks if name not in names and name != "pods"), None)
    if unknown is not None:
        near = nearest_resource(unknown, names)
        return Reason(Code.UNKNOWN_RESOURCE, numbers | {"resource": unknown} | ({"near": near} if near else {}))
    if not lacks:
        return Reason(Code.NO_NODE_MATCHES, numbers)
    always = set.intersection(*lacks).union(absent)  # each of these nodes lacks them
    if always:
        name = min(always, key=lambda name: ("/" not in name, name))
        numbers |= {"resource": name, "request": asks[name], "largest": largest[name]}
    return Reason(Code.LARGER_THAN_ANY_NODE, numbers)


def _levels_there(levels: Levels, stock: Stock, space: Space) -> str:
    """The levels of the place trees of these nodes, where pods must stand in a domain of one that no node has."""
    there = dict.fromkeys(level for pool, _, _ in stock for level, _ in pool.places)
    unknown = any(not any(space.traits(pool)[1][level] for pool, _, _ in stock) for level in levels)
    return f"; the levels there are {', '.join(there)}" if there and unknown else ""


def _bars(pool: Pool, part: GangPart, levels: Levels, space: Space) -> str:
    """Why a pool's nodes take no pod of a part, whatever is free on them; "" where they may."""
    takes, domains = space.traits(pool)
    if not takes[part.node_claim]:
        taint = repelled_by(pool.taints, space.node_claims[part.node_claim].tolerations)
        if taint is not None:
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
        return "node(s) didn't match Pod's node affinity/selector"
    without = (space.levels[level] for level in levels if not domains[level])
    return next((f"node(s) lay in no {level}" for level in without), "")


def _listed(causes: Counter[str]) -> str:
    """The causes with their counts, the most frequent first."""
    ranked = sorted(((count, cause) for cause, count in causes.items() if count), key=lambda one: (-one[0], one[1]))
    told = [f"{count} {cause}" for count, cause in ranked[: BOUNDS.causes]]
    others = f", {len(ranked) - len(told)} other causes" if len(ranked) > len(told) else ""
    return ", ".join(told) + others


def nearest_resource(name: str, known: Iterable[str]) -> str:
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
    devices = frozenset(range(space.devices))
    everything = frozenset(index for part in shape for index, _ in part.need)
    tried: list[tuple[int, MemberRoom, Set[int]]] = []
    for room in rooms:
        missing = _missing(shape, room, devices, space)
        of_devices = _lacks(shape, missing, devices)
        if not of_devices:
            missing = room.missing(shape, space.devices)
        tried.append((sum(missing), room, devices if of_devices else everything))
    _, room, among = min(tried, key=itemgetter(0))
    binding = _binding(shape, room, among, space)
    missing = _missing(shape, room, binding, space)
    worst = max(range(len(shape)), key=lambda index: missing[index])
    part, within = _only(shape[worst], binding), _within(shape, worst, space)
    pods = sum(part.replicas for part in shape)
    numbers: dict[str, str | int] = {"pods": pods, "member": room.name, "short": missing[worst]}
    lacks = {"lacks": ", ".join(space.pod_request(part))} if part.need else {}
    return {**numbers, "what": _what(part, within, room, space, empty=empty), **lacks}


def _binding(shape: Shape, room: MemberRoom, among: Set[int], space: Space) -> Set[int]:
    """The resources of `among` that keep pods out; all of them where none does."""
    binding = {index for part in shape for index, _ in part.need} & among
    if len(binding) < 2:
        return binding
    alone = {index for index in binding if _lacks(shape, _missing(shape, room, {index}, space), {index})}
    if alone:
        return alone
    for index in sorted(binding, reverse=True):
        fewer = binding - {index}
        if _lacks(shape, _missing(shape, room, fewer, space), fewer):
            binding = fewer
    return binding


def _missing(shape: Shape, room: MemberRoom, resources: Set[int], space: Space) -> list[int]:
    """How many pods of each part find no place, if they asked for these resources only."""
    return room.missing(tuple(_only(part, resources) for part in shape), space.devices)


def _lacks(shape: Shape, missing: Sequence[int], resources: Set[int]) -> bool:
    """Whether a part that is left out asks for one of these resources; any other part lacks another thing."""
    return any(out and any(i in resources for i, _ in part.need) for part, out in zip(shape, missing, strict=True))


def _only(part: GangPart, resources: Set[int]) -> GangPart:
    """The part as if it asked for these resources only."""
    return replace(part, need=tuple((index, amount) for index, amount in part.need if index in resources))


def _within(shape: Shape, part: int, space: Space) -> str:
    """Where the pods of a part must stand together."""
    texts = [f"within one {space.levels[level]}" for level in levels_of(shape)]
    bundle = bundle_of(shape)
    for inner in around(bundle, part) if bundle is not None else ():
        level, pods = space.levels[inner.levels[0]], sum(pods_in(inner).values())
        if inner.count == 1:
            texts.append(f"within one {level}")
        elif pods > 1:
            texts.append(f"in parts of {pods} within one {level}")
        if inner.most and inner.most < inner.count:
            texts.append(f"at most {inner.most * pods} within one {level}")
    return f" {' and '.join(texts)}" if texts else ""


def _what(part: GangPart, within: str, room: MemberRoom, space: Space, *, empty: bool) -> str:
    sizes = ", ".join(
        f"{human(amount, name)} {_UNITS.get(name, name)}" for name, amount in space.pod_request(part).items()
    )
    free = "" if empty else " free"
    return f"{sizes}{free}{within}{_among(part, room)}" if sizes else NO_MATCH


def _among(part: GangPart, room: MemberRoom) -> str:
    """How many nodes its selector, affinity and tolerations leave it, where these are not all."""
    total = sum(sum(pool.counts.values()) for pool in room.pools)
    match = sum(sum(pool.counts.values()) for pool in room.pools if pool.takes[part.node_claim])
    return f" among the {match} of {total} nodes that match it" if match < total else ""
