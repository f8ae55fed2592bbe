"""The use of GPUs under /fleet/v1/gpus: of the members, and the jobs that use theirs little, as the controllers saw it
last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from api.wire.rights import Attributes
from fleet.bindings.gpuuse import LatestGpuUse, LowUseJob
from fleet.kinds import named_kind
from fleet.rest.context import RestHub, allowed, answer
from fleet.rest.membermodels import GpuUse
from fleet.rest.models import Model
from fleet.values.times import rfc3339
from fleet.wellknown import CLUSTER

LIMIT, LIMIT_MAX = 500, 5_000
NUMBERS = ("gpus", "utilization", "used_bytes", "memory_bytes", "power_watts", "idle")


class GpuFilter(Model):
    below: Literal["1", "5", "10", "20", "50"] = Field(
        "5", description="Jobs whose GPUs are used by less than so many percent."
    )
    namespace: str | None = Field(None, min_length=1, max_length=63, description="Only jobs of this namespace.")
    limit: int = Field(LIMIT, ge=1, le=LIMIT_MAX, description="At most so many jobs.")


def router(hub: RestHub) -> APIRouter:
    routes = APIRouter(tags=["clusters"])
    newest = LatestGpuUse(hub.store)

    @routes.get("/gpus", response_model=GpuUse, summary="Use of GPUs, and the jobs that use theirs little")
    async def gpu_use(request: Request, query: Annotated[GpuFilter, Query()]) -> Response:
        """As the controllers saw it last, about once a minute, in members whose Cluster names a source of figures. Has
        the members with `list` on clusters.cluster.karmada.io, and the jobs of which the user may `get` the
        subresource `pods`. Jobs are in the order of the time since which they use so little."""
        members_seen = allowed(request, Attributes("list", CLUSTER, "clusters"))
        usage = await newest.latest()
        if usage is None:
            return answer({"at": None, "members": [] if members_seen else None, "jobs": [], "left": 0})
        level, seen = int(query.below), _seen(hub, request)
        jobs = [
            job
            for job in usage.jobs
            if level in job.since and query.namespace in (None, job.name.partition("/")[0]) and seen(job)
        ]
        jobs.sort(key=lambda job: (job.since[level], job.name))
        members = [
            {"name": name, "silent": one.get("silent") or "", **{key: one.get(key) for key in NUMBERS}}
            for name, one in sorted(usage.members.items())
        ]
        return answer(
            {
                "at": rfc3339(usage.at),
                "members": members if members_seen else None,
                "jobs": [_job(job, level) for job in jobs[: query.limit]],
                "left": max(0, len(jobs) - query.limit) + usage.more_jobs,
            }
        )

    return routes


def _seen(hub: RestHub, request: Request) -> Callable[[LowUseJob], bool]:
    """Whether the user may get the pods of a job, as `fleet top JOB` asks. A right on all of a namespace is asked about
    once."""
    answers: dict[tuple[str, str], bool] = {}

    def seen(job: LowUseJob) -> bool:
        group, _, kind_name = job.kind.rpartition("/")
        kind = hub.registry.kind(group, kind_name)
        namespace, _, name = job.name.partition("/")
        if kind is None:
            return False
        key = (job.kind, namespace)
        if key not in answers:
            answers[key] = allowed(request, Attributes("get", kind.group, kind.resource, "pods", namespace))
        return answers[key] or allowed(request, Attributes("get", kind.group, kind.resource, "pods", namespace, name))

    return seen


def _job(job: LowUseJob, level: int) -> dict[str, Any]:
    namespace, _, name = job.name.partition("/")
    return {
        "namespace": namespace,
        "kind": named_kind(job.kind),
        "name": name,
        "queue": job.leaf or None,
        "user": job.user,
        "member": job.member,
        "gpus": job.gpus,
        "utilization": job.use,
        "since": rfc3339(job.since[level]),
    }
