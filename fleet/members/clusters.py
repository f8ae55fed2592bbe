"""`ClusterMembers`: the Members facade over real connections, one set of tasks for each member."""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import structlog

from fleet.core.model.member import Member
from fleet.core.model.pod import PodView
from fleet.core.model.unit import Seat
from fleet.members.connection import Connection, Unreachable
from fleet.members.identity import Judge, anyone
from fleet.members.index import ByBinding
from fleet.members.kubeconfig import Dial, read_kubeconfig
from fleet.members.member import OneMember
from fleet.members.members import ActOutcome, ActResult, Closed, MemberChange, NodeView
from fleet.members.traits import MemberLimits, MemberSettings, Traits
from fleet.values.ports import Body, Key

log = structlog.get_logger(__name__)


class ClusterMembers:
    """Implements `fleet.members.members.Members`. Everything happens on the event loop that calls it."""

    def __init__(
        self,
        *,
        limits: MemberLimits | None = None,
        may_write: Callable[[], bool] = lambda: True,
        dial: Dial | None = None,
    ) -> None:
        """`may_write` is asked before every request that would change a member. `dial` reaches members that only their
        agents reach."""
        self._dial = dial
        self.judge: Judge = anyone  # of which clusters members may be; set before the first is added
        self._limits = limits or MemberLimits()
        self._may_write = may_write
        self._members: dict[str, OneMember] = {}
        self._credentials: dict[str, tuple[str, str, bool]] = {}  # name -> (digest of the kubeconfig, hub id, pull)
        self._pods: ByBinding[PodView] = ByBinding()
        self._copies: ByBinding[Body] = ByBinding()
        self._companions: ByBinding[Body] = ByBinding()
        self._callbacks: list[Callable[[MemberChange], None]] = []
        self._changing = asyncio.Lock()
        self._labels: frozenset[tuple[str, str]] = frozenset()
        self._avoided: dict[str, frozenset[str]] = {}

    # -- which members there are

    async def add(self, name: str, kubeconfig: str, hub_id: str, *, pull: bool = False) -> None:
        """Join the member, or give it other credentials; nothing happens when they are the ones it has. `pull`: its
        agent reaches it, whatever address the kubeconfig names.

        Returns before the member has answered. Raises BadKubeconfig, and then a member of that name stays as it was.
        """
        credentials = (hashlib.sha256(kubeconfig.encode()).hexdigest(), hub_id, pull)
        async with self._changing:
            if self._credentials.get(name) == credentials:
                return
            access = await asyncio.to_thread(read_kubeconfig, kubeconfig)
            if pull:
                access = access.dialled(partial(self._through_agent, name))
            await self._drop(name)
            connection = Connection(access, concurrency=self._limits.concurrency, request_s=self._limits.request_s)
            connection.may_write = self._may_write
            member = OneMember(
                name,
                hub_id,
                connection,
                self._pods,
                self._copies,
                self._companions,
                self._tell,
                self._limits,
                self.judge,
            )
            self._members[name] = member
            self._credentials[name] = credentials
            member.tell_apart(self._labels)
            member.avoid_nodes(self._avoided.get(name, frozenset()))
            member.start()

    async def _through_agent(self, name: str) -> socket.socket:
        if self._dial is None:
            raise ConnectionError("this process knows no way to agents")
        return await self._dial(name)

    async def remove(self, name: str) -> None:
        """Forget the member; nothing in it changes."""
        async with self._changing:
            if await self._drop(name):
                self._tell(MemberChange(name, "ready"))

    async def _drop(self, name: str) -> bool:
        member = self._members.pop(name, None)
        self._credentials.pop(name, None)
        if member is None:
            return False
        await member.stop()
        return True

    async def stop(self) -> None:
        async with self._changing:
            await asyncio.gather(*(self._drop(name) for name in list(self._members)))

    def describe(self, name: str, traits: Traits) -> None:
        """The Cluster object's facts about the member: labels, taints, place, price."""
        member = self._members.get(name)
        if member is not None and member.describe(traits):
            self._tell(MemberChange(name, "node"))

    def state(self, name: str) -> MemberSettings | None:
        """For Cluster.status; None for a member that is not there."""
        member = self._members.get(name)
        return member.state() if member else None

    async def fetch(self, name: str, path: str, *, limit_s: float, limit_bytes: int) -> tuple[int, bytes]:
        """Status and body of a GET of the member's API. Raises Unreachable."""
        member = self._members.get(name)
        if member is None:
            raise Unreachable("there is no such member")
        return await member.connection.fetch(path, limit_s=limit_s, limit_bytes=limit_bytes)

    # -- Members

    def names(self) -> Sequence[str]:
        return tuple(self._members)

    def ready(self, name: str) -> bool:
        member = self._members.get(name)
        return member is not None and member.ready()

    def silent_s(self, name: str) -> float | None:
        member = self._members.get(name)
        return member.silent_s() if member else None

    def model(self, name: str) -> Member | None:
        member = self._members.get(name)
        return member.model() if member else None

    def closed(self, name: str) -> Sequence[Closed]:
        member = self._members.get(name)
        return member.closed() if member else ()

    def nodes(self, name: str) -> Sequence[NodeView]:
        member = self._members.get(name)
        return member.nodes() if member else ()

    def tell_apart(self, labels: frozenset[tuple[str, str]]) -> None:
        self._labels = labels
        for member in self._members.values():
            member.tell_apart(labels)

    def node_ready(self, name: str, node: str) -> bool:
        member = self._members.get(name)
        return member is not None and member.node_ready(node)

    def avoid_nodes(self, name: str, nodes: frozenset[str]) -> None:
        self._avoided[name] = nodes
        if name in self._members:
            self._members[name].avoid_nodes(nodes)

    def pods_of(self, binding: str) -> Sequence[PodView]:
        return self._pods.values(binding)

    def seats(self, name: str, pods: Sequence[PodView]) -> tuple[Seat, ...]:
        member = self._members.get(name)
        return member.seats(pods) if member else ()

    def placeholders(self, name: str) -> Sequence[PodView]:
        member = self._members.get(name)
        return member.placeholders() if member else ()

    def copies(self, binding: str) -> Sequence[tuple[str, Body]]:
        return self._copies.items(binding)

    def companions(self, binding: str) -> Sequence[tuple[str, Body]]:
        return self._companions.items(binding)

    def find(self, name: str, key: Key) -> Body | None:
        member = self._members.get(name)
        return member.find(key) if member else None

    def owned(self, name: str) -> Sequence[Body]:
        member = self._members.get(name)
        return member.dispatched.all() if member else ()

    async def look(self, name: str, body: Body) -> ActOutcome:
        member = self._members.get(name)
        if member is None:
            return ActOutcome(ActResult.UNREACHABLE, f"there is no member {name}")
        return await member.acts.look(body)

    async def warning(self, name: str, body: Body) -> str:
        member = self._members.get(name)
        return await member.acts.warning(body) if member is not None else ""

    async def apply(self, name: str, body: Body, *, overwrite: bool = False) -> ActOutcome:
        member = self._members.get(name)
        if member is None:
            return ActOutcome(ActResult.UNREACHABLE, f"there is no member {name}")
        return await member.acts.apply(body, overwrite=overwrite)

    async def delete(
        self, name: str, body: Body, *, grace_s: int | None = None, foreground: bool = False
    ) -> ActOutcome:
        """`foreground`: the object stays until its dependents are gone."""
        member = self._members.get(name)
        if member is None:
            return ActOutcome(ActResult.UNREACHABLE, f"there is no member {name}")
        return await member.acts.delete(body, grace_s=grace_s, foreground=foreground)

    async def relabel(
        self, name: str, body: Body, labels: Mapping[str, str | None], annotations: Mapping[str, str | None]
    ) -> ActOutcome:
        member = self._members.get(name)
        if member is None:
            return ActOutcome(ActResult.UNREACHABLE, f"there is no member {name}")
        return await member.acts.relabel(body, labels, annotations)

    async def put_pod(self, name: str, body: Body) -> ActOutcome:
        member = self._members.get(name)
        if member is None:
            return ActOutcome(ActResult.UNREACHABLE, f"there is no member {name}")
        return await member.acts.put_pod(body)

    async def patch_pod(self, name: str, pod: PodView, patch: Body, *, status: bool = False) -> ActOutcome:
        member = self._members.get(name)
        if member is None:
            return ActOutcome(ActResult.UNREACHABLE, f"there is no member {name}")
        return await member.acts.patch_pod(pod, patch, status=status)

    def subscribe(self, callback: Callable[[MemberChange], None]) -> None:
        if callback not in self._callbacks:  # a loop that is started again
            self._callbacks.append(callback)

    def _tell(self, changed: MemberChange) -> None:
        for callback in self._callbacks:
            try:
                callback(changed)
            except Exception:  # a bug of one listener: were the others not told, they would wait for what has happened
                log.exception("a listener failed", member=changed.member, what=changed.what)
