"""NoExecute taints of members: work there that does not tolerate one leaves, at once or after a time.

As in Karmada: `spec.taints` of the Cluster, `placement.clusterTolerations` of the policy. A toleration with
`tolerationSeconds` counts from the taint's `timeAdded`, which the hub writes where it is missing. Such a toleration
does not let newcomers in (matching.py), since they would have to leave again.

The taint TAINT_DRAIN is apart: it moves gangs only, one after the other (draining.py and the loop `drain`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api.loops.controller import Controller, Source
from fleet.bindings.matching import EXECUTE, ClusterFields, until
from fleet.controllers.runtime.hub import Hub
from fleet.core.model.matching import taints_text
from fleet.core.model.member import TAINT_DRAIN
from fleet.values.ports import Body, Key
from fleet.values.times import rfc3339
from fleet.values.untyped import mapping, rows
from fleet.wellknown import CLUSTER

TAINTED = "MemberTainted"  # why something was evicted


def leaves_at(placement: Mapping[str, Any] | None, cluster: ClusterFields, now: float) -> float | None:
    """Epoch seconds at which what follows this placement has to leave the member; None: never. A taint without a time
    was added just now."""
    times = [until(placement, taint, now) for taint in _executing(cluster)]
    return min((time for time in times if time is not None), default=None)


def _executing(cluster: ClusterFields) -> list[Mapping[str, Any]]:
    return [taint for taint in cluster.taints if taint.get("effect") == EXECUTE and taint.get("key") != TAINT_DRAIN]


def why(cluster: ClusterFields) -> str:
    """Why something leaves it."""
    said = taints_text(_executing(cluster))
    return f"member {cluster.name} has a taint that the job does not tolerate, or no longer: {said}"


class TaintTimes:
    """A Loop: writes `timeAdded` of NoExecute taints that have none."""

    name = "taints"

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.controller = Controller(self.name, hub.store, [Source(CLUSTER, "clusters")], self._reconcile, workers=1)

    async def run(self) -> None:
        await self.controller.run()

    async def _reconcile(self, key: Key) -> float | None:
        added = rfc3339(self._hub.clock.now())

        def change(body: Body) -> bool:
            timeless = [
                taint
                for taint in rows(mapping(body.get("spec")).get("taints"))
                if taint.get("effect") == EXECUTE and not taint.get("timeAdded")
            ]
            for taint in timeless:
                taint["timeAdded"] = added
            return bool(timeless)

        await self._hub.edit(key, change)
        return None
