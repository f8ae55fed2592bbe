"""The short forms for people: nodes by their count, gangs as "4x8", a rule by its label, a tree by its leaves.

Each short form stands for a long one, and is turned into it before anything is decoded. Its own parts are checked here,
so that an error names what was written and not what it stands for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from fleet.core.decide import BadSnapshot
from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Member, Pool, places_of
from fleet.core.model.nesting import flaws
from fleet.core.model.unit import LEAST_PRIORITY, MOST_PRIORITY, Phase, Unit
from fleet.core.notation.bytype import Json, amounts_of, decode, decode_value, fields_of, listed
from fleet.core.quota.parse import DEPTH_MAX, NODES_MAX, BadTree, attribute_flaws, oversell_rate, parse_tree
from fleet.core.quota.tree import QuotaNode, QuotaTree

GPU = "nvidia.com/gpu"
PODS_OF_A_NODE = 110  # as kubelet has it, where a node by hand does not say
MOST_COUNT = 1_000_000  # units that one entry stands for
OF_NODES = ("count", "labels", "taints", "domain", "used")
"""The fields of an entry of `nodes` beside resources."""
GANG = r"^[0-9]+x[0-9]+$"
"""Pods x GPUs of each."""
TREES = "trees"
"""The field of a member that lists, for each place tree, the node labels of its levels, coarse to fine."""
POLICIES = ("Priority", "Block", "Intelligent")
_NOTATIONS = ("components", "gang", "requests")


def members(data: object, place: str = "members") -> Iterator[tuple[object, str]]:
    """Members in long form, each with the place that errors name."""
    for index, item in enumerate(listed(data, place)):
        where = f"{place}[{index}]"
        if isinstance(item, Mapping) and "nodes" in item:
            if "pools" in item:
                raise BadSnapshot([(f"{where}.nodes", "says what pools say: give one of them")])
            pools = [
                pool(entry, f"{where}.nodes[{i}]") for i, entry in enumerate(listed(item["nodes"], f"{where}.nodes"))
            ]
            item = {**{key: value for key, value in item.items() if key != "nodes"}, "pools": pools}
        if isinstance(item, Mapping) and "potential" in item:
            there = enumerate(listed(item["potential"], f"{where}.potential"))
            item = {**item, "potential": [_potential(entry, f"{where}.potential[{i}]") for i, entry in there]}
        yield _planted(item, where) if isinstance(item, Mapping) and TREES in item else item, where


def _planted(item: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """The member with `places` of its pools, by their labels, in the place trees that it lists."""
    trees: list[tuple[str, ...]] = decode_value(tuple[tuple[str, ...], ...], item[TREES], f"{where}.{TREES}")
    for number, levels in enumerate(trees):
        twice = [level for level in levels if levels.count(level) > 1]
        if twice or not all(levels) or not levels:
            said = f"names {twice[0]} twice" if twice else "needs the label of each level"
            raise BadSnapshot([(f"{where}.{TREES}[{number}]", said)])
    kept = {key: value for key, value in item.items() if key != TREES}
    for name in ("pools", "potential"):
        if name in kept:
            entries = listed(kept[name], f"{where}.{name}")
            kept[name] = [_placed(entry, trees, f"{where}.{name}[{i}]") for i, entry in enumerate(entries)]
    return kept


def _placed(entry: object, trees: Iterable[tuple[str, ...]], where: str) -> object:
    if not isinstance(entry, Mapping):
        return entry
    if "places" in entry:
        raise BadSnapshot([(f"{where}.places", f"says what {TREES} say: give one of them")])
    labels: dict[str, str] = dict(
        decode_value(fields_of(Pool)["labels"][0], entry.get("labels", ()), f"{where}.labels")
    )
    places = [place for levels in trees for place in places_of([(level, labels.get(level, "")) for level in levels])]
    return {**entry, "places": [list(place) for place in places]}


def member(item: object, where: str) -> Member:
    """A member of its long form. A vector that stands twice in one pool becomes one entry: all who read pools count on
    that."""
    found: Member = decode(Member, item, where)
    return replace(found, pools=_merged(found.pools), potential=_merged(found.potential))


def _merged(pools: tuple[Pool, ...]) -> tuple[Pool, ...]:
    return tuple(replace(pool, free=_counted(pool.free)) for pool in pools)


def _counted(free: tuple[tuple[Amounts, int], ...]) -> tuple[tuple[Amounts, int], ...]:
    vectors = dict.fromkeys(vector for vector, _ in free)
    if len(vectors) == len(free) or any(nodes < 0 for _, nodes in free):  # less than no nodes is refused elsewhere
        return free
    return tuple((vector, sum(nodes for other, nodes in free if other == vector)) for vector in vectors)


def _potential(data: object, where: str) -> object:
    """A pool in long form, of that or of an entry as `nodes` has them."""
    long = not isinstance(data, Mapping) or "free" in data or set(data) <= set(fields_of(Pool))
    return data if long else pool(data, where)


def pool(data: object, where: str) -> Json:
    """A pool in long form from an entry of `nodes`: {"count": 4, "nvidia.com/gpu": 8, "used": {"cpu": "2"}}."""
    if not isinstance(data, Mapping):
        raise BadSnapshot([(where, "is not an object")])
    count = decode_value(int, data.get("count", 1), f"{where}.count")
    has = amounts_of({key: value for key, value in data.items() if key not in OF_NODES}, where)
    has.setdefault("pods", PODS_OF_A_NODE)
    used = amounts_of(data.get("used", {}), f"{where}.used")
    free = {name: has.get(name, 0) - used.get(name, 0) for name in {*has, *used}}
    kept = {key: data[key] for key in ("labels", "taints", "domain") if key in data}
    for key, value in kept.items():
        decode_value(fields_of(Pool)[key][0], value, f"{where}.{key}")  # here, where it is called as it was written
    return {**kept, "free": [[free, count]], "allocatable": has}


def units(data: object, place: str = "units") -> Iterator[tuple[object, str]]:
    """Units in long form, each with the place that errors name."""
    total = 0
    for index, item in enumerate(listed(data, place)):
        where = f"{place}[{index}]"
        if not isinstance(item, Mapping):
            yield item, where
            continue
        item = _ruled(_gang(item, where), where)
        if "member" in item and "phase" not in item:
            item = {**item, "phase": Phase.PLACED.value}
        count = decode_value(int, item["count"], f"{where}.count") if "count" in item else None
        if count is None:
            yield _named(item, where), where
            continue
        total += count
        if not 0 <= count <= MOST_COUNT or total > MOST_COUNT:
            raise BadSnapshot([(f"{where}.count", f"{count} is not between 0 and {MOST_COUNT}, or makes more units")])
        if "id" not in item:
            raise BadSnapshot([(f"{where}.id", "is missing")])
        base = decode_value(str, item["id"], f"{where}.id")
        one = {key: value for key, value in item.items() if key != "count"}
        for number in range(1, count + 1):
            yield _named({**one, "id": f"{base}-{number:0{len(str(count))}}"}, where), where


def unit(item: object, where: str) -> Unit:
    """A unit of its long form, without values that contradict themselves."""
    decoded: Unit = decode(Unit, item, where)
    if not LEAST_PRIORITY <= decoded.priority <= MOST_PRIORITY:
        problem = f"{decoded.priority} is no priority: they are between {LEAST_PRIORITY} and {MOST_PRIORITY}"
        raise BadSnapshot([(f"{where}.priority", problem)])
    if decoded.walltime_s is not None and decoded.walltime_s < 0:
        raise BadSnapshot([(f"{where}.walltime_s", f"{decoded.walltime_s:g} is below zero")])
    for number, name, problem in flaws(decoded.rules, decoded.components):
        raise BadSnapshot([(f"{where}.rules[{number}].{name}", problem)])
    return decoded


def _gang(item: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """With the components that `gang`, or `requests` and `replicas`, stand for."""
    notations = [name for name in _NOTATIONS if name in item]
    if len(notations) > 1:
        raise BadSnapshot([(f"{where}.{notations[1]}", f"says what {notations[0]} says: give one of them")])
    if "replicas" in item and notations != ["requests"]:
        raise BadSnapshot([(f"{where}.replicas", "goes with requests")])
    if not notations or notations == ["components"]:
        return item
    if notations == ["gang"]:
        text = item["gang"]
        if not isinstance(text, str) or not re.fullmatch(GANG, text) or len(text) > 40:
            raise BadSnapshot([(f"{where}.gang", f'{text!r} is not pods x GPUs of each, as in "4x8"')])
        pods, gpus = text.split("x")
        replicas, requests = int(pods), {GPU: int(gpus)}
    else:
        replicas = decode_value(int, item.get("replicas", 1), f"{where}.replicas")
        requests = amounts_of(item["requests"], f"{where}.requests")
    component = {"name": "worker", "replicas": replicas, "requests": {"pods": 1, **requests}}
    kept = {key: value for key, value in item.items() if key not in (*notations, "replicas")}
    return {**kept, "components": [component]}


def _ruled(item: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """With the rule that `topology` stands for, as people and older versions write it."""
    if "topology" not in item:
        return item
    if "rules" in item:
        raise BadSnapshot([(f"{where}.topology", "says what rules say: give one of them")])
    level = decode_value(str, item["topology"], f"{where}.topology")
    kept = {key: value for key, value in item.items() if key != "topology"}
    return {**kept, "rules": [{"level": level}] if level else []}


def _named(item: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """A unit without a name is called by its id."""
    return {"name": decode_value(str, item["id"], f"{where}.id"), **item} if "id" in item else item


def tree(data: object, where: str = "tree") -> QuotaTree:
    """A tree: its nodes by path ({"root/ml": {"max": …}}), the same below "nodes" as programs write it, or the
    ElasticQuotaTree that kubectl prints."""
    if not isinstance(data, Mapping):
        raise BadSnapshot([(where, "is not an object")])
    if "spec" in data:
        try:
            return parse_tree(data["spec"] if isinstance(data["spec"], Mapping) else None)
        except BadTree as error:
            raise BadSnapshot([(f"{where}.{flaw.field}", flaw.message) for flaw in error.flaws]) from None
    if "nodes" not in data:
        return _as_meant(_by_path(data, where, ""), where)
    unknown = sorted(set(data) - {"root", "nodes"})
    if unknown:
        raise BadSnapshot([(f"{where}.{unknown[0]}", "is no field that this version knows")])
    if not isinstance(data["nodes"], Mapping):
        raise BadSnapshot([(f"{where}.nodes", "is not an object")])
    return _by_path(data["nodes"], f"{where}.nodes", decode_value(str, data.get("root", ""), f"{where}.root"))


def _as_meant(written: QuotaTree, where: str) -> QuotaTree:
    """The tree after the effect of attributes, as on a hub that applies it; an attribute without a meaning there is
    refused."""
    wrong = [
        (f"{where}[{path}].attributes[{name}]", why)
        for path, node in written.nodes.items()
        for name, why in attribute_flaws(node.attributes)
    ]
    wrong += [
        (f"{where}[{path}].policy", f"{node.policy!r} is none of {', '.join(POLICIES)}")
        for path, node in written.nodes.items()
        if node.policy not in POLICIES
    ]
    if wrong:
        raise BadSnapshot(wrong)
    oversold = {
        path: replace(node, max={name: int(amount * rate) for name, amount in node.max.items()})
        for path, node in written.nodes.items()
        if (rate := oversell_rate(node.attributes)) != 1
    }
    return replace(written, nodes={**written.nodes, **oversold}) if oversold else written


def _by_path(data: Mapping[str, Any], where: str, root: str) -> QuotaTree:
    """Names, parents, children, and nodes that are only named as part of a path below them, follow from the paths."""
    entries: dict[str, Json] = {}
    for path, node in data.items():
        if not isinstance(node, Mapping):
            raise BadSnapshot([(f"{where}[{path}]", "is not an object")])
        above, _, name = path.rpartition("/")
        entries[path] = {"path": path, "name": name, "parent": above or None, **node}
        while (
            above and above not in data and above not in entries and "parent" not in node and len(entries) <= NODES_MAX
        ):
            over, _, name = above.rpartition("/")
            entries[above] = {"path": above, "name": name, "parent": over or None}
            above = over
    _bounded(entries, where)
    below: dict[object, list[str]] = {}
    for path, node in entries.items():
        below.setdefault(node["parent"] if isinstance(node["parent"], str) else None, []).append(path)
    for path, node in entries.items():
        node.setdefault("children", sorted(below.get(path, [])))
    nodes: dict[str, QuotaNode] = {path: decode(QuotaNode, node, f"{where}[{path}]") for path, node in entries.items()}
    wrong = [(f"{where}[{path}].{field}", why) for path, node in nodes.items() for field, why in _limits_of(node)]
    if wrong:
        raise BadSnapshot(wrong)
    return QuotaTree(root or min(entries, key=len, default=""), nodes)


def _limits_of(node: QuotaNode) -> Iterator[tuple[str, str]]:
    """The faults of the limits of a node, by field."""
    for field, amounts in (("min", node.min), ("max", node.max)):
        for name, amount in amounts.items():
            if amount < 0:
                yield f"{field}[{name}]", f"{amount} is below zero"
    for name, amount in node.min.items():
        if amount > max(0, node.max.get(name, amount)):
            yield f"min[{name}]", f"{amount} is above max, which is {node.max[name]}"


def _bounded(entries: Mapping[str, Json], where: str) -> None:
    """As large and as deep as a tree may be; everything that climbs one counts on it."""
    if len(entries) > NODES_MAX:
        raise BadSnapshot([(where, f"has {len(entries)} nodes; a tree has at most {NODES_MAX}")])
    for path in entries:
        at: object = path
        for _ in range(DEPTH_MAX + 1):
            if not isinstance(at, str) or at not in entries:
                break
            at = entries[at]["parent"]
        else:
            said = f"leads up through more than {DEPTH_MAX} levels, or round in a circle"
            raise BadSnapshot([(f"{where}[{path}].parent", said)])
