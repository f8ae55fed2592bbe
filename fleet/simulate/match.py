"""What a pod needs of a node beside room, as a value that can be compared: pods of one shape are alike in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fleet.kinds.requests import pod_requests
from fleet.ports import Body

Pairs = tuple[tuple[str, str], ...]
# One term of a node selector: its requirements on labels and on fields, as (key, operator, values).
Requirement = tuple[str, str, tuple[str, ...]]
Term = tuple[tuple[Requirement, ...], tuple[Requirement, ...]]
Toleration = tuple[str, str, str, str]  # key, operator, value, effect


@dataclass(frozen=True, slots=True)
class Needs:
    requests: tuple[tuple[str, int], ...]
    selector: Pairs
    affinity: tuple[Term, ...]
    tolerations: tuple[Toleration, ...]


def needs_of(spec: Body) -> Needs:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    tolerations = sorted(
        (t.get("key") or "", t.get("operator") or "Equal", t.get("value") or "", t.get("effect") or "")
        for t in spec.get("tolerations") or ()
    )
    return Needs(
        pod_requests(spec).items_,
        tuple(sorted((spec.get("nodeSelector") or {}).items())),
        tuple((_requirements(t, "matchExpressions"), _requirements(t, "matchFields"))
              for t in required.get("nodeSelectorTerms") or ()),
        tuple(tolerations),
    )  # fmt: skip


def _requirements(term: dict[str, Any], section: str) -> tuple[Requirement, ...]:
    return tuple((r["key"], r["operator"], tuple(r.get("values") or ())) for r in term.get(section) or ())


def _holds(requirement: Requirement, labels: dict[str, str]) -> bool:
    key, operator, values = requirement
    value = labels.get(key)
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            try:
                have, want = int(value or ""), int(values[0])
            except (ValueError, IndexError):
                return False
            return have > want if operator == "Gt" else have < want
    return False


def _tolerated(taint: dict[str, Any], tolerations: tuple[Toleration, ...]) -> bool:
    for key, operator, value, effect in tolerations:
        if effect and effect != taint.get("effect"):
            continue
        if key and key != taint["key"]:
            continue
        if operator == "Exists" or (key and value == (taint.get("value") or "")):
            return True
    return False


def why_not_here(needs: Needs, node: Body) -> str:
    """Why the node is not for such pods, in kube-scheduler's words; "" when it is."""
    spec, labels = node.get("spec") or {}, node["metadata"].get("labels") or {}
    if spec.get("unschedulable"):
        return "node(s) were unschedulable"
    for taint in spec.get("taints") or ():
        if taint.get("effect") != "PreferNoSchedule" and not _tolerated(taint, needs.tolerations):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}"
    fields = {"metadata.name": node["metadata"]["name"]}
    selected = all(labels.get(key) == value for key, value in needs.selector)
    wanted = not needs.affinity or any(
        (on_labels or on_fields)
        and all(_holds(r, labels) for r in on_labels)
        and all(_holds(r, fields) for r in on_fields)
        for on_labels, on_fields in needs.affinity
    )
    return "" if selected and wanted else "node(s) didn't match Pod's node affinity/selector"
