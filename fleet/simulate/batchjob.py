"""batch Job: the job controller of a simulated member, for completions, parallelism, backoffLimit and suspension."""

from __future__ import annotations

import copy
import hashlib
from typing import Any

from fleet.simulate.operators import Operator
from fleet.simulate.world import World, going, phase_of
from fleet.values.ports import Body
from fleet.values.times import seconds

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
BACKOFF_LIMIT = 6
_ENDS = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}  # decided, and told when the last pod has ended


class BatchJobs(Operator):
    def __init__(self, world: World) -> None:
        super().__init__(world, world.registry.need("batch", "jobs"))
        self._made: dict[str, int] = {}  # job uid -> pods made so far

    async def reconcile(self, job: Body, pods: list[Body]) -> float | None:
        status = copy.deepcopy(job.get("status") or {})
        spec, uid = job["spec"], job["metadata"]["uid"]
        if _true(status, *_ENDS.values()):
            return await self._after_the_end(job, status)
        parallelism = 1 if spec.get("parallelism") is None else int(spec["parallelism"])
        completions = spec.get("completions")
        succeeded = [pod for pod in pods if phase_of(pod) == "Succeeded"]
        failed = [pod for pod in pods if phase_of(pod) == "Failed"]
        unended = [pod for pod in pods if phase_of(pod) in ("Pending", "Running")]
        live = [pod for pod in unended if not going(pod)]
        limit = spec.get("backoffLimit")
        again = None
        if _true(status, *_ENDS):
            live = await self._stop(live)
        elif spec.get("suspend"):
            live = await self._stop(live)
            status.pop("startTime", None)
            self._condition(status, "Suspended", "JobSuspended", "Job suspended")
        else:
            if _true(status, "Suspended"):
                self._condition(status, "Suspended", "JobResumed", "Job resumed", "False")
            status.setdefault("startTime", self.world.now())
            again = self._deadline(status, spec)
            enough = len(succeeded) >= int(completions) if completions is not None else bool(succeeded) and not live
            if len(failed) > (BACKOFF_LIMIT if limit is None else int(limit)):
                live = await self._end(
                    status, live, "FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
                )
            elif again is not None and again <= 0:
                live = await self._end(
                    status, live, "FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline"
                )
            elif enough:
                live = await self._end(
                    status,
                    live,
                    "SuccessCriteriaMet",
                    "CompletionsReached",
                    "Reached expected number of succeeded pods",
                )
            else:
                wanted = parallelism if completions is None else min(parallelism, int(completions) - len(succeeded))
                if completions is None and succeeded:  # a work queue: who works on ends by itself
                    wanted = min(parallelism, len(live))
                await self._scale(job, live, wanted)
        if not unended:
            self._over(status)
        status.update(
            active=len(live),
            succeeded=len(succeeded),
            failed=len(failed),
            terminating=len(unended) - len(live),
            ready=sum(phase_of(pod) == "Running" for pod in live),
        )
        if _true(status, *_ENDS.values()):
            self._made.pop(uid, None)
            again = 0.0
        await self.world.change_status(self.kind, job, status)
        return again

    async def _scale(self, job: Body, live: list[Body], count: int) -> None:
        meta = job["metadata"]
        for pod in live[count:]:
            await self.delete_pod(pod)
        labels = {
            "batch.kubernetes.io/job-name": meta["name"],
            "job-name": meta["name"],
            "batch.kubernetes.io/controller-uid": meta["uid"],
            "controller-uid": meta["uid"],
        }
        template = job["spec"].get("template") or {}
        restart = (template.get("spec") or {}).get("restartPolicy") or "Never"
        indexed = job["spec"].get("completionMode") == "Indexed"
        taken = {_index(pod) for pod in self.world.pods.owned_by(meta["uid"]) if phase_of(pod) != "Failed"}
        free = (index for index in range(len(taken) + count + 1) if str(index) not in taken)
        for _ in range(count - len(live)):
            made = self._made[meta["uid"]] = self._made.get(meta["uid"], 0) + 1
            suffix = _suffix(f"{meta['uid']}/{made}")
            content: dict[str, Any] = dict(template)
            name = f"{meta['name']}-{suffix}"
            more = dict(labels)
            if indexed:
                index = str(next(free))
                name = f"{meta['name']}-{index}-{suffix}"
                more["batch.kubernetes.io/job-completion-index"] = index
            await self.create_pod(job, name, content, more, restart)

    async def _stop(self, pods: list[Body]) -> list[Body]:
        for pod in pods:
            await self.delete_pod(pod)
        return []

    async def _end(self, status: Body, live: list[Body], type_: str, reason: str, message: str) -> list[Body]:
        self._condition(status, type_, reason, message)
        return await self._stop(live)

    def _over(self, status: Body) -> None:
        """The end of a job is told when its last pod has ended."""
        for decided in [c for c in status.get("conditions") or () if c["type"] in _ENDS and c["status"] == "True"]:
            self._condition(status, _ENDS[decided["type"]], decided["reason"], decided["message"])
            if _ENDS[decided["type"]] == "Complete":
                status["completionTime"] = self.world.now()

    def _deadline(self, status: Body, spec: Body) -> float | None:
        limit = spec.get("activeDeadlineSeconds")
        if limit is None:
            return None
        return (seconds(status["startTime"]) or 0.0) + float(limit) - self.world.clock.now()

    async def _after_the_end(self, job: Body, status: Body) -> float | None:
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None:
            return None
        ended = max(seconds(c["lastTransitionTime"]) or 0.0 for c in status["conditions"])
        left = ended + float(ttl) - self.world.clock.now()
        if left > 0:
            return left
        await self.delete_job(job)
        return None

    def _condition(self, status: Body, type_: str, reason: str, message: str, value: str = "True") -> None:
        now = self.world.now()
        conditions = status.setdefault("conditions", [])
        new = {"type": type_, "status": value, "reason": reason, "message": message, "lastProbeTime": now}
        for position, old in enumerate(conditions):
            if old["type"] == type_:
                if old["status"] != value:
                    conditions[position] = {**new, "lastTransitionTime": now}
                return
        conditions.append({**new, "lastTransitionTime": now})


def _true(status: Body, *types: str) -> bool:
    return any(c["type"] in types and c["status"] == "True" for c in status.get("conditions") or ())


def _index(pod: Body) -> str:
    return str((pod["metadata"].get("labels") or {}).get("batch.kubernetes.io/job-completion-index", ""))


def _suffix(seed: str) -> str:
    """Names of a job's pods are the same however often one reconciliation is begun."""
    digest = hashlib.sha256(seed.encode()).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:5])
