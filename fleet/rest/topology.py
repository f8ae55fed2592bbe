"""Place trees under /fleet/v1/topology: the domains of each member's nodes with their free slots, as the controllers
saw them last."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api.wire.rights import Attributes
from fleet.rest.aggregates import RecentAnswers
from fleet.rest.context import RestHub, answer, need
from fleet.rest.membermodels import TopologyList
from fleet.rest.nodes import LatestNodes
from fleet.values.times import rfc3339
from fleet.wellknown import CLUSTER

SIZES = (8, 4, 2, 1)  # GPUs of a slot
MADE_S = 60.0  # for so long the trees of one row are those of all who ask
Place = Sequence[str]  # level, path


def router(hub: RestHub, nodes: LatestNodes) -> APIRouter:
    routes = APIRouter(tags=["clusters"])
    by_row = RecentAnswers[list[dict[str, Any]]](MADE_S, most=2)

    @routes.get("/topology", response_model=TopologyList, summary="The place trees of members, with free slots")
    async def list_trees(
        request: Request,
        member: Annotated[str | None, Query(min_length=1, max_length=253, description="Only of this member.")] = None,
    ) -> Response:
        """By member, of nodes with GPUs, as the controllers saw them last. Needs `list` on
        clusters.cluster.karmada.io."""
        need(request, Attributes("list", CLUSTER, "clusters"))
        row = await nodes.latest()
        if row is None:
            return answer({"at": None, "items": [], "left": 0})
        number, now, content = row
        items = await by_row.of(number, partial(asyncio.to_thread, _items, content))
        shown = [item for item in items if member in (None, item["member"])]
        return answer({"at": rfc3339(now), "items": shown, "left": content["left"]})

    return routes


def _items(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    places = content.get("places") or {}  # a version before this one has written none
    return [
        {"member": member, **trees_of(rows, places[member]["domains"], places[member]["of"])}
        for member, rows in content["members"].items()
        if member in places
    ]


@dataclass(slots=True)
class _DomainSums:
    level: str
    nodes: int = 0
    gpus: int = 0
    free: int = 0
    slots: dict[int, int] = field(default_factory=lambda: dict.fromkeys(SIZES, 0))
    names: list[str] = field(default_factory=list)

    def add(self, gpus: int, free: int) -> None:
        self.nodes += 1
        self.gpus += gpus
        self.free += free
        for size in SIZES:
            self.slots[size] += free // size


def trees_of(rows: Iterable[Sequence[Any]], domains: Sequence[Sequence[Place]], of: Sequence[int]) -> dict[str, Any]:
    """The place trees of one member, and its nodes that lie in none. `rows`: of its nodes, as nodesnow.py writes them;
    `of`: the number among `domains` of the places of each."""
    chains = [list(_chains(places)) for places in domains]
    levels = _trees(chain for some in chains for chain in some)
    sums: list[dict[str, _DomainSums]] = [{} for _ in levels]
    tree_of = {level: number for number, tree in enumerate(levels) for level in tree}
    outside: list[str] = []
    for (name, _, gpus, used, state, *_), number in zip(rows, of, strict=True):
        free = max(0, gpus - used) if state == "ready" else 0
        if not chains[number]:
            outside.append(name)
        for chain in chains[number]:
            for level, path in chain:
                domain = sums[tree_of[level]].setdefault(path, _DomainSums(level))
                domain.add(gpus, free)
            domain.names.append(name)
    trees = [
        {"levels": list(tree), "domains": [_domain(path, some[path]) for path in sorted(some, key=_natural)]}
        for tree, some in zip(levels, sums, strict=True)
    ]
    return {"trees": trees, "outside": outside}


def _chains(places: Sequence[Place]) -> Iterable[list[Place]]:
    """The places of one node, by tree: in a tree each lies in the one before."""
    chain: list[Place] = []
    for place in places:
        if chain and not place[1].startswith(f"{chain[-1][1]}/"):
            yield chain
            chain = []
        chain.append(place)
    if chain:
        yield chain


def _trees(chains: Iterable[Sequence[Place]]) -> list[tuple[str, ...]]:
    """The levels of each tree, coarse to fine. Chains that share a level are of one tree."""
    depths: dict[str, int] = {}
    trees: list[set[str]] = []
    for chain in chains:
        for level, path in chain:
            depths[level] = max(depths.get(level, 0), path.count("/"))
        its = {level for level, _ in chain}
        for other in [tree for tree in trees if tree & its]:
            trees.remove(other)
            its |= other
        trees.append(its)
    ordered = [tuple(sorted(tree, key=lambda level: (depths[level], level))) for tree in trees]
    return sorted(ordered)


def _domain(path: str, sums: _DomainSums) -> dict[str, Any]:
    return {
        "level": sums.level,
        "path": path,
        "nodes": sums.nodes,
        "gpus": sums.gpus,
        "free": sums.free,
        "slots": {str(size): count for size, count in sums.slots.items()},
        "names": sorted(sums.names, key=_natural),
    }


def _natural(path: str) -> list[tuple[tuple[int, int, str], ...]]:
    """A domain before those in it, and r2 before r10."""
    return [
        tuple((0, int(part), "") if part.isascii() and part.isdigit() else (1, 0, part) for part in _parts(name))
        for name in path.split("/")
    ]


def _parts(name: str) -> list[str]:
    return [part for part in re.split(r"([0-9]{1,18})", name) if part]
