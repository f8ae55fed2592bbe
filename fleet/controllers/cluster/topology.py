"""The place trees of a member as its Cluster and the hub's HyperNodes say them, and the conditions that tell of them.

HyperNodes on the hub are for every member whose nodes they match; `spec.hyperNodeSelector` of a Cluster narrows them by
their labels. Nothing of them travels.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleet.bindings import binding as b
from fleet.bindings.conditions import drop_condition, set_condition
from fleet.bindings.matching import labels_match
from fleet.members.hypernodes import HyperNode, read_hypernode
from fleet.members.placetrees import label_trees
from fleet.members.planting import HubTrees, PlaceState
from fleet.values.ports import Body, Key, Store
from fleet.wellknown import HYPERNODES

UNREAD = "TopologyUnread"  # a condition of a Cluster: the hub may not list a kind that its member serves
LEFT_OUT = "TopologyLeftOut"  # HyperNodes, or members of them, are in no place tree
OWN = "TopologyOwn"  # the member's own HyperNodes are read in place of the hub's
NAMED_MAX = 5


class HubHyperNodes:
    """The HyperNodes of the hub, each read once a revision."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: dict[Key, tuple[int, HyperNode, Mapping[str, str]]] = {}

    def trees_of(self, cluster: Body) -> HubTrees:
        """What the hub gives the member of this Cluster."""
        before, self._read = self._read, {}
        for stored in self._store.scan(HYPERNODES, "hypernodes"):
            known = before.get(stored.key)
            if known is None or known[0] != stored.revision:
                known = stored.revision, read_hypernode(stored.body), b.labels_of(stored.body)
            self._read[stored.key] = known
        spec = b.spec_of(cluster)
        selector = spec.get("hyperNodeSelector")
        chosen = tuple([one for _, one, labels in self._read.values() if labels_match(selector, labels)])
        beside = frozenset(key.name for key in self._read) - {one.name for one in chosen}
        return HubTrees(label_trees(spec.get("topology")), chosen, beside)


def tell(cluster: Body, state: PlaceState, now: float) -> bool:
    """The conditions of the Cluster, in place; False when they stand there already."""
    changed = _tell(cluster, UNREAD, "Forbidden", _unread(state), now)
    changed |= _tell(cluster, LEFT_OUT, "LeftOut", _left_out(state), now)
    return _tell(cluster, OWN, "OwnHyperNodes", _own(state), now) or changed


def _tell(cluster: Body, type_: str, reason: str, message: str, now: float) -> bool:
    if not message:
        return drop_condition(cluster, type_)
    return set_condition(cluster, type_, True, reason, message, now)


def _unread(state: PlaceState) -> str:
    if not state.unread:
        return ""
    names = ", ".join(f"{resource}.{group}" for group, resource in state.unread)
    rules = "; ".join(
        f"apiGroups [{group}], resources [{resource}], verbs [list, watch]" for group, resource in state.unread
    )
    return f"the hub's account may not list {names} there: add to its ClusterRole: {rules}"


def _left_out(state: PlaceState) -> str:
    absent = [f"no node is called {name}, which a HyperNode lists" for name in state.absent]
    all_ = (*state.left_out, *absent)
    more = f"; and {len(all_) - NAMED_MAX} more" if len(all_) > NAMED_MAX else ""
    return "; ".join(all_[:NAMED_MAX]) + more


def _own(state: PlaceState) -> str:
    if not state.own or not state.instead_of:
        return ""
    return f"the member has {state.own} HyperNodes of its own: none of the hub's {state.instead_of} is read for it"
