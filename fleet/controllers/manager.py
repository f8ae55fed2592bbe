"""All loops of the controllers' process, composed in one place."""

from __future__ import annotations

from typing import Protocol

from fleet.controllers.admission_checks import AdmissionChecksLoop
from fleet.controllers.aside import Aside
from fleet.controllers.bind import BindLoop
from fleet.controllers.clusters import ClustersLoop
from fleet.controllers.decide import DecideLoop
from fleet.controllers.dispatch import DispatchLoop
from fleet.controllers.enqueue import EnqueueLoop
from fleet.controllers.events import EventRecorder, EventRetention
from fleet.controllers.evictor import Evictor
from fleet.controllers.failover import FailoverLoop
from fleet.controllers.garbage import GarbageCollector
from fleet.controllers.hub import Hub
from fleet.controllers.index import BindingIndex
from fleet.controllers.namespaces import Namespaces
from fleet.controllers.observe import ObserveLoop
from fleet.controllers.quota import QuotaLoop
from fleet.controllers.runtime import Controller, Loop
from fleet.controllers.sweep import SweepLoop
from fleet.controllers.taints import TaintTimes
from fleet.controllers.untaken import UntakenLoop
from fleet.members.clusters import ClusterMembers
from fleet.placement.problem import Solver


class _Reconciling(Loop, Protocol):
    controller: Controller


def build_loops(hub: Hub, solver: Solver | None) -> list[Loop]:
    """Every loop, for `runtime.run_all`; that of joining clusters only where there is something to join. All of them
    write under `hub.epoch`, and each may be run once."""
    events, index = EventRecorder(hub), BindingIndex(hub)
    aside = Aside(hub, events)
    evictor = Evictor(hub, events)
    dispatch = DispatchLoop(hub, events, evictor, index)
    reconciling: list[_Reconciling] = [
        QuotaLoop(hub),
        BindLoop(hub, events),
        UntakenLoop(hub, events),
        EnqueueLoop(hub),
        DecideLoop(hub, events, solver, aside),
        AdmissionChecksLoop(hub, events),
        dispatch,
        ObserveLoop(hub, evictor, index),
        FailoverLoop(hub, events, evictor, index),
        TaintTimes(hub),
        GarbageCollector(hub.objects, hub.options),
        Namespaces(hub.objects, hub.options),
    ]
    if isinstance(hub.members, ClusterMembers):
        reconciling.insert(0, ClustersLoop(hub, hub.members))
    for loop in reconciling:
        loop.controller.teller = aside
    hub.metrics.watch(loop.controller for loop in reconciling)
    return [*reconciling, SweepLoop(hub, dispatch.controller.queue), EventRetention(hub)]
