"""A binding whose object was deleted and let it go (`kubectl delete --cascade=orphan`): its copy runs on in its member,
and is charged. It ends with its copy, or a job of the name takes it over."""

from __future__ import annotations

from fleet.bindings import binding as b
from fleet.values.ports import Body
from fleet.values.untyped import rows, text
from fleet.wellknown import ANNOTATION_TAKES_OVER, LABEL_JOB_UID, LABEL_OWNERLESS


def let_go(binding: Body) -> bool:
    """Whether no object owns a binding that the hub made for one, so that nothing takes it along."""
    owned = rows(binding["metadata"].get("ownerReferences"))
    return not owned and not b.deleting(binding) and LABEL_JOB_UID in b.labels_of(binding)


def is_ownerless(binding: Body) -> bool:
    """Whether the hub has found that its object is gone."""
    return b.labels_of(binding).get(LABEL_OWNERLESS) == "true" and not b.deleting(binding)


def ways_out(binding: Body) -> str:
    """The commands for it."""
    meta, job = binding["metadata"], b.resource_of(binding)
    name, group = text(job.get("name")), text(job.get("apiVersion")).rpartition("/")[0]
    kind = f"{text(job.get('kind'))}.{group}".lower().rstrip(".")
    where = f"-n {meta.get('namespace')}"
    over = f"`kubectl annotate {kind} {name} {where} {ANNOTATION_TAKES_OVER}=true`"
    return f"{over} has a new job of that name take it over, `kubectl delete rb {meta['name']} {where}` ends it"


def in_the_way(binding: Body) -> str:
    """Why a new job of its name waits."""
    members = ", ".join(b.clusters_of(binding)) or "no member"
    runs = f"the copy of an earlier job of this name is in {members}, without its job"
    return f"its name is taken: {runs}: {ways_out(binding)}"
