"""A job that would start after itself, by way of the jobs that the hub has: all of them would wait for ever.

Jobs may be submitted in any order, so the last of a circle is refused. Two that arrive at the same time pass; the hub
says of such a circle as the reason of its jobs (controllers/queue/after.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from api.admission.causes import invalid
from api.engine.status import Cause
from api.objects.objects import Objects
from api.objects.writing import Review
from fleet.bindings import binding as b
from fleet.bindings.after import After, circle, progress, read, waits_for_itself
from fleet.bindings.names import binding_of
from fleet.kinds import INTERPRETERS, interpreter_for, kind_word
from fleet.values.ports import Body, Key
from fleet.values.untyped import mapping, text
from fleet.wellknown import ANNOTATION_AFTER

_Job = tuple[str, str, str]  # group, kind, name


async def starts_after_itself(review: Review, objects: Objects) -> Sequence[Cause]:
    """The check of an object of any kind that has an interpreter now, where its annotation is new."""
    if interpreter_for(review.kind) is None or review.new is None or review.subresource:
        return ()
    value = _said(review.new)
    if not value or (review.old is not None and _said(review.old) == value):
        return ()
    me = review.kind.group, review.kind.kind, text(review.new["metadata"].get("name"))

    def after(job: _Job) -> Iterator[_Job]:
        entries = read(value) if job == me else _left(objects, review.namespace, job)
        for one in entries:
            yield from ((*target, one.name) for target in sorted(INTERPRETERS) if one.takes(*target))

    found = circle(me, after)
    if not found:
        return ()
    named = [(kind_word(group, kind), name) for group, kind, name in found]
    why = f"the job would never start: {waits_for_itself(named)}"
    return [invalid(f"metadata.annotations[{ANNOTATION_AFTER}]", value, why)]


def _said(job: Body) -> str:
    return text(mapping(job["metadata"].get("annotations")).get(ANNOTATION_AFTER))


def _left(objects: Objects, namespace: str, job: _Job) -> list[After]:
    """The entries of a job that is there and waits, less those that are met."""
    group, kind_name, name = job
    binding = binding_of(objects.store.peek, group, kind_name, namespace, name)
    if binding is not None and (b.clusters_of(binding.body) or b.finished(binding.body)):
        return []
    kind = objects.registry.kind(group, kind_name)
    stored = objects.store.peek(Key(kind.group, kind.resource, namespace, name)) if kind is not None else None
    met = progress(binding.body).met if binding is not None else ()
    try:
        every = read(_said(stored.body)) if stored is not None and _said(stored.body) else ()
    except ValueError:  # stored before the hub checked it
        return []
    return [one for one in every if str(one) not in met]
