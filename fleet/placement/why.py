"""Why a unit waits: its one dominant reason (I9), with the numbers that a person needs.

Dominance, first that holds: the unit itself is bad, held or backing off; it has no queue; no member could ever take
it; its queue is stopped by one ahead; its quota is used up; no member is ready; no member has room. Quota stands before
room because it is what the queue asks first, and because it is what the user's own jobs can free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleet.model.member import Member
from fleet.model.reason import Code, Reason, human, instant
from fleet.model.unit import Component, Unit
from fleet.placement.eligibility import Eligibility
from fleet.placement.greedy import Candidate, Ground, Pass
from fleet.placement.room import MemberRoom, Part, Shape, Space
from fleet.quota.tree import MAX_JOBS, QuotaTree
from fleet.quota.usage import FIRM, Refusal

_MOST_REPLICAS = 1_000_000
_MOST_AMOUNT = 1 << 62


def defect(components: tuple[Component, ...]) -> tuple[str, str] | None:
    """What makes a gang impossible to decide about, as (field, problem), or None."""
    if not components:
        return ("components", "a gang needs at least one component")
    for index, component in enumerate(components):
        where = f"components[{index}]"
        if component.replicas < 0:
            return (f"{where}.replicas", f"{component.replicas} is below zero")
        if component.replicas > _MOST_REPLICAS:
            return (f"{where}.replicas", f"{component.replicas} is above {_MOST_REPLICAS}")
        for name, amount in component.requests.items_:
            if not 0 <= amount <= _MOST_AMOUNT:
                return (f"{where}.requests[{name}]", f"{amount} is not between 0 and 2^62")
    if not any(component.replicas for component in components):
        return ("components", "a gang needs at least one pod")
    return None


def early(unit: Unit, bad: tuple[str, str] | None, tree: QuotaTree | None, now: float) -> Reason | None:
    """The reason that is known before anything is placed, or None. `bad`: the `defect` of its components."""
    if bad is not None:
        return Reason(Code.BAD_UNIT, {"field": bad[0], "problem": bad[1]})
    if unit.suspended:
        return Reason(Code.SUSPENDED)
    if unit.held:
        return Reason(Code.HELD, {"why": unit.held_why} if unit.held_why else {})
    if unit.backoff_until is not None and unit.backoff_until > now:
        return Reason(Code.BACK_OFF, {"until": instant(unit.backoff_until), "attempts": unit.attempts})
    if unit.leaf is not None and (tree is None or not tree.is_leaf(unit.leaf)):
        return Reason(Code.NO_LEAF, {"leaf": unit.leaf, "tree": "none" if tree is None else tree.root})
    return None


class Explainer:
    """Reasons for the candidates that a finished pass left waiting. Equal ones share one Reason."""

    def __init__(
        self, members: Mapping[str, Member], before: Mapping[str, MemberRoom], ground: Ground, space: Space
    ) -> None:
        """`before`: rooms before anything of this plan was placed; `ground`: after all of it."""
        self._members = members
        self._before = before
        self._ground = ground
        self._space = space
        self._devices = space.devices
        self._quota: dict[tuple[str, int, bool], Reason | None] = {}
        self._never: dict[tuple[int, int], Reason | None] = {}
        self._room: dict[tuple[int, int], Reason] = {}
        self._empty: dict[str, MemberRoom | None] = {}

    def all(self, left: Sequence[Candidate], done: Pass) -> dict[str, Reason]:
        """One reason for each of `left`, which are in order; `done` names the heads of stopped queues."""
        reasons: dict[str, Reason] = {}
        heads: dict[str, Unit] = {}
        positions: dict[str, int] = {}
        for candidate in left:
            unit, leaf = candidate.unit, candidate.unit.leaf
            if leaf is not None and candidate.block:
                position = positions[leaf] = positions.get(leaf, 0) + 1
                head = heads.setdefault(leaf, unit)
                never = self._never_fits(candidate)
                if head is not unit and leaf in done.stopped and never is None:
                    reasons[unit.id] = Reason(
                        Code.BEHIND_IN_QUEUE,
                        {"position": position, "leaf": leaf, "head": head.name, "why": reasons[head.id].code.value},
                    )
                    continue
            reasons[unit.id] = self.one(candidate)
        return reasons

    def one(self, candidate: Candidate) -> Reason:
        """The dominant reason of one that is first in its queue, or in a queue where that does not matter."""
        refusal = candidate.eligibility.refusal
        if refusal is not None and refusal.code is not Code.MEMBER_NOT_READY:
            return refusal
        return (
            self._never_fits(candidate)
            or self._quota_refuses(candidate)
            or refusal
            or self._no_room(candidate.shape, candidate.eligibility)
        )

    def _quota_refuses(self, candidate: Candidate) -> Reason | None:
        leaf = candidate.unit.leaf
        if leaf is None or self._ground.usage is None:
            return None
        key = (leaf, candidate.shape, candidate.unit.preemptible)
        if key not in self._quota:
            refusal = self._ground.usage.refusal(leaf, candidate.request)
            self._quota[key] = None if refusal is None else quota_reason(refusal)
        return self._quota[key]

    def _never_fits(self, candidate: Candidate) -> Reason | None:
        """LargerThanEverything, when no member that policy allows would take it even empty."""
        key = (candidate.shape, candidate.eligibility.number)
        if key not in self._never:
            self._never[key] = self._weigh_never(self._space.shapes[candidate.shape], candidate.eligibility)
        return self._never[key]

    def _weigh_never(self, shape: Shape, eligibility: Eligibility) -> Reason | None:
        empty: list[MemberRoom] = []
        for name in eligibility.allowed:
            if name not in self._empty:
                self._empty[name] = MemberRoom.emptied(self._members[name], self._space)
            room = self._empty[name]
            if room is None or room.fit(shape, self._devices) is not None:
                return None
            empty.append(room)
        if not empty or not any(pool.counts for room in empty for pool in room.pools):
            return None
        return Reason(Code.TOO_LARGE, self._closest(shape, empty))

    def _no_room(self, shape: int, eligibility: Eligibility) -> Reason:
        key = (shape, eligibility.number)
        if key not in self._room:
            parts = self._space.shapes[shape]
            names = [choice.member for choice in eligibility.choices]
            lost = any(self._before[name].fit(parts, self._devices) is not None for name in names)
            code = Code.LOST_TO_OTHERS if lost else Code.NO_MEMBER_FITS
            self._room[key] = Reason(code, self._closest(parts, [self._ground.rooms[name] for name in names]))
        return self._room[key]

    def _closest(self, shape: Shape, rooms: Sequence[MemberRoom]) -> dict[str, str | int]:
        """The room that leaves the fewest pods of the gang outside, and what it lacks."""
        best: tuple[int, dict[str, str | int]] | None = None
        pods = sum(part.replicas for part in shape)
        for room in rooms:
            only_devices = tuple(_devices_of(part, self._devices) for part in shape)
            lacking, whole = only_devices, room.missing(only_devices, self._devices)
            if not any(whole):
                lacking, whole = shape, room.missing(shape, self._devices)
            short = sum(whole)
            if best is None or short < best[0]:
                worst = max(range(len(shape)), key=lambda index: whole[index])
                what = self._slots_of(lacking[worst], whole[worst])
                best = (short, {"pods": pods, "member": room.name, "short": whole[worst], "what": what})
        return best[1] if best is not None else {"pods": pods, "member": "none", "short": pods, "what": "pods"}

    def _slots_of(self, part: Part, count: int) -> str:
        names = self._space.resources
        amounts = [(names[index], amount) for index, amount in part.need if names[index] != "pods"]
        units = {"cpu": "CPU"}
        sizes = ", ".join(f"{human(amount, name)} {units.get(name, name)}" for name, amount in amounts)
        return f"slot{'s' if count != 1 else ''} of {sizes or 'one pod'}"


def quota_reason(refusal: Refusal) -> Reason:
    """What a limit of the tree that refuses looks like to people."""
    code = (
        Code.MIN_EXHAUSTED if refusal.firm else Code.MAX_JOBS if refusal.resource == MAX_JOBS else Code.QUOTA_EXHAUSTED
    )
    numbers: dict[str, str | int] = {
        "node": refusal.node, "resource": refusal.resource.removeprefix(FIRM), "request": refusal.request,
        "used": refusal.used, "max": refusal.max, "short": refusal.short,
    }  # fmt: skip
    return Reason(code, numbers | ({"kept": refusal.kept} if refusal.kept else {}))


def _devices_of(part: Part, devices: int) -> Part:
    """The part as if it asked for devices only."""
    return Part(part.replicas, tuple((index, amount) for index, amount in part.need if index < devices), part.claim)
