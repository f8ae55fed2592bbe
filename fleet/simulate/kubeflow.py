"""The training operator, as far as a job's pods and status go: one reconciler for all its kinds.

Kept: pod names and labels, the texts and order of the conditions, replicaStatuses, restart policies with backoffLimit,
suspension, activeDeadlineSeconds, cleanPodPolicy, ttlSecondsAfterFinished. Left out: services, and the environment that
real training needs. A pod that failed is replaced under any restart policy, since pods here end for good, as on the
real test bed.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any

from fleet.simulate.operators import Operator, exit_code
from fleet.simulate.world import World, going, phase_of
from fleet.values.ports import Body
from fleet.values.times import seconds

PREFIX = "training.kubeflow.org"
RETRYABLE_FROM = 128  # with restartPolicy ExitCode, codes from here on (signals) are tried again


class KubeflowOperator(Operator):
    """`specs_field` holds the replica specs; `first` are the replica types that lead, the most important first."""

    kind_name: str
    resource: str
    specs_field: str
    default_restart = "OnFailure"
    leaders: tuple[str, ...] = ()

    def __init__(self, world: World) -> None:
        super().__init__(world, world.registry.need("kubeflow.org", self.resource))
        self._restarts: dict[str, int] = {}  # job uid -> pods replaced

    @abstractmethod
    def running(self, types: dict[str, dict[int, Body]], specs: dict[str, Body]) -> bool:
        """Whether the job as a whole counts as running."""

    @abstractmethod
    def succeeded(self, types: dict[str, dict[int, Body]], specs: dict[str, Body], job: Body) -> bool: ...

    def pod_name(self, job: str, type_: str, index: int) -> str:
        return f"{job}-{type_.lower()}-{index}"

    async def reconcile(self, job: Body, pods: list[Body]) -> float | None:
        status = copy.deepcopy(job.get("status") or {})
        policy = job["spec"].get("runPolicy") or {}
        if _true(status, "Succeeded") or _true(status, "Failed"):
            return await self._after_the_end(job, pods, status, policy)
        self._condition(job, status, "Created", "created.")
        if policy.get("suspend"):
            return await self._suspended(job, pods, status)
        if _true(status, "Suspended"):
            self._condition(job, status, "Suspended", "resumed.", value="False", reason="Resumed")
        if not status.get("startTime"):
            status["startTime"] = self.world.now()
        again = self._past_deadline(job, status, policy)
        if again is None or again > 0:
            await self._pods(job, pods, status, policy)
        if _true(status, "Succeeded") or _true(status, "Failed"):
            self._condition(job, status, "Running", "", value="False", keep_place=True)
            status["completionTime"] = self.world.now()
            self._restarts.pop(job["metadata"]["uid"], None)
            again = 0.0
        await self.world.change_status(self.kind, job, status)
        return again

    # -- pods

    async def _pods(self, job: Body, pods: list[Body], status: Body, policy: Body) -> None:
        specs: dict[str, Body] = job["spec"].get(self.specs_field) or {}
        types = self._by_type(specs, pods)
        replica_statuses: Body = {}
        for type_, spec in specs.items():
            wanted = 1 if spec.get("replicas") is None else int(spec["replicas"])
            by_index = types[type_]
            for index in range(wanted):
                if index not in by_index:
                    await self._create(job, type_, index, spec)
            for index in [i for i in by_index if i >= wanted]:
                await self.delete_pod(by_index.pop(index))
            self._count(job, type_, by_index, replica_statuses)
            failed = [pod for pod in by_index.values() if phase_of(pod) == "Failed"]
            if failed:
                await self._failed(job, status, policy, type_, spec, failed)
        status["replicaStatuses"] = replica_statuses
        if _true(status, "Failed"):
            return
        if self.succeeded(types, specs, job):
            self._condition(job, status, "Succeeded", "successfully completed.", is_=False)
            for counts in replica_statuses.values():  # pods that still run count with those that are done
                if still := counts.pop("active", 0):
                    counts["succeeded"] = counts.get("succeeded", 0) + still
        elif self.running(types, specs):
            self._drop(status, "Restarting")
            self._condition(job, status, "Running", "running.")

    def _by_type(self, specs: dict[str, Body], pods: list[Body]) -> dict[str, dict[int, Body]]:
        types: dict[str, dict[int, Body]] = {type_: {} for type_ in specs}
        names = {type_.lower(): type_ for type_ in specs}
        for pod in pods:
            labels = pod["metadata"].get("labels") or {}
            type_ = names.get(labels.get(f"{PREFIX}/replica-type", ""))
            if type_ is not None:
                types[type_][int(labels[f"{PREFIX}/replica-index"])] = pod
        return types

    def _labels(self, job: Body, type_: str) -> dict[str, str]:
        return {
            f"{PREFIX}/job-name": job["metadata"]["name"],
            f"{PREFIX}/operator-name": f"{self.kind.singular}-controller",
            f"{PREFIX}/replica-type": type_.lower(),
        }

    async def _create(self, job: Body, type_: str, index: int, spec: Body) -> None:
        labels = {**self._labels(job, type_), f"{PREFIX}/replica-index": str(index)}
        if type_ in self.leaders:
            labels[f"{PREFIX}/job-role"] = "master"
        restart = spec.get("restartPolicy") or self.default_restart
        # The operator itself acts on exit codes; the pod must not be restarted in place.
        restart = "Never" if restart == "ExitCode" else restart
        name = self.pod_name(job["metadata"]["name"], type_, index)
        await self.create_pod(job, name, spec.get("template") or {}, labels, restart)

    def _count(self, job: Body, type_: str, pods: dict[int, Body], statuses: Body) -> None:
        counts: dict[str, int] = {}
        for pod in pods.values():
            phase = phase_of(pod)
            name = {"Running": "active", "Succeeded": "succeeded", "Failed": "failed"}.get(phase)
            if name is not None and not (name == "active" and going(pod)):
                counts[name] = counts.get(name, 0) + 1
        selector = ",".join(f"{key}={value}" for key, value in sorted(self._labels(job, type_).items()))
        statuses[type_] = {**counts, "selector": selector}

    async def _failed(self, job: Body, status: Body, policy: Body, type_: str, spec: Body, failed: list[Body]) -> None:
        restart = spec.get("restartPolicy") or self.default_restart
        final = [
            pod for pod in failed if restart == "Never" or (restart == "ExitCode" and exit_code(pod) < RETRYABLE_FROM)
        ]
        if final:
            text = f"failed because {len(final)} {type_} replica(s) failed."
            self._condition(job, status, "Failed", text)
            return
        uid, limit = job["metadata"]["uid"], policy.get("backoffLimit")
        again = [pod for pod in failed if not going(pod)]
        count = self._restarts.get(uid, 0) + len(again)
        if limit is not None and count > int(limit):
            text = "has failed because it has reached the specified backoff limit"
            self._condition(job, status, "Failed", text, is_=False)
            return
        if again:
            self._restarts[uid] = count
            self._drop(status, "Running")
            text = f"restarting because {len(again)} {type_} replica(s) failed."
            self._condition(job, status, "Restarting", text)
            for pod in again:
                await self.delete_pod(pod)

    # -- suspension, deadline, the end

    async def _suspended(self, job: Body, pods: list[Body], status: Body) -> float | None:
        for pod in pods:
            if not going(pod) and phase_of(pod) in ("Pending", "Running"):
                await self.delete_pod(pod)
        status.pop("startTime", None)
        status["replicaStatuses"] = {type_: {} for type_ in job["spec"].get(self.specs_field) or {}}
        if _true(status, "Running"):
            self._condition(job, status, "Running", "suspended.", value="False", reason="Suspended")
        self._condition(job, status, "Suspended", "suspended.")
        await self.world.change_status(self.kind, job, status)
        return None

    def _past_deadline(self, job: Body, status: Body, policy: Body) -> float | None:
        """Seconds until the job's deadline, or None when it has none; at the deadline the job fails."""
        limit = policy.get("activeDeadlineSeconds")
        if limit is None:
            return None
        left = (seconds(status["startTime"]) or 0.0) + float(limit) - self.world.clock.now()
        if left <= 0:
            text = "has failed because it was active longer than specified deadline"
            self._condition(job, status, "Failed", text, is_=False)
            return 0.0
        return left

    async def _after_the_end(self, job: Body, pods: list[Body], status: Body, policy: Body) -> float | None:
        clean = policy.get("cleanPodPolicy") or "None"
        for pod in pods:
            running = phase_of(pod) in ("Pending", "Running")
            if not going(pod) and (clean == "All" or (clean == "Running" and running)):
                await self.delete_pod(pod)
        ttl = policy.get("ttlSecondsAfterFinished")
        if ttl is None:
            return None
        left = (seconds(status.get("completionTime") or "") or 0.0) + float(ttl) - self.world.clock.now()
        if left > 0:
            return left
        await self.delete_job(job)
        return None

    # -- conditions

    def _condition(
        self,
        job: Body,
        status: Body,
        type_: str,
        text: str,
        *,
        value: str = "True",
        reason: str = "",
        is_: bool = True,
        keep_place: bool = False,
    ) -> None:
        """Set it; a condition that changes moves to the end, which is what STATE shows. `keep_place`: only turn the
        value of one that is there."""
        conditions: list[Any] = status.setdefault("conditions", [])
        now = self.world.now()
        reason = f"{self.kind_name}{reason or type_}"
        old = next((c for c in conditions if c["type"] == type_), None)
        if keep_place:
            if old is not None and old["status"] != value:
                old.update(status=value, lastUpdateTime=now, lastTransitionTime=now)
            return
        if old is not None and (old["status"], old.get("reason")) == (value, reason):
            return
        meta = job["metadata"]
        message = f"{self.kind_name} {meta['namespace']}/{meta['name']} {'is ' if is_ else ''}{text}"
        since = old["lastTransitionTime"] if old is not None and old["status"] == value else now
        conditions[:] = [c for c in conditions if c["type"] != type_]
        conditions.append(
            {
                "type": type_,
                "status": value,
                "reason": reason,
                "message": message,
                "lastUpdateTime": now,
                "lastTransitionTime": since,
            }
        )

    def _drop(self, status: Body, type_: str) -> None:
        status["conditions"] = [c for c in status.get("conditions") or () if c["type"] != type_]


def _true(status: Body, type_: str) -> bool:
    return any(c["type"] == type_ and c["status"] == "True" for c in status.get("conditions") or ())


def active(pods: dict[int, Body]) -> int:
    return sum(phase_of(pod) == "Running" for pod in pods.values())


def done(pods: dict[int, Body], index: int) -> bool:
    pod = pods.get(index)
    return pod is not None and phase_of(pod) == "Succeeded"


def all_done(pods: dict[int, Body], spec: Body) -> bool:
    wanted = 1 if spec.get("replicas") is None else int(spec["replicas"])
    return sum(phase_of(pod) == "Succeeded" for pod in pods.values()) >= wanted
