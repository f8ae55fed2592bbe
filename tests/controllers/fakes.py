"""Members in memory, by the protocol of fleet/members/members.py, whose behaviour a test writes down.

Jobs run as in a cluster with a simple operator: pods appear, get nodes first-fit, run, and end when the test says so
(or after `runtime_s`). Faults are forced by setting `refuse`, `down`, `slow_s` or `no_pods`.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fleet.core.model.amounts import NOTHING, Amounts
from fleet.core.model.member import Member
from fleet.core.model.pod import PodView
from fleet.core.model.unit import Component, Seat
from fleet.kinds import interpreter_of
from fleet.kinds.requests import pod_requests
from fleet.members.dispatch import why_not
from fleet.members.dispatchedobjects import COMPANIONS
from fleet.members.members import ActOutcome, ActResult, Closed, MemberChange, NodeView
from fleet.members.nodes import ANY_VALUE
from fleet.values.ports import Body, Key
from fleet.values.times import rfc3339
from fleet.wellknown import ATTEMPT, LABEL_BINDING, LABEL_COMPONENT, LABEL_HUB
from tests.controllers.fakemember import FakeMember, key_of, pod_of, with_condition
from tests.controllers.fastloop import EPOCH, eventually

HOSTNAME = "kubernetes.io/hostname"


class FakeMembers:
    """fleet.members.members.Members over FakeMember objects."""

    def __init__(self, *members: FakeMember, hub: str = "hub") -> None:
        self.by_name = {member.name: member for member in members}
        self.hub = hub
        self._callbacks: list[Callable[[MemberChange], None]] = []
        self.named: frozenset[tuple[str, str]] = frozenset()
        self._uids = 0
        self.tasks: set[asyncio.Task[None]] = set()
        self.heard: set[str] = set()  # members that show life though they are not read

    # -- the protocol

    def names(self) -> Sequence[str]:
        return list(self.by_name)

    def silent_s(self, name: str) -> float | None:
        return 0.0 if self.ready(name) or name in self.heard else None

    def ready(self, name: str) -> bool:
        return name in self.by_name and not self.by_name[name].down

    def model(self, name: str) -> Member | None:
        member = self.by_name.get(name)
        return member.model([(HOSTNAME, node) for node in member.nodes if self._apart(node)]) if member else None

    def closed(self, name: str) -> Sequence[Closed]:
        return ()

    def nodes(self, name: str) -> Sequence[NodeView]:
        member = self.by_name[name]
        return [
            NodeView(node, (), room, room.minus(member.free(node)), node not in member.avoided, True)
            for node, room in member.nodes.items()
        ]

    def _apart(self, node: str) -> bool:
        return not self.named.isdisjoint({(HOSTNAME, node), (HOSTNAME, ANY_VALUE)})

    def tell_apart(self, named: frozenset[tuple[str, str]]) -> None:
        self.named = named

    def node_ready(self, name: str, node: str) -> bool:
        return node in self.by_name[name].nodes and node not in self.by_name[name].broken

    def avoid_nodes(self, name: str, nodes: frozenset[str]) -> None:
        self.by_name[name].avoided = nodes

    def pods_of(self, binding: str) -> Sequence[PodView]:
        return [pod for member in self.by_name.values() for pod in member.seen[1].values() if pod.binding == binding]

    def seats(self, name: str, pods: Sequence[PodView]) -> tuple[Seat, ...]:
        member, held = self.by_name[name], dict[str, Amounts]()
        for pod in pods:
            if pod.holds_room:
                held[pod.node] = held.get(pod.node, NOTHING).plus(pod.requests)
        alone = [node for node in member.nodes if self._apart(node)]
        pools = {node: number for number, node in enumerate(alone, start=1)}
        return tuple(Seat(node, pools.get(node, 0), member.free(node), holds) for node, holds in sorted(held.items()))

    def placeholders(self, name: str) -> Sequence[PodView]:
        return [pod for pod in self.by_name[name].seen[1].values() if pod.placeholder]

    def copies(self, binding: str) -> Sequence[tuple[str, Body]]:
        found = self._labelled(binding)
        return [(name, body) for name, _, body in found if interpreter_of(body["apiVersion"], body["kind"])]

    def companions(self, binding: str) -> Sequence[tuple[str, Body]]:
        found = self._labelled(binding)
        return [(name, body) for name, key, body in found if (key.group, key.resource) in COMPANIONS]

    def _labelled(self, binding: str) -> list[tuple[str, Key, Body]]:
        seen = [(member.name, key, body) for member in self.by_name.values() for key, body in member.seen[0].items()]
        return [entry for entry in seen if _labels(entry[2]).get(LABEL_BINDING) == binding]

    def find(self, name: str, key: Key) -> Body | None:
        body = self.by_name[name].seen[0].get(key) if name in self.by_name else None
        return body if body is not None and _labels(body).get(LABEL_HUB) == self.hub else None

    def owned(self, name: str) -> Sequence[Body]:
        objects = self.by_name[name].seen[0].values() if name in self.by_name else ()
        return [body for body in objects if _labels(body).get(LABEL_HUB) == self.hub]

    async def look(self, name: str, body: Body) -> ActOutcome:
        member = await self._reached(name)
        if isinstance(member, ActOutcome):
            return member
        there = member.objects.get(key_of(body))
        return ActOutcome(ActResult.NOT_FOUND) if there is None else ActOutcome(ActResult.DONE, body=there)

    async def warning(self, name: str, body: Body) -> str:
        return self.by_name[name].warns

    async def apply(self, name: str, body: Body, *, overwrite: bool = False) -> ActOutcome:
        member = await self._reached(name)
        if isinstance(member, ActOutcome):
            return member
        is_job = interpreter_of(body["apiVersion"], body["kind"]) is not None
        if member.refuse and is_job:
            return ActOutcome(ActResult.REFUSED, member.refuse)
        existing = member.objects.get(key_of(body))
        if existing is not None:
            refusal = why_not(existing, body, overwrite)
            if refusal:
                return ActOutcome(ActResult.CONFLICT, refusal, existing)
            if body["kind"] == "PriorityClass" and existing["value"] != body["value"]:
                return ActOutcome(ActResult.REFUSED, "value: Forbidden: may not be changed in an update.")
            if "deletionTimestamp" in existing["metadata"]:
                return ActOutcome(ActResult.UNREACHABLE, "is still being deleted", existing)
        stored = copy.deepcopy(body)
        self._uids += 1
        stored["metadata"]["uid"] = existing["metadata"]["uid"] if existing else f"m{self._uids}"
        if existing is not None and "status" in existing:
            stored["status"] = existing["status"]
        if is_job and member.no_pods and "status" not in stored:
            stored = with_condition(stored, "Created", "", rfc3339(self._now()))
        member.objects[key_of(body)] = stored
        member.applies.append(stored)
        self._tell(name, "job", stored)
        if is_job and not (member.no_pods or member.idle):
            self._start(self._operate(member, stored) if existing is None else self._more(member, stored))
        return (
            ActOutcome(ActResult.UNREACHABLE, "timed out")
            if member.lose_answers
            else ActOutcome(ActResult.DONE, body=stored)
        )

    async def delete(self, name: str, body: Body, *, grace_s: int | None = None) -> ActOutcome:
        member = await self._reached(name)
        if isinstance(member, ActOutcome):
            return member
        if body["kind"] == "Pod" and grace_s:
            return member.end_pod(body["metadata"]["uid"], grace_s, self._now())
        if body["kind"] == "Pod":
            gone = member.pods.pop(body["metadata"]["uid"], None) if grace_s == 0 else None
            if gone is not None:
                for callback in self._callbacks:
                    callback(MemberChange(name, "pod", gone.binding))
            return ActOutcome(ActResult.DONE if gone is not None else ActResult.NOT_FOUND)
        there = member.objects.get(key_of(body))
        if there is None or body["metadata"].get("uid") not in (None, there["metadata"]["uid"]):
            return ActOutcome(ActResult.NOT_FOUND)
        if _labels(there).get(LABEL_HUB) != self.hub:
            return ActOutcome(ActResult.CONFLICT, "not ours")
        marked = copy.deepcopy(there)
        marked["metadata"]["deletionTimestamp"] = rfc3339(self._now())
        member.objects[key_of(body)] = marked
        self._tell(name, "job", marked)
        self._start(self._remove(member, marked))
        return ActOutcome(ActResult.DONE)

    async def relabel(
        self, name: str, body: Body, labels: Mapping[str, str | None], annotations: Mapping[str, str | None]
    ) -> ActOutcome:
        member = await self._reached(name)
        if isinstance(member, ActOutcome):
            return member
        if body["kind"] == "Pod":
            return member.tell_pod(body["metadata"]["name"], annotations)
        there = member.objects.get(key_of(body))
        if there is None:
            return ActOutcome(ActResult.NOT_FOUND)
        if _labels(there).get(LABEL_HUB) != self.hub or _labels(there)[LABEL_BINDING] != _labels(body)[LABEL_BINDING]:
            return ActOutcome(ActResult.CONFLICT, "not ours")
        changed = copy.deepcopy(there)
        for field_, values in (("labels", labels), ("annotations", annotations)):
            merged = {**(changed["metadata"].get(field_) or {}), **values}
            changed["metadata"][field_] = {k: v for k, v in merged.items() if v is not None}
        member.objects[key_of(body)] = changed
        self._tell(name, "job", there)
        return ActOutcome(ActResult.DONE, body=changed)

    async def put_pod(self, name: str, body: Body) -> ActOutcome:
        member = await self._reached(name)
        if isinstance(member, ActOutcome):
            return member
        if member.refuse_pods:
            return ActOutcome(ActResult.REFUSED, member.refuse_pods)
        if not any(pod.name == body["metadata"]["name"] for pod in member.pods.values()):
            self._uids += 1
            labels = _labels(body)
            self._seat(
                member,
                PodView(
                    member=name,
                    namespace=body["metadata"]["namespace"],
                    name=body["metadata"]["name"],
                    uid=f"h{self._uids}",
                    node="",
                    phase="Pending",
                    ready=False,
                    terminating=False,
                    binding=labels[LABEL_BINDING],
                    component=labels[LABEL_COMPONENT],
                    attempt=int(labels[ATTEMPT]),
                    requests=pod_requests(body["spec"]),
                    since=self._now(),
                    placeholder=True,
                ),
            )
            self._tell(name, "pod", body)
        return ActOutcome(ActResult.DONE)

    async def patch_pod(self, name: str, pod: PodView, patch: Body, *, status: bool = False) -> ActOutcome:
        member = await self._reached(name)
        if isinstance(member, ActOutcome):
            return member
        there = member.pods.get(pod.uid)
        if there is None:
            return ActOutcome(ActResult.NOT_FOUND)
        if status:
            member.pods[pod.uid] = replace(there, takes=patch["status"]["conditions"][0]["message"])
            member.nominated[pod.uid] = patch["status"]["nominatedNodeName"]
        else:
            self._seat(member, replace(there, gated=False))
        for callback in self._callbacks:
            callback(MemberChange(name, "pod", pod.binding))
        return ActOutcome(ActResult.DONE)

    def _seat(self, member: FakeMember, pod: PodView) -> None:
        """The pod on its nominated node, or the first with room, as its scheduler would bind it."""
        fits = [node for node in member.nodes if pod.requests.fits(member.room_for(node, pod))]
        nominated = member.nominated.get(pod.uid, "")
        node = nominated if nominated in fits else next(iter(fits), "")
        member.pods[pod.uid] = replace(pod, node=node, reason="" if node else "Unschedulable: 0/1 nodes are available")

    def subscribe(self, callback: Callable[[MemberChange], None]) -> None:
        if callback not in self._callbacks:  # a loop that is started again
            self._callbacks.append(callback)

    # -- what a test does to it

    def put_foreign(self, name: str, body: Body) -> None:
        """An object that somebody else created in the member."""
        stored = copy.deepcopy(body)
        stored["metadata"]["uid"] = "foreign"
        self.by_name[name].objects[key_of(body)] = stored

    def set_down(self, name: str, down: bool) -> None:
        member = self.by_name[name]
        member.down = down
        member.frozen = (dict(member.objects), dict(member.pods)) if down else None
        for callback in self._callbacks:
            callback(MemberChange(name, "ready"))

    def job(self, name: str, namespace: str, job: str) -> Body | None:
        """The copy of a job in a member, whatever its kind."""
        for key, body in self.by_name[name].objects.items():
            if (key.namespace, key.name) == (namespace, job) and interpreter_of(body["apiVersion"], body["kind"]):
                return body
        return None

    def where(self, job: str, namespace: str = "default") -> list[str]:
        """The members that have a copy of the job."""
        return [name for name in self.by_name if self.job(name, namespace, job) is not None]

    def finish(
        self, job: str, outcome: str = "Succeeded", *, namespace: str = "default", reason: str = "", message: str = ""
    ) -> None:
        """End the job wherever it is, with this condition and its message; its pods end likewise, for `reason`."""
        for member in self.by_name.values():
            body = self.job(member.name, namespace, job)
            if body is None:
                continue
            for pod in [p for p in member.pods.values() if p.binding == _labels(body)[LABEL_BINDING]]:
                member.pods[pod.uid] = replace(pod, phase=outcome, reason=reason, failed_with=reason)
            self._status(member, body, outcome, message)

    def _status(self, member: FakeMember, body: Body, type_: str, message: str = "") -> None:
        changed = with_condition(body, type_, message, rfc3339(self._now()))
        member.objects[key_of(changed)] = changed
        self._tell(member.name, "job", changed)
        self._tell(member.name, "pod", changed)

    # -- how its jobs run

    async def _operate(self, member: FakeMember, body: Body) -> None:
        await asyncio.sleep(0.02)
        if self._current(member, body) is None:
            return
        self._status(member, body, "Created")
        interpreter = interpreter_of(body["apiVersion"], body["kind"])
        assert interpreter is not None
        labels = _labels(body)
        for component in interpreter.components(body):
            if self._current(member, body) is None:
                return
            for number in range(component.replicas):
                self._make(member, body, component, number)
            self._tell(member.name, "pod", body)
            await asyncio.sleep(member.in_turn_s)
        await asyncio.sleep(member.start_s)

        def opened_or_gone() -> bool:
            gone = self._current(member, body) is None
            return gone or not any(pod.gated for pod in self._pods(member, labels))

        await eventually(opened_or_gone, within_s=3600.0)
        mine = self._pods(member, labels)
        if self._current(member, body) is None or not all(pod.node for pod in mine):
            return
        for pod in mine:
            member.pods[pod.uid] = replace(pod, phase="Running", ready=True)
        self._status(member, self._current(member, body) or body, "Running")
        if member.runtime_s is not None:
            await asyncio.sleep(member.runtime_s)
            current = self._current(member, body)
            if current is not None:
                for pod in mine:
                    member.pods[pod.uid] = replace(pod, phase="Succeeded")
                self._status(member, current, "Succeeded")

    def _make(self, member: FakeMember, body: Body, component: Component, number: int) -> PodView:
        self._uids += 1
        pod = pod_of(member, body, component, number, f"p{self._uids}", self._now())
        member.pods[pod.uid] = pod
        if not pod.gated:
            self._seat(member, pod)
        return pod

    async def _more(self, member: FakeMember, body: Body) -> None:
        """The pods that a changed job asks for in addition; others stay until a test drops them."""
        await asyncio.sleep(0.02)
        interpreter, labels = interpreter_of(body["apiVersion"], body["kind"]), _labels(body)
        mine = self._pods(member, labels)
        if interpreter is None or not mine or self._current(member, body) is None:
            return
        made = {
            self._make(member, body, component, number).uid
            for component in interpreter.components(body)
            for number in range(sum(pod.component == component.name for pod in mine), component.replicas)
        }
        self._tell(member.name, "pod", body)
        await asyncio.sleep(member.start_s)
        for pod in [pod for pod in self._pods(member, labels) if pod.uid in made and pod.node]:
            member.pods[pod.uid] = replace(pod, phase="Running", ready=True)
        self._tell(member.name, "pod", body)

    def _pods(self, member: FakeMember, labels: Mapping[str, str]) -> list[PodView]:
        """The pods of one attempt of a job, placeholders left out."""
        wanted = (labels.get(LABEL_BINDING), int(labels.get(ATTEMPT, 0)), False)
        return [pod for pod in member.pods.values() if (pod.binding, pod.attempt, pod.placeholder) == wanted]

    def _current(self, member: FakeMember, body: Body) -> Body | None:
        there = member.objects.get(key_of(body))
        if there is None or there["metadata"]["uid"] != body["metadata"]["uid"]:
            return None
        return None if "deletionTimestamp" in there["metadata"] else there

    async def _remove(self, member: FakeMember, body: Body) -> None:
        await asyncio.sleep(member.delete_s)
        there = member.objects.get(key_of(body))
        if there is None or there["metadata"]["uid"] != body["metadata"]["uid"]:
            return
        del member.objects[key_of(body)]
        self._tell(member.name, "job", body)
        if interpreter_of(body["apiVersion"], body["kind"]) is None:
            return
        await asyncio.sleep(member.delete_s)
        for pod in self._pods(member, _labels(body)):
            if pod.terminating:
                await asyncio.sleep(max(0.0, pod.gone_by - self._now()))
                member.pods.pop(pod.uid, None)
            elif member.stuck:
                member.pods[pod.uid] = replace(pod, terminating=True, gone_by=self._now())
            else:
                del member.pods[pod.uid]
        self._tell(member.name, "pod", body)

    async def _reached(self, name: str) -> FakeMember | ActOutcome:
        member = self.by_name.get(name)
        if member is None:
            return ActOutcome(ActResult.UNREACHABLE, "no such member")
        await self._take(member)
        return ActOutcome(ActResult.UNREACHABLE, "no answer") if member.down else member

    async def _take(self, member: FakeMember) -> None:
        member.calls_at_once += 1
        member.calls_at_once_max = max(member.calls_at_once_max, member.calls_at_once)
        try:
            await asyncio.sleep(member.slow_s or 0.001)
        finally:
            member.calls_at_once -= 1

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _tell(self, member: str, what: str, body: Body) -> None:
        if not self.by_name[member].down:
            for callback in self._callbacks:
                callback(MemberChange(member, what, _labels(body).get(LABEL_BINDING, "")))

    def _now(self) -> float:
        return EPOCH + asyncio.get_running_loop().time()


def _labels(body: Body) -> dict[str, str]:
    return body["metadata"].get("labels") or {}
