"""Gates on the pods of a job: pods that the scheduler must not look at before the hub has taken the gate off."""

from __future__ import annotations

from collections.abc import Iterable

from fleet.kinds.interpreter import Body, Template
from fleet.kinds.pins import added_at
from fleet.values.untyped import mapping, rows
from fleet.wellknown import GATE


def gated(body: Body, templates: Iterable[Template]) -> Body:
    """A copy of the body whose pods wait for the hub. Pods without a template in the job cannot."""
    for template in templates:
        if template.own:
            body = added_at(body, (*template.steps, "spec", "schedulingGates"), {"name": GATE})
    return body


def ungated(template: Body) -> bool:
    """Undo `gated` in a template, in place; whether there was a gate."""
    spec = mapping(template.get("spec"))
    gates = rows(spec.get("schedulingGates"))
    left = [gate for gate in gates if gate.get("name") != GATE]
    if len(left) == len(gates):
        return False
    spec["schedulingGates"] = left
    if not left:
        del spec["schedulingGates"]
    return True
