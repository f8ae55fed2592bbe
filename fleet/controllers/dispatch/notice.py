"""Notice and grace: a copy that has to leave is told so, and its pods are ended with the grace of their policy.

The notice is read from the eviction task, so a new leader goes on with it. It ends early when nothing runs any more, or
when the job says that its work is saved. What a member does not let the hub do (patch or delete pods) is done without:
the copy itself always carries the notice, and its pods then end with their own grace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import structlog

from fleet.bindings import binding as b
from fleet.bindings.notice import evict_at, task_of
from fleet.controllers.runtime.hub import Hub
from fleet.core.model.pod import PodView
from fleet.kinds import JobState, interpreter_of
from fleet.members.members import ActOutcome, ActResult
from fleet.values.ports import Body
from fleet.values.times import rfc3339, seconds
from fleet.values.untyped import text, whole
from fleet.wellknown import (
    ANNOTATION_CHECKPOINT,
    ANNOTATION_EVICT_AT,
    ANNOTATION_EVICT_WHY,
    LABEL_BINDING,
    LABEL_HUB,
)

log = structlog.get_logger(__name__)

AT_ONCE = 8  # calls in flight for the pods of one gang
WHY_MAX = 300  # characters of the reason in an annotation


class Notice:
    """Gives notice before a copy is deleted, and ends its pods with their grace."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._times: dict[str, str] = {}  # uid of a copy -> time that it and its pods were told

    def forget(self, uid: str) -> None:
        self._times.pop(uid, None)

    def pause(self, binding: Body) -> float | None:
        """Seconds until the first notice ends; None without one that still runs."""
        now = self._hub.clock.now()
        times = [at for task in b.tasks_of(binding) if (at := evict_at(task)) is not None and at > now]
        return min(times) - now + 0.01 if times else None

    async def runs(self, binding: Body, member: str, copy: Body) -> bool:
        """Whether the copy has time left. It is told so at the first look."""
        task = task_of(binding, member)
        until = evict_at(task) if task is not None else None
        if task is None or until is None or until <= self._hub.clock.now():
            return False
        pods = self._live(binding, member)
        interpreter = interpreter_of(copy["apiVersion"], copy["kind"])
        standing = interpreter.state(copy.get("status")).state if interpreter is not None else JobState.UNKNOWN
        if not pods or standing in (JobState.SUCCEEDED, JobState.FAILED):
            return False
        if saved_since(copy, pods, seconds(text(task.get("creationTimestamp"))) or until):
            return False
        if self._times.get(copy["metadata"]["uid"]) != rfc3339(until):
            await self._tell(member, copy, pods, rfc3339(until), text(task.get("message")))
        return True

    async def _tell(self, member: str, copy: Body, pods: Sequence[PodView], until: str, why: str) -> None:
        annotations: dict[str, str | None] = {ANNOTATION_EVICT_AT: until, ANNOTATION_EVICT_WHY: why[:WHY_MAX]}
        known = (copy["metadata"].get("annotations") or {}).get(ANNOTATION_EVICT_AT)
        outcomes = [] if known == until else [await self._hub.members.relabel(member, copy, {}, annotations)]

        async def tell(pod: PodView) -> ActOutcome:
            return await self._hub.members.relabel(member, self._named(pod), {}, annotations)

        outcomes += await bounded(tell(pod) for pod in pods)
        if any(outcome.did is ActResult.REFUSED for outcome in outcomes):
            refused = next(outcome.message for outcome in outcomes if outcome.did is ActResult.REFUSED)
            log.warning("pods get no notice of their eviction", member=member, why=refused[:300])
        if all(outcome.did in (ActResult.DONE, ActResult.REFUSED, ActResult.NOT_FOUND) for outcome in outcomes):
            self._times[copy["metadata"]["uid"]] = until

    async def end_pods(self, binding: Body, member: str) -> None:
        """Delete the pods with the grace of the eviction task, where it names one. Before the copy itself: the member
        deletes the pods of a deleted job with their own grace, and a grace that runs is never made longer."""
        task = task_of(binding, member)
        if task is None or task.get("gracePeriodSeconds") is None:
            return
        grace = whole(task["gracePeriodSeconds"])

        async def end(pod: PodView) -> ActOutcome:
            return await self._hub.members.delete(member, self._named(pod), grace_s=grace)

        outcomes = await bounded(end(pod) for pod in self._live(binding, member))
        refused = next((o.message for o in outcomes if o.did is ActResult.REFUSED), "")
        if refused:
            log.warning("pods end with their own grace", member=member, why=refused[:300])

    def _live(self, binding: Body, member: str) -> list[PodView]:
        pods = self._hub.members.pods_of(binding["metadata"]["uid"])
        return [p for p in pods if p.member == member and p.phase in b.LIVE_PHASES and not p.terminating]

    def _named(self, pod: PodView) -> Body:
        labels = {LABEL_HUB: self._hub.hub_id, LABEL_BINDING: pod.binding}
        meta = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "labels": labels}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta}


def saved_since(copy: Body, pods: Iterable[PodView], since: float) -> bool:
    """Whether the copy or one of its pods says that its work is saved up to a time after this one."""
    told = seconds(b.annotation(copy, ANNOTATION_CHECKPOINT)) or 0.0
    return max([told, *(pod.checkpoint_at for pod in pods)]) > since


async def bounded(calls: Iterable[object]) -> list[ActOutcome]:
    """The outcomes of these calls, a few of them at a time."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(call: object) -> ActOutcome:
        async with room:
            return await call  # type: ignore[misc,no-any-return]

    return list(await asyncio.gather(*(one(call) for call in calls)))
