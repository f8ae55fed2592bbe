"""The kubeflow.org/v1 family: a map of replica types, one run policy, conditions in the order they came.

Its kinds differ in the name of the map and the order of the replica types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.kinds import pods
from fleet.kinds.interpreter import Body, Dependency, Health, Standing, State, Template
from fleet.model.unit import Component
from fleet.model.untyped import at, mapping, rows, text, whole
from fleet.wellknown import KUBEFLOW

_STATES = {
    "Created": State.CREATED,
    "Running": State.RUNNING,
    "Restarting": State.RUNNING,  # its operator starts pods again by itself: the gang keeps its room
    "Succeeded": State.SUCCEEDED,
    "Failed": State.FAILED,
    "Suspended": State.SUSPENDED,
}
_FINAL = ("Succeeded", "Failed")


class KubeflowJob:
    """An Interpreter. `specs_field` is the map of replica types under spec, `order` their order; others come after."""

    group = KUBEFLOW

    def __init__(self, kind: str, specs_field: str, order: tuple[str, ...]) -> None:
        self.kind = kind
        self._field = specs_field
        self._order = {name: position for position, name in enumerate(order)}

    def _specs(self, body: Body) -> list[tuple[str, Body]]:
        specs = mapping(at(body, "spec", self._field))
        last = len(self._order)
        return sorted(
            ((name, mapping(spec)) for name, spec in specs.items()),
            key=lambda item: (self._order.get(item[0].capitalize(), self._order.get(item[0], last)), item[0]),
        )

    def templates(self, body: Body) -> tuple[Template, ...]:
        return tuple(
            Template(
                name.lower(),
                whole(spec.get("replicas"), 1),
                mapping(spec.get("template")),
                f"spec.{self._field}.{name}.template",
            )
            for name, spec in self._specs(body)
        )

    def components(self, body: Body, priority_classes: Mapping[str, int] | None = None) -> tuple[Component, ...]:
        return tuple(pods.component(template) for template in self.templates(body) if template.replicas > 0)

    def priority_class(self, body: Body) -> str:
        named = at(body, "spec", "runPolicy", "schedulingPolicy", "priorityClass")
        return pods.priority_class(self.templates(body)) or text(named)

    def state(self, status: Body | None) -> Standing:
        told = [c for c in rows(mapping(status).get("conditions")) if c.get("status") == "True"]
        true = [c for c in told if text(c.get("type")) in _STATES]
        final = [c for c in true if c["type"] in _FINAL]
        if not true:
            return Standing(State.UNKNOWN)
        deciding = (final or true)[-1]
        return Standing(_STATES[deciding["type"]], str(deciding.get("message") or ""))

    def health(self, body: Body) -> Health:
        return self.state(body.get("status")).health

    def dependencies(self, body: Body) -> frozenset[Dependency]:
        namespace = body["metadata"].get("namespace", "")
        return frozenset(
            dependency
            for template in self.templates(body)
            for dependency in pods.dependencies(namespace, mapping(template.template.get("spec")))
        )

    def stamp(
        self,
        body: Body,
        labels: Mapping[str, str],
        annotations: Mapping[str, str],
        component_labels: Mapping[str, Mapping[str, str]] | None = None,
    ) -> Body:
        specs: Body = {}
        for name, spec in self._specs(body):
            component = name.lower()
            more = (component_labels or {}).get(component)
            template = pods.stamped_template(mapping(spec.get("template")), component, labels, more)
            specs[name] = {**spec, "template": template}
        return {
            "apiVersion": body["apiVersion"],
            "kind": body["kind"],
            "metadata": pods.stamped_metadata(body["metadata"], labels, annotations),
            "spec": {**mapping(body.get("spec")), self._field: specs},
        }

    def suspend(self, body: Body, suspended: bool) -> Body:
        spec = mapping(body.get("spec"))
        policy: dict[str, Any] = {**mapping(spec.get("runPolicy")), "suspend": suspended}
        return {**body, "spec": {**spec, "runPolicy": policy}}

    def suspended(self, body: Body) -> bool:
        return bool(at(body, "spec", "runPolicy", "suspend"))

    def condition(self, type_: str, status: str, reason: str, message: str, at: str) -> Body:
        return {**pods.condition(type_, status, reason, message, at), "lastUpdateTime": at}

    def merge_status(self, hub: Body | None, member: Body | None) -> Body:
        return pods.merged_status(hub, member)
