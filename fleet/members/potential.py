"""Nodes that a member's autoscaler could add, as its Cluster's annotation lists them.

A hub cannot ask a member how far it may grow: autoscalers have no common API. So the administrator who joins the member
writes it down, one entry for each group of nodes alike. A group has at most `maxNodes` nodes; existing nodes with all
of the group's labels count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Pool, Taint
from fleet.members.placetrees import PlaceTrees
from fleet.values.quantity import BadQuantity, quantity

_MOST_GROUPS = 100
_MOST_NODES = 100_000
_FIELDS = ("maxNodes", "resources", "labels", "taints")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_PODS = 110  # as kubelet has it, where a group does not say


class BadPotential(ValueError):
    """The text lists no groups of nodes. `where` is the place in it, "[0].maxNodes"."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}" if where else problem)
        self.where = where


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """At most `most` nodes that each offer `has` when empty."""

    most: int
    has: Amounts
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()


def read_groups(text: str) -> tuple[NodeGroup, ...]:
    """[{"maxNodes": 8, "resources": {"nvidia.com/gpu": 8, "cpu": "96"}, "labels": {…}, "taints": […]}, …]; none for an
    empty text. Raises BadPotential."""
    if not text:
        return ()
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        raise BadPotential("", "must be a JSON list of groups of nodes") from None
    if not isinstance(given, list) or len(given) > _MOST_GROUPS:
        raise BadPotential("", f"must be a JSON list of at most {_MOST_GROUPS} groups of nodes")
    return tuple(_group(entry, f"[{index}]") for index, entry in enumerate(given))


def _group(entry: object, where: str) -> NodeGroup:
    if not isinstance(entry, dict):
        raise BadPotential(where, "must be an object")
    unknown = sorted(set(entry) - set(_FIELDS))
    if unknown:
        raise BadPotential(f"{where}.{unknown[0]}", f"unknown field; there are {', '.join(_FIELDS)}")
    most = entry.get("maxNodes")
    if not isinstance(most, int) or isinstance(most, bool) or not 0 <= most <= _MOST_NODES:
        raise BadPotential(f"{where}.maxNodes", f"must be a whole number between 0 and {_MOST_NODES}")
    resources = entry.get("resources")
    if not isinstance(resources, dict) or not resources:
        raise BadPotential(f"{where}.resources", "must say what one node has")
    has = {"pods": _PODS}
    for name, value in resources.items():
        try:
            has[name] = quantity(value, name)
        except BadQuantity as error:
            raise BadPotential(f"{where}.resources[{name}]", str(error)) from None
        if has[name] < 0:
            raise BadPotential(f"{where}.resources[{name}]", "must not be negative")
    labels = entry.get("labels", {})
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise BadPotential(f"{where}.labels", "must be an object of strings")
    taints = entry.get("taints", [])
    if not isinstance(taints, list):
        raise BadPotential(f"{where}.taints", "must be a list of taints")
    read = (_taint(taint, f"{where}.taints[{index}]") for index, taint in enumerate(taints))
    return NodeGroup(most, Amounts.of(has), tuple(sorted(labels.items())), tuple(read))


def _taint(given: object, where: str) -> Taint:
    taint: Mapping[str, Any] = given if isinstance(given, dict) else {}
    key, value, effect = taint.get("key"), taint.get("value", ""), taint.get("effect")
    if not isinstance(key, str) or not key or not isinstance(value, str) or effect not in _EFFECTS:
        raise BadPotential(where, f"must have a key and an effect, one of {', '.join(_EFFECTS)}")
    return Taint(key, value, effect)


def potential_pools(
    groups: Iterable[NodeGroup], there: Callable[[tuple[tuple[str, str], ...]], int], trees: PlaceTrees
) -> tuple[Pool, ...]:
    """The nodes that could still be added. `there`: how many nodes have all these labels now. Nobody knows their names,
    so their places follow from the labels of the group."""
    rest = ((group, group.most - there(group.labels)) for group in groups)
    return tuple(
        Pool(
            group.labels,
            group.taints,
            free=((group.has, nodes),),
            allocatable=group.has,
            places=trees.places("", dict(group.labels)),
        )
        for group, nodes in rest
        if nodes > 0
    )
