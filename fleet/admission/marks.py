"""Labels, annotations and finalizers that only the hub writes: refused from every other writer, on every kind.

A stored mark passes, so that `kubectl get -o yaml | kubectl replace -f -` works. A mark that an update leaves out is
kept, as metadata.uid is. Each user who may update the object may take off a finalizer of the hub, as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from api.admission.causes import forbidden
from api.engine.status import Cause
from api.objects.writing import Review
from fleet.kinds import interpreter_for
from fleet.values.ports import Body
from fleet.wellknown import ANNOTATION_CREATOR
from fleet.wellknown.marks import kept_from, problem, reserved

_PLACES = ("labels", "annotations")


def marks(review: Review) -> Sequence[Cause]:
    """The check of any object; puts back the hub's keys that an update leaves out."""
    if review.new is None or review.user.hub:
        return ()
    new, old = review.new["metadata"], (review.old or {}).get("metadata") or {}
    causes = [cause for place in _PLACES for cause in _wrong(f"metadata.{place}", _map(new, place), _map(old, place))]
    if review.operation == "CREATE" and interpreter_for(review.kind) is not None:
        # The hub writes the creator over the value of a copied manifest.
        creator = f"metadata.annotations[{ANNOTATION_CREATOR}]"
        causes = [cause for cause in causes if cause.field != creator]
    for place in _PLACES:
        before = _map(old, place)
        missing = kept_from(before, _map(new, place))
        if missing:
            new[place] = {**_map(new, place), **{key: before[key] for key in missing}}
    known = set(old.get("finalizers") or ())
    added = [name for name in new.get("finalizers") or () if isinstance(name, str) and name not in known]
    causes += [forbidden("metadata.finalizers", f"{name}: {problem(name)}") for name in added if _refused(name)]
    return [*causes, *_templates(review)]


def _templates(review: Review) -> Iterator[Cause]:
    """The same of a job's pod templates: their pods would carry the keys in a member."""
    interpreter = interpreter_for(review.kind)
    if interpreter is None or review.new is None or review.subresource == "status":
        return
    before = {t.path: t.template.get("metadata") or {} for t in interpreter.templates(review.old or {})}
    for template in interpreter.templates(review.new):
        new, old = template.template.get("metadata") or {}, before.get(template.path) or {}
        for place in _PLACES:
            yield from _wrong(f"{template.path}.metadata.{place}", _map(new, place), _map(old, place))


def _wrong(field: str, new: Mapping[str, Any], old: Mapping[str, Any]) -> list[Cause]:
    changed = [key for key, value in new.items() if _refused(key) and old.get(key) != value]
    return [forbidden(f"{field}[{key}]", problem(key)) for key in changed]


def _refused(key: str) -> bool:
    return reserved(key) and bool(problem(key))


def _map(metadata: Body, place: str) -> Mapping[str, Any]:
    found = metadata.get(place)
    return found if isinstance(found, dict) else {}
