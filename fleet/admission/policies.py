"""Propagation and override policies: a policy that would never do its author's will is refused when it is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from api.admission.causes import duplicate, forbidden, invalid, required, unsupported
from api.admission.rule import Checks, of_new
from api.engine.status import Cause
from fleet.admission import misspelt
from fleet.admission.extents import policy_within_bounds
from fleet.admission.overriding import OLDER_FORM, rules_of, wrong_overriders
from fleet.admission.travel import grants_rights
from fleet.admission.wishes import asked_of_policy
from fleet.admission.workloads import wrong_kinds
from fleet.bindings import preserved
from fleet.kinds import interpreter_of
from fleet.values.jsonpath import BadPath, compile_path
from fleet.values.ports import Body

GANG_FIELD = "spec.placement.replicaScheduling.customSchedulingType"
_WITH_VALUES, _WITHOUT = ("In", "NotIn"), ("Exists", "DoesNotExist")
_FIELD_KEYS = ("provider", "region", "zone")


def propagation(body: Body) -> Sequence[Cause]:
    """The flaws of a PropagationPolicy or a ClusterPropagationPolicy."""
    spec, causes = body.get("spec") or {}, []
    selectors = spec.get("resourceSelectors") or []
    if not selectors:
        causes.append(required("spec.resourceSelectors", "a policy says which objects it is for"))
    namespace = body["metadata"].get("namespace") or ""
    causes.extend(_selectors(selectors, namespace))
    if namespace:
        causes.extend(_not_a_tenants(spec, selectors))
    placement = spec.get("placement") or {}
    scheduling = placement.get("replicaScheduling") or {}
    jobs = [s["kind"] for s in selectors if interpreter_of(s.get("apiVersion") or "", s.get("kind") or "")]
    if jobs and scheduling.get("customSchedulingType") != "Gang":
        why = f'"Gang" is needed for {", ".join(sorted(set(jobs)))}: a job goes to one member, whole'
        causes.append(required(GANG_FIELD, why))
    causes.extend(wrong_kinds(selectors, gang=scheduling.get("customSchedulingType") == "Gang"))
    causes.extend(_placement(placement))
    failover = spec.get("failover") or {}
    if failover.get("application") is not None and not spec.get("propagateDeps"):
        causes.append(invalid("spec.propagateDeps", False, "must be true with spec.failover.application"))
    causes.extend(_states(failover))
    suspension = spec.get("suspension") or {}
    if suspension.get("dispatching") is not None and suspension.get("dispatchingOnClusters") is not None:
        why = "give either this or spec.suspension.dispatching"
        causes.append(forbidden("spec.suspension.dispatchingOnClusters", why))
    return causes


def _states(failover: Mapping[str, Any]) -> Iterator[Cause]:
    """The flaws of the rules that preserve state: a label that cannot be, or that another rule fills."""
    for part in ("application", "cluster"):
        rules = ((failover.get(part) or {}).get("statePreservation") or {}).get("rules") or []
        where = f"spec.failover.{part}.statePreservation.rules"
        if len(rules) > preserved.RULES_MAX:
            yield invalid(where, len(rules), f"must have at most {preserved.RULES_MAX} items")
        variables: set[str] = set()
        for index, rule in enumerate(rules):
            label, path = str(rule.get("aliasLabelName") or ""), str(rule.get("jsonPath") or "")
            if problem := preserved.label_problem(label):
                yield invalid(f"{where}[{index}].aliasLabelName", label, problem)
            elif preserved.variable(label) in variables:
                yield duplicate(f"{where}[{index}].aliasLabelName", f"{label} ({preserved.variable(label)})")
            variables.add(preserved.variable(label))
            try:
                compile_path(path)
            except BadPath as error:
                yield invalid(f"{where}[{index}].jsonPath", path, str(error))


def _not_a_tenants(spec: Body, selectors: Sequence[Mapping[str, Any]]) -> Iterator[Cause]:
    """Selections that take more rights in a member than those of a namespace on the hub."""
    if spec.get("conflictResolution") == "Overwrite":
        why = "only a ClusterPropagationPolicy may take over what a member has of its own"
        yield forbidden("spec.conflictResolution", why)
    for index, selector in enumerate(selectors):
        if grants_rights(str(selector.get("apiVersion") or "")):
            why = f"a {selector.get('kind')} grants rights, and travels by a ClusterPropagationPolicy only"
            yield forbidden(f"spec.resourceSelectors[{index}]", why)


def override(body: Body) -> Sequence[Cause]:
    """The flaws of an OverridePolicy or a ClusterOverridePolicy."""
    spec = body.get("spec") or {}
    causes = list(_selectors(spec.get("resourceSelectors") or [], body["metadata"].get("namespace") or ""))
    rules = rules_of(spec)
    if not rules:
        causes.append(required("spec.overrideRules", "a policy says what is different"))
    elif spec.get("overrideRules"):
        why = "give either this, which is one rule, or spec.overrideRules"
        causes += [forbidden(f"spec.{name}", why) for name in OLDER_FORM if spec.get(name)]
    tenant = bool(body["metadata"].get("namespace"))
    for where, rule in rules:
        overriders = rule.get("overriders") or {}
        causes += [forbidden(f"{where}.overriders.{at}", w) for at, w in wrong_overriders(overriders, tenant=tenant)]
        for index, patch in enumerate(overriders.get("plaintext") or []):
            causes.extend(_pointer(f"{where}.overriders.plaintext[{index}].path", patch.get("path")))
        causes.extend(_documents(f"{where}.overriders.fieldOverrider", overriders.get("fieldOverrider") or []))
        causes.extend(_affinity(f"{where}.targetCluster", rule.get("targetCluster") or {}))
    return causes


def _documents(where: str, entries: Sequence[Mapping[str, Any]]) -> Iterator[Cause]:
    """The flaws of patches inside text fields."""
    for index, entry in enumerate(entries):
        yield from _pointer(f"{where}[{index}].fieldPath", entry.get("fieldPath"))
        if bool(entry.get("json")) == bool(entry.get("yaml")):
            yield invalid(f"{where}[{index}]", entry.get("fieldPath"), "needs either json or yaml, and not both")
        for name in ("json", "yaml"):
            for number, patch in enumerate(entry.get(name) or []):
                at = f"{where}[{index}].{name}[{number}]"
                yield from _pointer(f"{at}.subPath", patch.get("subPath"))
                if patch.get("operator") in ("add", "replace") and "value" not in patch:
                    yield required(f"{at}.value", f"{patch['operator']} needs one")


def _pointer(field: str, path: object) -> Iterator[Cause]:
    if not str(path or "").startswith("/"):
        yield invalid(field, path, 'must be a JSON pointer, which starts with "/"')


def _selectors(selectors: Sequence[Mapping[str, Any]], namespace: str) -> Iterator[Cause]:
    for index, selector in enumerate(selectors):
        where = f"spec.resourceSelectors[{index}]"
        for field in ("apiVersion", "kind"):
            if not selector.get(field):
                yield required(f"{where}.{field}", "must not be empty")
        if namespace and selector.get("namespace") not in (None, "", namespace):
            why = f"a policy of namespace {namespace} reaches only its own namespace"
            yield invalid(f"{where}.namespace", selector["namespace"], why)
        yield from _label_selector(f"{where}.labelSelector", selector.get("labelSelector") or {})


def _placement(placement: Mapping[str, Any]) -> Iterator[Cause]:
    groups = placement.get("clusterAffinities") or []
    if groups and placement.get("clusterAffinity") is not None:
        yield forbidden("spec.placement.clusterAffinities", "give either this or spec.placement.clusterAffinity")
    names: set[str] = set()
    for index, group in enumerate(groups):
        where = f"spec.placement.clusterAffinities[{index}]"
        name = str(group.get("affinityName") or "")
        if name in names:
            yield duplicate(f"{where}.affinityName", name)
        names.add(name)
        yield from _affinity(where, group)
    yield from _affinity("spec.placement.clusterAffinity", placement.get("clusterAffinity") or {})
    for index, constraint in enumerate(placement.get("spreadConstraints") or []):
        where = f"spec.placement.spreadConstraints[{index}]"
        least, most = constraint.get("minGroups"), constraint.get("maxGroups")
        if least is not None and most is not None and least > most:
            yield invalid(f"{where}.minGroups", least, f"must not be above maxGroups ({most})")


def _affinity(where: str, affinity: Mapping[str, Any]) -> Iterator[Cause]:
    yield from _label_selector(f"{where}.labelSelector", affinity.get("labelSelector") or {})
    for index, expression in enumerate((affinity.get("fieldSelector") or {}).get("matchExpressions") or []):
        place = f"{where}.fieldSelector.matchExpressions[{index}]"
        if expression.get("key") not in _FIELD_KEYS:
            yield unsupported(f"{place}.key", expression.get("key"), _FIELD_KEYS)
        if expression.get("operator") not in _WITH_VALUES:
            yield unsupported(f"{place}.operator", expression.get("operator"), _WITH_VALUES)


def _label_selector(where: str, selector: Mapping[str, Any]) -> Iterator[Cause]:
    for index, expression in enumerate(selector.get("matchExpressions") or []):
        place = f"{where}.matchExpressions[{index}]"
        operator = expression.get("operator")
        if operator not in (*_WITH_VALUES, *_WITHOUT):
            yield unsupported(f"{place}.operator", operator, (*_WITH_VALUES, *_WITHOUT))
        elif operator in _WITH_VALUES and not expression.get("values"):
            yield required(f"{place}.values", f"{operator} needs values")
        elif operator in _WITHOUT and expression.get("values"):
            yield forbidden(f"{place}.values", f"{operator} takes no values")


PROPAGATION = Checks(of_new(asked_of_policy), policy_within_bounds, of_new(propagation), ask=misspelt.of_policy)
OVERRIDE = Checks(of_new(override), ask=misspelt.of_policy)
