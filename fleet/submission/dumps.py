"""An object as `kubectl get -o yaml` shows it, as a user would write it anew: without what servers fill in.

People copy jobs that way: get, another name, submit. A dump is known by fields that only a server sets; anything else
is taken as it was written, so that a mark of the hub in a manifest is refused and not passed over in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.wellknown.marks import HUB_KEYS

Body = dict[str, Any]
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_SIGNS = ("uid", "resourceVersion", "managedFields")
_OF_SERVERS = (
    *_SIGNS,
    "creationTimestamp",
    "generation",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_OF_JOBS = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")


def as_written(body: Body) -> Body:
    """The object without what a server or the hub has put in, if it is a dump; else as it is."""
    metadata = body.get("metadata")
    if not isinstance(metadata, Mapping) or not any(field in metadata for field in _SIGNS):
        return body
    kept = {field: value for field, value in metadata.items() if field not in _OF_SERVERS}
    for field in ("annotations", "labels"):
        kept = _left(kept, field, {*HUB_KEYS, LAST_APPLIED, *_OF_JOBS})
    if isinstance(kept.get("finalizers"), list):
        kept["finalizers"] = [entry for entry in kept["finalizers"] if entry not in HUB_KEYS]
    found = {**body, "metadata": {field: value for field, value in kept.items() if value not in ({}, [])}}
    found.pop("status", None)
    return _without_selector(found) if body.get("kind") == "Job" else found


def _left(owner: Mapping[str, Any], field: str, gone: set[str]) -> dict[str, Any]:
    """`owner` without some keys of one of its mappings."""
    entries = owner.get(field)
    if not isinstance(entries, Mapping):
        return dict(owner)
    return {**owner, field: {key: value for key, value in entries.items() if key not in gone}}


def _without_selector(job: Body) -> Body:
    """A Job's selector and the labels that it selects name the uid of the old one, unless a user chose them."""
    spec = job.get("spec")
    if not isinstance(spec, Mapping) or spec.get("manualSelector"):
        return job
    spec = {field: value for field, value in spec.items() if field != "selector"}
    template = spec.get("template")
    if isinstance(template, Mapping) and isinstance(template.get("metadata"), Mapping):
        spec["template"] = {**template, "metadata": _left(template["metadata"], "labels", set(_OF_JOBS))}
    return {**job, "spec": spec}
