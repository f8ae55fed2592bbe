"""The pods of a job, and the one whose log is asked for: by name, by role and index, or the first of the first role.

The pods are those that the job's member shows with the marks of the job. The chosen one counts as the job's where its
owners lead there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from api.engine.kind import Kind
from api.engine.registry import Registry
from api.engine.status import StatusError, bad_request, not_found
from api.wire.routing import Route
from api.wire.servedkind import find
from fleet.bindings.binding import labels_of, places_of
from fleet.bindings.names import binding_of
from fleet.bindings.unit import message_of, unit_of
from fleet.kinds.declared import DeclaredKind
from fleet.kinds.lookup import interpreter_for
from fleet.relays.pods import MemberPod, MemberPods, pods_path
from fleet.values.ports import Body, Key, Store, StoredObject
from fleet.values.untyped import digits, mapping, rows, text, whole
from fleet.wellknown import LABEL_BINDING, LABEL_COMPONENT, LABEL_HUB

# Where controllers note the number of a pod among those of its role.
INDEXES = (
    "training.kubeflow.org/replica-index",
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
    "jobset.sigs.k8s.io/job-index",
    "volcano.sh/task-index",
)
_META = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_WHOLE = "application/json"
PAGE, PAGE_WHOLE = 500, 200
PAGES_MAX = 20
NAMED_MOST = 10  # pods that a refusal names


@dataclass(frozen=True, slots=True)
class _PlacedJob:
    """A job with its binding, and the members to look for its pods in."""

    kind: Kind
    job: Body
    binding: StoredObject
    members: list[str]


@dataclass(frozen=True, slots=True)
class RankedPod:
    """A pod of a job. `rank`: its number in the job, as if all pods were there: masters before workers."""

    hub_pod: MemberPod
    role: str
    rank: int


class JobPods:
    """`find` raises StatusError 404 for a job that is not there, 400 where the query fits none of its pods."""

    def __init__(self, store: Store, registry: Registry, pods: MemberPods, hub_id: str) -> None:
        self._store, self._registry, self._pods, self._hub_id = store, registry, pods, hub_id

    async def find(self, route: Route, query: Mapping[str, str]) -> MemberPod:
        placed = await self._placed(route, query.get("cluster", ""))
        name = query.get("pod", "")
        for member in placed.members:
            chosen = name or await self._chosen(placed, member, query)
            found = await self._pods.of_member(member, route.namespace, chosen) if chosen else None
            if found is not None and found.uid == placed.binding.uid:
                return found
        raise not_found("", "pods", name or route.name)

    async def each(self, route: Route, query: Mapping[str, str]) -> list[RankedPod]:
        """All pods of the job whose owners lead there, by rank. StatusError as `find`, and where a member does not
        answer."""
        placed = await self._placed(route, query.get("cluster", ""))
        of_role: dict[str, list[MemberPod]] = {role: [] for role in self._roles(placed.kind, placed.job)}
        for member in placed.members:
            pods = await self._listed(placed, member, whole=True)
            for one in await self._pods.proven(member, route.namespace, pods):
                if one.uid == placed.binding.uid:
                    of_role.setdefault(_role(placed.kind, one.body), []).append(one)
        return _ranked(of_role, placed.binding.body)

    async def _placed(self, route: Route, cluster: str) -> _PlacedJob:
        """`cluster`: the only member to look into, or "". StatusError 404, 400."""
        served = find(self._registry, route.group, route.version, route.resource)
        if served is None or interpreter_for(served.kind) is None:
            raise StatusError(404, "NotFound", "the server could not find the requested resource")
        kind = served.kind
        job = await self._store.get(Key(kind.group, kind.resource, route.namespace, route.name))
        if job is None:
            raise not_found(kind.group, kind.resource, route.name)
        binding = binding_of(self._store.peek, kind.group, kind.kind, route.namespace, route.name)
        members = list(dict.fromkeys(places_of(binding.body))) if binding is not None else []
        if binding is None or not members:
            unit = unit_of(self._store.peek, binding.key, binding.uid) if binding is not None else None
            why = message_of(unit.body) if unit is not None else ""
            raise bad_request(
                f'{kind.kind} "{route.name}" is in no member: {why or "it has no pods yet, or none any more"}'
            )
        if cluster and cluster not in members:
            raise bad_request(
                f'{kind.kind} "{route.name}" is not in cluster {cluster[:63]}, but in {", ".join(members)}'
            )
        return _PlacedJob(kind, job.body, binding, [cluster] if cluster else members)

    async def _chosen(self, placed: _PlacedJob, member: str, query: Mapping[str, str]) -> str:
        """The name of the pod by role and index; "" while the job has no pods there. StatusError 400."""
        kind, job = placed.kind, placed.job
        pods = await self._listed(placed, member)
        role, index = query.get("role", ""), query.get("index", "")
        if index and digits(index, 9) is None:
            raise bad_request(f'index: "{index[:20]}" is no number of a pod')
        roles = self._roles(kind, job)
        wanted = role.lower() or next((name for name in roles if any(_role(kind, pod) == name for pod in pods)), "")
        of_role = [pod for pod in pods if not wanted or _role(kind, pod) == wanted]
        found = _at(of_role, int(index or "0"))
        if found is None and (role or index) and pods:
            names = ", ".join(_name(pod) for pod in sorted(pods, key=_order)[:NAMED_MOST])
            known = f"its roles are {', '.join(roles)}, " if roles else ""
            raise bad_request(f"no pod of the job has this role and index: {known}its pods {names}")
        return _name(found) if found is not None else ""

    async def _listed(self, placed: _PlacedJob, member: str, *, whole: bool = False) -> list[Body]:
        """The job's pods there, as far as labels say: their metadata alone, unless `whole`."""
        interpreter, job = interpreter_for(placed.kind), placed.job
        selector = f"{LABEL_HUB}={self._hub_id},{LABEL_BINDING}={placed.binding.uid}"
        if isinstance(interpreter, DeclaredKind) and interpreter.pods_unmarked:
            selector = f"{interpreter.pod_labels.name}={job['metadata']['name']}"
        pods: list[Body] = []
        query = {"limit": str(PAGE_WHOLE if whole else PAGE), "labelSelector": selector}
        for _ in range(PAGES_MAX):
            target = f"{pods_path(job['metadata']['namespace'])}?{urlencode(query)}"
            page = await self._pods.clients.read(member, target, _WHOLE if whole else _META) or {}
            pods += rows(page.get("items"))
            more = text(mapping(page.get("metadata")).get("continue"))
            if not more:
                break
            query["continue"] = more
        return pods

    def _roles(self, kind: Kind, job: Body) -> list[str]:
        """In the order of the kind: a master before its workers."""
        interpreter = interpreter_for(kind)
        return [template.name for template in interpreter.templates(job)] if interpreter is not None else []


