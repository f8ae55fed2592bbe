"""The place trees of one member, kept as its sources are: its Cluster, the hub's HyperNodes, and its own objects.

A member's own HyperNodes win over those of the hub. A change of the sources is worked off in pieces, and many changes
together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from fleet.members.allowance import LoopTime, MemberMemory
from fleet.members.connection import Connection
from fleet.members.discovery import Catalogue, ServedResource
from fleet.members.follow import Follower, UnservedCollection
from fleet.members.hypernodes import HyperNode
from fleet.members.nodes import MemberNodes
from fleet.members.placesources import KINDS, PlaceSources
from fleet.members.placetrees import LabelTree

PLANT_EVERY_S = 0.5  # at most
REFUSED_PAUSE_S = 30.0  # between two tries of a kind that the hub may not read


@dataclass(frozen=True, slots=True)
class HubTrees:
    """The place trees that the hub gives a member: labels of its Cluster, and HyperNodes of the hub. `beside`: names of
    HyperNodes of the hub that are not for this member."""

    of_labels: tuple[LabelTree, ...] = ()
    hypernodes: tuple[HyperNode, ...] = ()
    beside: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PlaceState:
    """For the conditions of a Cluster. `unread`: group and resource of the kinds that the hub may not list there.
    `left_out`: what is in no tree, and why. `absent`: names of nodes that only a HyperNode of the member knows. `own`:
    how many HyperNodes of the member are read in place of the hub's, of which there are `instead_of`."""

    unread: tuple[tuple[str, str], ...] = ()
    left_out: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    own: int = 0
    instead_of: int = 0


class MemberPlaces:
    """See the module. `spawn` runs a task of the member; `changed` is called when nodes have other places, or the state
    is another."""

    def __init__(
        self,
        nodes: MemberNodes,
        memory: MemberMemory,
        time: LoopTime,
        spawn: Callable[[str, Callable[[], Coroutine[Any, Any, None]]], object],
        changed: Callable[[], None],
    ) -> None:
        self._nodes, self._time, self._spawn, self._changed = nodes, time, spawn, changed
        self._given = HubTrees()
        self._due = asyncio.Event()
        self._sources = PlaceSources(memory, self._due.set)
        self.followers: dict[tuple[str, str], Follower] = {}

    def give(self, trees: HubTrees) -> None:
        if trees != self._given:
            self._given = trees
            self._due.set()

    def follow(self, catalogue: Catalogue, connection: Connection, contact: Callable[[], None], member: str) -> None:
        """Follow the kinds of sources that the member serves."""
        for kind in KINDS:
            served, follower = catalogue.resource(*kind), self.followers.get(kind)
            if follower is not None and served is None:
                follower.kick()  # it finds the collection gone
            if follower is None and served is not None and {"list", "watch"} <= served.verbs:
                self._begin(served, connection, contact, member)

    def _begin(self, served: ServedResource, connection: Connection, contact: Callable[[], None], member: str) -> None:
        kind = (served.group, served.resource)
        follower = self.followers[kind] = Follower(
            connection,
            served.collection,
            self._sources.sink(kind),
            contact=contact,
            time=self._time,
            member=member,
            pause_max_s=REFUSED_PAUSE_S,
            refused=self._changed,
        )

        async def run() -> None:
            try:
                await follower.run()
            except UnservedCollection:  # its CRD went, and its objects with it
                self._sources.sink(kind).clear()
                if self.followers.get(kind) is follower:
                    del self.followers[kind]

        self._spawn(served.collection, run)

    def clear(self) -> None:
        """Nothing of the member is known any more."""
        self.followers = {}
        self._sources.clear()

    async def run(self) -> None:
        """Until cancelled."""
        self._due.set()
        while True:
            await self._due.wait()
            self._due.clear()
            await self._plant()
            await asyncio.sleep(PLANT_EVERY_S)

    async def _plant(self) -> None:
        own, given = self._sources.hypernodes, self._given
        work = self._time.work()
        trees = (*given.of_labels, *self._sources.trees)
        hypernodes, beside = (own, frozenset[str]()) if own else (given.hypernodes, given.beside)
        for _ in self._nodes.planting(trees, hypernodes, beside):
            await work.turn()
        await work.end()
        self._changed()

    def state(self) -> PlaceState:
        own, tree = len(self._sources.hypernodes), self._nodes.trees.hypernodes
        return PlaceState(
            tuple(kind for kind in KINDS if kind in self.followers and self.followers[kind].forbidden),
            tree.faults(),
            tree.absent() if own else (),
            own,
            len(self._given.hypernodes),
        )
