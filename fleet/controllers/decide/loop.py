"""The decider's loop: something changed → snapshot → decide → commit, and a reason for everything that waits.

The loop wakes on every change that could matter, gathers for a moment so that a burst is one decision, and runs
`decide` beside the event loop. While a burst goes on it gathers for as long as the cycle before took, so that deciding
takes at most half of the time and the rest of the hub keeps up. While no job asks for anything, news of placed jobs and
of members is gathered for QUIET_S. A commit is safe by itself. Each chunk carries the
inputs of its decision as preconditions, so a unit that changed meanwhile drops out, and a changed tree or policy means
deciding again. An exception of `decide` is a bug: decider.py finds a way around it, and faults.py tells of it.

A process that begins knows no member yet. To decide then would send jobs to whichever member is read first, and tell
all other jobs that there are no members, so it waits for the members that are said to be ready, for a bounded time. A
member that shows no life meanwhile is not waited for beside others that are read: its silence is news of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace

import structlog

from api.loops.controller import Controller, Source, Teller
from fleet.bindings import binding as b
from fleet.bindings.components import WANTED
from fleet.bindings.orphans import is_record
from fleet.bindings.unit import PLACED_PHASES, phase_of
from fleet.controllers.decide.commit import PlanCommitter
from fleet.controllers.decide.decider import SEED, Decider, Resort
from fleet.controllers.decide.elastic import with_least
from fleet.controllers.decide.faults import Faults
from fleet.controllers.decide.growing import JobGrower
from fleet.controllers.decide.latest import LatestSnapshot
from fleet.controllers.decide.nodesnow import NodesNow
from fleet.controllers.decide.process import ProcessDecider
from fleet.controllers.decide.queueitems import QueueItems
from fleet.controllers.decide.reasons import ReasonWriter
from fleet.controllers.decide.record import DecisionRecorder
from fleet.controllers.decide.resizing import JobResizer
from fleet.controllers.decide.snapshot import Picture, SnapshotBuilder
from fleet.controllers.decide.waking import next_change
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.hub import Hub
from fleet.controllers.runtime.metrics import CountedSolver, Phases
from fleet.core.check.quality import needless
from fleet.core.model.plan import Plan
from fleet.core.model.reason import Reason
from fleet.core.placement.problem import Solver
from fleet.core.snapshot import Config, Snapshot
from fleet.core.solver.intime import TimedSolver
from fleet.members.members import MemberChange
from fleet.values.ports import Event, EventType, Key, StaleEpoch, StoreUnavailable
from fleet.wellknown import CLUSTER, QUEUE, QUOTA, WORK

log = structlog.get_logger(__name__)

GATHER_MAX_S = 0.3
QUIET_S = 1.0  # between two looks at what placed jobs and members do, while no job asks for anything
AGAIN_FIRST_S = 0.01  # after a plan that lost to other writers, all of it; doubling
AGAIN_MAX_S = 1.0
LOOK_S = 0.25  # between two looks at members that are not read yet; a member that is read brings the next one sooner
UNREAD_TOLD = 10  # of what cannot be read in one cycle
_CYCLE = Key("", "", "", "decide")


class DecideLoop:
    """Places waiting gangs and says why the others wait."""

    name = "decide"

    def __init__(
        self,
        hub: Hub,
        events: EventRecorder,
        solver: Solver | None,
        aside: Teller,
        process: ProcessDecider | None = None,
    ) -> None:
        """`process`: where decisions are made; None: here."""
        self._hub = hub
        self._solver = CountedSolver(solver, hub.metrics) if solver is not None else None
        self._process = process
        clock = hub.clock.monotonic
        self._decider = Decider(clock) if process is None else Decider(clock, process.decide, process.trial)
        tuned = hub.config
        config = Config(
            reclaim=tuned.reclaim,
            protection_s=tuned.protection_s,
            claim_s=tuned.claim_s,
            head_after_s=tuned.head_after_s,
            guarantee_delay_s=tuned.guarantee_delay_s,
        )
        self._builder = SnapshotBuilder(hub.store, hub.members, config, tuned.pods_run_s)
        self._growing = JobGrower(hub, events)
        self._resizing = JobResizer(hub, events)
        self._committer = PlanCommitter(hub, events)
        self._reasons = ReasonWriter(hub, events)
        self._recorder = DecisionRecorder(hub)
        self._latest = LatestSnapshot(hub, self._recorder.packer)
        self._nodes = NodesNow(hub)
        self._faults = Faults(hub, events, self._recorder.packer)
        self._items = QueueItems(hub)
        self._aside = aside
        self._unreadable: set[Key] = set()  # bindings that say so
        self._last: Snapshot | None = None
        self._snapshot: Snapshot | None = None  # the picture that this cycle decides on
        self._stands_until: float | None = None  # the plan for `_last`, if nothing but time changes
        self._first_look: float | None = None  # monotonic
        self._began = False  # whether the members were read once, or waited for long enough
        self._took_s = 0.0  # by the last cycle that decided something
        self._lost = 0  # cycles in a row of which nothing could be committed
        self._quiet = False  # whether nobody asked for anything when it looked last
        self.cycles = 0  # decisions made; tests read it
        sources = [
            Source(WORK, "resourcebindings", self._on_binding),
            Source(QUEUE, "queueunits", self._on_unit),
            Source(QUEUE, "queues", self._wake),
            Source(QUOTA, "elasticquotatrees", self._wake),
            Source(CLUSTER, "clusters", self._later),
            Source("", "configmaps", lambda event: self._wake(event) if is_record(event.stored.key) else ()),
        ]
        self.controller = Controller(self.name, hub.store, sources, self.reconcile, workers=1)

    async def run(self) -> None:
        self._hub.members.subscribe(self._on_member)
        self._decider.ended = False
        try:
            await self.controller.run()
        finally:  # what it began beside its cycles ends with it, a decision too, which may be the next leader's to make
            self._decider.ended = True
            if self._process is not None:
                self._process.interrupt()
            for part in (self._items, self._latest, self._nodes, self._recorder):
                await part.close()

    def look_again(self) -> None:
        """Have it look although nothing changed: that it lives is seen from its looks."""
        self.controller.queue.add(_CYCLE)

    def _wake(self, event: Event) -> Iterable[Key]:
        return (_CYCLE,)

    def _later(self, event: Event) -> Iterable[Key]:
        """For news that no placed job waits for: while nobody asks for anything, it may be seen a little later."""
        if not self._quiet:
            return (_CYCLE,)
        self.controller.queue.add_after(_CYCLE, QUIET_S)
        return ()

    def _on_binding(self, event: Event) -> Iterable[Key]:
        placed = event.type is EventType.MODIFIED and b.clusters_of(event.stored.body)
        asks = not placed or b.tasks_of(event.stored.body) or WANTED in b.spec_of(event.stored.body)
        return (_CYCLE,) if asks else self._later(event)

    def _on_unit(self, event: Event) -> Iterable[Key]:
        started = event.type is EventType.MODIFIED and phase_of(event.stored.body) in PLACED_PHASES
        return self._later(event) if started else (_CYCLE,)

    def _on_member(self, changed: MemberChange) -> None:
        if self._quiet and changed.what != "ready":
            self.controller.queue.add_after(_CYCLE, QUIET_S)
        else:
            self.controller.queue.add(_CYCLE)

    async def reconcile(self, key: Key) -> float | None:
        """One cycle; returns when to look again although nothing changed."""
        await self._hub.clock.sleep(max(self._hub.config.gather_s, min(self._took_s, GATHER_MAX_S)))
        began = self._hub.clock.monotonic()
        if not self._may_begin(began):
            return LOOK_S
        metrics, now = self._hub.metrics, self._hub.clock.now()
        self._snapshot = None
        try:
            outcome, again = await self._cycle(began, now)
        except (StaleEpoch, StoreUnavailable):
            raise
        except Exception as error:
            metrics.cycles.labels("failed").inc()
            await self._faults.tell(error, Resort.UNDECIDED, self._snapshot, now)
            raise
        metrics.looked(outcome, self._hub.clock.now())
        return again

    async def _cycle(self, began: float, now: float) -> tuple[str, float | None]:
        """How it went, as metrics name it, and when to look again."""
        await self._builder.read_ahead()
        whole = self._builder.build(now)
        self._quiet = not whole.waiting and not whole.growing
        if whole.growing and await self._growing.grow(whole, now):
            whole = self._builder.build(now)
        await self._tell_unreadable(now)
        heard = self._decider.without_aside(whole.snapshot, now)
        self._hub.metrics.aside.set(len(self._decider.aside))
        picture = whole if heard is whole.snapshot else replace(whole, snapshot=heard)
        self._latest.offer(lambda: picture.snapshot, now)
        self._nodes.offer(heard, now)
        if not whole.waiting and not whole.elastic:
            self._hub.metrics.see(whole.snapshot, {})
            self._items.offer(whole, {})
            self._last = None
            return "idle", None
        outcome = "unchanged"
        over = self._stands_until is not None and self._stands_until <= now
        if over or heard != self._last:
            decided = await self._decide(picture, began, now)
            if decided is None:
                self.controller.queue.add(_CYCLE)
                return "failed", None
            outcome, (plan, phases) = "decided", decided
            reasons = {**with_least(picture, plan.reasons), **self._left_out()}
            phases.begin("commit")
            took_s = self._hub.clock.monotonic() - began
            complete = await self._carry_out(picture, whole, plan, reasons, now, took_s)
            self._hub.metrics.decided(plan, phases.end())
            if plan.evictions:
                found = await asyncio.to_thread(needless, picture.snapshot, plan, now=now)
                self._hub.metrics.needless.inc(len(found))
            self._hub.metrics.see(whole.snapshot, reasons)
            self._items.offer(whole, reasons)
            self._took_s = self._hub.clock.monotonic() - began
            # Commits come back as changes. A time that runs out is none.
            self._last = heard if complete else None
            self._stands_until = next_change(heard, plan.reasons, now)
        else:
            self._hub.metrics.see(whole.snapshot)
            self._reasons.renew(whole)
        pauses = [self._stands_until - now + 0.01] if self._stands_until is not None else []
        pauses += [picture.again_at - now + 0.01] if picture.again_at is not None else []
        pauses += [one.until - now + 0.01 for one in self._decider.aside.values()]
        pauses += [pause for pause in (await self._reasons.flush(),) if pause is not None]
        return outcome, min(pauses, default=None)

    async def _tell_unreadable(self, now: float) -> None:
        """Bindings that cannot be read say so, once, and no longer say so when they can be."""
        failing = self._builder.unreadable
        for key in [key for key in self._unreadable if key not in failing]:
            self._unreadable.discard(key)
            if self._hub.store.peek(key) is not None:
                await self._aside.handled(self.name, key)
        for key in [key for key in failing if key not in self._unreadable][:UNREAD_TOLD]:
            self._unreadable.add(key)
            await self._faults.tell(failing[key], Resort.UNREAD, None, now, [f"{key.namespace}/{key.name}"])
            await self._aside.tell(self.name, key, failing[key])

    async def _decide(self, picture: Picture, began: float, now: float) -> tuple[Plan, Phases] | None:
        """None when units were left out: decide again."""
        clock = self._hub.clock.monotonic
        phases = Phases(clock, "snapshot", began)
        solver = TimedSolver(self._solver, clock, began=began) if self._solver is not None else None
        self._snapshot = picture.snapshot
        decide = self._decider.decide
        decided = await asyncio.to_thread(decide, picture.snapshot, now=now, solver=solver, mark=phases.begin)
        self.cycles += 1
        if decided.fault is not None and decided.resort is not None:
            names = [unit.name for unit in decided.left_out]
            await self._faults.tell(decided.fault, decided.resort, picture.snapshot, now, names)
        return (decided.plan, phases) if decided.plan is not None else None

    def _left_out(self) -> dict[str, Reason]:
        """Why those wait that the decider is not asked about."""
        return {key: one.reason for key, one in self._decider.aside.items()}

    def _may_begin(self, clock: float) -> bool:
        """See the module. `clock`: monotonic seconds."""
        if self._began:
            return True
        if self._first_look is None:
            self._first_look = clock
        waited = clock - self._first_look
        self._began = waited >= self._hub.config.members_read_s or self._read_enough(waited)
        return self._began

    def _read_enough(self, waited: float) -> bool:
        """Whether no member is left that will be read soon."""
        members, unread = self._hub.members, self._builder.unread()
        heard = (members.silent_s(name) for name in unread)
        silent = all((waited if at is None else at) >= self._hub.config.members_heard_s for at in heard)
        return not unread or (silent and any(members.ready(name) for name in members.names()))

    async def _carry_out(
        self,
        picture: Picture,
        whole: Picture,
        plan: Plan,
        reasons: Mapping[str, Reason],
        now: float,
        took_s: float,
    ) -> bool:
        """Whether all of the plan was committed. `whole`, `reasons`: with the units that were left out; `took_s`: until
        there was the plan."""
        placed = await self._committer.commit(picture, plan.placements, now) if plan.placements else 0
        await self._committer.nominate(picture, plan)
        claimants = {claim.unit for claim in plan.claims}
        await self._committer.release_expired(picture, claimants, now)
        claimed = await self._committer.take_back(picture, plan) if claimants else frozenset()
        resized = await self._resizing.resize(picture, plan, now)
        await self._resizing.tell(picture, plan, now)
        self._reasons.offer(whole, {key: why for key, why in reasons.items() if key not in claimants - claimed})
        if placed or claimed or resized:
            evicted = sum(eviction.preemptor in claimed for eviction in plan.evictions)
            log.info(
                "decided",
                placed=placed,
                claimed=len(claimed),
                evicted=evicted,
                resized=resized,
                waiting=len(plan.reasons),
                shipped=plan.certificate.shipped,
            )
            await self._recorder.record(picture.snapshot, plan, now=now, seed=SEED, took_s=took_s)
        complete = placed == len(plan.placements) and claimed == claimants and resized == len(plan.resizes)
        self._look_again(complete, bool(placed or claimed or resized))
        return complete

    def _look_again(self, complete: bool, progress: bool) -> None:
        """Soon, where a part of a plan was lost: the write that won is on its way here, and wakes the loop. Should it
        never come, this must not spin."""
        if complete or progress:
            self._lost = 0
        if not complete:
            self.controller.queue.add_after(_CYCLE, min(AGAIN_MAX_S, AGAIN_FIRST_S * 2.0 ** min(self._lost, 10)))
            self._lost += 1