def _role(kind: Kind, pod: Body) -> str:
    interpreter = interpreter_for(kind)
    labels = labels_of(pod)
    theirs = interpreter.pod_labels.component if interpreter is not None else ""
    return labels.get(LABEL_COMPONENT) or labels.get(theirs, "").lower()


def _name(pod: Body) -> str:
    return text(pod["metadata"].get("name"))


def _order(pod: Body) -> tuple[object, ...]:
    """By name, numbers as numbers."""
    return tuple((part.isdigit(), int(part) if part.isdigit() else part) for part in re.split(r"(\d+)", _name(pod)))


def _ranked(of_role: Mapping[str, list[MemberPod]], binding: Body) -> list[RankedPod]:
    """The pods by rank. Of pods with one index the newest is first."""
    parts = rows(mapping(binding.get("spec")).get("components"))
    replicas = {text(part.get("name")).lower(): whole(part.get("replicas")) for part in parts}
    ranked: list[RankedPod] = []
    first = 0
    for role, pods in of_role.items():
        newest = sorted(pods, key=lambda one: text(one.body["metadata"].get("creationTimestamp")), reverse=True)
        in_order = sorted(newest, key=lambda one: _place(one.body))
        indexes = [_index(one.body) for one in in_order]
        for place, (one, index) in enumerate(zip(in_order, indexes, strict=True)):
            ranked.append(RankedPod(one, role, first + (place if index is None or None in indexes else index)))
        first += replicas.get(role, len(pods))
    return ranked


def _place(pod: Body) -> tuple[object, ...]:
    """By index; without one by name."""
    index = _index(pod)
    return index is None, index or 0, _order(pod) if index is None else ()


def _index(pod: Body) -> int | None:
    marks = {**mapping(pod["metadata"].get("annotations")), **labels_of(pod)}
    return next((number for mark in INDEXES if (number := digits(text(marks.get(mark)), 9)) is not None), None)


def _at(pods: list[Body], index: int) -> Body | None:
    """The newest pod of the index. Where controllers note no indexes: by the order of names."""
    numbered = [pod for pod in pods if _index(pod) is not None]
    if numbered:
        same = [pod for pod in numbered if _index(pod) == index]
        return max(same, key=lambda pod: text(pod["metadata"].get("creationTimestamp")), default=None)
    ordered = sorted(pods, key=_order)
    return ordered[index] if index < len(ordered) else None
