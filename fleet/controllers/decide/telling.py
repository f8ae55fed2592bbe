"""What was decided about single jobs, told in the log, the metrics and in traces."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from fleet.bindings import binding as b
from fleet.controllers.decide.snapshot import Picture
from fleet.controllers.runtime.about import about
from fleet.controllers.runtime.hub import Hub
from fleet.core.model.plan import Placement
from fleet.traces.span import TraceSpan, queued
from fleet.values.times import rfc3339

log = structlog.get_logger(__name__)


def tell_placed(hub: Hub, picture: Picture, placements: Sequence[Placement], decided_at: float) -> None:
    """`placements`: that are committed. Each unit has a place, or is reserved one until its admission checks agree.
    The record of the decision has the time `decided_at`, in epoch seconds, which the span names."""
    now, units, tree = hub.clock.now(), picture.snapshot.units, picture.snapshot.tree
    for placement in placements:
        hub.metrics.placed(units[placement.unit], tree, now)
        binding = picture.sources[placement.unit].binding.body
        attempt, named = b.attempt(binding) + 1, about(binding)
        log.info("a job is given a place", **named, member=placement.member, attempt=attempt)
        if hub.traces is not None:
            said = {"fleet.member": placement.member, "fleet.decision.at": rfc3339(decided_at)}
            span = TraceSpan(named["uid"], f"decision {decided_at}", "decision", decided_at, now, queued(attempt), said)
            hub.traces.add(span)
