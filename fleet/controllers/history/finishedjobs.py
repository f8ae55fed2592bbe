"""The time to live of finished jobs: a job that is over is deleted some time later, once it is in the history.

The time is the job's own (the declaration of its kind names the field), else the hub's default. No member gets that
field: a member's controller would delete the copy before the hub has seen its end. A job that failed and may start anew
stays until its policy has had the time to restart it.
"""

from __future__ import annotations

from collections.abc import Iterable

from api.loops.controller import Controller, Source
from fleet.bindings import binding as b
from fleet.bindings.conditions import condition
from fleet.bindings.ownerless import is_ownerless
from fleet.controllers.history.loop import HistoryLoop
from fleet.controllers.runtime.hub import Hub, object_key
from fleet.kinds import interpreter_of
from fleet.values.ports import Body, Event, Key
from fleet.values.times import seconds
from fleet.values.untyped import mapping, rows, text, whole
from fleet.wellknown import WORK

RESTART_S = 60.0  # after the time at which a failed job starts anew
AGAIN_S = 5.0  # while the history is behind
LATER_S = 3600.0  # between two looks at the most


def _over(event: Event) -> Iterable[Key]:
    """Bindings of jobs that are over: nothing is due of the others."""
    return (event.stored.key,) if b.finished(event.stored.body) else ()


class FinishedJobs:
    name = "finished"

    def __init__(self, hub: Hub, history: HistoryLoop) -> None:
        self._hub, self._history = hub, history
        self.controller = Controller(self.name, hub.store, [Source(WORK, "resourcebindings", _over)], self.reconcile)

    async def run(self) -> None:
        await self.controller.run()

    async def reconcile(self, key: Key) -> float | None:
        """Returns the seconds until it is to be judged."""
        stored = self._hub.store.peek(key)
        if stored is None or b.deleting(stored.body) or not b.finished(stored.body):
            return None
        job_key = object_key(self._hub.registry, stored.body["spec"]["resource"])
        job = self._hub.store.peek(job_key) if job_key is not None else None
        if is_ownerless(stored.body):
            if not self._recorded(stored.revision):
                return AGAIN_S
            await self._hub.delete(key, uid=stored.uid)  # and with it what is left of its copy
            return None
        if job is None or b.deleting(job.body) or job.uid != b.resource_of(stored.body).get("uid"):
            return None
        due = self._due(job.body, stored.body)
        if due is None:
            return None
        left = due - self._hub.clock.now()
        if left > 0:
            return min(left + 0.01, LATER_S)
        recorder = self._history.recorder
        if recorder is None or not self._recorded(max(stored.revision, job.revision)):
            return AGAIN_S
        if job.uid in recorder.unwritten:
            return None
        await self._hub.delete(job.key, uid=job.uid)
        return None

    def _recorded(self, revision: int) -> bool:
        return self._history.recorder is not None and self._history.has(revision)

    def _due(self, job: Body, binding: Body) -> float | None:
        told = condition(binding, b.FINISHED) or {}
        over, lives = seconds(text(told.get("lastTransitionTime"))), self._lives(job)
        if over is None or lives is None:
            return None
        application = mapping(mapping(b.spec_of(binding).get("failover")).get("application"))
        if b.outcome_of(binding) != "Failed" or not application or application.get("purgeMode") == "Never":
            return over + lives
        given = mapping(application.get("decisionConditions")).get("tolerationSeconds")
        return over + max(lives, whole(given, int(self._hub.config.unhealthy_s)) + RESTART_S)

    def _lives(self, job: Body) -> float | None:
        """Seconds from its end; None: for ever. A job that belongs to another object goes with that, unless it says
        otherwise itself."""
        interpreter = interpreter_of(job["apiVersion"], job["kind"])
        own = interpreter.lives_s(job) if interpreter is not None else None
        if own is not None:
            return float(own)
        if any(owner.get("controller") for owner in rows(job["metadata"].get("ownerReferences"))):
            return None
        return self._hub.config.finished_job_ttl_s or None
