"""Committing a plan: its placements in chunks, each one transaction with everything it was decided on as preconditions.

There is one decider, so others can only have freed room or changed a unit. A unit that changed drops out and the rest
of its chunk goes on; a policy that changed takes its units out; a changed tree ends the commit, for a new decision.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from fleet.controllers import bindings as b
from fleet.controllers.conditions import set_condition
from fleet.controllers.events import EventRecorder
from fleet.controllers.hub import Hub
from fleet.controllers.snapshot import Picture, Sources
from fleet.engine.status import StatusError, conflict
from fleet.engine.times import rfc3339
from fleet.plan import Placement
from fleet.ports import Body, Committed, Key, Write
from fleet.wellknown import (
    ANNOTATION_POLICY,
    ANNOTATION_POLICY_GENERATION,
    ATTEMPT,
    POLICY,
    QUEUING,
    SCHEDULE_SUCCEED,
    SCHEDULED,
    WORK,
)

log = structlog.get_logger(__name__)

SCHEDULER = "default-scheduler"  # the component that users see on scheduling events
_EVERYTHING: frozenset[str] = frozenset({"*"})


class PlanCommitter:
    """Writes placements. Never chooses anything: the plan says it all."""

    def __init__(self, hub: Hub, events: EventRecorder) -> None:
        self._hub = hub
        self._events = events

    async def commit(self, picture: Picture, placements: Sequence[Placement]) -> int:
        """How many were committed; fewer than given when something had changed."""
        committed, size = 0, self._hub.config.chunk_units_max
        for start in range(0, len(placements), size):
            done = await self._chunk(picture, list(placements[start : start + size]))
            if done is None:
                break
            committed += done
        return committed

    async def _chunk(self, picture: Picture, pending: list[Placement]) -> int | None:
        """How many of the chunk were committed, or None when the tree changed. Each turn commits or drops some."""
        while pending:
            writes: list[Write] = []
            owners: list[frozenset[str]] = []
            self._preconditions(picture, pending, writes, owners)
            for placement in pending:
                made = self._writes(picture.sources[placement.unit], placement)
                writes += made
                owners += [frozenset({placement.unit})] * len(made)
            try:
                outcome = await self._hub.commit(writes)
            except StatusError as error:
                if len(pending) > 1:
                    return await self._one_by_one(picture, pending)
                log.warning("a placement was refused", unit=pending[0].unit, error=error.message)
                return 0
            if isinstance(outcome, Committed):
                return len(pending)
            lost = owners[outcome.index]
            if lost == _EVERYTHING:
                return None
            pending = [placement for placement in pending if placement.unit not in lost]
        return 0

    async def _one_by_one(self, picture: Picture, pending: Sequence[Placement]) -> int | None:
        """One of the chunk is refused whatever it stands beside: find it by committing each alone."""
        committed = 0
        for placement in pending:
            done = await self._chunk(picture, [placement])
            if done is None:
                return None
            committed += done
        return committed

    def _preconditions(
        self, picture: Picture, pending: Sequence[Placement], writes: list[Write], owners: list[frozenset[str]]
    ) -> None:
        if picture.tree is not None:
            generation = picture.tree.body["metadata"].get("generation")
            writes.append(self._hub.change(picture.tree.key, _untouched, uid=picture.tree.uid, generation=generation))
            owners.append(_EVERYTHING)
        followers: dict[tuple[Key, int], set[str]] = {}
        for placement in pending:
            binding = picture.sources[placement.unit].binding.body
            policy = policy_key(b.annotation(binding, ANNOTATION_POLICY))
            generation = b.annotation(binding, ANNOTATION_POLICY_GENERATION)
            if policy is not None and generation.isdigit() and not self._lazy(policy):
                followers.setdefault((policy, int(generation)), set()).add(placement.unit)
        for (policy, generation), units in followers.items():
            writes.append(self._hub.change(policy, _untouched, generation=generation))
            owners.append(frozenset(units))

    def _lazy(self, policy: Key) -> bool:
        """Whether bindings keep what an older generation of the policy said until their job changes."""
        found = self._hub.store.peek(policy)
        return found is not None and found.body["spec"].get("activationPreference") == "Lazy"

    def _writes(self, sources: Sources, placement: Placement) -> list[Write]:
        binding, now = sources.binding, self._hub.clock.now()
        meta = binding.body["metadata"]

        def place(body: Body) -> Body:
            return placed(body, placement.member, now)

        writes = [self._hub.change(binding.key, place, uid=binding.uid, generation=meta.get("generation"))]
        if sources.unit is not None:
            attempt, unit = b.attempt(binding.body) + 1, sources.unit
            generation = unit.body["metadata"].get("generation")
            member = placement.member

            def dequeue(body: Body) -> Body:
                return dequeued(body, binding.body, member, attempt, now)

            change = self._hub.change(unit.key, dequeue, uid=unit.uid, generation=generation)
            writes.append(change)
        message = f"Binding has been scheduled successfully. Result: {result_text(binding.body, placement.member)}"
        writes.append(
            self._events.write(binding.body["spec"]["resource"], SCHEDULE_SUCCEED, message, component=SCHEDULER)
        )
        return writes


def _untouched(body: Body) -> None:
    return None


def policy_key(claim: str) -> Key | None:
    """The policy that a binding's ANNOTATION_POLICY names."""
    kind, _, name = claim.partition(" ")
    if kind == "PropagationPolicy" and "/" in name:
        namespace, _, name = name.partition("/")
        return Key(POLICY, "propagationpolicies", namespace, name)
    return Key(POLICY, "clusterpropagationpolicies", "", name) if name else None


