"""Roles and their bindings, worded as a kube-apiserver words it: a rule that cannot mean anything is refused at the
door."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from api.admission.causes import invalid, required, unsupported
from api.admission.labelselectors import selector_faults
from api.admission.rule import Check, Checks, of_new
from api.engine.status import Cause
from api.engine.validate import value_text
from api.objects.writing import Review
from fleet.values.names import path_segment_problems, subdomain_problems
from fleet.values.ports import Body

GROUP = "rbac.authorization.k8s.io"
_LISTS = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
_SUBJECTS = ("ServiceAccount", "User", "Group")


def _rules(body: Body) -> Sequence[Cause]:
    """Every rule says what may be done with what."""
    causes: list[Cause] = []
    for at, rule in _objects(body, "rules"):
        urls = rule.get("nonResourceURLs")
        for field in _LISTS:
            for index, text in enumerate(rule.get(field) or ()):
                if text is None:
                    causes.append(invalid(f"{at}.{field}[{index}]", None, "must be a string"))
        if not rule.get("verbs"):
            causes.append(required(f"{at}.verbs", "verbs must contain at least one value"))
        if urls and body["metadata"].get("namespace"):
            why = "namespaced rules cannot apply to non-resource URLs"
            causes.append(Cause(f"{at}.nonResourceURLs", f"Invalid value: {value_text(urls)}: {why}"))
        elif urls:
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                why = "rules cannot apply to both regular resources and non-resource URLs"
                causes.append(Cause(f"{at}.nonResourceURLs", f"Invalid value: {value_text(urls)}: {why}"))
        else:
            if not rule.get("apiGroups"):
                causes.append(required(f"{at}.apiGroups", "resource rules must supply at least one api group"))
            if not rule.get("resources"):
                causes.append(required(f"{at}.resources", "resource rules must supply at least one resource"))
    return causes


def _aggregation(body: Body) -> Sequence[Cause]:
    """An aggregated role selects something, with selectors that can be evaluated."""
    aggregation = body.get("aggregationRule")
    if aggregation is None:
        return ()
    field = "aggregationRule.clusterRoleSelectors"
    if not aggregation.get("clusterRoleSelectors"):
        why = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        return [required(field, why)]
    causes: list[Cause] = []
    for at, selector in _objects(aggregation, "clusterRoleSelectors", "aggregationRule."):
        found = selector_faults(at, selector)
        if found:
            causes += [*found, Cause(at, "Invalid value: null: invalid label selector.")]
    return causes


def _binding(*kinds: str) -> Check:
    """A binding to a role of one of the kinds. A binding of cluster scope has no namespace for service accounts."""

    def check(body: Body) -> Sequence[Cause]:
        ref = body.get("roleRef") or {}
        causes: list[Cause] = []
        if ref.get("apiGroup") != GROUP:
            causes.append(unsupported("roleRef.apiGroup", ref.get("apiGroup") or "", (GROUP,)))
        if ref.get("kind") not in kinds:
            causes.append(unsupported("roleRef.kind", ref.get("kind") or "", kinds))
        name = ref.get("name") or ""
        if not name:
            causes.append(Cause("roleRef.name", "Required value", "FieldValueRequired"))
        causes += [invalid("roleRef.name", name, text) for text in path_segment_problems(name)]
        for at, subject in _objects(body, "subjects"):
            causes += _subject(at, subject, namespaced="Role" in kinds)
        return causes

    return of_new(check)


def _subject(at: str, subject: Body, *, namespaced: bool) -> Sequence[Cause]:
    causes: list[Cause] = []
    name, group, kind = subject.get("name") or "", subject.get("apiGroup") or "", subject.get("kind") or ""
    if not name:
        causes.append(Cause(f"{at}.name", "Required value", "FieldValueRequired"))
    if kind == "ServiceAccount":
        causes += [invalid(f"{at}.name", name, text) for text in (subdomain_problems(name) if name else ())]
        if group:
            causes.append(unsupported(f"{at}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            causes.append(Cause(f"{at}.namespace", "Required value", "FieldValueRequired"))
    elif kind in ("User", "Group"):
        if group != GROUP:
            causes.append(unsupported(f"{at}.apiGroup", group, (GROUP,)))
    else:
        causes.append(unsupported(f"{at}.kind", kind, _SUBJECTS))
    return causes


def _objects(body: Body, field: str, prefix: str = "") -> list[tuple[str, dict[str, Any]]]:
    """The items of a list with their paths; a null among them is an empty object, as a kube-apiserver reads it."""
    return [(f"{prefix}{field}[{index}]", item or {}) for index, item in enumerate(body.get(field) or ())]


def _same_role(review: Review) -> Sequence[Cause]:
    if review.new is None or review.old is None or _named(review.new) == _named(review.old):
        return ()
    return [Cause("roleRef", f"Invalid value: {value_text(_named(review.new))}: cannot change roleRef")]


def _named(body: Body) -> dict[str, Any]:
    ref = body.get("roleRef")
    ref = ref if isinstance(ref, dict) else {}
    return {
        "APIGroup": ref.get("apiGroup") or GROUP,
        "Kind": ref.get("kind") or "",
        "Name": ref.get("name") or "",
    }


ROLE = Checks(of_new(_rules))
CLUSTER_ROLE = Checks(of_new(_rules), of_new(_aggregation))
ROLE_BINDING = Checks(_binding("Role", "ClusterRole"), _same_role)
CLUSTER_ROLE_BINDING = Checks(_binding("ClusterRole"), _same_role)
