"""A scheduler for simulated members: binds pending pods, in order, to nodes with room.

The scheduler keeps the rules of kube-scheduler: node selectors, node affinity, pod affinity by labels, hard taints,
scheduling gates, requests of every resource, room kept for pods that are nominated to a node; pods of higher priority
first, then older ones. Pods are spread (of the nodes that a pod prefers the emptiest that fits). The scheduler does not
preempt, and knows no gangs, like a member without a gang scheduler.

Pods alike in what they need wait in one line, and a line that did not fit is not tried again before room appeared;
so a thousand pending pods cost no more than the shapes among them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

import structlog

from api.engine.status import StatusError
from fleet.kinds.requests import amounts, pod_requests
from fleet.simulate.match import Needs, chosen_domains, company, liking, needs_of, why_not_here
from fleet.simulate.world import World, going, node_of, phase_of, set_condition
from fleet.values.ports import Body, EventType, ExpiredRevision

log = structlog.get_logger(__name__)

SCHEDULER = "default-scheduler"
Requests = tuple[tuple[str, int], ...]


@dataclass(slots=True)
class _Node:
    body: Body
    allocatable: dict[str, int]
    used: dict[str, int] = field(default_factory=dict)

    def short(self, requests: Requests, kept: Mapping[str, int]) -> list[str]:
        """Names of the resources it has too little of, `kept` for others."""
        used = {name: self.used.get(name, 0) + kept.get(name, 0) for name, _ in requests}
        return [name for name, amount in requests if amount > self.allocatable.get(name, 0) - used[name]]

    def load(self) -> tuple[float, str]:
        shares = [self.used.get(name, 0) / total for name, total in self.allocatable.items() if total]
        return sum(shares), self.body["metadata"]["name"]

    def add(self, requests: Requests, sign: int) -> None:
        for name, amount in requests:
            self.used[name] = self.used.get(name, 0) + sign * amount


@dataclass(slots=True)
class _Line:
    """Pending pods of one shape that are nominated to the same node, or none, in order, as (−priority, sequence, uid).
    `blocked`: did not fit, and no room since."""

    needs: Needs
    heap: list[tuple[int, int, str]] = field(default_factory=list)
    blocked: bool = False


class Scheduler:
    """A Loop."""

    name = "scheduler"

    def __init__(self, world: World) -> None:
        self._world = world
        self._nodes: dict[str, _Node] = {}
        self._bound: dict[str, tuple[str, Requests]] = {}  # uid -> node, requests
        self._labels: dict[str, dict[str, str]] = {}  # of bound pods, by uid
        self._pending: dict[str, Body] = {}
        self._queued: set[str] = set()
        self._lines: dict[tuple[Needs, str], _Line] = {}
        self._nominated: dict[str, tuple[str, Requests, int]] = {}  # uid -> node, requests, priority
        self._sequence = 0
        self._wake = asyncio.Event()
        world.pods.listen(self._pod)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_nodes())
            group.create_task(self._schedule())

    # -- pods and nodes

    async def _follow_nodes(self) -> None:
        store = self._world.store
        while True:
            page = await store.list("", "nodes")
            present = {stored.key.name for stored in page.items}
            for name in self._nodes.keys() - present:
                del self._nodes[name]
            for stored in page.items:
                self._node(stored.body)
            watch = await store.watch("", "nodes", since=page.revision)
            try:
                async for event in watch:
                    if event.type is EventType.DELETED:
                        self._nodes.pop(event.stored.key.name, None)
                    else:
                        self._node(event.stored.body)
            except ExpiredRevision:
                continue
            finally:
                await watch.aclose()

    def _node(self, body: Body) -> None:
        name = body["metadata"]["name"]
        allocatable = amounts((body.get("status") or {}).get("allocatable"))
        entry = self._nodes.get(name)
        if entry is None:
            node = self._nodes[name] = _Node(body, allocatable)
            for at, requests in self._bound.values():
                if at == name:
                    node.add(requests, 1)
        else:
            entry.body, entry.allocatable = body, allocatable
        self._room()

    def _pod(self, pod: Body, deletion: bool) -> None:
        uid = pod["metadata"]["uid"]
        node = node_of(pod)
        self._nominate(pod, wants=not node and not deletion and not going(pod))
        counts = bool(node) and not deletion and phase_of(pod) not in ("Succeeded", "Failed")
        if counts:
            self._pending.pop(uid, None)
            if uid not in self._bound:  # bound by another scheduler
                self._charge(pod, node, pod_requests(pod["spec"]).items_)
        elif node or deletion:
            self._pending.pop(uid, None)
            self._release(uid)
        elif not going(pod) and (pod["spec"].get("schedulerName") or SCHEDULER) == SCHEDULER:
            if uid not in self._bound:  # else this is an older state of one that was just bound
                self._pending[uid] = pod
                self._enqueue(uid, pod)
        else:
            self._pending.pop(uid, None)

    def _nominate(self, pod: Body, *, wants: bool) -> None:
        """Keep room on the node that the pod is nominated to, until it is bound or gone."""
        uid, node = pod["metadata"]["uid"], str((pod.get("status") or {}).get("nominatedNodeName") or "")
        if wants and node:
            priority = int(pod["spec"].get("priority") or 0)
            self._nominated[uid] = (node, pod_requests(pod["spec"]).items_, priority)
        elif self._nominated.pop(uid, None) is not None:
            self._room()

    def _kept(self, node: _Node, pod: Body) -> Counter[str]:
        """The room on the node that is kept against this pod: for nominated ones of the same or a higher priority."""
        kept: Counter[str] = Counter()
        priority = int(pod["spec"].get("priority") or 0)
        for uid, (at, requests, theirs) in self._nominated.items():
            if at == node.body["metadata"]["name"] and uid != pod["metadata"]["uid"] and theirs >= priority:
                kept.update(dict(requests))
        return kept

    def _charge(self, pod: Body, node: str, requests: Requests) -> None:
        uid = pod["metadata"]["uid"]
        self._bound[uid] = (node, requests)
        self._labels[uid] = pod["metadata"].get("labels") or {}
        if node in self._nodes:
            self._nodes[node].add(requests, 1)

    def _release(self, uid: str) -> None:
        bound = self._bound.pop(uid, None)
        self._labels.pop(uid, None)
        if bound is not None and bound[0] in self._nodes:
            self._nodes[bound[0]].add(bound[1], -1)
            self._room()

    def _enqueue(self, uid: str, pod: Body) -> None:
        if pod["spec"].get("schedulingGates"):
            self._wake.set()
            return
        if uid not in self._queued:
            self._queued.add(uid)
            self._sequence += 1
            needs = needs_of(pod["spec"])
            nominated = self._nominated.get(uid, ("",))[0]
            line = self._lines.setdefault((needs, nominated), _Line(needs))
            heappush(line.heap, (-int(pod["spec"].get("priority") or 0), self._sequence, uid))
            line.blocked = False
            self._wake.set()

    def _room(self) -> None:
        for line in self._lines.values():
            line.blocked = False
        self._wake.set()

    # -- binding

    async def _schedule(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(0)  # take in what else happened in this turn
            for pod in [p for p in self._pending.values() if p["spec"].get("schedulingGates")]:
                text = "Scheduling is blocked due to non-empty scheduling gates"
                await self._say(pod, "SchedulingGated", text)
            while (line := self._next()) is not None:
                await self._try(line)
                await asyncio.sleep(0)  # a member that schedules still answers

    def _next(self) -> _Line | None:
        best: _Line | None = None
        for key, line in list(self._lines.items()):
            while line.heap and line.heap[0][2] not in self._pending:
                self._queued.discard(heappop(line.heap)[2])
            if not line.heap:
                del self._lines[key]
            elif not line.blocked and (best is None or line.heap[0] < best.heap[0]):
                best = line
        return best

    async def _try(self, line: _Line) -> None:
        uid = line.heap[0][2]
        pod = self._pending[uid]
        node, why = self._place(line.needs, pod)
        if node is None:
            line.blocked = True
            # Each pod of the line learns why it waits; `_say` writes only what is new.
            for _, _, waiting in sorted(line.heap):
                if waiting in self._pending:
                    await self._say(self._pending[waiting], "Unschedulable", why)
            return
        heappop(line.heap)
        self._queued.discard(uid)
        del self._pending[uid]
        self._charge(pod, node, line.needs.requests)
        if not await self._bind(pod, node):
            self._release(uid)

    def _placed(self) -> list[tuple[dict[str, str], dict[str, str]]]:
        """The labels of each pod that has a node, and of its node."""
        return [
            (self._labels[uid], self._nodes[at].body["metadata"].get("labels") or {})
            for uid, (at, _) in self._bound.items()
            if at in self._nodes
        ]

    def _place(self, needs: Needs, pod: Body) -> tuple[str | None, str]:
        """Of the nodes that fit the emptiest that it likes best, or why none does, in kube-scheduler's words."""
        fits: list[_Node] = []
        reasons: Counter[str] = Counter()
        placed = self._placed() if needs.together or needs.beside else []
        near = chosen_domains(needs, pod["metadata"].get("labels") or {}, placed)
        for node in self._nodes.values():
            labels = node.body["metadata"].get("labels") or {}
            away = any(key not in labels or (at is not None and labels[key] not in at) for key, at in near)
            why = why_not_here(needs, node.body) or ("node(s) didn't match pod affinity rules" if away else "")
            if why:
                reasons[why] += 1
                continue
            short = node.short(needs.requests, self._kept(node, pod))
            for name in short:
                reasons["Too many pods" if name == "pods" else f"Insufficient {name}"] += 1
            if not short:
                fits.append(node)
        if fits:
            nominated = self._nominated.get(pod["metadata"]["uid"], ("",))[0]
            fits = [node for node in fits if node.body["metadata"]["name"] == nominated] or fits
            others = company(needs, placed)
            best = min(fits, key=lambda node: (-liking(needs, node.body, others), node.load()))
            return str(best.body["metadata"]["name"]), ""
        count = len(self._nodes)
        if not count:
            return None, "no nodes available to schedule pods"
        told = ", ".join(f"{number} {why}" for why, number in sorted(reasons.items()))
        return None, f"0/{count} nodes are available: {told}."

    async def _bind(self, pod: Body, node: str) -> bool:
        now = self._world.now()

        def change(body: Body) -> Body | None:
            if going(body) or node_of(body):
                return None
            body["spec"]["nodeName"] = node
            condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
            set_condition(body.setdefault("status", {"phase": "Pending"}), condition, now)
            return body

        try:
            changed = await self._world.change_pod(pod, change)
        except StatusError as error:
            log.warning("could not bind", pod=pod["metadata"]["name"], error=error.message)
            return False
        return changed is not None and node_of(changed) == node

    async def _say(self, pod: Body, reason: str, message: str) -> None:
        now = self._world.now()

        def change(body: Body) -> Body | None:
            if going(body) or node_of(body):
                return None
            status = body.setdefault("status", {"phase": "Pending"})
            for condition in status.get("conditions") or ():
                if condition["type"] == "PodScheduled" and condition.get("message") == message:
                    return None
            said = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
            set_condition(status, {**said, "lastProbeTime": None}, now)
            return body

        for condition in (pod.get("status") or {}).get("conditions") or ():
            if condition["type"] == "PodScheduled" and condition.get("message") == message:
                return
        await self._world.change_pod(pod, change)
