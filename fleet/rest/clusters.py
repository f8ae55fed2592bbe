"""Clusters under /fleet/v1/clusters: the members, their room, and the jobs that are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from api.wire.rights import Attributes
from fleet.bindings import binding as b
from fleet.bindings.conditions import condition
from fleet.rest.aggregates import SharedAnswer, Sums
from fleet.rest.context import RestHub, encoded, encoded_answer, need, spared
from fleet.rest.membermodels import ClusterList
from fleet.rest.quantities import amounts_of, gpus, quantities
from fleet.rest.standing import StoredJob, state_of
from fleet.values.ports import Body, StoredObject
from fleet.values.untyped import rows, text, whole
from fleet.wellknown import CLUSTER, WORK

GPU_PARTS = ("allocated", "free", "fragmented", "cordoned")
TAINT = (("key", "key"), ("value", "value"), ("effect", "effect"), ("added", "timeAdded"))
_GPU = "/gpu"
NOT_LOOKED_AT = "it has not been looked at yet"

UNREADABLE = {"type": "Ready", "status": "Unknown", "message": "its Cluster cannot be read"}


def router(hub: RestHub) -> APIRouter:
    routes = APIRouter(tags=["clusters"])
    jobs = Sums(hub.store, (WORK, "resourcebindings"), partial(_in_member, hub))

    async def listed(revision: int) -> bytes:
        found = await jobs.at(revision, hub.registry.generation)
        stored = hub.store.scan(CLUSTER, "clusters")
        return orjson.dumps({"items": [_row(entry, found.get(entry.key.name, {})) for entry in stored]})

    shared = SharedAnswer(hub.store, listed)  # every user who may list sees the same

    @routes.get("/clusters", response_model=ClusterList, summary="The member clusters")
    async def list_clusters(request: Request) -> Response:
        """In order of name. Needs `list` on clusters.cluster.karmada.io."""
        need(request, Attributes("list", CLUSTER, "clusters"))
        return encoded_answer(await shared.now())

    return routes


def _in_member(hub: RestHub, stored: StoredObject) -> tuple[str, dict[str, int]] | None:
    """The member of a job that is in one, and its state; finished jobs there too."""
    binding = stored.body
    member, resource = b.member_of(binding), b.resource_of(binding)
    if member is None or not b.is_gang(binding):
        return None
    kind = hub.registry.kind_of(str(resource.get("apiVersion", "")), str(resource.get("kind", "")))
    if kind is None:
        return None
    return member, {str(state_of(StoredJob(kind, {"metadata": binding["metadata"]}, binding))): 1}


def _row(stored: StoredObject, jobs: Mapping[str, int]) -> orjson.Fragment | dict[str, Any]:
    """One whose Cluster cannot be read is shown by its name."""
    found = spared(encoded(cluster), stored.body, jobs, otherwise=None)
    bare = {"metadata": {"name": stored.key.name}, "status": {"conditions": [UNREADABLE]}}
    return found if found is not None else cluster(bare, jobs)


def cluster(body: Body, jobs: Mapping[str, int]) -> dict[str, Any]:
    """The Cluster as models.Cluster describes it."""
    spec, status, metadata = body.get("spec") or {}, body.get("status") or {}, body["metadata"]
    ready = condition(body, "Ready") or {}
    is_ready = ready.get("status") == "True"
    nodes, resources = status.get("nodeSummary") or {}, status.get("resourceSummary") or {}
    allocatable, allocated = amounts_of(resources.get("allocatable")), amounts_of(resources.get("allocated"))
    free = {name: max(0, amount - allocated.get(name, 0)) for name, amount in allocatable.items()}
    by_model = [
        {"model": text(row.get("model")), **{part: whole(row.get(part)) for part in GPU_PARTS}}
        for row in rows(status.get("gpus"))
    ]
    free_gpus = _idle(free, by_model)
    return {
        "name": metadata["name"],
        "ready": is_ready,
        "message": "" if is_ready else str(ready.get("message") or ready.get("reason") or NOT_LOOKED_AT),
        "readySince": ready.get("lastTransitionTime"),
        "version": status.get("kubernetesVersion"),
        "endpoint": spec.get("apiEndpoint"),
        "labels": dict(metadata.get("labels") or {}),
        "taints": [
            {name: taint.get(key) for name, key in TAINT if taint.get(key)} for taint in spec.get("taints") or ()
        ],
        "nodes": {"total": int(nodes.get("totalNum") or 0), "ready": int(nodes.get("readyNum") or 0)},
        "allocatable": quantities(allocatable),
        "allocated": quantities(allocated),
        "free": quantities(free),
        "free_gpus": free_gpus,
        "gpus": by_model,
        "jobs": dict(sorted(jobs.items())),
    }


def _idle(free: dict[str, int], by_model: Sequence[Mapping[str, Any]]) -> int:
    """The free GPUs of nodes that take pods, once these were counted node by node: the sums of a member have the idle
    GPUs of nodes that are not ready, too. Corrects `free` where one resource has all GPUs."""
    if not by_model:
        return gpus(free)
    idle = sum(int(row["free"]) for row in by_model)
    resources = [name for name in free if name.endswith(_GPU)]
    if len(resources) == 1:
        free[resources[0]] = idle
    return idle
