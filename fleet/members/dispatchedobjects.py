"""The objects that this hub has put into one member: found by label, followed kind by kind, and kept as whole bodies.

Bodies lose `managedFields` (half their size, and no code here reads it) and get the `apiVersion` and `kind` that lists
leave out. An answer of the member's API to a write is newer than the watch, so it is taken in too; an older state that
the watch delivers afterwards does not replace it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import orjson

from fleet.kinds import INTERPRETERS
from fleet.members.allowance import MemberMemory, weight
from fleet.members.discovery import ServedResource
from fleet.members.index import ByBinding
from fleet.members.inventory import Notify
from fleet.members.members import MemberChange
from fleet.members.texts import labels_of, lines_within, name_of, one_line
from fleet.values.ports import Body, Key
from fleet.values.untyped import digits, rows
from fleet.wellknown import LABEL_BINDING, LABEL_HUB

STATUS_BYTES_MAX = 1 << 20
# Groups whose kinds a member must let the hub see before it is ready.
JOB_GROUPS = frozenset({"kubeflow.org"})
# Dependencies of jobs that came later.
OPTIONAL = frozenset(
    {
        ("", "persistentvolumeclaims"),
        ("", "serviceaccounts"),
        ("", "services"),
        ("scheduling.k8s.io", "priorityclasses"),
    }
)
# Objects that stand in a member beside a copy, for its scheduler: gangs, and room that is held.
COMPANIONS = frozenset(
    {
        ("scheduling.volcano.sh", "podgroups"),
        ("scheduling.x-k8s.io", "podgroups"),
        ("scheduling.k8s.io", "podgroups"),
        ("scheduling.koordinator.sh", "reservations"),
    }
)
ALWAYS = frozenset({("batch", "jobs"), ("", "configmaps"), ("", "secrets")}) | OPTIONAL


def is_job(served: ServedResource) -> bool:
    """Whether its objects are jobs, and so copies of a binding."""
    return (served.group, served.kind) in INTERPRETERS


def followed_always(served: ServedResource) -> bool:
    """Whether the kind is followed without having been dispatched by this process."""
    if not {"list", "watch"} <= served.verbs:
        return False
    at = served.group, served.resource
    return is_job(served) or served.group in JOB_GROUPS or at in ALWAYS or at in COMPANIONS


def optional(group: str, resource: str) -> bool:
    """Whether a member may be ready while it does not let the hub see the kind: its role may be older than this."""
    return (group, resource) in OPTIONAL or not (group in JOB_GROUPS or (group, resource) in ALWAYS)


JobName = tuple[str, str, str, str]  # (group, kind, namespace, name)


@dataclass(slots=True)
class _HeldObject:
    body: Body
    binding: str


def _made_there(meta: Body) -> bool:
    """Whether a controller of the member made the object. KubeRay gives the RayCluster of a RayJob all labels of the
    RayJob, the hub's as well."""
    return any(owner.get("controller") is True for owner in rows(meta.get("ownerReferences")))


def _read_status(status: object) -> object:
    """The status as the hub keeps it; {} for one that no API server stores."""
    lines_within(status)
    return status if len(orjson.dumps(status)) <= STATUS_BYTES_MAX else {}


def _revision(meta: Body) -> int:
    return digits(str(meta.get("resourceVersion") or ""), 20) or 0


def _but_status(body: Body) -> Body:
    """The object without its status, and without the metadata that each write changes."""
    meta = {name: value for name, value in body["metadata"].items() if name != "resourceVersion"}
    return {**body, "metadata": meta, "status": None}


