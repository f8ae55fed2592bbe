"""The place trees of one member, and the domains of each node in them: labels in order, and HyperNodes.

A tree of labels lists node labels, coarse to fine, as `spec.topology` of a Cluster does, and the Topology objects of
Kueue and KAI. A domain of it is the path of the values, so racks of one name in two blocks are two. The finest level
may be the host, by the name `host` or by its label. A node for itself is a domain only where a gang asks for that, so
these places are apart (`host_places`). A level that two trees have is that of the first one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fleet.core.model.member import places_of
from fleet.members.hypernodes import Fault
from fleet.members.hypernodetree import HyperNodeTree, LabelledNode, Places
from fleet.values.names import qualified_name_problems
from fleet.values.untyped import texts

HOST = "host"  # the level of single nodes, whatever their labels
HOSTNAME = "kubernetes.io/hostname"
TREES_MAX = 8  # of one source
LEVELS_MAX = 8  # of one tree
LabelTree = tuple[str, ...]  # node labels, coarse to fine


def topology_faults(trees: object) -> Iterator[Fault]:
    """What `spec.topology` of a Cluster may not say: (path under it, value, what is wrong)."""
    given = trees if isinstance(trees, list) else []
    if len(given) > TREES_MAX:
        yield "", len(given), f"must have at most {TREES_MAX} trees"
    for number, levels in enumerate(given):
        keys = texts(levels)
        if not 1 <= len(keys) <= LEVELS_MAX:
            yield f"[{number}]", list(keys), f"must list 1 to {LEVELS_MAX} node labels, coarse to fine"
        for level, key in enumerate(keys):
            where = f"[{number}][{level}]"
            yield from ((where, key, problem) for problem in qualified_name_problems(key))
            if key in keys[:level]:
                yield where, key, "is listed twice in this tree"
            if key in (HOST, HOSTNAME) and level + 1 < len(keys):
                yield where, key, "must be the finest level: nothing is within a host"


def label_trees(trees: Any) -> tuple[LabelTree, ...]:
    """The trees that a source lists, without those that have a fault."""
    given = trees[:TREES_MAX] if isinstance(trees, list) else []
    return tuple(texts(levels) for levels in given if next(topology_faults([levels]), None) is None)


class PlaceTrees:
    """See the module. `hypernodes` is the tree of those; it follows the nodes."""

    def __init__(self, nodes: Mapping[str, LabelledNode]) -> None:
        self.hypernodes = HyperNodeTree(nodes)
        self.of_labels: tuple[LabelTree, ...] = ()
        self._shared: dict[Places, Places] = {}

    def plant(self, trees: Iterable[LabelTree]) -> None:
        """Take these trees of labels in place of those before."""
        self.of_labels = tuple(dict.fromkeys(trees))
        self._shared.clear()

    def places(self, node: str, labels: Mapping[str, str]) -> Places:
        """The domains of the node, tree by tree; nodes of the same domains share one value."""
        paths: dict[str, str] = {}
        for tree in self.of_labels:
            for level, path in self._path(tree, labels):
                paths.setdefault(level, path)
        for level, path in self.hypernodes.places(node):
            paths.setdefault(level, path)
        places = tuple(paths.items())
        return self._shared.setdefault(places, places)

    def host_places(self, node: str, labels: Mapping[str, str]) -> Places:
        """The node itself as a domain: by the level `host`, and by the label of its host in a tree that has it."""
        name = labels.get(HOSTNAME) or node
        tree = next((tree for tree in self.of_labels if tree[-1] in (HOST, HOSTNAME)), ())
        path = "/".join(["", *(labels.get(level, "") for level in tree[:-1]), name])
        by_label = ((HOSTNAME, path),) if tree else ()
        return by_label if HOST in labels else ((HOST, path), *by_label)

    def levels(self) -> tuple[tuple[str, ...], ...]:
        """Of each tree, coarse to fine; no host."""
        trees = [tuple(level for level in tree if level not in (HOST, HOSTNAME)) for tree in self.of_labels]
        return tuple(tree for tree in (*trees, self.hypernodes.levels()) if tree)

    def _path(self, tree: LabelTree, labels: Mapping[str, str]) -> Places:
        return places_of([(level, labels.get(level, "")) for level in tree if level not in (HOST, HOSTNAME)])
