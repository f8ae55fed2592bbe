"""Finished work of an attempt that the hub had given up: looked for before its copy is removed, and believed.

A member that was lost may have finished the job while the hub could not see it, and so may a job within its notice. The
member is asked for the copy, since its caches may be older than its answer. A copy that succeeded is not removed: the
job is Succeeded there, and a later attempt is stopped. A copy that failed counts for nothing.
"""

from __future__ import annotations

from typing import Any

from fleet.bindings import binding as b
from fleet.bindings.conditions import condition, drop_condition, set_condition
from fleet.bindings.unit import SUCCEEDED, unit_of
from fleet.controllers.fields.evict import leave
from fleet.controllers.fields.starting import dequeued
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.hub import Hub
from fleet.kinds import Health, JobState, interpreter_of
from fleet.members.members import ActResult
from fleet.values.ports import Body, CommitResult, Key
from fleet.values.times import rfc3339
from fleet.values.untyped import mapping
from fleet.wellknown import FINISHED_FOUND, FULLY_APPLIED, QUEUING, SCHEDULED, WORK

STOPPED = "FinishedElsewhere"  # reason of the later attempt's eviction


class FinishedWork:
    """Looks at copies that are about to be removed."""

    def __init__(self, hub: Hub, events: EventRecorder) -> None:
        self._hub = hub
        self._events = events

    async def spares(self, binding: Body, member: str, copy: Body) -> bool:
        """Whether the copy must stay: it succeeded, or the member did not say."""
        interpreter = interpreter_of(copy["apiVersion"], copy["kind"])
        if interpreter is None or not b.is_gang(binding) or b.deleting(binding) or b.finished(binding):
            return False
        answer = await self._hub.members.look(member, copy)
        if answer.did is ActResult.UNREACHABLE:
            return True
        live_copy = answer.body or {}
        if answer.did is not ActResult.DONE or mapping(live_copy.get("metadata")).get("uid") != copy["metadata"].get(
            "uid"
        ):
            return False
        standing = interpreter.state(live_copy.get("status"))
        if standing.state is not JobState.SUCCEEDED:
            return False
        await self._believe(binding, member, live_copy, standing.message)
        return True

    async def _believe(self, binding: Body, member: str, copy: Body, message: str) -> None:
        meta, now = binding["metadata"], self._hub.clock.now()
        key = Key(WORK, "resourcebindings", meta.get("namespace", ""), meta["name"])
        attempt, status = b.attempt_of_copy(copy), mapping(copy.get("status"))

        def settle(body: Body) -> Body:
            return succeeded(body, member, status, message, now)

        writes = [self._hub.change(key, settle, uid=meta["uid"], generation=meta.get("generation"))]
        unit = unit_of(self._hub.store.peek, key, meta["uid"])
        if unit is not None:
            writes.append(
                self._hub.change(unit.key, lambda body: _over(body, binding, member, message, now), uid=unit.uid)
            )
        text = f"Attempt {attempt} has succeeded in member {member}, which the hub had given up: the job is finished"
        writes.append(self._events.write(binding["spec"]["resource"], FINISHED_FOUND, text))
        if not isinstance(await self._hub.commit(writes), CommitResult):
            return  # another write was first: the next look finds the copy as it is


def succeeded(binding: Body, member: str, status: Body, message: str, now: float) -> Body:
    """The binding of a job that has succeeded in this member, in place; a later attempt elsewhere leaves."""
    spec = binding["spec"]
    others = [name for name in b.clusters_of(binding) if name != member]
    task: dict[str, Any] = {"reason": STOPPED, "message": f"the job has succeeded in member {member}"}
    leave(binding, others, {**task, "purgeMode": "Directly"}, now)
    spec["gracefulEvictionTasks"] = [entry for entry in b.tasks_of(binding) if entry["fromCluster"] != member]
    if not spec["gracefulEvictionTasks"]:
        del spec["gracefulEvictionTasks"]
    spec["clusters"] = [{"name": member, "replicas": 0}]
    if b.queued(binding):
        spec["suspension"]["scheduling"] = False
    if condition(binding, QUEUING) is not None:
        set_condition(binding, QUEUING, False, "Dequeued", "", now)
    set_condition(binding, SCHEDULED, True, "Success", "Binding has been scheduled successfully.", now)
    set_condition(binding, b.FINISHED, True, "Succeeded", message, now)
    for type_ in (b.REACHABLE, FULLY_APPLIED, b.WITHDRAWN):
        drop_condition(binding, type_)
    copy = {"clusterName": member, "applied": True, "health": str(Health.HEALTHY), "status": status}
    binding["status"]["aggregatedStatus"] = [copy]
    return binding


def _over(unit: Body, binding: Body, member: str, message: str, now: float) -> Body:
    dequeued(unit, binding, member, b.attempt(binding), now)
    unit["status"].update(phase=SUCCEEDED, podState={"running": 0, "pending": 0}, lastUpdateTime=rfc3339(now))
    set_condition(unit, "Finished", True, "Succeeded", message, now)
    return unit
