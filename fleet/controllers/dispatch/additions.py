"""The additions of one attempt to the pods of its job: the state that an earlier attempt left, and the nodes that they
keep off. Pure.

Both are fixed for an attempt: the state changes at evictions alone, and the nodes stand on the copy once it is sent. So
nothing that is learned later changes a running job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from fleet.bindings import binding as b
from fleet.kinds.interpreter import Template
from fleet.kinds.paths import with_part
from fleet.members.nodes import NODE_NAME
from fleet.values.ports import Body
from fleet.values.untyped import mapping, rows
from fleet.wellknown import ANNOTATION_AVOIDED

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_CONTAINERS = ("initContainers", "containers")


def with_environment(body: Body, templates: Iterable[Template], variables: Mapping[str, str]) -> Body:
    """The job with these variables in every container of its pods, each in place of one of the same name."""

    def change(spec: Body) -> Body:
        changed = {name: [_told(one, variables) for one in rows(spec[name])] for name in _CONTAINERS if spec.get(name)}
        return {**spec, **changed}

    return _of_pods(body, templates, change) if variables else body


def off_nodes(body: Body, templates: Iterable[Template], nodes: Sequence[str]) -> Body:
    """The job with pods that no scheduler puts on these nodes."""
    apart = [{"key": NODE_NAME, "operator": "NotIn", "values": [node]} for node in nodes]

    def change(spec: Body) -> Body:
        affinity = mapping(spec.get("affinity"))
        of_nodes = mapping(affinity.get("nodeAffinity"))
        terms = rows(mapping(of_nodes.get(_REQUIRED)).get("nodeSelectorTerms")) or [{}]
        terms = [{**term, "matchFields": [*rows(term.get("matchFields")), *apart]} for term in terms]
        return {
            **spec,
            "affinity": {**affinity, "nodeAffinity": {**of_nodes, _REQUIRED: {"nodeSelectorTerms": terms}}},
        }

    return _of_pods(body, templates, change) if nodes else body


def nodes_off(copy: Body | None) -> tuple[str, ...]:
    """The nodes that a copy in a member keeps off."""
    said = b.annotation(copy, ANNOTATION_AVOIDED) if copy is not None else ""
    return tuple(said.split(",")) if said else ()


def _told(container: Body, variables: Mapping[str, str]) -> Body:
    own = [entry for entry in rows(container.get("env")) if entry.get("name") not in variables]
    return {**container, "env": [*own, *({"name": name, "value": variables[name]} for name in sorted(variables))]}


def _of_pods(body: Body, templates: Iterable[Template], change: Callable[[Body], Body]) -> Body:
    """A copy whose pod specs are changed. Pods without a template in the job stay as they are."""
    for template in templates:
        if template.own:
            body = with_part(body, (*template.steps, "spec"), change(mapping(template.template.get("spec"))))
    return body
