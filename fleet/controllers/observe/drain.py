"""Draining members: each gang there is evicted in its turn, at a bounded pace, and the Cluster says how far it is.

The pace is kept in memory: a new leader begins it anew, and at most one gang more leaves in that second. Nothing leaves
a member that does not answer, as with other taints (failover.py).
"""

from __future__ import annotations

from dataclasses import replace

from api.loops.controller import Controller, Source
from fleet.bindings import binding as b
from fleet.bindings.conditions import drop_condition, set_condition
from fleet.bindings.draining import Drain, DrainProgress, LeavingJob, drain_of, emptying, held_up_by
from fleet.controllers.fields.evictor import Evictor
from fleet.controllers.runtime.hub import Hub
from fleet.values.ports import Body, Key, StoredObject
from fleet.wellknown import CLUSTER, QUEUE, WORK, unit_name

DRAINING = "Draining"  # condition of a Cluster while its taint asks for it: False once nothing more leaves
DRAINED, EVICTING, SILENT = "Drained", "WaitsForWork", "MemberUnreachable"  # its reasons
STAYING = "JobsStay"  # nothing more leaves, and the member is not empty
EVICTED = "MemberDrained"  # why something was evicted
LOOK_S = 1.0  # between two looks at a member while jobs leave it
LOOK_DRAINED_S = 5.0  # the same once no more leave; a start that was decided before the cordon may still come
NAMED_MAX = 3  # jobs that the condition names


class DrainLoop:
    """A Loop."""

    name = "drain"

    def __init__(self, hub: Hub, evictor: Evictor) -> None:
        self._hub = hub
        self._evictor = evictor
        self._due: dict[str, float] = {}  # member -> monotonic: not before then does the next gang leave
        self.controller = Controller(self.name, hub.store, [Source(CLUSTER, "clusters")], self.reconcile, workers=1)

    async def run(self) -> None:
        await self.controller.run()

    async def reconcile(self, key: Key) -> float | None:
        stored = self._hub.store.peek(key)
        drain = drain_of(stored.body) if stored is not None else None
        if stored is None or drain is None or b.deleting(stored.body):
            self._due.pop(key.name, None)
            if stored is not None:
                await self._hub.edit(key, lambda body: drop_condition(body, DRAINING), uid=stored.uid)
            return None
        ready = self._hub.members.ready(key.name)
        found = self._emptying(key.name, drain)
        if ready:
            found = await self._evict(key.name, drain, found)
        message, now = drain_text(found, ready=ready), self._hub.clock.now()
        busy = bool(found.going or found.leaving)
        over = STAYING if found.staying else DRAINED
        reason = (EVICTING if ready else SILENT) if busy else over
        await self._hub.edit(
            key,
            lambda body: drain_of(body) is not None and set_condition(body, DRAINING, busy, reason, message, now),
            uid=stored.uid,
        )
        return LOOK_S if busy else LOOK_DRAINED_S

    def _emptying(self, member: str, drain: Drain) -> DrainProgress:
        found = [stored.body for stored in self._hub.scan(WORK, "resourcebindings")]
        return emptying(member, drain, found, self._unit_of, self._hub.clock.now())

    def _unit_of(self, binding: Body) -> Body | None:
        meta = binding["metadata"]
        return self._hub.peek(QUEUE, "queueunits", meta.get("namespace", ""), unit_name(meta["name"]))

    async def _evict(self, member: str, drain: Drain, state: DrainProgress) -> DrainProgress:
        """Evict the gangs whose turn has come since the last look; the member after that."""
        now, looked = self._hub.clock.now(), self._hub.clock.monotonic()
        step = 60.0 / drain.per_minute
        due = min(max(self._due.get(member, looked), looked - LOOK_S), looked + step)
        leavers: list[LeavingJob] = []
        for candidate in state.going:
            if due > looked:
                break
            stored = self._stored(candidate.binding)
            if candidate.at > now or stored is None:
                continue
            message = f"member {member} is being drained"
            if await self._evictor.evict_one(stored, reason=EVICTED, message=message):
                leavers.append(candidate)
                due += step
        self._due[member] = due
        going = [candidate for candidate in state.going if not any(candidate is other for other in leavers)]
        return replace(state, going=going, leaving=[*state.leaving, *(candidate.binding for candidate in leavers)])

    def _stored(self, binding: Body) -> StoredObject | None:
        meta = binding["metadata"]
        return self._hub.store.peek(Key(WORK, "resourcebindings", meta.get("namespace", ""), meta["name"]))


def drain_text(state: DrainProgress, *, ready: bool = True) -> str:
    """The state of a drain, for people."""
    parts = [f"{len(state.going)} to leave, {len(state.leaving)} leaving"]
    if not state.going and not state.leaving:
        parts = ["no more jobs leave"]
    elif not ready:
        parts.append("the member does not answer, and nothing leaves before it is back")
    elif state.leaving:
        parts.append(f"held up by {held_up_by(state.leaving)}")
    if state.staying:
        named = ", ".join(f"{b.job_name(one)} ({why})" for one, why in state.staying[:NAMED_MAX])
        more = f" and {len(state.staying) - NAMED_MAX} more" if len(state.staying) > NAMED_MAX else ""
        parts.append(f"{len(state.staying)} {'stays' if len(state.staying) == 1 else 'stay'}: {named}{more}")
    return "; ".join(parts)
