"""A member as the decider sees it: its presence, its properties, and the room of each kind of its nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fleet.core.model.amounts import NOTHING, Amounts

TAINT_CORDON = "cluster.karmada.io/unschedulable"  # NoSchedule, as Karmada's tools write it: no new job starts there
TAINT_DRAIN = "fleet.io/drain"  # NoExecute: the hub empties the member at the rate that the taint's value says


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes of one member alike in labels and taints, topology labels (racks) among them.

    `free` is the multiset of free vectors of its schedulable nodes: (vector, how many nodes have it). A vector counts
    the amounts that kube-scheduler would count free: allocatable less the requests of the pods on the node; "pods"
    included. `allocatable` is the largest vector a node of it offers when empty. `domain` is short for every topology
    label that `labels` does not name: inventories leave it empty, snapshots written by hand need no label of a rack.
    `places`: the domains of the nodes in place trees, as (level, path from the root of its tree, "/b1/r1"), so that
    racks of one name in two blocks are two.
    """

    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    domain: str = ""
    free: tuple[tuple[Amounts, int], ...] = ()
    allocatable: Amounts = NOTHING
    places: tuple[tuple[str, str], ...] = ()

    @property
    def counts(self) -> dict[Amounts, int]:
        """How many nodes have each free vector: `free` may name a vector more than once."""
        found: dict[Amounts, int] = {}
        for vector, nodes in self.free:
            found[vector] = found.get(vector, 0) + nodes
        return found

    @property
    def most(self) -> dict[str, int]:
        """The most that an empty node of the pool offers, as far as the inventory shows."""
        most = dict(self.allocatable.items_)
        for free, nodes in self.free:
            for name, amount in free.items_ if nodes > 0 else ():
                if amount > most.get(name, 0):
                    most[name] = amount
        return most


def places_of(names: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The `places` of nodes in one tree, of (level, name of the domain there), coarse to fine. Paths start with a
    slash, which no value of a label does. A level at which the nodes lie in no domain, with the name "", stands in the
    paths of finer ones and is itself left out."""
    path: list[str] = [""]
    places: list[tuple[str, str]] = []
    for level, name in names:
        path.append(name)
        if name:
            places.append((level, "/".join(path)))
    return tuple(places)


@dataclass(frozen=True, slots=True)
class Member:
    """`ready` False: nothing new is sent there. `kinds`: "group/Kind" of every kind it serves; None: not known yet,
    and then nothing is excluded for it. `idle_kinds`: served there, while no controller acts on their jobs."""

    name: str
    ready: bool = True
    pools: tuple[Pool, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    kinds: frozenset[str] | None = None
    provider: str = ""
    region: str = ""
    zone: str = ""
    price: int = 0  # per GPU hour, any unit; lower is better at equal fit
    not_ready_reason: str = ""
    potential: tuple[Pool, ...] = ()  # nodes that an autoscaler could add, empty: `free` counts them
    unschedulable: int = 0  # nodes that take no new pods and stand in no pool: cordoned, not ready, leaving
    idle_kinds: frozenset[str] = frozenset()
