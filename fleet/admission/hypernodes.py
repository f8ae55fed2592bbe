"""HyperNodes: exactly one selector for each member, of a sort that its type has, and none that costs too much."""

from __future__ import annotations

from collections.abc import Sequence

from api.admission.causes import invalid
from api.admission.labelselectors import selector_faults
from api.admission.rule import Checks, of_new
from api.engine.status import Cause
from fleet.members.hypernodes import faults
from fleet.values.ports import Body
from fleet.values.untyped import at, mapping, rows


def hypernode(body: Body) -> Sequence[Cause]:
    spec = mapping(body.get("spec"))
    causes = [invalid(f"spec.{field}", value, why) for field, value, why in faults(spec)]
    for index, entry in enumerate(rows(spec.get("members"))):
        labels = mapping(at(entry, "selector", "labelMatch"))
        causes += selector_faults(f"spec.members[{index}].selector.labelMatch", labels)
    return causes


HYPERNODE = Checks(of_new(hypernode))
