"""HyperNodes in a few words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fleet.members.hypernodes import HyperNode, read_hypernode
from fleet.members.hypernodetree import HyperNodeTree

Body = dict[str, Any]


def exact(*names: str) -> list[Body]:
    return [{"exactMatch": {"name": name}} for name in names]


def regex(*patterns: str) -> list[Body]:
    return [{"regexMatch": {"pattern": pattern}} for pattern in patterns]


def labelled(**labels: str) -> list[Body]:
    return [{"labelMatch": {"matchLabels": labels}}]


def of(name: str, tier: int, selectors: list[Body], kind: str = "Node", **more: Any) -> HyperNode:
    members = [{"type": kind, "selector": selector} for selector in selectors]
    return read_hypernode({"metadata": {"name": name}, "spec": {"tier": tier, "members": members, **more}})


def inner(name: str, tier: int, *names: str, **more: Any) -> HyperNode:
    return of(name, tier, exact(*names), "HyperNode", **more)


@dataclass(frozen=True)
class BareNode:
    labels: dict[str, str]


class TreeOfNodes(HyperNodeTree):
    """With the nodes that it follows."""

    def __init__(self) -> None:
        self.there: dict[str, BareNode] = {}
        super().__init__(self.there)

    def come(self, name: str, labels: dict[str, str]) -> None:
        self.there[name] = BareNode(labels)
        self.put(name)

    def go(self, name: str) -> None:
        if self.there.pop(name, None):
            self.remove(name)
