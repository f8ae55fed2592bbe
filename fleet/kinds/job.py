"""batch/v1 Job: one pod template, `parallelism` pods at a time. Its one component is called "main".

As a gang a Job wants all pods that run at once: parallelism, or completions when that is smaller. The fields that its
own API server would write into it (selector and controller labels) must not travel: the member's writes its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleet.kinds import pods
from fleet.kinds.interpreter import Body, Dependency, Health, Standing, State, Template
from fleet.model.unit import Component
from fleet.model.untyped import at, mapping, rows, whole

COMPONENT = "main"
_GENERATED_LABELS = (
    "controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name",
)  # fmt: skip


class BatchJob:
    """An Interpreter."""

    group = "batch"
    kind = "Job"

    def templates(self, body: Body) -> tuple[Template, ...]:
        spec = mapping(body.get("spec"))
        at_once = whole(spec.get("parallelism"), 1)
        at_once = min(at_once, whole(spec.get("completions"), at_once))
        return (Template(COMPONENT, at_once, mapping(spec.get("template")), "spec.template"),)

    def components(self, body: Body, priority_classes: Mapping[str, int] | None = None) -> tuple[Component, ...]:
        return tuple(pods.component(template) for template in self.templates(body) if template.replicas > 0)

    def priority_class(self, body: Body) -> str:
        return pods.priority_class(self.templates(body))

    def state(self, status: Body | None) -> Standing:
        status = mapping(status)
        true = {str(c.get("type")): c for c in rows(status.get("conditions")) if c.get("status") == "True"}
        for type_, state in (("Complete", State.SUCCEEDED), ("Failed", State.FAILED), ("Suspended", State.SUSPENDED)):
            if type_ in true:
                return Standing(state, str(true[type_].get("message") or ""))
        if status.get("ready"):
            return Standing(State.RUNNING)
        if status.get("startTime") or status.get("active"):
            return Standing(State.CREATED)
        return Standing(State.UNKNOWN)

    def health(self, body: Body) -> Health:
        return self.state(body.get("status")).health

    def dependencies(self, body: Body) -> frozenset[Dependency]:
        template = self.templates(body)[0].template
        return frozenset(pods.dependencies(body["metadata"].get("namespace", ""), mapping(template.get("spec"))))

    def stamp(
        self,
        body: Body,
        labels: Mapping[str, str],
        annotations: Mapping[str, str],
        component_labels: Mapping[str, Mapping[str, str]] | None = None,
    ) -> Body:
        spec = dict(mapping(body.get("spec")))
        template = dict(mapping(spec.get("template")))
        metadata = dict(mapping(template.get("metadata")))
        if not spec.get("manualSelector"):
            spec.pop("selector", None)
            metadata["labels"] = {
                k: v for k, v in mapping(metadata.get("labels")).items() if k not in _GENERATED_LABELS
            }
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
        return {**body, "spec": {**mapping(body.get("spec")), "suspend": suspended}}

    def suspended(self, body: Body) -> bool:
        return bool(at(body, "spec", "suspend"))

    def condition(self, type_: str, status: str, reason: str, message: str, at: str) -> Body:
        return pods.condition(type_, status, reason, message, at)  # the built-in type knows no lastUpdateTime

    def merge_status(self, hub: Body | None, member: Body | None) -> Body:
        return pods.merged_status(hub, member)


JOB = BatchJob()
