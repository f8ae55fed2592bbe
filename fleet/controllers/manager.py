"""All loops of the controllers' process, composed in one place."""

from __future__ import annotations

from typing import Protocol

from api.lifecycle.garbage import GarbageCollector
from api.lifecycle.namespaces import Namespaces
from api.lifecycle.signing import SigningLoop
from api.loops.controller import Controller, Loop
from fleet.controllers.bind.loop import BindLoop
from fleet.controllers.bind.untakenobjects import UntakenLoop
from fleet.controllers.cluster.clusters import ClustersLoop
from fleet.controllers.cluster.gpuuse import GpuUseLoop
from fleet.controllers.cluster.taints import TaintTimes
from fleet.controllers.decide.admission_checks import AdmissionChecksLoop
from fleet.controllers.decide.loop import DecideLoop
from fleet.controllers.decide.process import ProcessDecider
from fleet.controllers.dispatch.loop import DispatchLoop
from fleet.controllers.dispatch.sweep import SweepLoop
from fleet.controllers.fields.evictor import Evictor
from fleet.controllers.history.finishedjobs import FinishedJobs
from fleet.controllers.history.loop import HistoryLoop
from fleet.controllers.notify.loop import NotifyLoop
from fleet.controllers.observe.drain import DrainLoop
from fleet.controllers.observe.failover import FailoverLoop
from fleet.controllers.observe.loop import ObserveLoop
from fleet.controllers.observe.moving import MoveLoop
from fleet.controllers.observe.nodes import NodesLoop
from fleet.controllers.observe.stopping import StoppingLoop
from fleet.controllers.queue.after import AfterLoop
from fleet.controllers.queue.enqueue import EnqueueLoop
from fleet.controllers.queue.quota import QuotaLoop
from fleet.controllers.room.loop import RoomLoop
from fleet.controllers.runtime.aside import AsideTeller
from fleet.controllers.runtime.events import EventRecorder, EventRetention
from fleet.controllers.runtime.hub import Hub
from fleet.controllers.runtime.index import BindingIndex
from fleet.controllers.runtime.terms import Terms
from fleet.core.placement.problem import Solver
from fleet.members.clusters import ClusterMembers


class _ReconcilingLoop(Loop, Protocol):
    controller: Controller


def build_loops(hub: Hub, solver: Solver | None, process: ProcessDecider | None = None) -> list[Loop]:
    """Every loop, for `runtime.run_all`; that of joining clusters only where there is something to join. All of them
    write under `hub.epoch`, and each may be run once. `process`: where decisions are made; None: in this process."""
    events, index, terms = EventRecorder(hub), BindingIndex(hub), Terms(hub)
    aside = AsideTeller(hub, events)
    evictor = Evictor(hub, events)
    dispatch = DispatchLoop(hub, events, evictor, index, terms)
    reconciling: list[_ReconcilingLoop] = [
        QuotaLoop(hub, events),
        BindLoop(hub, events),
        UntakenLoop(hub, events),
        EnqueueLoop(hub),
        AfterLoop(hub),
        DecideLoop(hub, events, solver, aside, process),
        AdmissionChecksLoop(hub, events),
        RoomLoop(hub, index, dispatch.dependencies),
        dispatch,
        ObserveLoop(hub, events, evictor, index),
        FailoverLoop(hub, events, evictor, index),
        TaintTimes(hub),
        DrainLoop(hub, evictor),
        StoppingLoop(hub, evictor),
        NodesLoop(hub, events),
        MoveLoop(hub, events, evictor),
        GarbageCollector(hub.objects, hub.options),
        Namespaces(hub.objects, hub.options, hub.config.root_certificate),
        SigningLoop(hub.objects, hub.options, hub.authority),
    ]
    recording: list[Loop] = []
    if hub.history_dsn:
        notify = NotifyLoop(hub, hub.history_dsn)
        history = HistoryLoop(hub, hub.history_dsn, notify.enter)
        reconciling.append(FinishedJobs(hub, history))
        recording = [history, notify]
    if isinstance(hub.members, ClusterMembers):
        reconciling.insert(0, ClustersLoop(hub, hub.members))
        recording.append(GpuUseLoop(hub, hub.members))
    for loop in reconciling:
        loop.controller.teller = aside
    hub.metrics.watch((loop.controller for loop in reconciling), hub.members)
    others: list[Loop] = [SweepLoop(hub, dispatch.controller.queue, terms), EventRetention(hub)]
    return [*reconciling, *others, *recording]
