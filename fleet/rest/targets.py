"""Which kind somebody means who says "PyTorchJob", "pytorchjobs" or "pytorchjobs.kubeflow.org"."""

from __future__ import annotations

from difflib import get_close_matches

from api.engine.kind import Kind
from api.engine.registry import Registry
from fleet.kinds.lookup import INTERPRETERS, kind_word
from fleet.rest.context import wrong


def job_kinds(registry: Registry) -> list[Kind]:
    """Every kind of job that the hub serves now. Plain workloads come last: a refusal names the first kind."""
    found = [kind for group, name in INTERPRETERS if (kind := registry.kind(group, name)) is not None]
    return sorted(found, key=lambda kind: kind.group == "apps")


def job_kind(registry: Registry, name: str, field: str) -> Kind:
    """By kind, plural or singular, with or without its group, in any case. Of several kinds of that name the one that
    the name alone means: `Job` is of batch. StatusError 422 names `field`."""
    wanted, _, group = name.lower().partition(".")
    kinds = [
        kind
        for kind in job_kinds(registry)
        if wanted in (kind.kind.lower(), kind.resource, kind.singular) and group in ("", kind.group)
    ]
    if not kinds:
        raise wrong(field, unsupported(registry, name), "FieldValueNotSupported")
    return min(kinds, key=lambda kind: kind_word(kind.group, kind.kind) != kind.kind)


def unsupported(registry: Registry, value: str) -> str:
    names = {word.lower(): word for kind in job_kinds(registry) for word in (kind_word(kind.group, kind.kind),)}
    near = get_close_matches(value[:63].partition(".")[0].lower(), names, n=1)
    supported = ", ".join(f'"{name}"' for name in names.values())
    meant = f"; did you mean {names[near[0]]}?" if near else ""
    return f'Unsupported value: "{value[:63]}": supported values: {supported}{meant}'
