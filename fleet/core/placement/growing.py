"""More for a unit that has its room: whether its quota path and its member have now what it asks for in addition.

The planner decides about waiting units. A unit that runs and asks for more keeps its member, and gets the rest there or
not at all. The pods that come in addition are packed as a gang of their own, beside all that the next decision counts
on: pods on their way, claims, and the reservations of heads. Quota counts the additional amounts, and no second job.
A pod that asks for more comes in the place of the old one. So the pods of such a unit are packed anew, onto the nodes
of its member as they are without them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fleet.core.model.amounts import Amounts
from fleet.core.model.charge import beyond
from fleet.core.model.matching import IN_DOMAIN
from fleet.core.model.member import Member
from fleet.core.model.reason import human, named_to
from fleet.core.model.unit import Component, Phase, Unit
from fleet.core.placement.candidates.candidate import Candidate
from fleet.core.placement.greedy.situation import Situation, sort, with_claims, with_heads
from fleet.core.placement.reservation.profile import Profile
from fleet.core.quota.limits import COUNTS
from fleet.core.quota.usage import Refusal, account_of, request_of
from fleet.core.snapshot import Snapshot

QUOTA, ROOM, NOT_READY = "QuotaExceeded", "NoClusterFit", "MemberNotReady"  # reasons of a Lack
_PROBE = "more for "  # before the id of the unit: the id of its additional pods


@dataclass(frozen=True, slots=True)
class Lack:
    """The obstacle to a unit that asks for more; `text` has the numbers."""

    reason: str
    text: str


def larger(had: Iterable[Component], target: Iterable[Component]) -> tuple[Component, ...]:
    """The charge of a unit while it changes: of each component the more of both. The part that it gives up runs on
    until its member has taken it away."""
    components = {component.name.lower(): component for component in had}
    for component in target:
        old = components.get(component.name.lower())
        if old is not None:
            requests = dict(old.requests.items_)
            requests |= {n: amount for n, amount in component.requests.items_ if amount > requests.get(n, 0)}
            replicas = max(component.replicas, old.replicas)
            component = replace(component, replicas=replicas, requests=Amounts.of(requests))
        components[component.name.lower()] = component
    return tuple(components.values())


def lacks(snapshot: Snapshot, key: str, target: Sequence[Component], now: float) -> Lack | None:
    """The obstacle to a unit of the snapshot that has its room and asks for these components; None where there is none.
    A waiting unit matters only where room is claimed or reserved for it already."""
    unit = snapshot.units[key]
    member = snapshot.members.get(unit.member or "")
    if unit.phase is not Phase.PLACED or member is None or not member.ready:
        why = f": {member.not_ready_reason}" if member is not None and member.not_ready_reason else ""
        return Lack(NOT_READY, f"member {unit.member or 'of the job'} is not ready{why}")
    if not beyond(target, unit.components):
        return None
    anew = any(_pod_grows(unit, component) for component in target)
    probe = _probe(unit, target, anew, now)
    situation = with_heads(with_claims(sort(_world(snapshot, unit, probe, anew), now)))
    group = next((group for group in situation.groups if probe.id in group.ids), None)
    if group is None:
        return Lack(ROOM, situation.reasons[probe.id].text)
    account = account_of(snapshot.tree, unit) if snapshot.tree is not None else None
    request = _more(unit, replace(unit, components=larger(unit.components, target)))
    candidate = replace(group.candidate(0), request=request, account=account)
    profile = situation.profile()
    return (
        _of_quota(profile, candidate, unit)
        or _of_pods(situation, unit)
        or _of_room(situation, profile, candidate, member.name, anew)
    )


def _pod_grows(unit: Unit, target: Component) -> bool:
    old = next((part for part in unit.components if part.name.lower() == target.name.lower()), None)
    return old is not None and not target.requests.fits(old.requests)


def _probe(unit: Unit, target: Sequence[Component], anew: bool, now: float) -> Unit:
    """The pods that need room, as a waiting unit outside quota: the additional ones, or all of them `anew`."""
    had = {part.name.lower(): part for part in unit.components}
    keys = {rule: {rule.level, f"{IN_DOMAIN}{rule.level}"} for rule in unit.rules}
    levels = set[str]().union(*keys.values())
    selectors = {pair for part in unit.components for pair in part.claim.node_selector if pair[0] in levels}
    pods: list[Component] = []
    for part in target:
        old = had.get(part.name.lower())
        replicas = part.replicas - (old.replicas if old is not None and not anew else 0)
        if replicas > 0:
            selector = (*part.claim.node_selector, *(selectors - set(part.claim.node_selector)))
            pods.append(replace(part, replicas=replicas, claim=replace(part.claim, node_selector=selector)))
    return Unit(
        f"{_PROBE}{unit.id}",
        unit.name,
        tuple(pods),
        priority=unit.priority,
        enqueued_at=now,
        rules=tuple(
            rule for rule in unit.rules if not {rule.level, f"{IN_DOMAIN}{rule.level}"} & dict(selectors).keys()
        ),
    )


def _world(snapshot: Snapshot, unit: Unit, probe: Unit, anew: bool) -> Snapshot:
    """The snapshot with the probe, and without the waiting units for which nothing is reserved. `anew`: the pods of the
    unit have left their nodes, as far as the inventory knows these."""
    units = {
        key: other
        for key, other in snapshot.units.items()
        if other.phase is not Phase.WAITING or other.claim is not None or other.head is not None
    }
    members = dict(snapshot.members)
    if anew:
        units[unit.id] = replace(unit, visible=tuple((part.name, part.replicas) for part in unit.components))
        members[unit.member or ""] = _without(members[unit.member or ""], unit)
    units[probe.id] = probe
    return Snapshot(snapshot.tree, units, members, snapshot.config)


def _without(member: Member, unit: Unit) -> Member:
    """The member once the seats of a unit are empty."""
    pools = [Counter(pool.counts) for pool in member.pools]
    for seat in unit.seats:
        if 0 <= seat.pool < len(pools) and pools[seat.pool][seat.free] > 0:
            pools[seat.pool][seat.free] -= 1
            pools[seat.pool][seat.free.plus(seat.holds)] += 1
    left = (tuple((vector, nodes) for vector, nodes in counts.items() if nodes) for counts in pools)
    return replace(member, pools=tuple(replace(pool, free=free) for pool, free in zip(member.pools, left, strict=True)))


def _more(had: Unit, grown: Unit) -> Amounts:
    """The amounts that quota counts in addition."""
    return Amounts.of({n: amount for n, amount in request_of(grown).minus(request_of(had)).items_ if n not in COUNTS})


def _of_quota(profile: Profile, candidate: Candidate, unit: Unit) -> Lack | None:
    refusal = profile.refusal(candidate)
    if refusal is not None:
        return Lack(QUOTA, _quota_text(refusal))
    for span in profile.spans:
        if not span.spares_quota(candidate):
            return Lack(QUOTA, f"the quota for it is reserved for {_named(unit, span.holder.unit)}")
    return None


def _of_pods(situation: Situation, unit: Unit) -> Lack | None:
    """Pods that were given room in the member and find no node come first: more pods would take what is left of it."""
    there = sorted(key for key in situation.lost if situation.snapshot.units[key].member == unit.member)
    if not there:
        return None
    names = ", ".join(_named(unit, situation.snapshot.units[key]) for key in there)
    return Lack(ROOM, f"pods of {names} find no node in member {unit.member} yet")


def _of_room(situation: Situation, profile: Profile, candidate: Candidate, member: str, anew: bool) -> Lack | None:
    shape, devices = situation.space.shapes[candidate.shape], situation.space.devices
    every = (1 << len(profile.spans)) - 1
    if any(profile.fit(candidate.shape, member, every, potential=potential) for potential in (False, True)):
        if set(situation.layout([(candidate, member)], [member]).lost.get(member, ())) <= situation.lost:
            return None
        return Lack(ROOM, f"member {member} has no room for it beside the jobs that start there now")
    pods = candidate.unit.pods
    found = pods - sum(profile.rooms[member].missing(shape, devices))
    if found < pods or profile.fit(candidate.shape, member, potential=True) is None:
        asks = f"asks for {pods} {'' if anew else 'more '}pod{'s' if pods != 1 else ''} with {_each(candidate.unit)}"
        there = f"member {member} has room for {found} of them" if pods != 1 else f"member {member} has no room for it"
        return Lack(ROOM, f"{asks}; {there} beside what runs there and what is reserved")
    holders = [span.holder.unit for span in profile.spans if span.member == member]
    names = ", ".join(_named(candidate.unit, holder) for holder in holders)
    return Lack(ROOM, f"the room for it in member {member} is reserved for {names}")


def _named(reader: Unit, holder: Unit) -> str:
    return named_to(reader.name.partition("/")[0], holder.name)


def _each(unit: Unit) -> str:
    """The requests of one pod: of its devices, or else of everything."""
    texts = []
    for part in unit.components:
        names = [name for name, amount in part.requests.items_ if amount and name != "pods"]
        shown = [name for name in names if "/" in name] or names
        texts.append(", ".join(f"{human(part.requests[name], name)} {name}" for name in shown) or "no requests")
    return " or ".join(dict.fromkeys(texts))


def _quota_text(refusal: Refusal) -> str:
    limit, name = refusal.limit, refusal.limit.resource
    rest, most = human(max(0, refusal.max - refusal.used), name), human(refusal.max, name)
    asks = f"asks for {human(refusal.request, name)} more {name}"
    if limit.user:
        return f"{asks}; user {limit.user} has {rest} of at most {most} left in {limit.node}"
    there = f"{most} that the fleet has" if refusal.fleet else f"its {limit.entry.word} {most}"
    kept = f", with {human(refusal.reserve, name)} guaranteed to others and not lent" if refusal.reserve else ""
    firm = "; a job that may not be preempted never borrows" if limit.entry.firm else ""
    return f"{asks}; {limit.node} has {rest} of {there} left{kept}{firm}"