def result_text(binding: Body, member: str) -> str:
    """As the walk-through prints it: {cfa:0,[{master 1} {worker 2}]}."""
    components = " ".join(f"{{{c['name']} {c['replicas']}}}" for c in binding["spec"].get("components") or ())
    return f"{{{member}:0,[{components}]}}"


def placed(binding: Body, member: str, now: float) -> Body:
    """The binding, placed for a new attempt. Refused (409) when it is being deleted, or its job was suspended."""
    if b.deleting(binding) or b.clusters_of(binding) or b.tasks_of(binding) or b.suspended(binding):
        raise conflict(WORK, "resourcebindings", binding["metadata"]["name"])
    spec = binding["spec"]
    spec["clusters"] = [{"name": member, "replicas": 0}]
    was_queued = b.queued(binding)
    if "suspension" in spec:
        spec["suspension"]["scheduling"] = False
    binding["metadata"].setdefault("annotations", {})[ATTEMPT] = str(b.attempt(binding) + 1)
    set_condition(binding, SCHEDULED, True, "Success", "Binding has been scheduled successfully.", now)
    if was_queued:
        set_condition(binding, QUEUING, False, "Dequeued", "", now)
    binding["status"]["lastScheduledTime"] = rfc3339(now)
    return binding


def dequeued(unit: Body, binding: Body, member: str, attempt: int, now: float) -> Body:
    """The unit, out of its queue."""
    status = unit.setdefault("status", {})
    status.pop("reason", None)
    status.pop("requeueState", None)
    status.update(
        phase="Dequeued",
        message="",
        attempts=attempt,
        lastUpdateTime=rfc3339(now),
        lastAllocateTime=rfc3339(now),
        admissions=[
            {
                "name": component["name"],
                "replicas": component["replicas"],
                "cluster": member,
                "resources": (component.get("replicaRequirements") or {}).get("resourceRequest") or {},
            }
            for component in binding["spec"].get("components") or ()
        ],
    )
    for type_, reason in (("QuotaReserved", "QuotaReserved"), ("Admitted", "Admitted")):
        set_condition(unit, type_, True, reason, "", now)
    return unit