class DispatchedObjects:
    """Every object of the hub in one member."""

    def __init__(
        self,
        member: str,
        hub: str,
        copies: ByBinding[Body],
        companions: ByBinding[Body],
        notify: Notify,
        memory: MemberMemory | None = None,
    ) -> None:
        self.hub = hub
        self._memory = memory or MemberMemory()
        self._member, self._copies, self._companions, self._notify = member, copies, companions, notify
        self._entries: dict[Key, _HeldObject] = {}
        self._jobs: dict[JobName, Body] = {}
        self._came: list[Callable[[str, str], None]] = []

    def listen(self, came: Callable[[str, str], None]) -> None:
        """Called with namespace and name of every job that is new here."""
        self._came.append(came)

    def job(self, group: str, kind: str, namespace: str, name: str) -> Body | None:
        return self._jobs.get((group, kind, namespace, name))

    def find(self, key: Key) -> Body | None:
        held = self._entries.get(key)
        return held.body if held else None

    def all(self) -> Sequence[Body]:
        return [held.body for held in self._entries.values()]

    def keys(self, group: str, resource: str) -> set[Key]:
        return {key for key in self._entries if key.group == group and key.resource == resource}

    def put(self, served: ServedResource, body: Body, *, written: bool = False) -> None:
        """`written`: the member's answer to a write of ours."""
        meta = body["metadata"]
        labels = labels_of(meta.get("labels"))
        key = Key(served.group, served.resource, one_line(meta.get("namespace")), name_of(meta["name"]))
        name_of(meta["uid"])
        if labels.get(LABEL_HUB) != self.hub or _made_there(meta):
            self.drop(key)
            return
        entry = self._entries.get(key)
        if entry is not None:
            old = entry.body["metadata"]
            if old["uid"] == meta["uid"] and _revision(old) >= _revision(meta):
                return
        meta.pop("managedFields", None)
        if "status" in body:
            body["status"] = _read_status(body["status"])
        body["apiVersion"], body["kind"] = served.api_version, served.kind
        self._memory.put(key, weight(body))
        binding = labels.get(LABEL_BINDING, "")
        if entry is not None and entry.binding != binding:
            self._drop(entry.binding, key)
        self._entries[key] = _HeldObject(body, binding)
        if is_job(served):
            self._copies.put(binding, self._member, str(key), body)
            new = entry is None
            self._jobs[served.group, served.kind, key.namespace, key.name] = body
            for came in self._came if new else ():
                came(key.namespace, key.name)
        elif (served.group, served.resource) in COMPANIONS:
            self._companions.put(binding, self._member, str(key), body)
        only_status = written or (entry is not None and _but_status(entry.body) == _but_status(body))
        self._notify(MemberChange(self._member, "status" if only_status else "job", binding))

    def drop(self, key: Key, uid: str | None = None) -> None:
        """`uid`: only that very object."""
        entry = self._entries.get(key)
        if entry is None or (uid is not None and entry.body["metadata"]["uid"] != uid):
            return
        del self._entries[key]
        self._memory.drop(key)
        self._jobs.pop((key.group, entry.body["kind"], key.namespace, key.name), None)
        self._drop(entry.binding, key)
        self._notify(MemberChange(self._member, "job", entry.binding))

    def _drop(self, binding: str, key: Key) -> None:
        self._copies.drop(binding, self._member, str(key))
        self._companions.drop(binding, self._member, str(key))

    def clear(self) -> None:
        for key in list(self._entries):
            self.drop(key)


class KindSink:
    """One kind's part of it, as a Follower feeds it."""

    def __init__(self, dispatched: DispatchedObjects, served: ServedResource) -> None:
        self._dispatched, self._served = dispatched, served
        self._missing: set[Key] = set()

    def started(self) -> None:
        self._missing = self._dispatched.keys(self._served.group, self._served.resource)

    def seen(self, body: Body) -> None:
        self._missing.discard(self._key(body))
        self._dispatched.put(self._served, body)

    def gone(self, body: Body) -> None:
        self._dispatched.drop(self._key(body), body["metadata"].get("uid"))

    def listed(self) -> None:
        for key in self._missing:
            self._dispatched.drop(key)
        self._missing = set()

    def _key(self, body: Body) -> Key:
        meta = body["metadata"]
        return Key(self._served.group, self._served.resource, one_line(meta.get("namespace")), name_of(meta["name"]))
