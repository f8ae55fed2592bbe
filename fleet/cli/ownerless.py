"""Copies that run without their jobs, which were deleted with --cascade=orphan, as lines of `fleet jobs` and findings
of `fleet doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fleet.bindings.finding import Finding
from fleet.cli.patient import PatientHub

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

WORK_PATH = "/apis/work.karmada.io/v1alpha2"
STATE = "Ownerless"
_WHY = "runs on without its job, which was deleted with --cascade=orphan"


def bindings(hub: HubClient, namespace: str | None) -> list[dict[str, Any]]:
    """The bindings of such copies."""
    from fleet.wellknown import LABEL_OWNERLESS

    where = f"/namespaces/{namespace}" if namespace else ""
    return hub.list(f"{WORK_PATH}{where}/resourcebindings", labelSelector=f"{LABEL_OWNERLESS}=true")


def jobs(hub: HubClient, namespace: str | None, which: Mapping[str, str | list[str]]) -> list[dict[str, Any]]:
    """Such copies of these kinds and this member, described as /fleet/v1 describes jobs; none for a user who may not
    list bindings."""
    from fleet.cli.hub import HubRefusal

    try:
        copies = [_job(binding) for binding in bindings(hub, namespace)]
    except HubRefusal as refused:
        if refused.status != 403:
            raise
        return []
    kinds, member = [one.lower() for one in which.get("kind", ())], which.get("member", "")
    return [job for job in copies if (not kinds or job["kind"].lower() in kinds) and member in ("", job["member"])]


def _job(binding: dict[str, Any]) -> dict[str, Any]:
    from fleet.bindings import binding as b
    from fleet.wellknown import ANNOTATION_CREATOR

    resource, pods, gpus = b.resource_of(binding), *_charge(binding)
    return {
        "namespace": resource.get("namespace", ""),
        "name": resource["name"],
        "kind": resource["kind"],
        "state": STATE,
        "queue": None,
        "position": None,
        "tier": None,
        "priority": None,
        "attempt": b.attempt(binding),
        "gpus": gpus,
        "pods": pods,
        "user": b.annotation(binding, ANNOTATION_CREATOR) or None,
        "created": binding["metadata"]["creationTimestamp"],
        "member": b.member_of(binding),
        "reason": _reason(binding),
    }


def _charge(binding: dict[str, Any]) -> tuple[int, int]:
    """Pods and GPUs that it was admitted with."""
    from fleet.bindings.components import components_of
    from fleet.core.model.amounts import gpus_in

    parts = components_of(binding)
    return sum(part.replicas for part in parts), sum(part.replicas * gpus_in(part.requests) for part in parts)


def _reason(binding: dict[str, Any]) -> dict[str, Any]:
    from fleet.bindings.ownerless import ways_out

    ways = ways_out(binding)
    return {"code": STATE, "text": f"{_WHY}: {ways}", "numbers": {"ways": ways}}


def ownerless_copies(patient: PatientHub) -> Iterator[Finding]:
    """Copies that run without their jobs, and are charged."""
    for job in jobs(patient.hub, None, {}):
        member, ways = job["member"] or "", job["reason"]["numbers"]["ways"]
        charge = f"{job['pods']} pod{'s' if job['pods'] != 1 else ''}, {job['gpus']} GPUs"
        said = f"{_WHY}; it is in {member}, and charged: {charge}"
        yield Finding("ownerless-copy", job["kind"], job["namespace"], job["name"], said, ways, member)
