"""A job that would start after itself, by way of the jobs that the hub has: all of them would wait for ever.

Jobs may be submitted in any order, so the last of a circle is refused. Two that arrive at the same time pass; the hub
says of such a circle as the reason of its jobs (controllers/queue/after.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleet.admission.causes import invalid
from fleet.bindings import binding as b
from fleet.bindings.after import After, circle, read, seen, waits_for_itself
from fleet.engine.status import Cause
from fleet.kinds import interpreter_for
from fleet.kinds.lookup import INTERPRETERS
from fleet.model.untyped import mapping, text
from fleet.objects.objects import Objects
from fleet.objects.writing import Review
from fleet.ports import Body, Key
from fleet.wellknown import ANNOTATION_AFTER, WORK, binding_name

_Job = tuple[str, str]  # kind, name


async def starts_after_itself(review: Review, objects: Objects) -> Sequence[Cause]:
    """The check of an object of any kind that has an interpreter now, where its annotation is new."""
    if interpreter_for(review.kind) is None or review.new is None or review.subresource:
        return ()
    said = _said(review.new)
    if not said or (review.old is not None and _said(review.old) == said):
        return ()
    me = review.kind.kind, text(review.new["metadata"].get("name"))

    def after(job: _Job) -> Iterator[_Job]:
        entries = read(said) if job == me else _left(objects, review.namespace, job)
        for one in entries:
            yield from ((kind, one.name) for kind in _kinds(one))

    found = circle(me, after)
    if not found:
        return ()
    why = f"the job would never start: {waits_for_itself(found)}"
    return [invalid(f"metadata.annotations[{ANNOTATION_AFTER}]", said, why)]


def _said(job: Body) -> str:
    return text(mapping(job["metadata"].get("annotations")).get(ANNOTATION_AFTER))


def _kinds(one: After) -> list[str]:
    return sorted({kind for _, kind in INTERPRETERS if one.kind.lower() in ("", kind.lower())})


def _left(objects: Objects, namespace: str, job: _Job) -> list[After]:
    """The entries of a job that is there and waits, less those that are met."""
    binding = objects.store.peek(Key(WORK, "resourcebindings", namespace, binding_name(*job)))
    if binding is not None and (b.clusters_of(binding.body) or b.finished(binding.body)):
        return []
    groups = [group for group, kind in INTERPRETERS if kind == job[0]]
    kinds = [kind for group in groups if (kind := objects.registry.kind(group, job[0])) is not None]
    stored = [objects.store.peek(Key(kind.group, kind.resource, namespace, job[1])) for kind in kinds]
    met = seen(binding.body).met if binding is not None else ()
    try:
        every = [one for found in stored if found is not None and _said(found.body) for one in read(_said(found.body))]
    except ValueError:  # stored before the hub checked it
        return []
    return [one for one in every if str(one) not in met]
