"""One member: its connection, its watches, and whether it can be counted on.

Everything of a member runs in tasks of its own with limits of its own; nothing here waits for another member. A member
is ready while it has shown life within `MemberLimits.lost_after_s` (an answer to the probe, or anything on a watch) and
everything that decisions rest on has been listed once: nodes, pods, and the objects of ours. Listed objects stay known
while the member is silent; only `ready` says how much to trust them.

A member that begins or comes back after a silence is asked first which cluster it is (identity.py). Until that is
accepted it counts as silent: nothing of it is listed, and nothing is sent to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from fleet.core.model.amounts import NOTHING, Amounts
from fleet.core.model.member import Member
from fleet.core.model.pod import PodView
from fleet.core.model.unit import Seat
from fleet.members.acts import Acts
from fleet.members.allowance import LoopTime, MemberMemory, TooMuch
from fleet.members.connection import Connection, Unreachable, not_let_in
from fleet.members.contact import Contact
from fleet.members.discovery import Catalogue, Discovery, ServedResource
from fleet.members.dispatch import Dispatcher
from fleet.members.dispatchedobjects import DispatchedObjects, KindSink, followed_always, optional
from fleet.members.follow import Follower, UnservedCollection
from fleet.members.identity import Judge, anyone, read_identity
from fleet.members.index import ByBinding
from fleet.members.inventory import NodeSink, Notify, PodSink
from fleet.members.members import Closed, MemberChange, NodeView
from fleet.members.nodes import MemberNodes
from fleet.members.planting import MemberPlaces
from fleet.members.potential import potential_pools
from fleet.members.texts import one_line
from fleet.members.traits import MemberLimits, MemberSettings, Traits
from fleet.values.ports import Body, Key
from fleet.wellknown import LABEL_HUB

log = structlog.get_logger(__name__)

RESTART_PAUSE_S = 5.0  # after a bug met in one member's data
VERSION_MAX = 64  # characters of the version that it says
TOO_MUCH = "TooManyObjects"


class OneMember:
    def __init__(
        self,
        name: str,
        hub: str,
        connection: Connection,
        pods: ByBinding[PodView],
        copies: ByBinding[Body],
        companions: ByBinding[Body],
        notify: Notify,
        limits: MemberLimits,
        judge: Judge = anyone,
    ) -> None:
        self.name, self.hub = name, hub
        self._judge = judge
        self.connection, self._limits, self._notify = connection, limits, notify
        self._life = Contact(limits.lost_after_s)
        connection.lost = self._life.lost
        self._nodes = MemberNodes()
        memory, time = MemberMemory(limits.kept_bytes, limits.kept_objects), LoopTime()
        self._time = time
        self.dispatched = DispatchedObjects(name, hub, copies, companions, notify, memory)
        self._node_sink = NodeSink(name, self._nodes, notify, memory)
        self._pods = PodSink(name, hub, self._nodes, pods, notify, self.dispatched.job, memory)
        self.dispatched.listen(self._pods.came)
        changed = partial(notify, MemberChange(name, "node"))
        self._places = MemberPlaces(self._nodes, memory, time, self._spawn, changed)
        self.acts = Acts(self, Dispatcher(connection))
        self._discovery = Discovery(connection)
        self._discover_lock = asyncio.Lock()
        self._rediscover = asyncio.Event()
        self._catalogue: Catalogue | None = None
        self._inventory = (
            Follower(connection, "/api/v1/nodes", self._node_sink, contact=self._contact, time=time, member=name),
            Follower(connection, "/api/v1/pods", self._pods, contact=self._contact, time=time, member=name),
        )
        self._kinds: dict[tuple[str, str], Follower] = {}
        self._needed: tuple[Follower, ...] = ()  # of `_kinds`: the kinds that were there at the first look
        self._tasks: set[asyncio.Task[None]] = set()
        self._probing: asyncio.Task[None] | None = None
        self._again_at = 0.0  # when a member that showed too much is listed again
        self._traits = Traits()
        self._model: Member | None = None
        self._modelled = 0  # version of the nodes that `_model` was made from
        self._version = ""
        self._refused: tuple[str, str] | None = None  # reason and message, while it is another cluster than it should
        self._was_ready = False
        self._began = 0.0

    # -- life

    def start(self) -> None:
        self._began = asyncio.get_running_loop().time()
        self._probing = self._spawn("probe", self._probe)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.connection.aclose()
        self._clear()

    def _clear(self) -> None:
        self._pods.clear()
        self._node_sink.clear()
        self.dispatched.clear()
        self._places.clear()

    def _end(self, error: TooMuch) -> None:
        """It shows more than the hub keeps of a member: it is lost, nothing of it is kept, and it may begin anew after
        a while."""
        log.warning("a member shows too much", member=self.name, why=str(error))
        self._again_at, self._version = asyncio.get_running_loop().time() + self._limits.too_much_s, ""
        self._life.end(str(error), TOO_MUCH)
        for task in self._tasks - {self._probing, asyncio.current_task()}:
            task.cancel()
        for follower in self._inventory:
            follower.forget()
        self._kinds, self._needed, self._catalogue, self._model = {}, (), None, None
        self._clear()
        self._was_ready = False
        self._notify(MemberChange(self.name, "ready"))

    def _spawn(self, what: str, run: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        task = asyncio.create_task(self._guard(what, run), name=f"member:{self.name}:{what}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guard(self, what: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """A bug that one member's data brings out must not take the others with it, so the task is logged and tried
        again."""
        while True:
            try:
                return await run()
            except TooMuch as error:
                return self._end(error)
            except Exception as error:
                log.exception("member task failed", member=self.name, task=what)
                self._life.note(f"{what}: {error!r}")
                await asyncio.sleep(RESTART_PAUSE_S)

    # -- is it there

    def _contact(self) -> None:
        """Note a sign of life. A silence ends with `_return` alone."""
        if not self._life.lost():
            self._life.note_sign()
            if not self._was_ready:
                self._review()

    async def _return(self) -> None:
        """End the silence if this is the cluster that it should be. Raises Unreachable."""
        if asyncio.get_running_loop().time() < self._again_at:
            return
        identity = await read_identity(self.connection)
        refused = await self._judge(self.name, identity)
        if refused != self._refused:
            self._refused = refused
            log.info("member refused" if refused else "member accepted", member=self.name)
            self._notify(MemberChange(self.name, "ready"))
        if refused is not None:
            return
        if self._life.note_sign():
            runs = (("discover", self._discover), ("places", self._places.run))
            for what, run in (*runs, *((f.path, f.run) for f in self._inventory)):
                self._spawn(what, run)
        for follower in (*self._inventory, *self._kinds.values(), *self._places.followers.values()):
            follower.kick()
        self._rediscover.set()
        self._review()

    def silent_s(self) -> float | None:
        return self._life.silent_s()

    def _complete(self) -> bool:
        return self._catalogue is not None and all(f.synced for f in (*self._inventory, *self._needed))

    def ready(self) -> bool:
        return not self._life.lost() and self._complete()

    def _review(self) -> None:
        ready = self.ready()
        if ready != self._was_ready:
            self._was_ready = ready
            self._model = None
            told, why = log.info if ready else log.warning, self._reason()[1]
            told("member ready" if ready else "member not ready", member=self.name, why=why)
            self._notify(MemberChange(self.name, "ready"))

    async def _probe(self) -> None:
        while True:
            try:
                answer = await self.connection.probe(self._limits.probe_s)
                self._life.let_in(answer.status != 401)
                # 403 and 404 come from an API that lives and does not show its health to us.
                if answer.ok or answer.status in (403, 404):
                    if self._life.lost():
                        await self._return()
                    self._contact()
                elif answer.status == 401:
                    raise not_let_in("/readyz", answer)
                else:
                    self._life.note(f"/readyz: {answer.message}")
            except Unreachable as error:
                self._life.note(str(error), error.reason)
            self._review()
            await asyncio.sleep(self._limits.probe_every_s)

    def _reason(self) -> tuple[str, str]:
        if self._refused is not None:
            return self._refused
        if self._life.lost():
            return self._life.why_lost()
        if not self._complete():
            errors = [f.error for f in (*self._inventory, *self._needed) if not f.synced and f.error]
            return "InventoryIncomplete", one_line("; ".join(errors)) or "the first lists are not complete"
        return "ClusterReady", "cluster is healthy and ready to accept workloads"

    # -- the kinds that it serves

    async def _discover(self) -> None:
        while True:
            try:
                await self.discover_once()
                pause = self._limits.discover_every_s
            except Unreachable as error:
                if not self._life.lost():  # else the probe knows better
                    self._life.note(str(error), error.reason)
                pause = min(2.0, self._limits.discover_every_s)
            self._rediscover.clear()
            try:
                async with asyncio.timeout(pause):
                    await self._rediscover.wait()
            except TimeoutError:
                pass

    async def discover_once(self) -> None:
        async with self._discover_lock:
            if not self._version:
                answer = await self.connection.request("GET", "/version", even_lost=False)
                self._version = one_line(answer.body.get("gitVersion"), VERSION_MAX)
            catalogue = await self._discovery.look()
            self._contact()
            if catalogue == self._catalogue:
                return
            first = self._catalogue is None
            self._catalogue = catalogue
            self._model = None
            for served in catalogue.served:
                if followed_always(served) and catalogue.resource(served.group, served.resource) == served:
                    self.follow(served)
            self._places.follow(catalogue, self.connection, self._contact, self.name)
            if first:
                self._needed = tuple(follower for at, follower in self._kinds.items() if not optional(*at))
            self._review()
            self._notify(MemberChange(self.name, "ready"))

    def follow(self, served: ServedResource) -> None:
        at = (served.group, served.resource)
        if at in self._kinds or not {"list", "watch"} <= served.verbs:
            return
        selector = f"{LABEL_HUB}={self.hub}"
        sink = KindSink(self.dispatched, served)
        follower = Follower(
            self.connection,
            served.collection,
            sink,
            selector=selector,
            contact=self._contact,
            time=self._time,
            member=self.name,
        )
        self._kinds[at] = follower

        async def run() -> None:
            try:
                await follower.run()
            except UnservedCollection:  # its CRD went, and its objects with it
                sink.started()
                sink.listed()
                if self._kinds.get(at) is follower:
                    del self._kinds[at]
                self._needed = tuple(f for f in self._needed if f is not follower)
                self._review()

        self._spawn(served.collection, run)

    # -- reading

    def describe(self, traits: Traits) -> bool:
        if traits == self._traits:
            return False
        self._traits = traits
        self._model = None
        self._places.give(traits.trees)
        return True

    def tell_apart(self, named: frozenset[tuple[str, str]]) -> None:
        """The pools of the next `model` show it; there is no event, since the caller reads the model anyway."""
        self._nodes.tell_apart(named)

    def node_ready(self, node: str) -> bool:
        return self._nodes.ready(node)

    def avoid_nodes(self, nodes: frozenset[str]) -> None:
        if self._nodes.avoid(nodes):
            self._notify(MemberChange(self.name, "node"))

    def model(self) -> Member | None:
        if self._catalogue is None or not all(f.synced for f in self._inventory):
            return None
        ready, pools = self.ready(), self._nodes.pools()
        model, unschedulable = self._model, self._nodes.unschedulable_count
        if model is None:
            traits = self._traits
            model = Member(
                self.name,
                ready,
                pools,
                traits.labels,
                traits.taints,
                self._catalogue.kinds,
                traits.provider,
                traits.region,
                traits.zone,
                traits.price,
                "" if ready else self._reason()[1],
                unschedulable=unschedulable,
            )
        elif model.pools is not pools or model.ready != ready or model.unschedulable != unschedulable:
            why = "" if ready else self._reason()[1]
            model = replace(model, ready=ready, pools=pools, not_ready_reason=why, unschedulable=unschedulable)
        if self._traits.potential and (model is not self._model or self._modelled != self._nodes.version):
            potential = potential_pools(self._traits.potential, self._nodes.count, self._nodes.trees)
            model = model if model.potential == potential else replace(model, potential=potential)
            self._modelled = self._nodes.version
        self._model = model
        return model

    def closed(self) -> Sequence[Closed]:
        return self._nodes.closed()

    def nodes(self) -> Sequence[NodeView]:
        return self._nodes.views()

    def seats(self, pods: Sequence[PodView]) -> tuple[Seat, ...]:
        held: dict[str, Amounts] = {}
        for pod in pods:
            if pod.holds_room:
                held[pod.node] = held.get(pod.node, NOTHING).plus(pod.requests)
        return self._nodes.seats(held)

    def _settled(self) -> bool:
        return (
            self._complete()
            or self._refused is not None
            or asyncio.get_running_loop().time() > self._began + self._limits.lost_after_s
        )

    def state(self) -> MemberSettings:
        reason, message = self._reason()
        return MemberSettings(
            self.ready(),
            reason,
            message,
            self._version,
            len(self._nodes),
            self._nodes.ready_count,
            self._nodes.total_allocatable,
            self._nodes.total_used,
            self._pods.pending_requests(),
            self._catalogue or Catalogue(),
            self._places.state(),
            self._settled(),
        )

    def find(self, key: Key) -> Body | None:
        return self.dispatched.find(key)

    def placeholders(self) -> Sequence[PodView]:
        return self._pods.placeholders()

    # -- for Acts

    def trouble(self) -> str:
        """Why nothing is sent to it now; "" while it is not known to be lost."""
        return self._reason()[1] if self._life.lost() else ""

    @property
    def catalogue(self) -> Catalogue:
        return self._catalogue or Catalogue()

    def keep(self, served: ServedResource, body: Body, *, written: bool = False) -> None:
        """Take in the answer to a write, which is newer than the watch."""
        try:
            self.dispatched.put(served, body, written=written)
        except TooMuch as error:
            self._end(error)

    def followed(self, served: ServedResource) -> bool:
        """Pods are not: the inventory has them."""
        return (served.group, served.resource) in self._kinds
