"""batch/v1 Job: one pod template, `parallelism` pods at a time. Its one component is called "main".

As a gang a Job wants all pods that run at once: parallelism, or completions when that is smaller. What its own API
server would write into it (selector and controller labels) must not travel: the member's writes its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleet.kinds import pods
from fleet.kinds.interpreter import Body, Dependency, Health, Standing, State, Template
from fleet.model.unit import Component

COMPONENT = "main"
_GENERATED_LABELS = (
    "controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name",
)  # fmt: skip


class BatchJob:
    """An Interpreter."""

    group = "batch"
    kind = "Job"

    def templates(self, body: Body) -> tuple[Template, ...]:
        spec = body.get("spec") or {}
        parallelism = spec.get("parallelism")
        completions = spec.get("completions")
        at_once = int(parallelism if parallelism is not None else 1)
        if completions is not None:
            at_once = min(at_once, int(completions))
        return (Template(COMPONENT, at_once, spec.get("template") or {}, "spec.template"),)

    def components(self, body: Body, priority_classes: Mapping[str, int] | None = None) -> tuple[Component, ...]:
        return tuple(pods.component(template) for template in self.templates(body) if template.replicas > 0)

    def priority_class(self, body: Body) -> str:
        return pods.priority_class(self.templates(body))

    def state(self, status: Body | None) -> Standing:
        status = status or {}
        true = {c["type"]: c for c in status.get("conditions") or () if c.get("status") == "True"}
        for type_, state in (("Complete", State.SUCCEEDED), ("Failed", State.FAILED), ("Suspended", State.SUSPENDED)):
            if type_ in true:
                return Standing(state, true[type_].get("message") or "")
        if status.get("ready"):
            return Standing(State.RUNNING)
        if status.get("startTime") or status.get("active"):
            return Standing(State.CREATED)
        return Standing(State.UNKNOWN)

    def health(self, body: Body) -> Health:
        return self.state(body.get("status")).health

    def dependencies(self, body: Body) -> frozenset[Dependency]:
        template = self.templates(body)[0].template
        return frozenset(pods.dependencies(body["metadata"].get("namespace", ""), template.get("spec") or {}))

    def stamp(
        self,
        body: Body,
        labels: Mapping[str, str],
        annotations: Mapping[str, str],
        component_labels: Mapping[str, Mapping[str, str]] | None = None,
    ) -> Body:
        spec = dict(body["spec"])
        template = dict(spec.get("template") or {})
        metadata = dict(template.get("metadata") or {})
        if not spec.get("manualSelector"):
            spec.pop("selector", None)
            metadata["labels"] = {k: v for k, v in (metadata.get("labels") or {}).items() if k not in _GENERATED_LABELS}
        template["metadata"] = metadata
        more = (component_labels or {}).get(COMPONENT)
        spec["template"] = pods.stamped_template(template, COMPONENT, labels, more)
        return {
            "apiVersion": body["apiVersion"],
            "kind": body["kind"],
            "metadata": pods.stamped_metadata(body["metadata"], labels, annotations),
            "spec": spec,
        }

    def suspend(self, body: Body, suspended: bool) -> Body:
        return {**body, "spec": {**(body.get("spec") or {}), "suspend": suspended}}

    def suspended(self, body: Body) -> bool:
        return bool((body.get("spec") or {}).get("suspend"))

    def condition(self, type_: str, status: str, reason: str, message: str, at: str) -> Body:
        return pods.condition(type_, status, reason, message, at)  # the built-in type knows no lastUpdateTime

    def merge_status(self, hub: Body | None, member: Body | None) -> Body:
        return pods.merged_status(hub, member)


JOB = BatchJob()
