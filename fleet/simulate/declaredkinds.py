"""The operators of all kinds that a declaration describes, beside those that have one of their own here.

A kind gets its operator when the member serves it: Deployment and StatefulSet from the start, others with their CRD.
The declarations are those that Fleet ships, and WorkloadInterpreters that were applied to the member itself. Kept:
one pod a replica, suspension, the end of the job when its pods have ended, and a status that the declaration reads.
Left out: whatever else a real controller of the kind does.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping
from typing import Any

from api.engine.kind import Kind
from fleet.kinds.declaration import BadDeclaration, StateRule, read_declaration
from fleet.kinds.declared import DeclaredKind
from fleet.kinds.interpreter import JobState, Template
from fleet.kinds.lookup import shipped
from fleet.kinds.paths import put
from fleet.simulate.operators import Operator
from fleet.simulate.world import World, going, phase_of, set_condition
from fleet.values.ports import Body
from fleet.values.untyped import mapping, rows, text
from fleet.wellknown import CONFIG, KUBEFLOW

OWN_OPERATORS = frozenset({KUBEFLOW, "batch"})  # groups of kinds that have an operator of their own
LOOK_EVERY_S = 0.2
_INDEX = "testbed/replica-index"
_COMPONENT = "testbed/component"
# Of kinds whose rule for Running is not shown as it stands (it looks through a list, or compares counts): their status.
_RUNNING: Mapping[tuple[str, str], Body] = {
    ("jobset.x-k8s.io", "JobSet"): {
        "replicatedJobsStatus": [
            {"name": "all", "ready": 1, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0},
        ]
    },
    ("trainer.kubeflow.org", "TrainJob"): {},  # Trainer 2.0 says nothing
    ("apps", "StatefulSet"): {},  # its counts, which are written for all of this group
}


class DeclaredKinds:
    """A Loop: starts an operator for each declared kind that the member comes to serve."""

    name = "declared kinds"

    def __init__(self, world: World) -> None:
        self._world = world
        self._compiled: dict[str, tuple[int, DeclaredKind | None]] = {}  # by name: revision, interpreter

    async def run(self) -> None:
        running: dict[tuple[str, str], tuple[DeclaredKind, asyncio.Task[None]]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                for target, interpreter in self._wanted().items():
                    kind = self._world.registry.kind(*target)
                    before = running.get(target)
                    if kind is None or (before is not None and before[0] is interpreter):
                        continue
                    if before is not None:
                        before[1].cancel()
                    operator = DeclaredOperator(self._world, kind, interpreter)
                    running[target] = interpreter, group.create_task(operator.run(), name=operator.name)
                await asyncio.sleep(LOOK_EVERY_S)

    def _wanted(self) -> dict[tuple[str, str], DeclaredKind]:
        kinds = {target: one for target, one in shipped().items() if target[0] not in OWN_OPERATORS}
        own = {stored.key.name: stored for stored in self._world.store.scan(CONFIG, "workloadinterpreters")}
        for name in sorted(own):
            interpreter = self._read(own[name].revision, own[name].body)
            if interpreter is not None and interpreter.group not in OWN_OPERATORS:
                kinds[interpreter.group, interpreter.kind] = interpreter
        return kinds

    def _read(self, revision: int, body: Body) -> DeclaredKind | None:
        entry = self._compiled.get(body["metadata"]["name"])
        if entry is None or entry[0] != revision:
            try:
                interpreter = DeclaredKind(read_declaration(mapping(body.get("spec"))))
            except BadDeclaration:
                interpreter = None
            entry = self._compiled[body["metadata"]["name"]] = revision, interpreter
        return entry[1]


class DeclaredOperator(Operator):
    """The operator of one kind."""

    def __init__(self, world: World, kind: Kind, interpreter: DeclaredKind) -> None:
        super().__init__(world, kind)
        self._interpreter = interpreter
        self._rules = {rule.state: rule for rule in reversed(interpreter.declaration.states) if _can_be_shown(rule)}
        self._ends = JobState.SUCCEEDED in self._rules or JobState.FAILED in self._rules

    async def reconcile(self, job: Body, pods: list[Body]) -> float | None:
        interpreter, status = self._interpreter, copy.deepcopy(mapping(job.get("status")))
        if interpreter.state(status).state in (JobState.SUCCEEDED, JobState.FAILED):
            return None
        if interpreter.suspended(job):
            for pod in pods:
                if not going(pod) and phase_of(pod) in ("Pending", "Running"):
                    await self.delete_pod(pod)
            await self._show(job, status, JobState.SUSPENDED)
            return None
        targets = [(t, index) for t in interpreter.templates(job) for index in range(t.replicas)]
        by_place = {_place(pod): pod for pod in pods if not going(pod)}
        for place in by_place.keys() - {(template.name, str(index)) for template, index in targets}:
            await self.delete_pod(by_place[place])
        for template, index in targets:
            if (template.name, str(index)) not in by_place:
                await self._create(job, template, index)
        phases = [phase_of(by_place[t.name, str(i)]) if (t.name, str(i)) in by_place else "Pending" for t, i in targets]
        if "Failed" in phases and not self._ends:  # a service replaces what ends
            for pod in by_place.values():
                if phase_of(pod) == "Failed":
                    await self.delete_pod(pod)
        if self.kind.group == "apps":
            running = phases.count("Running")
            status |= {"replicas": len(phases), "readyReplicas": running, "availableReplicas": running}
        await self._show(job, status, self._state(phases))
        return None

    def _state(self, phases: list[str]) -> JobState:
        if self._ends and "Failed" in phases:
            return JobState.FAILED
        if self._ends and phases and set(phases) == {"Succeeded"}:
            return JobState.SUCCEEDED
        return JobState.RUNNING if phases and set(phases) <= {"Running", "Succeeded"} else JobState.CREATED

    async def _create(self, job: Body, template: Template, index: int) -> None:
        name, marks = job["metadata"]["name"], self._interpreter.pod_labels
        labels = {_INDEX: str(index), _COMPONENT: template.name}
        if marks.name:
            labels[marks.name] = name
        if marks.component:
            labels[marks.component] = template.name
        body = template.template
        if not template.own:  # of no image, and with the annotations of its job, as people of a test write them
            annotations = mapping(job["metadata"].get("annotations"))
            asked = {key: value for key, value in annotations.items() if key.startswith("testbed/")}
            body = {**body, "metadata": {**mapping(body.get("metadata")), "annotations": asked}}
        restart = text(mapping(body.get("spec")).get("restartPolicy")) or ("Never" if self._ends else "Always")
        await self.create_pod(job, f"{name}-{template.name}-{index}", body, labels, restart)

    async def _show(self, job: Body, status: Body, state: JobState) -> None:
        """Write a status that the declaration reads as this state; the status stays where the kind has none for it."""
        target = self._interpreter.group, self._interpreter.kind
        rule = self._rules.get(state)
        types = {one.when.condition for one in self._interpreter.declaration.states if one.when.condition}
        for condition in rows(status.get("conditions")):
            wanted = rule is not None and condition.get("type") == rule.when.condition
            if condition.get("type") in types and not wanted and condition.get("status") == "True":
                set_condition(status, {**condition, "status": "False", "reason": f"No{state}"}, self.world.now())
        if state is JobState.RUNNING and target in _RUNNING:
            status.update(copy.deepcopy(_RUNNING[target]))
        elif rule is not None and rule.when.condition:
            said = f"{self.kind.kind} {job['metadata']['name']} is {state}"
            told: Body = {"type": rule.when.condition, "status": "True", "reason": str(state), "message": said}
            set_condition(status, told, self.world.now())
        elif rule is not None and rule.when.example is not None:
            put(status, *rule.when.example, set())
        if status:
            await self.world.change_status(self.kind, job, status)


def _can_be_shown(rule: StateRule) -> bool:
    return bool(rule.when.condition) or rule.when.example is not None


def _place(pod: Body) -> tuple[str, str]:
    labels: dict[str, Any] = mapping(pod["metadata"].get("labels"))
    return text(labels.get(_COMPONENT)), text(labels.get(_INDEX))
