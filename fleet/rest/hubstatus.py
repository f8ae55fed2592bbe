"""The hub's own state under /fleet/v1/status: its leader, its decider, its failures, its silent members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.engine.status import StatusError
from api.wire.rights import Attributes
from fleet.bindings.heartbeat import LEASE, report_of, silence
from fleet.bindings.warnings import warnings
from fleet.rest.clusters import cluster
from fleet.rest.context import RestHub, alone, answer, need, spared
from fleet.rest.hubmodels import HubParts, HubStatus
from fleet.values.ports import Body, StoreUnavailable
from fleet.values.untyped import mapping, rows, text, texts, whole
from fleet.wellknown import CLUSTER


class StatusParts(Protocol):
    """The parts of the hub beside its objects."""

    async def __call__(self) -> Mapping[str, Any]: ...

    async def write_trouble(self) -> str:
        """Why the database takes no write now; "" where it does."""
        ...

    def failing_webhooks(self) -> Sequence[Mapping[str, Any]]:
        """Those whose last calls by this process failed."""
        ...


PARTS = "/fleet/v1/parts"


def router(hub: RestHub, parts: StatusParts | None = None) -> APIRouter:
    routes = APIRouter(tags=["status"])

    @routes.get("/status", response_model=HubStatus, summary="Whether the hub works")
    async def status(request: Request) -> Response:
        """From the controllers' sign of life, which is at most five seconds old. Where that is missing, the database is
        asked for a write. Needs `list` on clusters.cluster.karmada.io."""
        need(request, Attributes("list", CLUSTER, "clusters"))
        try:
            await hub.store.revision(alone=alone(request))
        except StoreUnavailable as error:
            return answer(status_document(hub, str(error).removeprefix("the database "), parts))
        told = status_document(hub, "", parts)
        if told["silent"] and parts is not None and (trouble := await parts.write_trouble()):
            told = status_document(hub, f"takes no writes: {trouble}", parts)
        return answer(told)

    @routes.get("/parts", response_model=HubParts, summary="Database, disk, certificates, clock and version")
    async def get_parts(request: Request) -> Response:
        """Of this API process and its machine. Needs `get` on the path /fleet/v1/parts, as ClusterRoles name paths
        under `nonResourceURLs`."""
        need(request, Attributes("get", path=PARTS))
        if parts is None:
            raise StatusError(404, "NotFound", "this process tells nothing of its parts")
        return answer(await parts())

    return routes


def status_document(hub: RestHub, trouble: str, parts: StatusParts | None) -> dict[str, Any]:
    """`trouble`: what the database does not do and why, "" when it works."""
    stored, now = hub.store.peek(LEASE), hub.objects.clock.now()
    lease = stored.body if stored is not None else None
    report, silent = report_of(lease), silence(lease, now)
    members = _members(hub, mapping(report.get("members")) if silent is None else {})
    failing = [entry for entry in rows(report.get("failing")) if text(entry.get("loop"))]
    aside = mapping(report.get("aside"))
    problems = [f"the database {trouble}"] if trouble else []
    problems += [silent.sentence(now)] if silent is not None else []
    problems += [
        f"the loop {entry['loop']} fails: {_count(entry.get('failures'), 'failure')},"
        f" {_count(entry.get('restarts'), 'restart')}, last at {entry.get('last')}"
        + (f", on {entry['error']}" if entry.get("error") else "")
        for entry in failing
    ]
    if whole(aside.get("count")):
        problems.append(f"set aside: {whole(aside.get('count'))} objects, {', '.join(texts(aside.get('first')))}")
    problems += [
        f"member {member['name']} is not ready: {member['message']}" for member in members if not member["ready"]
    ]
    return {
        "healthy": not problems,
        "problems": problems,
        "leader": _leader(lease),
        "looked": report.get("looked"),
        "decided": report.get("decided"),
        "failing": [
            {
                "loop": entry["loop"],
                "failures": whole(entry.get("failures")),
                "restarts": whole(entry.get("restarts")),
                "last": text(entry.get("last")),
                "error": text(entry.get("error")),
            }
            for entry in failing
        ],
        "aside": {"count": whole(aside.get("count")), "first": list(texts(aside.get("first")))},
        "members": members,
        "database": trouble or "ok",
        "version": text(report.get("version")) or None,
        "silent": silent is not None,
        "warnings": [
            asdict(warned)
            for warned in warnings(
                (stored.body for stored in hub.store.scan(CLUSTER, "clusters")),
                report if silent is None else {},
                parts.failing_webhooks() if parts is not None else (),
            )
        ],
    }


def _count(number: object, what: str) -> str:
    return f"{whole(number)} {what}{'' if whole(number) == 1 else 's'}"


def _leader(lease: Body | None) -> dict[str, Any] | None:
    spec = mapping((lease or {}).get("spec"))
    if not text(spec.get("renewTime")):
        return None
    return {
        "name": text(spec.get("holderIdentity")),
        "since": spec.get("acquireTime"),
        "renewed": text(spec["renewTime"]),
    }


def _members(hub: RestHub, reports: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The state in their Cluster objects, and since when the leader has not heard of them."""
    members = []
    for stored in hub.store.scan(CLUSTER, "clusters"):
        state: dict[str, Any] = spared(cluster, stored.body, {}, otherwise={})
        silent = mapping(reports.get(stored.key.name)).get("silent_s")
        members.append(
            {
                "name": stored.key.name,
                "ready": bool(state.get("ready")),
                "message": str(state.get("message", "its Cluster cannot be read")),
                "silent_s": silent if isinstance(silent, int) else None,
            }
        )
    return members
