"""Committing a plan: in chunks, each one transaction with everything it was decided on as preconditions.

A set of changes that is committed together or not at all is an act: a unit that starts, or a unit that claims room with
its victims. There is one decider, so others can only have freed room or changed a unit. A unit that changed takes its
act out and the rest of its chunk goes on; a policy that changed takes the acts of its units out; a changed tree ends
the commit, for a new decision. A claim may count on what leaves for another before it: none follows a lost one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog

from api.engine.status import conflict
from fleet.bindings import binding as b
from fleet.bindings import claims, heads
from fleet.bindings.domains import written
from fleet.bindings.elastic import as_large_as, start_size, with_replicas
from fleet.bindings.nomination import ReservedPlacement, reserved_placement_of
from fleet.bindings.unit import queue_of
from fleet.controllers.decide.snapshot import Picture, Sources
from fleet.controllers.decide.telling import tell_placed
from fleet.controllers.fields import reserving
from fleet.controllers.fields.evictor import Evictor
from fleet.controllers.fields.rooms import Driver, gang_scheduler_of
from fleet.controllers.fields.starting import Way, dequeued, placed, result_text, waits
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.hub import Hub
from fleet.core.model.plan import Eviction, Placement, Plan, RoomClaim
from fleet.core.model.reason import Reason, named_to
from fleet.core.model.tier import Tier
from fleet.core.model.unit import Component
from fleet.core.placement.packing.layout import domains_chosen
from fleet.core.placement.reservation.heads import nominated
from fleet.core.snapshot.surplus import resized
from fleet.values.ports import Body, CommitResult, Key, StaleEpoch, StoredObject, StoreUnavailable, Write
from fleet.values.untyped import digits
from fleet.wellknown import (
    ANNOTATION_POLICY,
    ANNOTATION_POLICY_GENERATION,
    CLUSTER,
    POLICY,
    QUEUE,
    RESERVE_SUCCEED,
    SCHEDULE_SUCCEED,
    WORK,
)

log = structlog.get_logger(__name__)

SCHEDULER = "default-scheduler"  # the component that users see on scheduling events
PREEMPTED = "Preempted"  # reason of an eviction that makes room
_EVERYTHING: frozenset[str] = frozenset({"*"})
_WHY: Mapping[Tier | None, str] = {
    Tier.GUARANTEED: "which is within its guarantee",
    Tier.SHARE: "which is within its fair share",
    Tier.CROSSING: "which is the first of a queue below its fair share",
}


@dataclass(frozen=True, slots=True)
class _Act:
    """See the module. `unit`: the unit that starts or claims; `size`: how many units it changes; `chained`: no later
    act may be committed without it."""

    unit: str
    writes: Callable[[], list[Write]]
    size: int = 1
    chained: bool = False


class PlanCommitter:
    """Writes plans. Never chooses anything: the plan says it all."""

    def __init__(self, hub: Hub, events: EventRecorder) -> None:
        self._hub = hub
        self._events = events
        self._evictor = Evictor(hub, events)

    async def commit(self, picture: Picture, placements: Sequence[Placement], decided_at: float = 0.0) -> int:
        """How many were committed; fewer than given when something had changed."""
        places = domains_chosen(picture.snapshot, {placement.unit: placement.member for placement in placements})
        queues = reserving.Queues.of(self._hub)
        chosen = {key: written(picture.snapshot.units[key].rules, domains) for key, domains in places.items()}
        acts = [self._start(picture, queues, placement, chosen.get(placement.unit, "")) for placement in placements]
        started = await self._commit(picture, acts)
        tell_placed(self._hub, picture, [p for p in placements if p.unit in started], decided_at)
        return len(started)

    async def take_back(self, picture: Picture, plan: Plan) -> frozenset[str]:
        """Commit the plan's claims, each with the evictions that serve it; returns the units whose claims were
        committed."""
        leaving: dict[str, list[Eviction]] = {}
        for eviction in plan.evictions:
            leaving.setdefault(eviction.preemptor, []).append(eviction)
        acts = [self._claim(picture, room, leaving.get(room.unit, []), plan.reasons) for room in plan.claims]
        claimed = await self._commit(picture, acts)
        self._hub.metrics.claims.inc(len(claimed))
        self._hub.metrics.evictions.labels(PREEMPTED).inc(sum(len(leaving.get(unit, ())) for unit in claimed))
        return claimed

    async def release_expired(self, picture: Picture, claimed: Iterable[str], now: float) -> None:
        """Take claims whose time is over off their units, as many as one commit holds; not those of `claimed`, which
        have claimed anew. Should something be in the way, its change brings the next look."""
        units, kept = picture.snapshot.units, frozenset(claimed)
        over = (u.id for u in units.values() if u.claim is not None and u.claim.until <= now and u.id not in kept)
        stale = [picture.sources[key].unit for key in over]
        found = [unit for unit in stale if unit is not None][: self._hub.config.chunk_units_max]
        if found:
            await self._edit_all([(unit.key, unit.uid, claims.release) for unit in found])

    async def nominate(self, picture: Picture, plan: Plan) -> None:
        """Write down the present heads, of the units that wait on. A head that is lost to another's write is decided,
        and written, again."""
        started = {placement.unit for placement in plan.placements}
        edits: list[tuple[Key, str, Callable[[Body], bool]]] = []
        for unit in nominated(picture.snapshot.units, plan):
            source = picture.sources[unit.id]
            stored = source.unit or source.binding  # outside quota the binding remembers
            if unit.id not in started:
                edits.append((stored.key, stored.uid, partial(heads.nominate, nomination=unit.head)))
        if edits:
            await self._edit_all(edits[: self._hub.config.chunk_units_max])

    async def _commit(self, picture: Picture, acts: Sequence[_Act]) -> frozenset[str]:
        """The units of the acts that were committed."""
        committed: set[str] = set()
        for chunk in self._chunks(acts):
            done = await self._chunk(picture, chunk)
            if done is None:
                break
            committed |= done
            if any(act.chained and act.unit not in done for act in chunk):
                break
        return frozenset(committed)

    def _chunks(self, acts: Iterable[_Act]) -> Iterator[list[_Act]]:
        """Of at most `chunk_units_max` units each; an act that changes more is a chunk of its own."""
        chunk: list[_Act] = []
        for act in acts:
            if chunk and sum(other.size for other in chunk) + act.size > self._hub.config.chunk_units_max:
                yield chunk
                chunk = []
            chunk.append(act)
        if chunk:
            yield chunk

    async def _chunk(self, picture: Picture, pending: list[_Act]) -> frozenset[str] | None:
        """The units of those of the chunk that were committed, or None when the tree changed. Each turn commits or
        drops some."""
        while pending:
            writes: list[Write] = []
            owners: list[frozenset[str]] = []
            self._preconditions(picture, pending, writes, owners)
            first = len(writes)
            broken: set[str] = set()
            for act in pending:
                try:
                    act_writes = act.writes()
                except Exception as error:  # only its own sources cannot be read
                    self._unfit(act, error)
                    broken.add(act.unit)
                    continue
                writes += act_writes
                owners += [frozenset({act.unit})] * len(act_writes)
            if broken:
                pending = _without(pending, frozenset(broken))
                continue
            try:
                outcome = await self._hub.commit(writes)
            except (StaleEpoch, StoreUnavailable):
                raise
            except Exception as error:
                if len(pending) > 1:
                    return await self._one_by_one(picture, pending)
                self._unfit(pending[0], error)
                return frozenset()
            if isinstance(outcome, CommitResult):
                return frozenset(act.unit for act in pending)
            lost = owners[outcome.index]
            if lost == _EVERYTHING:
                self._refused("tree")
                return None
            self._refused("unit" if outcome.index >= first else "policy")
            pending = _without(pending, lost)
        return frozenset()

    def _unfit(self, act: _Act, error: Exception) -> None:
        self._refused("rejected")
        log.warning("a part of a plan was refused", unit=act.unit, error=repr(error)[:300])

    async def _edit_all(self, edits: Sequence[tuple[Key, str, Callable[[Body], bool]]]) -> None:
        """In one commit, or where one of them cannot be made, each alone."""
        try:
            await self._hub.edit_all(edits)
        except (StaleEpoch, StoreUnavailable):
            raise
        except Exception as error:
            if len(edits) == 1:
                log.warning("a unit cannot be written", key=str(edits[0][0]), error=repr(error)[:300])
                return
            for edit in edits:
                await self._edit_all([edit])

    def _refused(self, cause: str) -> None:
        self._hub.metrics.refusals.labels(cause).inc()

    async def _one_by_one(self, picture: Picture, pending: Sequence[_Act]) -> frozenset[str] | None:
        """A part of the chunk is refused in any company: find it by committing each alone."""
        committed: set[str] = set()
        for act in pending:
            done = await self._chunk(picture, [act])
            if done is None:
                return None
            if act.chained and not done:
                break
            committed |= done
        return frozenset(committed)

    def _preconditions(
        self, picture: Picture, pending: Sequence[_Act], writes: list[Write], owners: list[frozenset[str]]
    ) -> None:
        if picture.tree is not None:
            generation = picture.tree.body["metadata"].get("generation")
            writes.append(self._hub.change(picture.tree.key, _untouched, uid=picture.tree.uid, generation=generation))
            owners.append(_EVERYTHING)
        followers: dict[tuple[Key, int], set[str]] = {}
        for act in pending:
            binding = picture.sources[act.unit].binding.body
            policy = policy_key(b.annotation(binding, ANNOTATION_POLICY))
            followed = digits(b.annotation(binding, ANNOTATION_POLICY_GENERATION))
            if policy is not None and followed is not None and not self._lazy(policy):
                followers.setdefault((policy, followed), set()).add(act.unit)
        for (policy, generation), units in followers.items():
            writes.append(self._hub.change(policy, _untouched, generation=generation))
            owners.append(frozenset(units))

    def _lazy(self, policy: Key) -> bool:
        """Whether bindings keep what an older generation of the policy said until their job changes."""
        found = self._hub.store.peek(policy)
        return found is not None and found.body["spec"].get("activationPreference") == "Lazy"

    def _start(self, picture: Picture, queues: reserving.Queues, placement: Placement, domain: str) -> _Act:
        unit, least = picture.snapshot.units[placement.unit], picture.sources[placement.unit]
        sources = least
        if unit.sizes is not None:
            least, sources = (_sized(least, resized(unit.components, dict(sizes))) for sizes in ((), placement.sizes))
        return _Act(placement.unit, lambda: self._writes(sources, least, queues, placement, domain))

    def _claim(
        self, picture: Picture, room: RoomClaim, leaving: Sequence[Eviction], reasons: Mapping[str, Reason]
    ) -> _Act:
        """A unit that claims room, and its victims."""
        sources = picture.sources[room.unit]
        why = _WHY.get(reasons[room.unit].tier, "which has a higher priority")
        job = b.job_name(sources.binding.body)

        def writes() -> list[Write]:
            made = self._claim_writes(sources, room)
            for eviction in leaving:
                victim = picture.sources[eviction.unit]
                message = f"makes room for {named_to(victim.binding.key.namespace, job)}, {why}"
                made += self._evict_writes(victim, message)
            return made

        return _Act(room.unit, writes, 1 + len(leaving), chained=True)

    def _claim_writes(self, sources: Sources, room: RoomClaim) -> list[Write]:
        binding, unit, now = sources.binding, sources.unit, self._hub.clock.now()
        assert unit is not None, "only what waits in a queue claims room"

        def still_waits(body: Body) -> None:
            if not waits(body):
                raise conflict(WORK, "resourcebindings", binding.key.name)

        def claim(body: Body) -> Body:
            claims.claim(body, room, now)
            return body

        return [
            self._hub.change(binding.key, still_waits, uid=binding.uid, generation=_generation(binding)),
            self._hub.change(unit.key, claim, uid=unit.uid, generation=_generation(unit)),
        ]

    def _evict_writes(self, sources: Sources, message: str) -> list[Write]:
        return self._evictor.writes(sources.binding, sources.unit, reason=PREEMPTED, message=message, exactly=True)

    def _writes(
        self, sources: Sources, least: Sources, queues: reserving.Queues, placement: Placement, domain: str
    ) -> list[Write]:
        """The unit starts; where its queue, or one above it, has checks for it, it only gets what it needs, `least`,
        and starts after them."""
        if sources.unit is not None:
            line, checks = reserving.asked_of(
                self._hub, queues, sources.unit.body, sources.binding.body, placement.member
            )
            if checks:
                patience = reserving.patience_s(line, self._hub.config.admission_checks_s)
                return self._reserve_writes(least.binding, sources.unit, placement, domain, checks, patience)
        return self.start_writes(sources, placement, domain=domain)

    def _reserve_writes(
        self,
        binding: StoredObject,
        unit: StoredObject,
        placement: Placement,
        domain: str,
        checks: Sequence[str],
        patience_s: float,
    ) -> list[Write]:
        now, member = self._hub.clock.now(), placement.member
        patience_s += self._hub.config.nodes_added_s if placement.grows else 0.0
        until, where = now + patience_s, queue_of(unit.body)
        share_until, size, grows = placement.share_until, start_size(binding.body), placement.grows
        reserved_placement = ReservedPlacement(
            member, now, until, _generation(binding) or 0, where, domain, share_until, size, grows
        )

        def tell(body: Body) -> Body:
            if not waits(body):
                raise conflict(WORK, "resourcebindings", binding.key.name)
            return reserving.tell_reserved(body, reserved_placement, checks, now)

        def reserve(body: Body) -> Body:
            return reserving.reserve(body, reserved_placement, checks, now)

        message = f"{reserving.reason_of(reserved_placement, checks).text}: {', '.join(checks)} (for member {member})"
        return [
            self._hub.change(binding.key, tell, uid=binding.uid, generation=_generation(binding)),
            self._hub.change(unit.key, reserve, uid=unit.uid, generation=_generation(unit)),
            self._events.write(binding.body["spec"]["resource"], RESERVE_SUCCEED, message, component=SCHEDULER),
        ]

    def start_writes(
        self,
        sources: Sources,
        placement: Placement,
        expected: ReservedPlacement | None = None,
        domain: str = "",
        room: Driver | None = None,
    ) -> list[Write]:
        """The writes that take the unit out of its queue and into the member, which lose when it changed. `expected`:
        its nomination, which it must still have. `domain`: the value of its topology label that it should lie in, if it
        has one. `room`: how its room in the member is held."""
        binding, now, member = sources.binding, self._hub.clock.now(), placement.member
        meta = binding.body["metadata"]
        cluster = self._hub.peek(CLUSTER, "clusters", "", member)
        way = Way(domain, str(room or ""), gang_scheduler_of(cluster, room))

        def place(body: Body) -> Body:
            return placed(as_large_as(body, binding.body), member, now, way, placement.share_until)

        writes = [self._hub.change(binding.key, place, uid=binding.uid, generation=meta.get("generation"))]
        if sources.unit is not None:
            attempt, unit = b.attempt(binding.body) + 1, sources.unit
            generation = unit.body["metadata"].get("generation")

            def dequeue(body: Body) -> Body:
                if expected is not None and reserved_placement_of(body) != expected:
                    raise conflict(QUEUE, "queueunits", unit.key.name)
                return dequeued(body, binding.body, member, attempt, now)

            change = self._hub.change(unit.key, dequeue, uid=unit.uid, generation=generation)
            writes.append(change)
        message = f"Binding has been scheduled successfully. Result: {result_text(binding.body, member)}"
        writes.append(
            self._events.write(binding.body["spec"]["resource"], SCHEDULE_SUCCEED, message, component=SCHEDULER)
        )
        return writes


def _sized(sources: Sources, parts: Iterable[Component]) -> Sources:
    """With the binding as it is once its job has these replicas."""
    sizes = {part.name.lower(): part.replicas for part in parts}
    return replace(sources, binding=with_replicas(sources.binding, sizes))


def _without(pending: Sequence[_Act], lost: frozenset[str]) -> list[_Act]:
    """The rest without these, and without the acts that are chained behind them."""
    rest: list[_Act] = []
    broken = False
    for act in pending:
        broken = broken or (act.chained and act.unit in lost)
        if act.unit not in lost and not (broken and act.chained):
            rest.append(act)
    return rest


def _untouched(body: Body) -> None:
    return None


def _generation(stored: StoredObject) -> int | None:
    found: int | None = stored.body["metadata"].get("generation")
    return found


def policy_key(claim: str) -> Key | None:
    """The policy that a binding's ANNOTATION_POLICY names."""
    kind, _, name = claim.partition(" ")
    if kind == "PropagationPolicy" and "/" in name:
        namespace, _, name = name.partition("/")
        return Key(POLICY, "propagationpolicies", namespace, name)
    return Key(POLICY, "clusterpropagationpolicies", "", name) if name else None
