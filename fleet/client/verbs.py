"""Verbs on one job. Each writes the field that kubectl would write, so that the hub's own checks, warnings and rights
apply. `fleet hold` and the other commands run the same operations."""

from __future__ import annotations

from typing import Any

from fleet.client.errors import BadRequest
from fleet.client.jobs import job as looked_at
from fleet.client.jobvalues import JobDetail, JobLike
from fleet.client.steps import Request, Session, Steps, asked, changed, got
from fleet.wellknown import ANNOTATION_HOLD


def hold(session: Session, job: JobLike, *, namespace: str | None = None) -> Steps[None]:
    """Keep a job from starting. A job that runs goes on, and is held when it next waits."""
    found = yield from looked_at(session, job, namespace=namespace)
    yield from changed(session, found.object, {"metadata": {"annotations": {ANNOTATION_HOLD: "true"}}})


def release(session: Session, job: JobLike, *, namespace: str | None = None) -> Steps[None]:
    """Let a held job start again."""
    detail = yield from looked_at(session, job, namespace=namespace)
    yield from changed(session, detail.object, {"metadata": {"annotations": {ANNOTATION_HOLD: None}}})
    if detail.unit is None:
        return
    unit = yield from got(session, detail.unit, missing=True)
    if unit is not None and (unit.get("spec") or {}).get("active") is False:
        yield from changed(session, detail.unit, {"spec": {"active": True}})


def suspend(session: Session, job: JobLike, *, namespace: str | None = None) -> Steps[None]:
    """Stop a job, and keep it to resume. The job leaves its member and gives its quota back."""
    yield from _suspended(session, job, namespace, True)


def resume(session: Session, job: JobLike, *, namespace: str | None = None) -> Steps[None]:
    """Queue a suspended job again, with its old place."""
    yield from _suspended(session, job, namespace, False)


def cancel(session: Session, job: JobLike, *, namespace: str | None = None) -> Steps[None]:
    """Stop a job for good and delete it, here and in its member. A newer job of the same name is left alone."""
    found = yield from looked_at(session, job, namespace=namespace)
    which = {"preconditions": {"uid": found.uid}, "propagationPolicy": "Background"}
    yield from asked(session, Request("DELETE", found.object, which), missing=True)


def priority(session: Session, job: JobLike, value: int, *, namespace: str | None = None) -> Steps[None]:
    """Change the priority of a waiting job. Needs the right to patch QueueUnits (role queue-admin)."""
    found = yield from looked_at(session, job, namespace=namespace)
    if found.unit is None:
        raise _cannot(found, "waits in no queue")
    yield from changed(session, found.unit, {"spec": {"priority": value}})


def _suspended(session: Session, job: JobLike, namespace: str | None, suspended: bool) -> Steps[None]:
    detail = yield from looked_at(session, job, namespace=namespace)
    if not detail.suspend_field:
        raise _cannot(
            detail, "cannot be suspended: its kind has no field for that; no replicas stop it, and some start it"
        )
    patch: Any = suspended
    for step in reversed(detail.suspend_field.split(".")):
        patch = {step: patch}
    yield from changed(session, detail.object, patch)


def _cannot(job: JobDetail, why: str) -> BadRequest:
    return BadRequest(400, "BadRequest", f"{job.kind.lower()}/{job.name} {why}")
