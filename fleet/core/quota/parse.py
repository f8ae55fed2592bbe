"""From the ElasticQuotaTree that an administrator writes to the QuotaTree that the decider computes with.

The rules for a tree are checked here and nowhere else, as pure functions of `spec`. One pass finds every flaw and names
its field, so that an administrator mends a tree in one go. Root min = root max: the root promises all that there is. Σ
children's min ≤ their parent's: guarantees must be kept all at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from fleet.core.quota.fairshare import LARGEST_WEIGHT, SHARED_WEIGHTS
from fleet.core.quota.guarantee import LEND_LIMIT, lend_limit
from fleet.core.quota.queuenames import queue_problem
from fleet.core.quota.tree import PRIORITY_THAT_BLOCKS, QuotaNode, QuotaTree
from fleet.core.quota.users import USER_MAX, USER_MAX_BY_NAME, user_caps, waiting_limits
from fleet.core.quota.waiting import MAX_WAITING, WaitingLimit
from fleet.values.quantity import BadQuantity, quantity
from fleet.values.untyped import digits

NODES_MAX = 10_000
DEPTH_MAX = 16
OVERSELL_RATE = "fleet.io/oversell-rate"  # of a node: its max counts as so many times what it says
PREEMPT_POLICY = "preempt-policy"  # of a leaf: whom its jobs may evict
PREEMPT_POLICIES = ("PreemptLowerPriority", "AnyPriority", "Never")
_RATE = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3})?")
_RATE_TEXT = 'must be a number such as "1.5", from 1 to 100, with at most three decimals'


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing that is wrong in a tree; `reason` as in api.engine.status.Cause."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


class BadTree(ValueError):
    """The spec is no valid tree; `flaws` says why."""

    def __init__(self, flaws: tuple[Flaw, ...]) -> None:
        super().__init__("; ".join(f"{flaw.field}: {flaw.message}" for flaw in flaws))
        self.flaws = flaws


@dataclass(slots=True)
class _Node:
    """A node as it is read: its place in the spec, and its amounts where they parse."""

    place: str
    path: str
    name: str
    parent: _Node | None
    text: Mapping[str, Any]
    min: dict[str, int] = field(default_factory=dict)
    max: dict[str, int] = field(default_factory=dict)
    children: list[_Node] = field(default_factory=list)
    waiting: int | None = None  # of its max, which the decider's tree leaves out


def validate_tree(spec: Mapping[str, Any] | None) -> list[Flaw]:
    """Everything that is wrong with the tree; empty when it is valid."""
    return _read(spec)[1]


def parse_tree(
    spec: Mapping[str, Any] | None,
    policies: Mapping[str, str] | None = None,
    thresholds: Mapping[str, int] | None = None,
    one_at_a_time: Container[str] = (),
) -> QuotaTree:
    """The tree as the decider wants it. `policies`, `thresholds`: of its Queue, by path of the node; `one_at_a_time`:
    the nodes whose Queue starts one unit at a time. Raises BadTree."""
    root, flaws = _read(spec)
    if flaws or root is None:
        raise BadTree(tuple(flaws))
    policies, thresholds = policies or {}, thresholds or {}
    nodes = {
        node.path: _quota_node(
            node,
            policies.get(node.path, "Priority"),
            thresholds.get(node.path, PRIORITY_THAT_BLOCKS),
            node.path in one_at_a_time,
        )
        for node in _walk(root)
    }
    return QuotaTree(root.path, nodes)


def leaf_fields(spec: Mapping[str, Any] | None) -> dict[str, str]:
    """The field of every leaf, by its path: for messages about leaves."""
    root, _ = _read(spec)
    return {node.path: node.place for node in _walk(root) if not node.children} if root is not None else {}


def without_queue(spec: Mapping[str, Any] | None) -> dict[str, Flaw]:
    """The nodes of which no Queue can be made, by path, without those below them. A stored one costs its own Queue
    alone, so it makes no tree bad."""
    root, _ = _read(spec)
    found: dict[str, Flaw] = {}
    for node in _walk(root) if root is not None else ():
        why = queue_problem(node.path)
        if why and node.name and (node.parent is None or not queue_problem(node.parent.path)):
            found[node.path] = Flaw(f"{node.place}.name", f'Invalid value: "{node.name}": {why}')
    return found


def limits_of_waiting(spec: Mapping[str, Any] | None) -> dict[str, tuple[WaitingLimit, ...]]:
    """How many jobs may wait, by path of the nodes that limit it. Raises BadTree."""
    root, flaws = _read(spec)
    if flaws or root is None:
        raise BadTree(tuple(flaws))
    limits = {node.path: waiting_limits(_attributes(node), node.waiting) for node in _walk(root)}
    return {path: found for path, found in limits.items() if found}


def oversell_rate(attributes: Mapping[str, str]) -> Fraction:
    """How many times its max a node may use. Raises BadQuantity."""
    text = attributes.get(OVERSELL_RATE, "1")
    rate = Fraction(text) if _RATE.fullmatch(text) else Fraction(0)
    if not 1 <= rate <= 100:
        raise BadQuantity(_RATE_TEXT)
    return rate


def _preempt_policy(attributes: Mapping[str, str]) -> None:
    if attributes.get(PREEMPT_POLICY, PREEMPT_POLICIES[0]) not in PREEMPT_POLICIES:
        raise BadQuantity(f"must be {', '.join(PREEMPT_POLICIES[:-1])} or {PREEMPT_POLICIES[-1]}")


def _weight(attributes: Mapping[str, str]) -> None:
    for text in attributes.values():
        if not 0 < (digits(text, 20) or 0) <= LARGEST_WEIGHT:
            raise BadQuantity(f"must be a whole number above zero, {LARGEST_WEIGHT} at most")


def _quota_node(node: _Node, policy: str, threshold: int, one_at_a_time: bool) -> QuotaNode:
    rate = oversell_rate(_attributes(node))
    return QuotaNode(
        path=node.path,
        name=node.name,
        parent=node.parent.path if node.parent else None,
        min=node.min,
        max=node.max if rate == 1 else {name: int(amount * rate) for name, amount in node.max.items()},
        namespaces=tuple(node.text.get("namespaces") or ()),
        children=tuple(child.path for child in node.children),
        attributes=_attributes(node),
        policy=policy,
        threshold=threshold,
        require_queue=node.text.get("requireQueue") is True,
        one_at_a_time=one_at_a_time,
    )


def _attributes(node: _Node) -> dict[str, str]:
    given = node.text.get("attributes") or {}
    return {str(k): json.dumps(v) if isinstance(v, dict) else str(v) for k, v in given.items()}


def _walk(root: _Node) -> Iterator[_Node]:
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(node.children))


def _read(spec: Mapping[str, Any] | None) -> tuple[_Node | None, list[Flaw]]:
    text = spec.get("root") if isinstance(spec, Mapping) else None
    if not isinstance(text, dict):
        return None, [Flaw("spec.root", "Required value: the tree needs a root", "FieldValueRequired")]
    flaws: list[Flaw] = []
    root = _Node("spec.root", str(text.get("name") or ""), str(text.get("name") or ""), None, text)
    count, level = 0, [root]
    for depth in range(DEPTH_MAX + 1):
        if not level:
            break
        if depth == DEPTH_MAX:
            return root, [*flaws, Flaw(level[0].place, f"Too deep: a tree has at most {DEPTH_MAX} levels")]
        count += len(level)
        if count > NODES_MAX:
            return root, [*flaws, Flaw("spec.root", f"Too many: a tree has at most {NODES_MAX} nodes")]
        below: list[_Node] = []
        for node in level:
            _read_node(node, flaws)
            below += node.children
        level = below
    nodes = list(_walk(root))
    _check_names(nodes, flaws)
    _check_namespaces(nodes, flaws)
    if root.min != root.max:
        odd = sorted(r for r in {*root.min, *root.max} if root.min.get(r) != root.max.get(r))
        message = f"Invalid value: min of the root must equal its max, and differs in {', '.join(odd)}"
        flaws.append(Flaw("spec.root.min", message))
    for node in nodes:
        if (given := node.text.get("requireQueue")) is not None and given.__class__ is not bool:
            message = f'Invalid value: "{given}": must be true or false'
            flaws.append(Flaw(f"{node.place}.requireQueue", message, "FieldValueTypeInvalid"))
        _check_amounts(node, flaws)
        _check_attributes(node, flaws)
    return root, flaws


def _read_node(node: _Node, flaws: list[Flaw]) -> None:
    for which, amounts in (("min", node.min), ("max", node.max)):
        given = node.text.get(which) or {}
        if not isinstance(given, dict):
            flaws.append(Flaw(f"{node.place}.{which}", "Invalid value: must be a map", "FieldValueTypeInvalid"))
            continue
        for resource, value in given.items():
            where = f"{node.place}.{which}[{resource}]"
            try:
                amount = quantity(value, resource)
            except BadQuantity as error:
                flaws.append(Flaw(where, f'Invalid value: "{value}": {error}'))
                continue
            if amount < 0:
                flaws.append(Flaw(where, f'Invalid value: "{value}": must not be negative'))
            else:
                amounts[str(resource)] = amount
    node.waiting = node.max.pop(MAX_WAITING, None)
    if node.min.pop(MAX_WAITING, None) is not None:
        where = f"{node.place}.min[{MAX_WAITING}]"
        flaws.append(Flaw(where, "Forbidden: it limits the jobs that wait, and stands in max", "FieldValueForbidden"))
    children = node.text.get("children") or []
    if not isinstance(children, list):
        flaws.append(Flaw(f"{node.place}.children", "Invalid value: must be a list", "FieldValueTypeInvalid"))
        return
    for index, child in enumerate(children):
        where = f"{node.place}.children[{index}]"
        if not isinstance(child, dict):
            flaws.append(Flaw(where, "Invalid value: must be a node", "FieldValueTypeInvalid"))
            continue
        name = str(child.get("name") or "")
        node.children.append(_Node(where, f"{node.path}/{name}", name, node, child))


def _check_names(nodes: list[_Node], flaws: list[Flaw]) -> None:
    nodes_by_name: dict[str, _Node] = {}
    for node in nodes:
        where = f"{node.place}.name"
        if not node.name:
            flaws.append(Flaw(where, "Required value: every node has a name", "FieldValueRequired"))
        elif "/" in node.name:
            flaws.append(Flaw(where, f'Invalid value: "{node.name}": must not contain "/", which separates levels'))
        elif node.name in nodes_by_name:
            message = f'Duplicate value: "{node.name}" is the name of {nodes_by_name[node.name].place}, too'
            flaws.append(Flaw(where, message, "FieldValueDuplicate"))
        nodes_by_name.setdefault(node.name, node)


def _check_namespaces(nodes: list[_Node], flaws: list[Flaw]) -> None:
    paths: dict[str, str] = {}
    for node in nodes:
        namespaces = node.text.get("namespaces") or []
        where = f"{node.place}.namespaces"
        if not isinstance(namespaces, list):
            flaws.append(Flaw(where, "Invalid value: must be a list", "FieldValueTypeInvalid"))
            continue
        if namespaces and node.children:
            flaws.append(Flaw(where, "Forbidden: namespaces hang on leaves only", "FieldValueForbidden"))
        for index, namespace in enumerate(namespaces):
            place = f"{where}[{index}]"
            if not isinstance(namespace, str) or not namespace:
                flaws.append(Flaw(place, "Invalid value: must be the name of a namespace", "FieldValueTypeInvalid"))
            elif namespace in paths:
                message = f'Duplicate value: "{namespace}" hangs on {paths[namespace]} already'
                flaws.append(Flaw(place, message, "FieldValueDuplicate"))
            else:
                paths[namespace] = node.path


def _check_attributes(node: _Node, flaws: list[Flaw]) -> None:
    if not isinstance(node.text.get("attributes") or {}, dict):
        flaws.append(Flaw(f"{node.place}.attributes", "Invalid value: must be a map", "FieldValueTypeInvalid"))
        return
    for name, why in attribute_flaws(_attributes(node)):
        flaws.append(Flaw(f"{node.place}.attributes[{name}]", f"Invalid value: {why}"))


def attribute_flaws(attributes: Mapping[str, str]) -> list[tuple[str, str]]:
    """The attributes of a node that mean nothing, each with why."""
    flaws: list[tuple[str, str]] = []
    checks: tuple[tuple[str, Callable[[Mapping[str, str]], object]], ...] = (
        (LEND_LIMIT, lend_limit),
        (OVERSELL_RATE, oversell_rate),
        (USER_MAX, user_caps),
        (USER_MAX_BY_NAME, user_caps),
        (PREEMPT_POLICY, _preempt_policy),
        *((name, _weight) for name in SHARED_WEIGHTS),
    )
    for name, read in checks:
        try:
            read({name: attributes[name]} if name in attributes else {})
        except BadQuantity as error:
            flaws.append((name, str(error).removeprefix(f"{name}: ")))
    return flaws


def _check_amounts(node: _Node, flaws: list[Flaw]) -> None:
    if node.parent is not None:  # of the root, min = max says more
        for resource, amount in sorted(node.min.items()):
            if resource in node.max and amount > node.max[resource]:
                given = node.text["min"][resource]
                message = f'Invalid value: "{given}": min must not be above max ({node.text["max"][resource]})'
                flaws.append(Flaw(f"{node.place}.min[{resource}]", message))
    promised: dict[str, int] = {}
    for child in node.children:
        for resource, amount in child.min.items():
            promised[resource] = promised.get(resource, 0) + amount
    for resource, amount in sorted(promised.items()):
        if amount > node.min.get(resource, 0):
            unit = "m" if resource == "cpu" else ""
            message = (
                f"Invalid value: the children's min of {resource} add up to {amount}{unit}, "
                f"more than the {node.min.get(resource, 0)}{unit} that {node.path} has"
            )
            flaws.append(Flaw(f"{node.place}.min[{resource}]", message))
