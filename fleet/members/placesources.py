"""A member's own sources of place trees: its HyperNodes, and the Topology objects of Kueue and KAI.

They are optional. A kind that the member does not serve is silence, and one that it does not let the hub read is named
in its Cluster with the rule that its role lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from fleet.members.allowance import MemberMemory, weight
from fleet.members.hypernodes import HyperNode, read_hypernode
from fleet.members.placetrees import LabelTree, label_trees
from fleet.members.texts import name_of
from fleet.values.ports import Body
from fleet.values.untyped import mapping, rows
from fleet.wellknown import HYPERNODES

HYPERNODE = (HYPERNODES, "hypernodes")
TOPOLOGIES = (("kueue.x-k8s.io", "topologies"), ("kai.scheduler", "topologies"))
KINDS = (HYPERNODE, *TOPOLOGIES)  # group and resource


def read_topology(body: Body) -> LabelTree | None:
    """The labels of a Topology of Kueue or KAI; None where it lists none that a tree can have."""
    levels = [level.get("nodeLabel") for level in rows(mapping(body.get("spec")).get("levels"))]
    return next(iter(label_trees([levels])), None)


class PlaceSources:
    """What the member shows of them. `changed` is called after each change."""

    def __init__(self, memory: MemberMemory, changed: Callable[[], None]) -> None:
        self._memory, self.changed = memory, changed
        self.read: dict[tuple[str, str], dict[str, Any]] = {}  # by kind and name

    def sink(self, kind: tuple[str, str]) -> PlaceSink:
        return PlaceSink(self, kind, self._memory)

    @property
    def hypernodes(self) -> tuple[HyperNode, ...]:
        return tuple(self.read.get(HYPERNODE, {}).values())

    @property
    def trees(self) -> tuple[LabelTree, ...]:
        """Of Topology objects: Kueue's first, in order of name."""
        listed = [sorted(self.read.get(kind, {}).items()) for kind in TOPOLOGIES]
        return tuple(tree for some in listed for _, tree in some)

    def clear(self) -> None:
        for kind in list(self.read):
            self.sink(kind).clear()


class PlaceSink:
    """The objects of one kind (fleet.members.follow.Sink)."""

    def __init__(self, sources: PlaceSources, kind: tuple[str, str], memory: MemberMemory) -> None:
        self._sources, self._kind, self._memory = sources, kind, memory
        self._missing: set[str] = set()
        self._listing = False

    def started(self) -> None:
        self._missing, self._listing = set(self._objects()), True

    def seen(self, body: Body) -> None:
        name = name_of(mapping(body.get("metadata")).get("name"))
        self._missing.discard(name)
        self._memory.put(self._held(name), weight(mapping(body.get("spec"))))
        read = read_hypernode(body) if self._kind == HYPERNODE else read_topology(body)
        if read is None:
            self._forget(name)
        elif self._objects().get(name) != read:
            self._objects()[name] = read
            self._tell()

    def gone(self, body: Body) -> None:
        self._forget(name_of(mapping(body.get("metadata")).get("name")))

    def listed(self) -> None:
        for name in self._missing:
            self._forget(name)
        self._missing, self._listing = set(), False
        self._sources.changed()

    def clear(self) -> None:
        """Nothing of this kind is there any more."""
        self.started()
        self.listed()

    def _objects(self) -> dict[str, Any]:
        return self._sources.read.setdefault(self._kind, {})

    def _held(self, name: str) -> Hashable:
        return ("places", self._kind, name)

    def _forget(self, name: str) -> None:
        self._memory.drop(self._held(name))
        if self._objects().pop(name, None) is not None:
            self._tell()

    def _tell(self) -> None:
        if not self._listing:
            self._sources.changed()
