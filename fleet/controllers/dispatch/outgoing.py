"""The last look at a manifest before it goes to a member, from every source: job, policies, or Fleet itself. Pure.

Everything before this may be wrong without harm: a member gets the object that the hub has, under its name, with this
hub's marks, and with no more pods and requests than the hub has counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from api.engine.status import StatusError
from fleet.core.model.charge import beyond
from fleet.core.model.unit import Component
from fleet.kinds import interpreter_of
from fleet.values.ports import Body
from fleet.values.quantity import BadQuantity
from fleet.wellknown import LABEL_COMPONENT

_META = frozenset({"name", "namespace", "labels", "annotations"})


class UnsafeManifest(ValueError):
    """The manifest must not go to a member; the text names the field."""


def checked(body: Body, source: Body, labels: Mapping[str, str], charged: Sequence[Component] | None) -> Body:
    """The manifest itself. `source`: the object on the hub; `labels`: the marks that it must carry; `charged`: the
    charge of a gang. Raises UnsafeManifest."""
    meta, origin = body.get("metadata") or {}, source["metadata"]
    for field, now, before in (
        ("apiVersion", body.get("apiVersion"), source["apiVersion"]),
        ("kind", body.get("kind"), source["kind"]),
        ("metadata.name", meta.get("name"), origin["name"]),
        ("metadata.namespace", meta.get("namespace") or "", origin.get("namespace") or ""),
    ):
        if now != before:
            raise UnsafeManifest(f"{field}: {now!s:.80} was made of {before!s:.80}; an object keeps its identity")
    if not _META.issuperset(meta):
        raise UnsafeManifest(f"metadata.{min(set(meta) - _META)}: is the member's own to write")
    _same(meta, labels, "metadata.labels")
    if charged is not None:
        _within(body, labels, charged)
    return body


def _same(metadata: Body, labels: Mapping[str, str], field: str) -> None:
    found = metadata.get("labels") or {}
    for key, value in labels.items():
        if found.get(key) != value:
            raise UnsafeManifest(f"{field}[{key}]: {found.get(key)!s:.80} in place of {value}; the hub's marks stay")


def _within(body: Body, labels: Mapping[str, str], charged: Sequence[Component]) -> None:
    interpreter = interpreter_of(body["apiVersion"], body["kind"])
    if interpreter is None:
        raise UnsafeManifest(f"kind: nobody knows what pods a {body['kind']} has")
    try:
        components = interpreter.components(body)
        templates = interpreter.templates(body)
    except (BadQuantity, StatusError, TypeError, ValueError, AttributeError) as error:
        raise UnsafeManifest(f"its pods cannot be read: {error}"[:300]) from error
    for template in templates:
        if not template.marked:
            continue  # the members know its pods by the labels of the kind's own controller
        own = {**labels, LABEL_COMPONENT: template.name}
        _same(template.template.get("metadata") or {}, own, f"{template.path}.metadata.labels")
    if not components:
        raise UnsafeManifest("it has no pods any more")
    more = beyond(components, charged)
    if more:
        raise UnsafeManifest(f"asks for more than it is charged: {'; '.join(excess.text for excess in more[:3])}")
