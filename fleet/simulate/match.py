"""The needs of a pod on a node beside room, as a value that can be compared: pods of one shape are alike in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fleet.kinds.requests import pod_requests
from fleet.values.ports import Body

Pairs = tuple[tuple[str, str], ...]
# One term of a node selector: its requirements on labels and on fields, as (key, operator, values).
Requirement = tuple[str, str, tuple[str, ...]]
Term = tuple[tuple[Requirement, ...], tuple[Requirement, ...]]
Toleration = tuple[str, str, str, str]  # key, operator, value, effect
PodTerm = tuple[str, tuple[Requirement, ...]]  # topology key, labels of the other pods
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class Needs:
    requests: tuple[tuple[str, int], ...]
    selector: Pairs
    affinity: tuple[Term, ...]
    tolerations: tuple[Toleration, ...]
    together: tuple[PodTerm, ...] = ()  # required pod affinity
    liked: tuple[tuple[int, Term], ...] = ()  # preferred node affinity, with its weight
    beside: tuple[tuple[int, PodTerm], ...] = ()  # preferred pod affinity, with its weight


def needs_of(spec: Body) -> Needs:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    near = (spec.get("affinity") or {}).get("podAffinity") or {}
    required = affinity.get(_REQUIRED) or {}
    tolerations = sorted(
        (t.get("key") or "", t.get("operator") or "Equal", t.get("value") or "", t.get("effect") or "")
        for t in spec.get("tolerations") or ()
    )
    return Needs(
        pod_requests(spec).items_,
        tuple(sorted((spec.get("nodeSelector") or {}).items())),
        tuple(map(_node_term, required.get("nodeSelectorTerms") or ())),
        tuple(tolerations),
        tuple(_together(t) for t in _terms(near, _REQUIRED)),
        tuple((int(p.get("weight") or 0), _node_term(p.get("preference") or {})) for p in _terms(affinity, _PREFERRED)),
        tuple(_liked(p) for p in _terms(near, _PREFERRED)),
    )


def _node_term(term: Body) -> Term:
    return _requirements(term, "matchExpressions"), _requirements(term, "matchFields")


def _terms(affinity: Body, name: str) -> list[Body]:
    return affinity.get(name) or []


def _liked(term: Body) -> tuple[int, PodTerm]:
    return int(term.get("weight") or 0), _together(term.get("podAffinityTerm") or {})


def _together(term: dict[str, Any]) -> PodTerm:
    selector = term.get("labelSelector") or {}
    labels = tuple((key, "In", (value,)) for key, value in sorted((selector.get("matchLabels") or {}).items()))
    return term.get("topologyKey") or "", (*labels, *_requirements(selector, "matchExpressions"))


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


def _matches(term: Term, node: Body) -> bool:
    """Whether the node satisfies a term; one without a word matches no node."""
    labels, fields = node["metadata"].get("labels") or {}, {"metadata.name": node["metadata"]["name"]}
    on_labels, on_fields = term
    held = [_holds(r, labels) for r in on_labels] + [_holds(r, fields) for r in on_fields]
    return bool(held) and all(held)


def why_not_here(needs: Needs, node: Body) -> str:
    """Why the node is not for such pods, in kube-scheduler's words; "" when it is."""
    spec, labels = node.get("spec") or {}, node["metadata"].get("labels") or {}
    if spec.get("unschedulable"):
        return "node(s) were unschedulable"
    for taint in spec.get("taints") or ():
        if taint.get("effect") != "PreferNoSchedule" and not _tolerated(taint, needs.tolerations):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}"
    selected = all(labels.get(key) == value for key, value in needs.selector)
    in_affinity = not needs.affinity or any(_matches(term, node) for term in needs.affinity)
    return "" if selected and in_affinity else "node(s) didn't match Pod's node affinity/selector"


def liking(needs: Needs, node: Body, others: Counter[tuple[str, str]]) -> int:
    """How much such pods would like the node: the weights of the preferences that it satisfies, and of its domains."""
    labels = node["metadata"].get("labels") or {}
    own = sum(weight for weight, term in needs.liked if _matches(term, node))
    return own + sum(others[key, labels.get(key, "")] for key in {key for _, (key, _) in needs.beside})


def company(needs: Needs, placed: Iterable[tuple[dict[str, str], dict[str, str]]]) -> Counter[tuple[str, str]]:
    """How much such pods would like a domain, by key and value: the weights of their preferred pod affinities, for each
    pod there. `placed`: labels of each pod that has a node, and of its node."""
    found: Counter[tuple[str, str]] = Counter()
    for labels, node in placed if needs.beside else ():
        for weight, (key, wanted) in needs.beside:
            if key in node and wanted and all(_holds(r, labels) for r in wanted):
                found[key, node[key]] += weight
    return found


def chosen_domains(
    needs: Needs, own: dict[str, str], placed: Iterable[tuple[dict[str, str], dict[str, str]]]
) -> list[tuple[str, frozenset[str] | None]]:
    """For each required pod affinity its key and the values that nodes must have one of, None for any value. `own`:
    labels of the pod; `placed`: labels of each pod that has a node, and of its node. The first of its kind may go
    anywhere where there is a value."""
    pods = list(placed) if needs.together else []
    domains: list[tuple[str, frozenset[str] | None]] = []
    for key, wanted in needs.together:
        near = [node for labels, node in pods if wanted and all(_holds(r, labels) for r in wanted)]
        values = frozenset(node[key] for node in near if key in node)
        first = not near and all(_holds(r, own) for r in wanted)
        domains.append((key, None if first else values))
    return domains
