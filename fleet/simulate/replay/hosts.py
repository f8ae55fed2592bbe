"""The members of a replay with the real controllers: the protocol of fleet/members/members.py over nodes in memory.

A job that is put into a member gets room whole or waits for it, as with a gang scheduler there. Its pods run at once
and end when the trace says. A delete takes effect after the grace. The hub reads the same as from a member's watches
(copies with their status, pods, rooms); nothing fails here.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from fleet.core.foresee.nodes import ForwardNodes
from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Member
from fleet.core.model.pod import PodView
from fleet.core.model.unit import Component, Phase, Seat, Unit
from fleet.kinds import interpreter_of
from fleet.members.members import ActOutcome, ActResult, Closed, MemberChange, NodeView
from fleet.values.ports import Body, Clock, Key
from fleet.values.times import rfc3339
from fleet.wellknown import ATTEMPT, LABEL_BINDING

START_S = 0.1  # from an apply until its pods run, when there is room


class JobListeners(Protocol):
    """The listeners for the outcome of jobs, by namespace and name."""

    def started(self, job: tuple[str, str], member: str) -> float:
        """How long it runs, in seconds, unless it is stopped."""
        ...

    def ended(self, job: tuple[str, str], member: str) -> None: ...

    def evicted(self, job: tuple[str, str], member: str) -> None: ...

    def left(self, job: tuple[str, str], member: str) -> None: ...


@dataclass(slots=True)
class _Copy:
    """A dispatched object; of a job, its pods and where it is with them."""

    body: Body
    unit: Unit | None = None
    pods: list[PodView] = field(default_factory=list)
    ends: asyncio.TimerHandle | None = None
    leaving: bool = False


@dataclass(slots=True)
class _Host:
    nodes: ForwardNodes
    copies: dict[Key, _Copy] = field(default_factory=dict)
    without_room: list[Key] = field(default_factory=list)


class Hosts:
    """fleet.members.members.Members."""

    def __init__(
        self,
        members: Sequence[Member],
        gangs: Sequence[Unit],
        hub: str,
        clock: Clock,
        listeners: JobListeners,
        grace_s: float,
    ) -> None:
        """`gangs`: a unit of every shape that will come, with the requests that its pods will have."""
        self._hosts = {member.name: _Host(ForwardNodes(member, gangs)) for member in members}
        self._hub, self._clock, self._told, self._grace_s = hub, clock, listeners, grace_s
        self._of: dict[str, dict[tuple[str, Key], None]] = {}  # binding -> where copies of it are
        self._callbacks: list[Callable[[MemberChange], None]] = []
        self._uids = 0

    # -- reads of the hub

    def names(self) -> Sequence[str]:
        return list(self._hosts)

    def silent_s(self, name: str) -> float | None:
        return 0.0 if self.ready(name) else None

    def ready(self, name: str) -> bool:
        return name in self._hosts

    def model(self, name: str) -> Member | None:
        host = self._hosts.get(name)
        return host.nodes.member if host is not None else None

    def closed(self, name: str) -> Sequence[Closed]:
        return ()

    def nodes(self, name: str) -> Sequence[NodeView]:
        """None: nobody looks at a map of a replay."""
        return ()

    @property
    def rooms(self) -> Sequence[ForwardNodes]:
        """The nodes of every member, to look at."""
        return [host.nodes for host in self._hosts.values()]

    def tell_apart(self, named: frozenset[tuple[str, str]]) -> None:
        """No job of a trace asks for single nodes."""

    def node_ready(self, name: str, node: str) -> bool:
        return name in self._hosts

    def avoid_nodes(self, name: str, nodes: frozenset[str]) -> None:
        """No node of a trace fails."""

    def pods_of(self, binding: str) -> Sequence[PodView]:
        return [pod for name, key in self._of.get(binding, ()) for pod in self._hosts[name].copies[key].pods]

    def seats(self, name: str, pods: Sequence[PodView]) -> tuple[Seat, ...]:
        nodes = self._hosts[name].nodes
        units = dict.fromkeys(_unit_id(pod.binding, pod.attempt) for pod in pods if pod.holds_room)
        return tuple(seat for unit in units for seat in nodes.seats(unit))

    def placeholders(self, name: str) -> Sequence[PodView]:
        return ()

    def copies(self, binding: str) -> Sequence[tuple[str, Body]]:
        found = ((name, self._hosts[name].copies[key]) for name, key in self._of.get(binding, ()))
        return [(name, copied.body) for name, copied in found if copied.unit is not None]

    def companions(self, binding: str) -> Sequence[tuple[str, Body]]:
        return ()

    def find(self, name: str, key: Key) -> Body | None:
        found = self._hosts[name].copies.get(key) if name in self._hosts else None
        return found.body if found is not None else None

    def owned(self, name: str) -> Sequence[Body]:
        return [copied.body for copied in self._hosts[name].copies.values()] if name in self._hosts else []

    def subscribe(self, callback: Callable[[MemberChange], None]) -> None:
        if callback not in self._callbacks:  # a loop that is started again
            self._callbacks.append(callback)

    # -- acts of the hub

    async def apply(self, name: str, body: Body, *, overwrite: bool = False) -> ActOutcome:
        await asyncio.sleep(0.001)
        host, key = self._hosts[name], key_of(body)
        host_copy = host.copies.get(key)
        if host_copy is not None and host_copy.leaving:
            return ActOutcome(ActResult.UNREACHABLE, "is still being deleted", host_copy.body)
        stored = copy.deepcopy(body)
        if host_copy is not None:
            stored["metadata"]["uid"] = host_copy.body["metadata"]["uid"]
            if "status" in host_copy.body:
                stored["status"] = host_copy.body["status"]
            host_copy.body = stored
            return ActOutcome(ActResult.DONE, body=stored)
        self._uids += 1
        stored["metadata"]["uid"] = f"copy-{self._uids}"
        new_copy = host.copies[key] = _Copy(stored)
        interpreter = interpreter_of(body["apiVersion"], body["kind"])
        labels = body["metadata"].get("labels") or {}
        self._of.setdefault(labels.get(LABEL_BINDING, ""), {})[(name, key)] = None
        if interpreter is not None:
            components = interpreter.components(stored)
            ident = _unit_id(labels[LABEL_BINDING], int(labels[ATTEMPT]))
            new_copy.unit = Unit(ident, key.name, components, phase=Phase.PLACED, member=name)
            new_copy.pods = [
                self._pod(name, new_copy, part, number) for part in components for number in range(part.replicas)
            ]
            self._status(new_copy, "Created")
            asyncio.get_running_loop().call_later(START_S, self._give_room, name, key)
        self._tell(name, "job", new_copy)
        return ActOutcome(ActResult.DONE, body=stored)

    async def delete(self, name: str, body: Body, *, grace_s: int | None = None) -> ActOutcome:
        await asyncio.sleep(0.001)
        host, key = self._hosts[name], key_of(body)
        host_copy = host.copies.get(key)
        if host_copy is None or body["metadata"].get("uid") not in (None, host_copy.body["metadata"]["uid"]):
            return ActOutcome(ActResult.NOT_FOUND)
        if host_copy.leaving:
            return ActOutcome(ActResult.DONE)
        host_copy.leaving = True
        runs = host_copy.ends is not None
        if host_copy.ends is not None:
            host_copy.ends.cancel()
            self._told.evicted((key.namespace, key.name), name)
        marked = copy.deepcopy(host_copy.body)
        marked["metadata"]["deletionTimestamp"] = rfc3339(self._clock.now())
        host_copy.body = marked
        host_copy.pods = [
            replace(pod, terminating=True, gone_by=self._clock.now() + self._grace_s) for pod in host_copy.pods
        ]
        self._tell(name, "job", host_copy)
        asyncio.get_running_loop().call_later(self._grace_s if runs else 0.05, self._gone, name, key, runs)
        return ActOutcome(ActResult.DONE)

    async def look(self, name: str, body: Body) -> ActOutcome:
        there = self._hosts[name].copies.get(key_of(body))
        return ActOutcome(ActResult.NOT_FOUND) if there is None else ActOutcome(ActResult.DONE, body=there.body)

    async def warning(self, name: str, body: Body) -> str:
        return ""

    async def relabel(
        self, name: str, body: Body, labels: Mapping[str, str | None], annotations: Mapping[str, str | None]
    ) -> ActOutcome:
        host_copy = self._hosts[name].copies.get(key_of(body))
        if host_copy is None:
            return ActOutcome(ActResult.NOT_FOUND)
        changed = copy.deepcopy(host_copy.body)
        for part, values in (("labels", labels), ("annotations", annotations)):
            merged = {**(changed["metadata"].get(part) or {}), **values}
            changed["metadata"][part] = {key: value for key, value in merged.items() if value is not None}
        host_copy.body = changed
        self._tell(name, "job", host_copy)
        return ActOutcome(ActResult.DONE, body=changed)

    # -- how jobs run

    async def put_pod(self, name: str, body: Body) -> ActOutcome:
        return ActOutcome(ActResult.REFUSED, "members of a replay hold no room")

    async def patch_pod(self, name: str, pod: PodView, patch: Body, *, status: bool = False) -> ActOutcome:
        return ActOutcome(ActResult.NOT_FOUND)

    def _give_room(self, name: str, key: Key) -> None:
        host = self._hosts[name]
        host_copy = host.copies.get(key)
        if host_copy is None or host_copy.unit is None or host_copy.leaving or host_copy.ends is not None:
            return
        if not host.nodes.seat(host_copy.unit):
            if key not in host.without_room:
                host.without_room.append(key)
            return
        host.nodes.changed.clear()
        host_copy.pods = _on_nodes(host_copy.pods, host.nodes.seats(host_copy.unit.id))
        self._status(host_copy, "Running")
        self._tell(name, "pod", host_copy)
        runs_s = self._told.started((key.namespace, key.name), name)
        host_copy.ends = asyncio.get_running_loop().call_later(max(0.0, runs_s), self._end, name, key)

    def _end(self, name: str, key: Key) -> None:
        host_copy = self._hosts[name].copies[key]
        host_copy.ends = None
        host_copy.pods = [replace(pod, phase="Succeeded", ready=False) for pod in host_copy.pods]
        self._status(host_copy, "Succeeded")
        self._release(name, host_copy)
        self._told.ended((key.namespace, key.name), name)
        self._tell(name, "job", host_copy)
        self._tell(name, "pod", host_copy)

    def _gone(self, name: str, key: Key, ran: bool) -> None:
        host_copy = self._hosts[name].copies.pop(key)
        binding = (host_copy.body["metadata"].get("labels") or {}).get(LABEL_BINDING, "")
        self._of[binding].pop((name, key))
        if not self._of[binding]:
            del self._of[binding]
        host_copy.pods = []
        if ran:
            self._release(name, host_copy)
            self._told.left((key.namespace, key.name), name)
        self._tell(name, "job", host_copy)
        self._tell(name, "pod", host_copy)

    def _release(self, name: str, there: _Copy) -> None:
        host = self._hosts[name]
        if there.unit is not None:
            host.nodes.release(there.unit)
        waiting, host.without_room = host.without_room, []
        for key in waiting:
            self._give_room(name, key)

    def _pod(self, member: str, made: _Copy, part: Component, number: int) -> PodView:
        meta = made.body["metadata"]
        self._uids += 1
        return PodView(
            member=member,
            namespace=meta["namespace"],
            name=f"{meta['name']}-{part.name}-{number}",
            uid=f"pod-{self._uids}",
            node="",
            phase="Pending",
            ready=False,
            terminating=False,
            binding=meta["labels"][LABEL_BINDING],
            component=part.name,
            attempt=int(meta["labels"][ATTEMPT]),
            requests=part.requests,
            reason="no node has room",
            since=self._clock.now(),
        )

    def _status(self, host_copy: _Copy, type_: str) -> None:
        changed = copy.deepcopy(host_copy.body)
        at = rfc3339(self._clock.now())
        conditions = changed.setdefault("status", {}).setdefault("conditions", [])
        for entry in conditions:
            entry["status"] = "False" if entry["type"] == "Running" else entry["status"]
        conditions.append(
            {
                "type": type_,
                "status": "True",
                "reason": f"Job{type_}",
                "message": "",
                "lastTransitionTime": at,
                "lastUpdateTime": at,
            }
        )
        host_copy.body = changed

    def _tell(self, member: str, what: str, there: _Copy) -> None:
        binding = (there.body["metadata"].get("labels") or {}).get(LABEL_BINDING, "")
        for callback in self._callbacks:
            callback(MemberChange(member, what, binding))


def key_of(body: Body) -> Key:
    """By kind instead of resource, since only `find` reads these keys."""
    group = body["apiVersion"].rpartition("/")[0]
    plural = f"{body['kind'].lower()}s"
    return Key(group, plural, body["metadata"].get("namespace", ""), body["metadata"]["name"])


def _unit_id(binding: str, attempt: int) -> str:
    return f"{binding}/{attempt}"


def _on_nodes(pods: Sequence[PodView], seats: Sequence[Seat]) -> list[PodView]:
    """The pods on the nodes where the gang sits, largest first."""
    left: dict[str, Amounts] = {seat.node: seat.holds for seat in seats}
    found: dict[str, PodView] = {}
    for pod in sorted(pods, key=lambda pod: sorted(pod.requests.items_), reverse=True):
        node = next((name for name, room in left.items() if pod.requests.fits(room)), next(iter(left), "node"))
        left[node] = left.get(node, pod.requests).minus(pod.requests)
        found[pod.uid] = replace(pod, node=node, phase="Running", ready=True, reason="")
    return [found[pod.uid] for pod in pods]
