"""Whether a job would start in a member now: a decision on the hub's newest snapshot."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from fleet.cli.failure import Failure
from fleet.cli.move import POLL_S
from fleet.core.decide import BadSnapshot, decide
from fleet.core.model.unit import AffinityGroup, Phase
from fleet.hub import whatif_edits

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient
    from fleet.core.model.reason import Reason

LOOKS = 6  # for a snapshot that shows the job, which may just have been submitted


def reason_to_wait(hub: HubClient, uid: str, to: str) -> Reason | str | None:
    """The reason for which it would wait, by a decision on the hub's newest snapshot in which it waits for this member
    alone; None when it would start."""
    for look in range(LOOKS):
        time.sleep(POLL_S if look else 0.0)
        source = whatif_edits.from_hub(hub)
        if source is None:
            return "you may not read the snapshot of the hub, so nobody knows whether there is room"
        unit = source.snapshot.units.get(uid)
        if unit is not None:
            break
    else:
        return "the decider has not looked at it yet"
    waiting = replace(
        unit,
        phase=Phase.WAITING,
        member=None,
        placed_at=None,
        leaving_at=None,
        share_until=None,
        seats=(),
        visible=(),
        affinity_groups=(AffinityGroup("", frozenset({to})),),
        backoff_until=None,
        claim=None,
        head=None,
    )
    try:
        members = source.snapshot.members
        if to in members:  # `_check` has read the Cluster, which may have lost a taint since the snapshot
            members = {**members, to: replace(members[to], taints=())}
        snapshot = replace(source.snapshot, units={**source.snapshot.units, uid: waiting}, members=members)
        plan = decide(snapshot, now=source.now, seed=0, solver=None)
    except BadSnapshot as error:
        raise Failure(f"{source.name}: {error}") from error
    started = any(placement.unit == uid for placement in plan.placements)
    return None if started else plan.reasons.get(uid, "the decider gives no reason")
