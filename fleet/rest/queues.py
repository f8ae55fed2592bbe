"""Queues under /fleet/v1/queues: the quota tree with usage, waiting jobs, and the first of each queue.

Usage is derived from the units, as the decider derives it: a job is charged from being placed until it is over, and
after that for the pods that it has left. The hub's API does not follow the members' pods: their units say of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from api.wire.rights import Attributes
from fleet.bindings import binding as b
from fleet.bindings.stopping import held_by, in_force, stops_of
from fleet.bindings.trees import read_tree, tree_object
from fleet.bindings.unit import priority_of, queue_of
from fleet.core.quota.lending import Lenders, borrowed
from fleet.core.quota.limits import COUNTS
from fleet.core.quota.tree import QuotaTree
from fleet.kinds import kind_word
from fleet.rest.aggregates import Sums
from fleet.rest.context import RestHub, allowed, alone, answer, encoded, need, spared
from fleet.rest.line import BINDINGS, UNITS, Lines, WaitingUnit, binding_key, queue_paths, unit_key
from fleet.rest.quantities import add, quantities
from fleet.rest.queuemodels import QueueList
from fleet.rest.shares import FairShares, Shares
from fleet.rest.sight import READ_QUEUES, READ_TREE, homes, nodes_seen, seen_of
from fleet.rest.standing import StoredJob, charged, charged_amounts, reason_of, state_of
from fleet.values.ports import StoredObject
from fleet.wellknown import QUEUE, QUEUE_NAMESPACE

HEADS = 3


COUNT = ""  # in the sums of a queue: how many units are charged


@dataclass(slots=True)
class _Use:
    """The sums of one node of the tree and all below it."""

    used: dict[str, int] = field(default_factory=dict)
    waiting: int = 0
    running: int = 0


def router(hub: RestHub, lines: Lines, shares: FairShares) -> APIRouter:
    routes = APIRouter(tags=["queues"])
    charges = Sums(hub.store, UNITS, partial(_charged, hub), BINDINGS, owner=unit_key)

    @routes.get("/queues", response_model=QueueList, summary="The quota tree")
    async def list_queues(request: Request) -> Response:
        """Every node with its limits, the usage of these, and the waiting jobs. Empty without an ElasticQuotaTree.
        Whole with `list` on queues.scheduling.x-k8s.io in kube-queue and on elasticquotatrees.scheduling.sigs.k8s.io in
        kube-system. Else with `list` on some kind of job in a namespace. Then it has the leaves of those namespaces,
        the leaves that list none or that the user may `use`, and the nodes above them. The heads that show are those of
        which the user may list the kind in their namespace."""
        whole = allowed(request, READ_QUEUES) and allowed(request, READ_TREE)
        if not whole and not homes(hub, request):
            need(request, READ_QUEUES)
            need(request, READ_TREE)
        revision = await hub.store.revision(alone=alone(request))
        queues = [stored.body for stored in hub.store.scan(QUEUE, "queues", namespace=QUEUE_NAMESPACE)]
        tree = read_tree(tree_object(hub.store), queues)
        items = (
            await _nodes(hub, lines, charges, tree, revision, request, await shares.now()) if tree is not None else []
        )
        stops = stops_of(queues)
        for item in items:
            path = item["path"]
            item |= {"stop": in_force(stops, path), "held_by": held_by(stops, path) or None}
        return answer({"items": items, "partial": not whole})

    return routes


async def _nodes(
    hub: RestHub, lines: Lines, charges: Sums, tree: QuotaTree, revision: int, request: Request, shares: Shares
) -> list[dict[str, Any]]:
    paths = queue_paths(hub.store)
    names = {path: name for name, path in paths.items()}
    line = await lines.at(revision)
    uses = {path: _Use() for path in tree.nodes}
    for queue, charge in (await charges.at(revision)).items():
        amounts = {name: amount for name, amount in charge.items() if name != COUNT}
        for path in tree.ancestors(paths.get(queue, "")):
            add(uses[path].used, amounts)
            uses[path].running += charge.get(COUNT, 0)
    for queue, waiting in line.waiting.items():
        for path in tree.ancestors(paths.get(queue, "")):
            uses[path].waiting += len(waiting)
    documents = []
    sight = nodes_seen(hub, request, tree, names)
    at_home = None if sight is None else homes(hub, request)
    sums = {path: use.used for path, use in uses.items()}
    lenders = Lenders(tree, sums)
    for path in seen_of([*_parents_first(tree)], sight):
        node, use = tree.nodes[path], uses[path]
        used = {name: use.used.get(name, 0) for name in (*node.max, *node.min)} | use.used
        used |= dict.fromkeys(COUNTS & used.keys(), use.running)
        over = borrowed(tree, path, sums)
        documents.append(
            {
                "path": path,
                "name": names.get(path),
                "parent": node.parent,
                "children": seen_of(node.children, sight),
                "namespaces": seen_of(node.namespaces, at_home),
                "policy": node.policy,
                "min": quantities(node.min),
                "max": quantities(node.max),
                "used": quantities(used),
                "fairShare": quantities(shares.get(path, {})),
                "borrowed": quantities(over),
                "lenders": _lenders(lenders, path, over, sight),
                "waiting": use.waiting,
                "running": use.running,
                "heads": _heads(hub, line.waiting.get(names.get(path, ""), ()), path, request),
            }
        )
    return documents


def _lenders(lenders: Lenders, path: str, over: dict[str, int], sight: Collection[str] | None) -> list[dict[str, str]]:
    """Those that the user may see."""
    return [
        {"queue": lender, "resource": name, "amount": quantities({name: part})[name]}
        for name in sorted(over)
        for lender, part in lenders.of(path, name, over[name])
        if sight is None or lender in sight
    ]


def _charged(hub: RestHub, unit: StoredObject) -> tuple[str, dict[str, int]] | None:
    """The queue of a unit that uses quota, and its charge; None for a unit that uses none."""
    binding = hub.store.peek(binding_key(unit.key))
    if binding is None or not charged(binding.body, unit.body):
        return None
    return queue_of(unit.body), {**charged_amounts(unit.body), COUNT: 1}


def _parents_first(tree: QuotaTree) -> Iterable[str]:
    pending = [tree.root]
    while pending:
        path = pending.pop()
        yield path
        pending.extend(reversed(tree.nodes[path].children))


def _heads(hub: RestHub, waiting: Iterable[WaitingUnit], path: str, request: Request) -> list[orjson.Fragment]:
    """The first few that the user may see."""
    found: list[orjson.Fragment] = []
    for position, entry in enumerate(islice(waiting, HEADS), 1):
        shown = spared(encoded(_head), hub, entry, position, path, request, otherwise=None)
        if shown is not None:
            found.append(shown)
    return found


def _head(hub: RestHub, entry: WaitingUnit, position: int, path: str, request: Request) -> dict[str, Any] | None:
    """None for one that the user may not see."""
    binding = entry.binding.body
    resource = b.resource_of(binding)
    kind = hub.registry.kind_of(str(resource.get("apiVersion", "")), str(resource.get("kind", "")))
    if kind is None:
        return None  # it is not served any more
    if not allowed(request, Attributes("list", kind.group, kind.resource, namespace=entry.unit.key.namespace)):
        return None
    metadata = {"namespace": entry.unit.key.namespace, "name": str(resource.get("name", ""))}
    job = StoredJob(kind, {"metadata": metadata}, binding, entry.unit.body, path)
    return {
        **metadata,
        "kind": kind_word(kind.group, kind.kind),
        "position": position if entry.in_line else None,
        "priority": priority_of(entry.unit.body, binding),
        "enqueued": b.enqueued(binding) or None,
        "reason": reason_of(job, state_of(job)),
    }
