"""The nodes and pods of one member, as the watches show them.

Of foreign pods only the node and the requests are kept, of ours a `PodView`. A pod counts on its node from its binding
until it is Succeeded, Failed or gone, as kube-scheduler counts it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from fleet.core.model.amounts import NOTHING, Amounts
from fleet.core.model.pod import PodView
from fleet.kinds import INTERPRETERS
from fleet.kinds.requests import pod_requests
from fleet.members.allowance import MemberMemory, weight
from fleet.members.index import ByBinding
from fleet.members.members import MemberChange
from fleet.members.nodes import RESOURCES_MAX, MemberNodes, read_node
from fleet.members.texts import labels_of, name_of, one_line
from fleet.values.ports import Body
from fleet.values.quantity import LARGEST, BadQuantity
from fleet.values.times import seconds
from fleet.values.untyped import digits, mapping, pairs, rows, text, whole
from fleet.wellknown import (
    ANNOTATION_CHECKPOINT,
    ATTEMPT,
    GATE,
    LABEL_BINDING,
    LABEL_COMPONENT,
    LABEL_HUB,
    LABEL_PLACEHOLDER,
    TAKES,
)

Notify = Callable[[MemberChange], None]
Find = Callable[[str, str, str, str], Body | None]
NODE_BYTES, POD_BYTES = 1000, 800  # that are kept of each, beside texts
EXITS_MAX = 64  # containers of a pod that failed
INTERNED_MAX = 4096  # pods of one job share one vector; more distinct vectors than this are not worth sharing


def nothing(group: str, kind: str, namespace: str, name: str) -> Body | None:
    return None


def attempt_of(labels: Mapping[str, str]) -> int:
    return digits(labels.get(ATTEMPT), 9) or 0


def _why(status: Mapping[str, Any]) -> str:
    """Why it is not scheduled, or why it failed: one line."""
    for condition in rows(status.get("conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            why = text(condition.get("reason")) or "Unschedulable"
            return one_line(f"{why}: {text(condition.get('message'))}".rstrip(": "))
    if status.get("phase") == "Failed":
        texts = [str(status[key]) for key in ("reason", "message") if status.get(key)]
        for container in rows(status.get("containerStatuses")):
            ended = mapping(mapping(container.get("state")).get("terminated"))
            if ended.get("exitCode"):
                why = ended.get("reason") or "Error"
                texts.append(f"{container.get('name')} exited with {ended['exitCode']} ({why})")
        return one_line("; ".join(texts))
    return ""


def _takes(status: Mapping[str, Any]) -> str:
    found = (c for c in rows(status.get("conditions")) if c.get("type") == TAKES)
    return next((one_line(condition.get("message")) for condition in found), "")


def _exits(status: Mapping[str, Any]) -> tuple[tuple[int, str], ...]:
    """Exit codes and reasons of the containers that failed."""
    states = [*rows(status.get("initContainerStatuses")), *rows(status.get("containerStatuses"))]
    ended = [mapping(mapping(one.get("state")).get("terminated")) for one in states]
    failed = ((code, one_line(one.get("reason"))) for one in ended if (code := whole(one.get("exitCode"))))
    return tuple(islice(failed, EXITS_MAX))


def _disruption(status: Mapping[str, Any]) -> str:
    found = [c for c in rows(status.get("conditions")) if c.get("type") == "DisruptionTarget"]
    return next((one_line(c.get("reason")) or "Disrupted" for c in found if c.get("status") == "True"), "")


def read_pod(member: str, body: Body, requests: Amounts) -> PodView:
    meta, status = body["metadata"], mapping(body.get("status"))
    spec, labels = mapping(body.get("spec")), labels_of(meta.get("labels"))
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in rows(status.get("conditions")))
    return PodView(
        member=member,
        namespace=one_line(meta.get("namespace")),
        name=name_of(meta["name"]),
        uid=name_of(meta["uid"]),
        node=one_line(spec.get("nodeName")),
        phase=one_line(status.get("phase")) or "Pending",
        ready=ready,
        terminating=bool(meta.get("deletionTimestamp")),
        binding=labels.get(LABEL_BINDING, ""),
        component=labels.get(LABEL_COMPONENT, ""),
        attempt=attempt_of(labels),
        requests=requests,
        reason=_why(status),
        since=seconds(meta.get("creationTimestamp")) or 0.0,
        gone_by=seconds(meta.get("deletionTimestamp")) or 0.0,
        checkpoint_at=seconds(pairs(meta.get("annotations")).get(ANNOTATION_CHECKPOINT, "")) or 0.0,
        placeholder=labels.get(LABEL_PLACEHOLDER) == "true",
        gated=any(gate.get("name") == GATE for gate in rows(spec.get("schedulingGates"))),
        takes=_takes(status),
        failed_with=one_line(status.get("reason")) if status.get("phase") == "Failed" else "",
        disruption=_disruption(status),
        exits=_exits(status),
    )


class NodeSink:
    """One change is told of a whole list, and one of each object that comes after it."""

    def __init__(self, member: str, nodes: MemberNodes, notify: Notify, memory: MemberMemory | None = None) -> None:
        self._member, self._nodes, self._notify = member, nodes, notify
        self._memory = memory or MemberMemory()
        self._missing: set[str] = set()
        self._listing = False

    def started(self) -> None:
        self._missing = self._nodes.names()
        self._listing = True

    def seen(self, body: Body) -> None:
        node = read_node(body)
        self._missing.discard(node.name)
        self._memory.put(("node", node.name), NODE_BYTES + weight((node.pool[0], node.own, node.allocatable.items_)))
        if self._nodes.put(node) and not self._listing:
            self._notify(MemberChange(self._member, "node"))

    def gone(self, body: Body) -> None:
        if self._forget(body["metadata"]["name"]):
            self._notify(MemberChange(self._member, "node"))

    def _forget(self, name: str) -> bool:
        self._memory.drop(("node", name))
        return self._nodes.remove(name)

    def clear(self) -> None:
        for name in self._nodes.names():
            self._forget(name)

    def listed(self) -> None:
        for name in self._missing:
            self._forget(name)
        self._missing = set()
        self._listing = False
        self._notify(MemberChange(self._member, "node"))


@dataclass(frozen=True, slots=True)
class PodOwner:
    """The job that a pod is of."""

    binding: str
    component: str
    attempt: int


class PodSink:
    """`hub` chooses what is ours; pods of another hub on the same member are foreign pods. `find`: our job of a group,
    kind, namespace and name, for kinds whose pods carry no labels of ours. Of the foreign pods of a list, one change is
    told."""

    def __init__(
        self,
        member: str,
        hub: str,
        nodes: MemberNodes,
        index: ByBinding[PodView],
        notify: Notify,
        find: Find = nothing,
        memory: MemberMemory | None = None,
    ) -> None:
        self._member, self._hub, self._nodes, self._index, self._notify = member, hub, nodes, index, notify
        self._memory = memory or MemberMemory()
        self._charged: dict[str, tuple[str, Amounts]] = {}  # uid -> node, requests
        self._views: dict[str, PodView] = {}
        self._missing: set[str] = set()
        self._listing = False
        self._interned: dict[Amounts, Amounts] = {}
        self._find = find
        self._unclaimed: dict[tuple[str, str], dict[str, Body]] = {}  # (namespace, job) -> pods of a job not seen yet
        self._waits_for: dict[str, tuple[str, str]] = {}  # uid of such a pod -> its job

    def came(self, namespace: str, job: str) -> None:
        """A job of ours is seen: its pods may have been seen before."""
        for uid, body in self._unclaimed.pop((namespace, job), {}).items():
            del self._waits_for[uid]
            self.seen(body)

    def started(self) -> None:
        self._missing = {*self._charged, *self._views, *self._waits_for}
        self._listing = True

    def listed(self) -> None:
        for uid in self._missing:
            self._forget(uid)
        self._missing = set()
        self._listing = False
        self._notify(MemberChange(self._member, "pod"))

    def seen(self, body: Body) -> None:
        meta = body["metadata"]
        uid, _ = name_of(meta["uid"]), name_of(meta["name"])
        self._missing.discard(uid)
        spec, status = mapping(body.get("spec")), mapping(body.get("status"))
        node = one_line(spec.get("nodeName"))
        counts = bool(node) and status.get("phase") not in ("Succeeded", "Failed")
        charged = self._charged.get(uid)
        belongs = self._belongs(uid, body)
        ours = belongs is not None
        requests = self._requests(body) if ours or counts else NOTHING
        self._memory.put(uid, self._size(uid, body, requests) if ours or counts or uid in self._waits_for else 0)
        if counts and charged is None:
            self._charged[uid] = (node, requests)
            self._nodes.use(node, requests, 1)
        elif charged is not None and not counts:
            self._release(uid)
        elif charged is not None and charged[1] != requests:  # resized in place
            self._release(uid)
            self._charged[uid] = (node, requests)
            self._nodes.use(node, requests, 1)
        if belongs is None:
            if counts != (charged is not None) and not self._listing:
                self._notify(MemberChange(self._member, "pod"))
            return
        view = read_pod(self._member, body, requests)
        if (view.binding, view.component, view.attempt) != (belongs.binding, belongs.component, belongs.attempt):
            view = replace(view, binding=belongs.binding, component=belongs.component, attempt=belongs.attempt)
        known = self._views.get(uid)
        if known != view:
            if known is not None and known.binding != view.binding:
                self._index.drop(known.binding, self._member, uid)
            self._views[uid] = view
            self._index.put(view.binding, self._member, uid, view)
            self._notify(MemberChange(self._member, "pod", view.binding))

    def gone(self, body: Body) -> None:
        self._forget(body["metadata"]["uid"])

    def clear(self) -> None:
        """The member left: nothing of it may stay in the shared index."""
        for uid in {*self._charged, *self._views, *self._waits_for}:
            self._forget(uid)

    def placeholders(self) -> Sequence[PodView]:
        return [view for view in self._views.values() if view.placeholder]

    def pending_requests(self) -> Amounts:
        """The sum over our pods that wait for a node."""
        total = NOTHING
        for view in self._views.values():
            if not view.node and view.phase == "Pending":
                total = total.plus(view.requests)
        return total

    def _belongs(self, uid: str, body: Body) -> PodOwner | None:
        """The job of ours that the pod is of: by our own labels, or by those of its kind's controller."""
        meta = body["metadata"]
        labels = mapping(meta.get("labels"))
        if labels.get(LABEL_HUB) == self._hub:
            hub_labels = labels_of(labels)
            return PodOwner(
                hub_labels.get(LABEL_BINDING, ""), hub_labels.get(LABEL_COMPONENT, ""), attempt_of(hub_labels)
            )
        if LABEL_HUB in labels:
            return None
        known = self._views.get(uid)
        if known is not None:  # its job may be gone by now, and the pod is on its way
            return PodOwner(known.binding, known.component, known.attempt)
        for interpreter in INTERPRETERS.by_labels() if labels else ():
            marks = interpreter.pod_labels
            job, namespace = one_line(labels.get(marks.name)), one_line(meta.get("namespace"))
            if not job:
                continue
            copy = self._find(interpreter.group, interpreter.kind, namespace, job)
            if copy is None:
                self._unclaimed.setdefault((namespace, job), {})[uid] = body
                self._waits_for[uid] = namespace, job
                continue
            copy_labels = labels_of(copy["metadata"].get("labels"))
            component = one_line(labels.get(marks.component)).lower()
            return PodOwner(copy_labels.get(LABEL_BINDING, ""), component, attempt_of(copy_labels))
        return None

    def _size(self, uid: str, body: Body, requests: Amounts) -> int:
        """About how much is kept of a pod: all of it while it waits for its job, and a `PodView` or less after."""
        status = body.get("status")
        return (
            POD_BYTES + 100 * len(requests.items_) + weight(body if uid in self._waits_for else _why(mapping(status)))
        )

    def _requests(self, body: Body) -> Amounts:
        try:
            requests = pod_requests(body.get("spec") or {})
            known = requests.items_
            if len(known) > RESOURCES_MAX or any(not 0 <= amount <= LARGEST for _, amount in known):
                raise BadQuantity("no amounts of a pod")
        except (BadQuantity, LookupError, TypeError, AttributeError, ValueError):  # no API server stores such a pod
            requests = Amounts.of({"pods": 1})
        if len(self._interned) >= INTERNED_MAX:
            self._interned.clear()
        return self._interned.setdefault(requests, requests)

    def _release(self, uid: str) -> None:
        charged = self._charged.pop(uid, None)
        if charged is not None:
            self._nodes.use(charged[0], charged[1], -1)

    def _forget(self, uid: str) -> None:
        charged = uid in self._charged
        self._memory.drop(uid)
        self._release(uid)
        view = self._views.pop(uid, None)
        waits_for = self._waits_for.pop(uid, None)
        if waits_for is not None:
            self._unclaimed[waits_for].pop(uid)
            if not self._unclaimed[waits_for]:
                del self._unclaimed[waits_for]
        if view is not None:
            self._index.drop(view.binding, self._member, uid)
        if charged or view is not None:
            self._notify(MemberChange(self._member, "pod", view.binding if view else ""))
