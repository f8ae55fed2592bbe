"""The first stages of a decision: units in groups, room and quota before anything starts; then claims; then heads.

Each stage has a type of its own, which has all that the stages before it found out, and what is new: `sort` makes a
SortedSituation, `with_claims` makes a ClaimSituation of it, and `with_heads` a Situation, which all later steps read.
Those return an outcome in it. The step that takes room back returns another Situation, with the claims of its plan.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fleet.core.model.leaving import leaves
from fleet.core.model.order import queue_order
from fleet.core.model.reason import Reason
from fleet.core.model.unit import Phase, Unit
from fleet.core.placement.candidates.candidate import (
    Candidate,
    Group,
    before,
    claims_room,
    gaps,
    service_order,
    without,
)
from fleet.core.placement.candidates.eligibility import Nevers
from fleet.core.placement.candidates.grouping import Grouping
from fleet.core.placement.packing.layout import Coming, Layout, lay_out
from fleet.core.placement.packing.room import MemberRoom, committed
from fleet.core.placement.packing.space import Space
from fleet.core.placement.reservation.heads import HeadChoice, HeadChooser, LeafHead
from fleet.core.placement.reservation.profile import Profile
from fleet.core.placement.reservation.releases import Releases
from fleet.core.placement.reservation.reserving import Reservations
from fleet.core.placement.reservation.span import Reservation, Span, SpanKind
from fleet.core.quota.entitlement import Entitlement
from fleet.core.quota.usage import Usage
from fleet.core.quota.users import split
from fleet.core.snapshot import Snapshot

Pairs = list[tuple[Candidate, str]]


@dataclass(frozen=True, slots=True)
class SortedSituation:
    """The fleet and the units before claims are looked at. `groups`: units that may start; `reasons`: of units that
    cannot start whatever happens. `free`: rooms as the inventory shows them; `coming`: pods that are committed and not
    seen; `lost`: units of these that fit nowhere. `rooms` and `usage`: before anything starts; without a tree, `usage`
    and `entitled` are None."""

    snapshot: Snapshot
    now: float
    space: Space
    nevers: Nevers
    groups: list[Group]
    reasons: Mapping[str, Reason]
    free: Mapping[str, MemberRoom]
    coming: Sequence[Coming]
    lost: frozenset[str]
    rooms: Mapping[str, MemberRoom]
    usage: Usage | None
    entitled: Entitlement | None

    @property
    def waiting(self) -> int:
        """How many units may start."""
        return sum(len(group.units) for group in self.groups)

    @property
    def late(self) -> list[Unit]:
        """The units that have been leaving for so long that nobody counts on their room."""
        holding, patience = self.snapshot.backlog.holding.values(), self.snapshot.config.claim_s
        return [unit for unit in holding if unit.phase is Phase.EVICTING and not leaves(unit, self.now, patience)]

    def growing(self, placed: Iterable[tuple[Candidate, str]]) -> frozenset[str]:
        """The units of `placed` that find room only on nodes that could be added, beside those ahead of them."""
        rooms: dict[str, MemberRoom] = {}
        ids: set[str] = set()
        for candidate, member in placed:
            if not self.snapshot.members[member].potential:
                continue
            room = rooms.setdefault(member, self.rooms[member].copy())
            fit = room.hold(self.space.shapes[candidate.shape], self.space.devices)
            if fit is not None and fit.potential:
                ids.add(candidate.unit.id)
        return frozenset(ids)


@dataclass(frozen=True, slots=True)
class ClaimSituation(SortedSituation):
    """The same once every claim has its room: `rooms` and `usage` are less that. `first`: claims whose units start;
    `claims`: all other claims; `groups`: all other units that may start; `behind`: units in queues that a claim
    stops."""

    behind: list[Group]
    first: Pairs
    claims: tuple[Reservation, ...]

    @property
    def unstarted_claims(self) -> Pairs:
        """The units for which room is claimed and which do not start, with their members."""
        return [(claim.holder, claim.member) for claim in self.claims]

    def layout(self, placed: Iterable[tuple[Candidate, str]], members: Iterable[str] | None = None) -> Layout:
        """How all that comes lies in these members, or all, once `placed` is committed, as the next cycle sees it."""
        free = self.free if members is None else {name: self.free[name] for name in members}
        return lay_out(free, self._coming(placed), self.space)

    def _coming(self, placed: Iterable[tuple[Candidate, str]]) -> list[Coming]:
        new = [(c.unit.id, member, self.space.shapes[c.shape]) for c, member in (*self.first, *placed)]
        return [*self.coming, *new]

    def less_claims(
        self, rooms: dict[str, MemberRoom], placed: Iterable[tuple[Candidate, str]], new: Container[str] = ()
    ) -> dict[str, MemberRoom]:
        """These rooms, changed: less the claims. Pods that come with `placed` lie where every earlier claim keeps its
        room; a claim that has no room yet takes the room there is. `new`: units of claims that this plan makes."""
        coming = self._coming(placed) if self.claims else []
        short: Pairs = []
        for candidate, member in self.unstarted_claims:
            shape, devices = self.space.shapes[candidate.shape], self.space.devices
            fit = rooms[member].fit(shape, devices) or rooms[member].fit(shape, devices, potential=True)
            if fit is not None:
                rooms[member].take(fit)
                coming.append((candidate.unit.id, member, shape))
                continue
            beside = [item for item in (*coming, (candidate.unit.id, member, shape)) if item[1] == member]
            anew = None if candidate.unit.id in new else lay_out({member: self.free[member]}, beside, self.space)
            if anew is None or anew.lost:
                short.append((candidate, member))
            else:
                rooms[member] = anew.rooms[member]
                coming = [*coming, beside[-1]]
        for candidate, member in short:
            rooms[member].hold(self.space.shapes[candidate.shape], self.space.devices)
        return rooms


@dataclass(frozen=True, slots=True)
class Situation(ClaimSituation):
    """The same with the heads, each in a group of its own. `reservations`: None without heads. `new`: the units of the
    `claims` that this plan makes; none where it takes no room back."""

    head_choice: HeadChoice
    reservations: Reservations | None
    new: frozenset[str]

    def spans(self, placed: Iterable[tuple[Candidate, str]]) -> tuple[Span, ...]:
        """The reservations of the heads once `placed` has started."""
        return self.reservations.spans(self.head_choice.heads, placed) if self.reservations is not None else ()

    def less_kept(self, rooms: dict[str, MemberRoom], placed: Iterable[tuple[Candidate, str]]) -> dict[str, MemberRoom]:
        """These rooms, changed: less the claims, where pods that come with `placed` lie as the next cycle sees them."""
        return self.less_claims(rooms, placed, self.new)

    def reserving_beside(self, leaving: Iterable[str]) -> Situation:
        """The situation whose reservations count on these units as gone, since this plan evicts them."""
        heads = self.head_choice.heads
        if self.reservations is None or not heads:
            return self
        claims = (*self.first, *self.unstarted_claims)
        return replace(self, reservations=self.reservations.beside(self.usage, claims, leaving, _users(heads)))

    def profile(self) -> Profile:
        """The profile before anything starts."""
        return Profile(self.rooms, self.usage, self.space, self.spans(()))

    def after(self, placed: Sequence[tuple[Candidate, str]]) -> Profile:
        """The profile that the next cycle sees once `placed` is committed."""
        usage = self.usage.copy() if self.usage is not None else None
        for candidate, _ in placed:
            if candidate.account is not None and usage is not None:
                usage.charge(candidate.account, candidate.request)
        return Profile(self.less_kept(self.layout(placed).rooms, placed), usage, self.space, self.spans(placed))


def sort(snapshot: Snapshot, now: float) -> SortedSituation:
    """The situation before claims and heads."""
    grouping = Grouping(snapshot, now)
    space, unseen = grouping.space, snapshot.backlog.unseen.values()
    coming = [(unit.id, unit.member, committed(unit, space)) for unit in unseen if unit.member is not None]
    free = {name: MemberRoom.of(snapshot.members[name], space) for name in sorted(snapshot.members)}
    layout = lay_out(free, coming, space)
    lost = frozenset(unit for units in layout.lost.values() for unit in units)
    return SortedSituation(
        snapshot,
        now,
        space,
        grouping.nevers,
        grouping.groups,
        grouping.reasons,
        free,
        coming,
        lost,
        layout.rooms,
        grouping.usage,
        grouping.entitled,
    )


def with_claims(situation: SortedSituation) -> ClaimSituation:
    """The situation in which the room of every claim is taken: its unit starts now, or nobody else gets the room."""
    groups = situation.groups
    stage = ClaimSituation(
        snapshot=situation.snapshot,
        now=situation.now,
        space=situation.space,
        nevers=situation.nevers,
        groups=groups,
        reasons=situation.reasons,
        free=situation.free,
        coming=situation.coming,
        lost=situation.lost,
        rooms=situation.rooms,
        usage=situation.usage,
        entitled=situation.entitled,
        behind=[],
        first=[],
        claims=(),
    )
    able = (group.candidate(0) for group in groups if group.units[0].claim is not None)
    claimed = sorted((candidate for candidate in able if claims_room(candidate, situation.now)), key=service_order)
    if not claimed:
        return stage
    claimants = {candidate.unit.id for candidate in claimed}
    ahead = gaps(groups, claimants, lambda group: 0)
    profile = Profile(situation.rooms, situation.usage, situation.space)
    stopped: set[str | None] = set()
    first: Pairs = []
    claims: list[Reservation] = []
    for candidate in claimed:
        member = candidate.unit.claim.member if candidate.unit.claim is not None else ""
        may = before(candidate, ahead) and candidate.unit.leaf not in stopped and profile.admits(candidate)
        fit = profile.fit(candidate.shape, member) if may else None
        if fit is not None:
            profile.start(candidate, member, fit)
            first.append((candidate, member))
            continue
        if candidate.block:
            stopped.add(candidate.unit.leaf)
        claims += claims_of([(candidate, member)], situation.now)
        profile.hold(candidate, member)
    open_groups, behind = behind_claims(without(claimants, groups), claims)
    stage = replace(stage, groups=open_groups, behind=behind, first=first, claims=tuple(claims), usage=profile.usage)
    rooms = stage.layout((), sorted({member for _, member in (*first, *stage.unstarted_claims)})).rooms
    return replace(stage, rooms={**situation.rooms, **stage.less_claims(rooms, ())})


def claims_of(pairs: Iterable[tuple[Candidate, str]], now: float) -> tuple[Reservation, ...]:
    """Claims for these units in their members, from now on."""
    return tuple(Reservation(SpanKind.CLAIM, candidate, member, now, now) for candidate, member in pairs)


def behind_claims(groups: Sequence[Group], claims: Iterable[Reservation]) -> tuple[list[Group], list[Group]]:
    """The groups whose units may start, and those of units behind a claim that stops its queue."""
    stops: dict[str | None, tuple[int, float, str, str]] = {}
    for candidate in (claim.holder for claim in claims):
        if candidate.block:
            turn = queue_order(candidate.unit)
            stops[candidate.unit.leaf] = min(turn, stops.get(candidate.unit.leaf, turn))
    open_groups: list[Group] = []
    behind: list[Group] = []
    for group in groups:
        stop = stops.get(group.leaf) if stops else None
        late = {unit.id for unit in group.units if queue_order(unit) > stop} if stop is not None else set()
        open_groups += without(late, [group]) if late else [group]
        behind += without(set(group.ids) - late, [group]) if late else []
    return open_groups, behind


def with_heads(situation: ClaimSituation) -> Situation:
    """The situation with its heads, each in the member where room is reserved for it."""
    snapshot, space, now = situation.snapshot, situation.space, situation.now
    head_chooser = HeadChooser(snapshot, space, situation.groups, situation.entitled, now)
    choice, groups = head_chooser.choose()
    reservations = None
    if choice.heads:
        claims = (*situation.first, *situation.unstarted_claims)
        releases = Releases(snapshot, space, situation.usage, now, claims, (), _users(choice.heads))
        reservations = Reservations(releases, space, head_chooser.would_fit, now)
        choice = reservations.assign_members(choice, situation.rooms)
    return Situation(
        snapshot=snapshot,
        now=now,
        space=space,
        nevers=situation.nevers,
        groups=groups,
        reasons=situation.reasons,
        free=situation.free,
        coming=situation.coming,
        lost=situation.lost,
        rooms=situation.rooms,
        usage=situation.usage,
        entitled=situation.entitled,
        behind=situation.behind,
        first=situation.first,
        claims=situation.claims,
        head_choice=choice,
        reservations=reservations,
        new=frozenset(),
    )


def _users(heads: Iterable[LeafHead]) -> set[str]:
    """The users to whom heads are charged."""
    return {split(head.candidate.account or "")[1] for head in heads}
