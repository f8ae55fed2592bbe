"""The additions of one attempt to the pods of its job: the state that an earlier attempt left. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fleet.kinds.interpreter import Template
from fleet.model.untyped import mapping, rows
from fleet.ports import Body

_CONTAINERS = ("initContainers", "containers")


def with_environment(body: Body, templates: Iterable[Template], variables: Mapping[str, str]) -> Body:
    """The job with these variables in every container of its pods, each in place of one of the same name."""

    def change(spec: Body) -> Body:
        changed = {name: [_told(one, variables) for one in rows(spec[name])] for name in _CONTAINERS if spec.get(name)}
        return {**spec, **changed}

    return _of_pods(body, templates, change) if variables else body


def _told(container: Body, variables: Mapping[str, str]) -> Body:
    own = [entry for entry in rows(container.get("env")) if entry.get("name") not in variables]
    return {**container, "env": [*own, *({"name": name, "value": variables[name]} for name in sorted(variables))]}


def _of_pods(body: Body, templates: Iterable[Template], change: Callable[[Body], Body]) -> Body:
    """A copy whose pod specs are changed."""
    for template in templates:
        body = _at(body, [*template.path.split("."), "spec"], change)
    return body


def _at(body: Any, path: list[str], change: Callable[[Body], Body]) -> Body:
    if not path:
        return change(mapping(body))
    name, *rest = path
    body = mapping(body)
    return {**body, name: _at(body.get(name), rest, change)}
