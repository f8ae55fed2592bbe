"""The decider's loop: something changed → snapshot → decide → commit, and a reason for everything that waits.

It wakes on every change that could matter, gathers for a moment so that a burst is one decision, and runs `decide`
beside the event loop. While a burst goes on it gathers for as long as the cycle before took, so that deciding takes at
most half of the time and the rest of the hub keeps up. What it commits is safe by itself: each chunk carries what it
was decided on as preconditions, so a unit that changed meanwhile drops out and a changed tree or policy means deciding
again.

A process that begins knows no member yet. To decide then would send jobs to whichever member is read first and tell
everybody else that there are none, so it waits for the members that are said to be ready, for a bounded time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import structlog

from fleet.controllers.commit import PlanCommitter
from fleet.controllers.events import EventRecorder
from fleet.controllers.hub import Hub
from fleet.controllers.latest import LatestSnapshot
from fleet.controllers.queueitems import QueueItems
from fleet.controllers.reasons import ReasonWriter
from fleet.controllers.record import DecisionRecorder
from fleet.controllers.runtime import Controller, Source
from fleet.controllers.snapshot import Picture, SnapshotBuilder
from fleet.controllers.waking import next_change
from fleet.decide import decide
from fleet.members.members import Changed
from fleet.placement.intime import InTime
from fleet.placement.problem import Solver
from fleet.plan import Plan
from fleet.ports import Event, Key
from fleet.snapshot import Config, Snapshot
from fleet.wellknown import CLUSTER, QUEUE, QUOTA, WORK

log = structlog.get_logger(__name__)

SEED = 1  # one for all decisions: the same snapshot gives the same plan (I8)
GATHER_MAX_S = 0.3
AGAIN_FIRST_S = 0.01  # after a plan that lost to other writers, all of it; doubling
AGAIN_MAX_S = 1.0
LOOK_S = 0.5  # between two looks at members that are not read yet; a member that is read brings the next one sooner
_CYCLE = Key("", "", "", "decide")


class DecideLoop:
    """Places waiting gangs and says why the others wait."""

    name = "decide"

    def __init__(self, hub: Hub, events: EventRecorder, solver: Solver | None) -> None:
        self._hub = hub
        self._solver = solver
        tuned = hub.config
        config = Config(
            reclaim=tuned.reclaim, protection_s=tuned.protection_s, claim_s=tuned.claim_s,
            head_after_s=tuned.head_after_s,
        )  # fmt: skip
        self._builder = SnapshotBuilder(hub.store, hub.members, config, tuned.pods_run_s)
        self._committer = PlanCommitter(hub, events)
        self._reasons = ReasonWriter(hub, events)
        self._recorder = DecisionRecorder(hub)
        self._latest = LatestSnapshot(hub, self._recorder.packer)
        self._items = QueueItems(hub)
        self._last: Snapshot | None = None
        self._stands_until: float | None = None  # the plan for `_last`, if nothing but time changes
        self._reads_until: float | None = None  # monotonic; None before the first look
        self._began = False  # whether the members were read once, or waited for long enough
        self._took_s = 0.0  # by the last cycle that decided something
        self._lost = 0  # cycles in a row of which nothing could be committed
        self.cycles = 0  # decisions made; tests and metrics read it
        sources = [
            Source(WORK, "resourcebindings", self._wake),
            Source(QUEUE, "queueunits", self._wake),
            Source(QUEUE, "queues", self._wake),
            Source(QUOTA, "elasticquotatrees", self._wake),
            Source(CLUSTER, "clusters", self._wake),
        ]
        self.controller = Controller(self.name, hub.store, sources, self.reconcile, workers=1)

    async def run(self) -> None:
        self._hub.members.subscribe(self._on_member)
        await self.controller.run()

    def _wake(self, event: Event) -> Iterable[Key]:
        return (_CYCLE,)

    def _on_member(self, changed: Changed) -> None:
        self.controller.queue.add(_CYCLE)

    async def reconcile(self, key: Key) -> float | None:
        """One cycle; returns when to look again although nothing changed."""
        await self._hub.clock.sleep(max(self._hub.config.gather_s, min(self._took_s, GATHER_MAX_S)))
        began = self._hub.clock.monotonic()
        if not self._may_begin(began):
            return LOOK_S
        now = self._hub.clock.now()
        picture = self._builder.build(now)
        self._latest.offer(picture.snapshot, now)
        waiting = picture.waiting
        if not waiting:
            self._items.offer(picture, {})
            self._last = None
            return None
        over = self._stands_until is not None and self._stands_until <= now
        if over or picture.snapshot != self._last:
            clock = self._hub.clock.monotonic
            solver = InTime(self._solver, clock, began=began) if self._solver is not None else None
            plan = await asyncio.to_thread(decide, picture.snapshot, now=now, seed=SEED, solver=solver)
            self.cycles += 1
            complete = await self._carry_out(picture, plan, now)
            self._items.offer(picture, plan.reasons)
            self._took_s = self._hub.clock.monotonic() - began
            # What was committed comes back as changes. A time that runs out is none.
            self._last = picture.snapshot if complete else None
            self._stands_until = next_change(picture.snapshot, plan.reasons, now)
        else:
            self._reasons.renew(picture)
        pauses = [self._stands_until - now + 0.01] if self._stands_until is not None else []
        pauses += [picture.again_at - now + 0.01] if picture.again_at is not None else []
        pauses += [pause for pause in (await self._reasons.flush(),) if pause is not None]
        return min(pauses, default=None)

    def _may_begin(self, clock: float) -> bool:
        """See the module. `clock`: monotonic seconds."""
        if self._reads_until is None:
            self._reads_until = clock + self._hub.config.members_read_s
        self._began = self._began or clock >= self._reads_until or self._builder.all_read()
        return self._began

    async def _carry_out(self, picture: Picture, plan: Plan, now: float) -> bool:
        placed = await self._committer.commit(picture, plan.placements) if plan.placements else 0
        await self._committer.nominate(picture, plan)
        wanted = {claim.unit for claim in plan.claims}
        await self._committer.release_expired(picture, wanted, now)
        claimed = await self._committer.take_back(picture, plan) if wanted else frozenset()
        self._reasons.offer(picture, {key: why for key, why in plan.reasons.items() if key not in wanted - claimed})
        if placed or claimed:
            evicted = sum(eviction.preemptor in claimed for eviction in plan.evictions)
            log.info(
                "decided", placed=placed, claimed=len(claimed), evicted=evicted, waiting=len(plan.reasons),
                shipped=plan.certificate.shipped,
            )  # fmt: skip
            await self._recorder.record(picture.snapshot, plan, now=now, seed=SEED)
        complete = placed == len(plan.placements) and claimed == wanted
        if complete or placed or claimed:
            self._lost = 0
        if not complete:
            # What was lost to is on its way here, and wakes the loop. Should it never come, this must not spin.
            self.controller.queue.add_after(_CYCLE, min(AGAIN_MAX_S, AGAIN_FIRST_S * 2.0 ** min(self._lost, 10)))
            self._lost += 1
        return complete
