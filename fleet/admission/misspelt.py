"""Names that nothing on the hub has, and fields without effect beside others: the client is warned, of a name with the
nearest one that there is.

Never a refusal: a member may join later, a kind and a namespace may come.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from api.engine.status import Cause
from api.objects.objects import Objects
from api.objects.writing import Review
from fleet.admission.references import unknown_class
from fleet.bindings.notice import purge_mode
from fleet.core.quota.tree import MAX_JOBS
from fleet.core.quota.waiting import MAX_WAITING
from fleet.values.ports import Body, Store
from fleet.values.untyped import at, mapping, rows, text, texts
from fleet.wellknown import ANNOTATION_POTENTIAL, CLUSTER

USUAL_RESOURCES = ("cpu", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu", MAX_JOBS, MAX_WAITING)
_OTHER_PREFIXES = ("hugepages-",)
_NAMING_MEMBERS = ("clusterNames", "exclude")
_WARNINGS_MAX = 10

Names = Iterator[tuple[str, str]]  # a field, and the text about it


async def of_policy(review: Review, objects: Objects) -> Sequence[Cause]:
    """An `ask` of propagation and override policies."""
    return _warn(
        review, lambda body: [*_kinds(body, objects), *_members(body, objects), *_class(review, body), *_without(body)]
    )


async def of_tree(review: Review, objects: Objects) -> Sequence[Cause]:
    """An `ask` of the quota tree."""
    return _warn(review, lambda body: _in_tree(body, objects))


def of_requests(store: Store, resources: Iterable[str]) -> Iterator[str]:
    """A text about each resource that no member has, of those that a job asks for; none while a member has not told
    what it has."""
    members = store.scan(CLUSTER, "clusters")
    summaries = [mapping(at(m.body, "status", "resourceSummary", "allocatable")) for m in members]
    if not summaries or not all(summaries):
        return
    there = {name for summary in summaries for name in summary}
    potential = " ".join(text(at(m.body, "metadata", "annotations", ANNOTATION_POTENTIAL)) for m in members)
    for name in resources:
        if "/" in name and name not in there and name not in potential:
            yield f"no member has {name}, which the job asks for{near(name, there)}"


def _warn(review: Review, look: Callable[[Body], Iterable[tuple[str, str]]]) -> Sequence[Cause]:
    if review.new is None or review.subresource or review.user.hub:
        return ()
    first: dict[str, str] = {}
    for field, said in look(review.new):
        first.setdefault(said, field)
    review.warnings.extend([f"{field}: {said}" for said, field in first.items()][:_WARNINGS_MAX])
    return ()


def near(name: str, known: Iterable[str]) -> str:
    """The end of a text about a name that nothing has: the nearest of those that there are."""
    found = difflib.get_close_matches(name, sorted(set(known)), n=1)
    return f'; did you mean "{found[0]}"?' if found else ""


def _kinds(body: Body, objects: Objects) -> Names:
    for index, selector in enumerate(rows(at(body, "spec", "resourceSelectors"))):
        api_version, name = text(selector.get("apiVersion")), text(selector.get("kind"))
        kind = objects.registry.kind_of(api_version, name)
        where = f"spec.resourceSelectors[{index}]"
        if kind is None:
            served = [f"{k.api_version} {k.kind}" for k in objects.registry]
            meant = near(f"{api_version} {name}", served)
            yield f"{where}.kind", f'the hub has no kind "{api_version} {name}", so this selects nothing{meant}'
        elif api_version != kind.api_version:
            why = f'{name} is stored as {kind.api_version}, so "{api_version}" selects nothing'
            yield f"{where}.apiVersion", why


def _class(review: Review, body: Body) -> Names:
    wrong = unknown_class(review, text(at(body, "spec", "schedulePriority", "priorityClassName")))
    if wrong:
        yield "spec.schedulePriority.priorityClassName", wrong


def _without(body: Body) -> Names:
    """Fields that have no effect without another one, or beside it."""
    scheduling = mapping(at(body, "spec", "placement", "replicaScheduling"))
    if scheduling.get("customSchedulingType") == "Gang" and scheduling.get("replicaSchedulingType") == "Duplicated":
        yield (
            "spec.placement.replicaScheduling.replicaSchedulingType",
            "Duplicated has no effect on jobs, each of which goes to one member, whole",
        )
    for part in ("application", "cluster"):
        failover = mapping(at(body, "spec", "failover", part))
        if failover.get("gracePeriodSeconds") is not None and purge_mode(failover.get("purgeMode")) != "Gracefully":
            yield f"spec.failover.{part}.gracePeriodSeconds", "has no effect without purgeMode Gracefully"


def _members(body: Body, objects: Objects) -> Names:
    known = [stored.key.name for stored in objects.store.scan(CLUSTER, "clusters")]
    for field, name in _named_members("spec", body.get("spec")):
        if name not in known:
            yield field, f'no member has the name "{name}"{near(name, known)}'


def _named_members(where: str, value: Any) -> Names:
    """Every member that a policy names, wherever an affinity may stand."""
    for key, inner in mapping(value).items():
        place = f"{where}.{key}"
        if key in _NAMING_MEMBERS:
            yield from ((f"{place}[{index}]", name) for index, name in enumerate(texts(inner)))
        elif inner.__class__ is dict:
            yield from _named_members(place, inner)
        else:
            for index, item in enumerate(rows(inner)):
                yield from _named_members(f"{place}[{index}]", item)


def _in_tree(body: Body, objects: Objects) -> Names:
    members = objects.store.scan(CLUSTER, "clusters")
    summaries = [mapping(at(m.body, "status", "resourceSummary", "allocatable")) for m in members]
    resources = {*USUAL_RESOURCES, *(name for summary in summaries for name in summary)}
    namespaces = {stored.key.name for stored in objects.store.scan("", "namespaces")}
    for where, node in _nodes("spec.root", mapping(at(body, "spec", "root"))):
        for which in ("min", "max"):
            for name in mapping(node.get(which)):
                if name not in resources and not name.startswith(_OTHER_PREFIXES):
                    yield f"{where}.{which}[{name}]", f'no member has the resource "{name}"{near(name, resources)}'
        for index, name in enumerate(texts(node.get("namespaces"))):
            if name not in namespaces:
                yield f"{where}.namespaces[{index}]", f'there is no namespace "{name}"{near(name, namespaces)}'


def _nodes(where: str, root: Body) -> Iterator[tuple[str, Body]]:
    pending = [(where, root)]
    while pending:
        place, node = pending.pop()
        yield place, node
        children = enumerate(rows(node.get("children")))
        pending.extend((f"{place}.children[{index}]", child) for index, child in children)
