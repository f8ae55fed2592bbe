"""The members as the controllers see them: one facade over all, fed by their watches, acting through their APIs.

Reading never waits: the answers come from what the watches have shown. Acting returns an `ActOutcome`, a value: a
member that refuses, is slow or is gone is an expected thing, and costs the other members nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Member
from fleet.core.model.pod import PodView
from fleet.core.model.reason import Code
from fleet.core.model.unit import Seat
from fleet.members.texts import one_line
from fleet.values.ports import Body, Key


class ActResult(StrEnum):
    DONE = "Done"
    NOT_FOUND = "NotFound"
    CONFLICT = "Conflict"  # the object is there and not ours, or belongs to a newer attempt
    REFUSED = "Refused"  # 4xx: trying again will not help until something changes
    UNREACHABLE = "Unreachable"  # no answer, or 5xx: try again later
    OVERRIDE = "Override"  # not tried: an override policy does not fit, or makes of it what may not be sent
    NO_DATA = "NoData"  # not tried: claims that its pods name are not there
    SUSPENDED = "Suspended"  # not tried: the policy suspends dispatching there


@dataclass(frozen=True, slots=True)
class ActOutcome:
    did: ActResult
    message: str = ""
    body: Body | None = None
    cause: Code | None = None  # of a refusal, where the answer tells it

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", one_line(self.message))


@dataclass(frozen=True, slots=True)
class MemberChange:
    """Something moved in a member: which member, and the binding whose copy it was, when it was one.
    `what`: "job" (a dispatched object), "status" (of one, and nothing else of it, or its state as a write of ours left
    it), "pod", "node", "ready"."""

    member: str
    what: str
    binding: str = ""


Closed = tuple[tuple[tuple[str, str], ...], Amounts]  # labels and allocatable of nodes alike that take no pods now


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as a map of the fleet shows it. `used`: requests of all its pods; `usable`: it takes pods now. `places`:
    the domains that it lies in, as (level, path)."""

    name: str
    labels: tuple[tuple[str, str], ...]
    allocatable: Amounts
    used: Amounts
    usable: bool
    ready: bool
    places: tuple[tuple[str, str], ...] = ()


class Members(Protocol):
    """See fleet/members/README.md."""

    def names(self) -> Sequence[str]: ...

    def ready(self, name: str) -> bool:
        """Whether the member answers and its inventory is complete."""
        ...

    def silent_s(self, name: str) -> float | None:
        """Seconds since the member last showed life; None when it never has."""
        ...

    def model(self, name: str) -> Member | None:
        """For the snapshot: room by pool as its inventory shows it now. None until the first full list."""
        ...

    def closed(self, name: str) -> Sequence[Closed]:
        """The nodes that `model` shows no room of: cordoned, not ready, or avoided."""
        ...

    def nodes(self, name: str) -> Sequence[NodeView]:
        """Every node of the member, in no order."""
        ...

    def tell_apart(self, named: frozenset[tuple[str, str]]) -> None:
        """Label pairs that gangs ask nodes for. `model` shows the nodes that have one of them to themselves (a host
        name) as pools of their own, from now on."""
        ...

    def node_ready(self, name: str, node: str) -> bool:
        """Whether this node of the member is there and ready."""
        ...

    def avoid_nodes(self, name: str, nodes: frozenset[str]) -> None:
        """From now on `model` shows no room on these nodes of the member, as if they were cordoned."""
        ...

    def pods_of(self, binding: str) -> Sequence[PodView]:
        """All pods of a binding, over all members."""
        ...

    def seats(self, name: str, pods: Sequence[PodView]) -> tuple[Seat, ...]:
        """The room that these pods use on each node of the member, and the free room beside them, by the pools that
        `model` shows now. A node that takes no pods counts in no pool (-1)."""
        ...

    def placeholders(self, name: str) -> Sequence[PodView]:
        """All pods of this hub in the member that only keep room."""
        ...

    def copies(self, binding: str) -> Sequence[tuple[str, Body]]:
        """All dispatched job objects of a binding: (member, body)."""
        ...

    def companions(self, binding: str) -> Sequence[tuple[str, Body]]:
        """Objects beside the copies of a binding, for the schedulers of members: PodGroups, Reservations."""
        ...

    def find(self, name: str, key: Key) -> Body | None:
        """A dispatched object (any kind that carries LABEL_HUB) in a member, from the cache."""
        ...

    def owned(self, name: str) -> Sequence[Body]:
        """Every dispatched object of this hub in the member, from the cache: for sweeping orphans."""
        ...

    async def look(self, name: str, body: Body) -> ActOutcome:
        """Ask the member for the object that `body` names, whoever put it there: DONE with it, or NOT_FOUND."""
        ...

    async def warning(self, name: str, body: Body) -> str:
        """The newest warning that controllers of the member wrote about this object; "" for none."""
        ...

    async def apply(self, name: str, body: Body, *, overwrite: bool = False) -> ActOutcome:
        """Server-side apply with field manager `fleet`. Creates the namespace when it is missing. Refuses (CONFLICT)
        an object that exists without our hub label, unless `overwrite`, or that carries a higher attempt."""
        ...

    async def delete(self, name: str, body: Body, *, grace_s: int | None = None) -> ActOutcome:
        """Delete exactly this object (uid precondition), with its dependents. DONE when the API accepted it."""
        ...

    async def relabel(
        self, name: str, body: Body, labels: Mapping[str, str | None], annotations: Mapping[str, str | None]
    ) -> ActOutcome:
        """Set labels and annotations of what stands under this object's name, or take them off (None); nothing else of
        it changes. NOT_FOUND when it is not there, CONFLICT when it is not this hub's or of another binding."""
        ...

    async def put_pod(self, name: str, body: Body) -> ActOutcome:
        """Create this pod of the hub, namespace included; DONE when it is there. Pods are shown by `pods_of`, not by
        `find`."""
        ...

    async def patch_pod(self, name: str, pod: PodView, patch: Body, *, status: bool = False) -> ActOutcome:
        """A strategic merge patch of exactly this pod (uid precondition), or of its status."""
        ...

    def subscribe(self, callback: Callable[[MemberChange], None]) -> None:
        """Be told of every change, on the event loop; the callback must be fast and must not raise. A callback that is
        registered already is not called twice."""
        ...
