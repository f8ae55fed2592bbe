"""The rules for `metadata`, worded as a kube-apiserver words them."""

from __future__ import annotations

import json
from typing import Any

import orjson

from api.engine.kind import Body, Kind
from api.engine.status import CAUSES_MAX, Cause, cut
from api.engine.validate import value_text
from fleet.values.names import (
    label_problems,
    label_value_problems,
    path_segment_problems,
    qualified_name_problems,
    subdomain_problems,
)
from fleet.values.untyped import texts

ANNOTATIONS_BYTES_MAX = 256 * 1024
LENGTHS_MAX = {"labels": 1000, "ownerReferences": 1000, "finalizers": 500}
NAMED_MAX = 10  # of what a warning lists
GENERATED_PREFIX_MAX = 58  # of 63, five are the suffix

# Kinds whose objects are named as DNS labels.
_LABEL_NAMES = frozenset({("", "namespaces"), ("", "services"), ("apps", "statefulsets")})
_OWNER_KEYS = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")


def name_problems(kind: Kind, name: str) -> list[str]:
    if kind.builtin:
        if kind.group == "rbac.authorization.k8s.io":
            return path_segment_problems(name)
        if (kind.group, kind.resource) in _LABEL_NAMES:
            return ["must not contain dots"] if "." in name else label_problems(name)
    return subdomain_problems(name)


def check(kind: Kind, metadata: Body) -> list[Cause]:
    """The flaws in the metadata of a new or changed object."""
    causes: list[Cause] = []
    for field, most in LENGTHS_MAX.items():
        given = metadata.get(field)
        if given is not None and len(given) > most:
            text = f"Too many: {len(given)}: must have at most {most} items"
            causes.append(Cause(f"metadata.{field}", text, "FieldValueTooMany"))
    if causes:
        return causes  # the rest would look at each of them
    name = metadata.get("name") or ""
    prefix = metadata.get("generateName") or ""
    if prefix:
        base = prefix[:-1] + "a" if prefix.endswith("-") else prefix
        causes.extend(
            Cause("metadata.generateName", f"Invalid value: {value_text(prefix)}: {text}")
            for text in name_problems(kind, base)
        )
    if not name:
        causes.append(Cause("metadata.name", "Required value: name or generateName is required", "FieldValueRequired"))
    else:
        causes.extend(
            Cause("metadata.name", f"Invalid value: {value_text(name)}: {t}") for t in name_problems(kind, name)
        )
    causes += check_texts(metadata)
    if metadata.get("ownerReferences"):
        _check_owners(metadata["ownerReferences"], causes)
    for finalizer in metadata.get("finalizers") or ():
        if finalizer.__class__ is str:
            texts = qualified_name_problems(finalizer)
            causes.extend(Cause("metadata.finalizers", f"Invalid value: {value_text(finalizer)}: {t}") for t in texts)
    return causes


def check_texts(metadata: Body) -> list[Cause]:
    """The flaws in labels and annotations."""
    causes: list[Cause] = []
    labels = metadata.get("labels")
    if labels:
        for key, value in labels.items():
            causes.extend(
                Cause("metadata.labels", f"Invalid value: {value_text(key)}: {t}") for t in qualified_name_problems(key)
            )
            if value.__class__ is str:
                causes.extend(
                    Cause("metadata.labels", f"Invalid value: {value_text(value)}: {t}")
                    for t in label_value_problems(value)
                )
    annotations = metadata.get("annotations")
    if annotations:
        total = 0
        for key, value in annotations.items():
            if len(causes) > CAUSES_MAX:
                break
            texts = qualified_name_problems(key.lower())
            causes.extend(Cause("metadata.annotations", f"Invalid value: {value_text(key)}: {t}") for t in texts)
            total += len(key) + (len(value) if value.__class__ is str else 0)
        if total > ANNOTATIONS_BYTES_MAX:
            text = f"Too long: may not be more than {ANNOTATIONS_BYTES_MAX} bytes"
            causes.append(Cause("metadata.annotations", text, "FieldValueTooLong"))
    return causes


def _check_owners(owners: list[Any], causes: list[Cause]) -> None:
    controller = ""
    for owner in owners:
        if owner.__class__ is not dict:
            continue
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                text = "version must not be empty" if key == "apiVersion" else "must not be empty"
                causes.append(Cause(f"metadata.ownerReferences.{key}", f'Invalid value: "": {text}'))
        if owner.get("controller"):
            this = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                known = [{k: o[k] for k in _OWNER_KEYS if k in o} for o in owners if o.__class__ is dict]
                listed = cut(json.dumps(known, separators=(",", ":")))
                found = f'Found "true" in references for {controller} and {this}'
                text = f"Invalid value: {listed}: Only one reference can have Controller set to true. {found}"
                causes.append(Cause("metadata.ownerReferences", text))
                return
            controller = this


def tidy(metadata: Body) -> tuple[str, ...]:
    """Remove what is empty, as Kubernetes does not show it, and owner references that stand twice, in place; returns
    the warning that a client gets for the latter."""
    for field in ("labels", "annotations", "ownerReferences", "finalizers"):
        if field in metadata and not metadata[field]:
            del metadata[field]
    owners = metadata.get("ownerReferences")
    if owners.__class__ is not list or len(owners) < 2:
        return ()
    first_owners: dict[bytes, Any] = {}
    twice: dict[str, None] = {}
    for owner in owners:
        known = orjson.dumps(owner, option=orjson.OPT_SORT_KEYS)
        if known in first_owners:
            twice[str(owner.get("uid")) if owner.__class__ is dict else ""] = None
        else:
            first_owners[known] = owner
    if not twice:
        return ()
    metadata["ownerReferences"] = list(first_owners.values())
    return (
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may "
        "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
        + ", ".join(list(twice)[:NAMED_MAX]),
    )


def finalizer_warnings(metadata: Body) -> tuple[str, ...]:
    """Finalizers without a domain may collide with another owner's."""
    return tuple(
        f"metadata.finalizers: {value_text(name)}: prefer a domain-qualified finalizer name to avoid accidental "
        "conflicts with other finalizer writers"
        for name in (metadata.get("finalizers") or ())[:NAMED_MAX]
        if name.__class__ is str and "/" not in name and name not in ("orphan", "foregroundDeletion", "kubernetes")
    )


def carry_over(old: Body, new: Body) -> list[Cause]:
    """Keep in `new` what a writer cannot change, and name what it tried to. Both are metadata; `new` is changed."""
    causes: list[Cause] = []
    new.pop("selfLink", None)
    if not new.get("uid"):
        _copy(old, new, "uid")
    for key in ("creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds"):
        _copy(old, new, key)
    for key in ("name", "namespace", "uid"):
        if (new.get(key) or "") != (old.get(key) or ""):
            causes.append(
                Cause(f"metadata.{key}", f"Invalid value: {value_text(new.get(key) or '')}: field is immutable")
            )
    if old.get("deletionTimestamp"):
        before = frozenset(texts(old.get("finalizers")))
        added = [f for f in new.get("finalizers") or () if f not in before]
        if added:
            text = "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
            listed = "[]string{" + ", ".join(value_text(f) for f in added[:NAMED_MAX]) + "}"
            causes.append(Cause("metadata.finalizers", text + listed, "FieldValueForbidden"))
    return causes


def _copy(source: Body, target: Body, key: str) -> None:
    if source.get(key) is None:
        target.pop(key, None)
    else:
        target[key] = source[key]
