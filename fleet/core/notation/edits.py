"""Edits of a fleet as JSON: [{"AddMember": {"member": {"name": "n", "nodes": […]}}}, {"DrainMember": {"member": "m"}}].

Each is an object with one name, that of a class of foresee/edits.py, and its fields. Members, units and trees are
written as in snapshots, short forms too. An edit that cannot be read is a BadSnapshot with its field.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from typing import Any

from fleet.core.decide import BadSnapshot
from fleet.core.foresee.binding import Bottleneck
from fleet.core.foresee.blockers import KindName, kind_of
from fleet.core.foresee.edits import AddMember, Edit, ReplaceTree, Submit
from fleet.core.foresee.explanation import changes
from fleet.core.foresee.whatif import Comparison, StartTimes, UnitStanding
from fleet.core.model.plan import Plan
from fleet.core.model.reason import Reason
from fleet.core.notation import byhand
from fleet.core.notation.bytype import Json, decode, encode, listed, readable

MOST_EDITS = 100
_CLASSES: Mapping[str, type] = {kind.__name__: kind for kind in typing.get_args(Edit)}


def decode_edits(data: object, where: str = "edits") -> list[Edit]:
    """Raises BadSnapshot."""
    readable(data, where)
    count_edits(data, where)
    return [_edit(item, f"{where}[{index}]") for index, item in enumerate(listed(data, where))]


def count_edits(data: object, where: str = "edits") -> None:
    """Raises BadSnapshot where there are too many to look at any of them."""
    if isinstance(data, list) and len(data) > MOST_EDITS:
        raise BadSnapshot([(where, f"has {len(data)} edits; at most {MOST_EDITS} are tried at once")])


def _edit(item: object, where: str) -> Edit:
    if not isinstance(item, Mapping) or len(item) != 1:
        raise BadSnapshot([(where, "is not an object with the name of one edit")])
    ((name, fields),) = item.items()
    if name not in _CLASSES:
        raise BadSnapshot([(f"{where}.{name}", f"is none of {', '.join(_CLASSES)}")])
    where = f"{where}.{name}"
    if not isinstance(fields, Mapping):
        raise BadSnapshot([(where, "is not an object")])
    if name == "AddMember" and "member" in fields:
        [(long, _)] = byhand.members([fields["member"]], f"{where}.member")
        return AddMember(byhand.member(long, f"{where}.member"))
    if name == "Submit" and "unit" in fields:
        made = list(byhand.units([fields["unit"]], f"{where}.unit"))
        if len(made) != 1:
            raise BadSnapshot([(f"{where}.unit.count", "makes no unit, or several: give one edit for each")])
        return Submit(byhand.unit(made[0][0], f"{where}.unit"))
    if name == "ReplaceTree" and fields.get("tree") is not None:
        return ReplaceTree(byhand.tree(fields["tree"], f"{where}.tree"))
    return typing.cast(Edit, decode(_CLASSES[name], fields, where))


def encode_edits(edits: Iterable[Edit]) -> list[Json]:
    """As `decode_edits` reads them."""
    return [{type(edit).__name__: encode(edit)} for edit in edits]


def encode_comparison(comparison: Comparison, now: float, kind_name: KindName) -> Json:
    """Times in epoch seconds, null where nothing tells: a unit without a time does not start before `until`. `now`:
    when the fleet was asked. `kind_name`: the words of kinds."""
    return {
        "now": now,
        "rows": [
            {
                "unit": row.unit.id,
                "job": row.unit.name,
                "kind": kind_of(row.unit, kind_name),
                "leaf": row.unit.leaf,
                "change": row.verdict.value,
                "before": _standing(row.before),
                "after": _standing(row.after),
            }
            for row in comparison.rows
        ],
        "waiting": {"before": len(comparison.before.reasons), "after": len(comparison.after.reasons)},
        "certificate": {"before": _certificate(comparison.before), "after": _certificate(comparison.after)},
        "until": comparison.until,
        "noTimes": comparison.no_times,
        "endless": comparison.endless,
        "bound": [_bound(bound, kind_name) for bound in comparison.bound],
        "boundOf": comparison.bound_of,
    }


def _bound(bound: Bottleneck, named: KindName) -> Json:
    return {
        "unit": bound.unit.id,
        "job": bound.unit.name,
        "kind": kind_of(bound.unit, named),
        "reason": _reason(bound.reason),
        "where": list(bound.where),
        "holders": [
            {"queue": holder.queue or None, "jobs": holder.jobs, "amounts": dict(holder.amounts)}
            for holder in bound.holders
        ],
        **changes(bound.answer, bound.unit),
    }


def _standing(standing: UnitStanding) -> Json:
    reason = standing.reason
    return {
        "state": standing.state.value,
        "member": standing.member or None,
        "reason": reason and _reason(reason),
        "start": _start(standing.when),
    }


def _reason(reason: Reason) -> Json:
    return {"code": reason.code.value, "numbers": reason.figures, "text": reason.text}


def _start(when: StartTimes | None) -> Json | None:
    if when is None or not when.known:
        return None
    last = None if when.p90 == float("inf") else when.p90
    return {"p10": when.p10, "p50": when.p50, "p90": last}


def _certificate(plan: Plan) -> dict[str, Any]:
    certificate = plan.certificate
    stages = [
        {"name": s.name, "value": s.value, "bound": s.bound, "gap": s.gap, "status": s.status}
        for s in certificate.stages
    ]
    causes = [encode(cause) for cause in certificate.causes]
    return {"shipped": certificate.shipped, "why": certificate.why, "causes": causes, "stages": stages}
