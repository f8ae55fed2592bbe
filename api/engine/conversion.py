"""One object of a custom kind in its several versions: what reading it from the store and rewriting it come to.

An object that is read is first completed by the schema of the version in which it is stored: unknown fields go, and
defaults come. It is then converted, and fields that the other version does not know go. A conversion adds no defaults.
"""

from __future__ import annotations

from typing import Any

from api.engine.default import default
from api.engine.gowords import GO_TYPES
from api.engine.kind import Body, Kind
from api.engine.meta import check_texts
from api.engine.prune import prune
from api.engine.schema import compiled
from api.engine.status import cut
from fleet.values.untyped import mapping, text

_KEPT = ("labels", "annotations")  # the parts of the metadata that a conversion may change


class BadConversion(Exception):
    """A converted object cannot be used. The text is in the words of a kube-apiserver."""


def complete(kind: Kind, body: Body) -> None:
    """Give a stored body, in place, the form that the schema of its version asks for now."""
    root = compiled(kind)
    if default(root, body):
        prune(root, body, "", [])


def rewritten(kind: Kind, body: Body) -> Body:
    """The body in the version of `kind`, by the family's code, or where nothing but apiVersion and the known fields
    differ. `body` is the caller's to give away."""
    if kind.family is not None and kind.family.code is not None:
        return kind.family.code(kind.api_version, body)
    body["apiVersion"] = kind.api_version
    prune(compiled(kind), body, "", [])
    return body


def restored(given: Body, converted: Body) -> Body:
    """An object that a webhook converted, with the metadata that no conversion may change. BadConversion where it is
    not the same object."""
    before, metadata = given["metadata"], mapping(converted.get("metadata"))
    for key, word in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        was, now = text(before.get(key)), text(metadata.get(key))
        if was != now:
            raise BadConversion(f"invalid object: must have the same {word}: {was} != {cut(now, 253)}")
    new_metadata = {key: value for key, value in before.items() if key not in _KEPT}
    for key in _KEPT:
        pairs = metadata.get(key)
        if pairs is None:
            continue
        if pairs.__class__ is not dict:
            raise BadConversion(
                f"invalid metadata: invalid metadata.{key} of type {_go_type(pairs)} in converted object"
            )
        for name, value in pairs.items():
            if value.__class__ is not str:
                why = f"must be a string, but is {_go_type(value)} in converted object"
                raise BadConversion(f"invalid metadata: metadata.{key}[{cut(name, 253)}] {why}")
        problems = check_texts({key: pairs}) if pairs != before.get(key) else []
        if problems:
            raise BadConversion(f"invalid metadata: {problems[0].field}: {problems[0].message}")
        new_metadata[key] = pairs
    return {**converted, "metadata": new_metadata}


def _go_type(value: Any) -> str:
    return GO_TYPES.get(value.__class__, "<nil>")
