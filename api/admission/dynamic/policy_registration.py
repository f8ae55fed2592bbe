"""Admission policies and bindings that can never work are refused when they are written, in the words of a
kube-apiserver."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from api.admission.causes import duplicate, forbidden, invalid, required, unsupported
from api.admission.dynamic.expressions import (
    ANNOTATION,
    ANYTHING,
    CONFIGURATION,
    MESSAGE,
    MUST_HOLD,
    OPERATIONS,
    Scope,
    type_of,
)
from api.admission.dynamic.registration import static_name_warning
from api.admission.dynamic.rulefaults import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    MUTATING_OPERATIONS,
    REINVOCATION_POLICIES,
    condition_faults,
    expression_faults,
    label_1035_problems,
    named_rule_faults,
    one_of,
    strings,
)
from api.admission.dynamic.typecheck import type_check
from api.admission.labelselectors import selector_faults
from api.admission.rule import Checks
from api.engine.status import Cause
from api.objects.writing import Review
from fleet.values.cel.types import Type
from fleet.values.names import path_segment_problems, qualified_name_problems, subdomain_problems
from fleet.values.ports import Body
from fleet.values.untyped import mapping, rows, text

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_NOT_FOUND_ACTIONS = ("Deny", "Allow")
_ANNOTATIONS_MAX = 20
_ANNOTATION_BYTES_MAX = 5 * 1024
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*\Z")
_RESERVED = frozenset(
    (
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    )
)
_NOTHING = "validations or auditAnnotations must contain at least one item"
_PATCHES = {
    "ApplyConfiguration": ("applyConfiguration", CONFIGURATION),
    "JSONPatch": ("jsonPatch", OPERATIONS),
}
_NOT_EXPRESSED = "expression is not specified"


def _shared(review: Review, spec: Body, operations: Sequence[str] = ()) -> tuple[list[Cause], Scope]:
    """The faults of what both kinds of policies have, and the names that the other expressions may use. `operations`:
    those that the policy can be about."""
    before = mapping((review.old or {}).get("spec"))
    causes = one_of("spec.failurePolicy", spec.get("failurePolicy"), FAILURE_POLICIES)
    kind = spec.get("paramKind")
    if kind is not None:
        causes += _param_kind_faults("spec.paramKind", kind)
    constraints = spec.get("matchConstraints")
    if constraints is None:
        causes.append(required("spec.matchConstraints"))
    else:
        causes += match_faults("spec.matchConstraints", constraints)
        if not constraints.get("resourceRules"):
            causes.append(required("spec.matchConstraints.resourceRules"))
        causes += _operation_faults("spec.matchConstraints", constraints, operations)
    scope = Scope(params=kind is not None)
    kept = before.get("matchConditions") if review.old is not None and before.get("paramKind") == kind else None
    causes += condition_faults("spec.matchConditions", spec.get("matchConditions"), scope, kept)
    known: list[tuple[str, Type]] = []
    for index, variable in enumerate(rows(spec.get("variables"))):
        before_it = Scope(scope.params, tuple(known))
        causes += _variable_faults(f"spec.variables[{index}]", variable, before_it)
        known.append((text(variable.get("name")), type_of(text(variable.get("expression")), before_it)))
    return causes, Scope(scope.params, tuple(known))


def _operation_faults(at: str, match: Body, operations: Sequence[str]) -> list[Cause]:
    given = [one for rule in rows(match.get("resourceRules")) for one in strings(rule.get("operations"))]
    wrong = [one for one in given if operations and one not in operations]
    return [unsupported(f"{at}.resourceRules.operations", one, operations) for one in wrong]


def _policy(review: Review) -> Sequence[Cause]:
    if review.new is None or review.operation == "DELETE" or review.subresource:
        return ()
    spec = mapping(review.new.get("spec"))
    causes, scope = _shared(review, spec)
    validations, annotations = rows(spec.get("validations")), rows(spec.get("auditAnnotations"))
    if not validations and not annotations:
        return [*causes, required("spec.validations", _NOTHING), required("spec.auditAnnotations", _NOTHING)]
    for index, validation in enumerate(validations):
        causes += _validation_faults(f"spec.validations[{index}]", validation, scope)
    return [*causes, *_annotation_faults(review.name, annotations, scope)]


def _param_kind_faults(at: str, kind: Body) -> list[Cause]:
    causes: list[Cause] = []
    api_version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    group, _, version = api_version.rpartition("/")
    if not api_version:
        causes.append(required(f"{at}.apiVersion"))
    elif api_version.count("/") > 1:
        why = f"unexpected GroupVersion string: {api_version}"
        causes.append(invalid(f"{at}.apiVersion", api_version, why))
    else:
        problems = subdomain_problems(group) if group else []
        if problems:
            causes.append(invalid(f"{at}.apiVersion", group, ",".join(problems)))
        problems = label_1035_problems(version) if version else []
        if not version:
            causes.append(invalid(f"{at}.apiVersion", api_version, "version must be specified"))
        elif problems:
            causes.append(invalid(f"{at}.apiVersion", version, ",".join(problems)))
    if not name:
        causes.append(required(f"{at}.kind"))
    elif problems := label_1035_problems(name.lower()):
        why = f"may have mixed case, but should otherwise match: {','.join(problems)}"
        causes.append(invalid(f"{at}.kind", name, why))
    return causes


def match_faults(at: str, match: Body) -> list[Cause]:
    """The faults of MatchResources."""
    causes = one_of(f"{at}.matchPolicy", match.get("matchPolicy"), MATCH_POLICIES)
    for field in ("namespaceSelector", "objectSelector"):
        causes += selector_faults(f"{at}.{field}", match.get(field) or {})
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(field) or ()):
            causes += named_rule_faults(f"{at}.{field}[{index}]", rule or {})
    return causes


def _variable_faults(at: str, variable: Body, scope: Scope) -> list[Cause]:
    name = variable.get("name") or ""
    causes: list[Cause] = []
    if not name.strip():
        causes.append(required(f"{at}.name", "name is not specified"))
    elif not _IDENTIFIER.match(name) or name in _RESERVED:
        causes.append(invalid(f"{at}.name", name, "must be a valid CEL identifier"))
    return [
        *causes,
        *expression_faults(f"{at}.expression", text(variable.get("expression")), scope, ANYTHING, _NOT_EXPRESSED),
    ]


def _validation_faults(at: str, validation: Body, scope: Scope) -> list[Cause]:
    causes = expression_faults(f"{at}.expression", text(validation.get("expression")), scope, MUST_HOLD, _NOT_EXPRESSED)
    of_message, message = text(validation.get("messageExpression")), text(validation.get("message"))
    if of_message and not of_message.strip():
        causes.append(invalid(f"{at}.messageExpression", of_message, "must be non-empty if specified"))
    elif of_message:
        causes += expression_faults(f"{at}.messageExpression", of_message, replace(scope, authorizer=False), MESSAGE)
    if message and not message.strip():
        causes.append(invalid(f"{at}.message", message, "must be non-empty if specified"))
    elif "\n" in message.strip() or "\r" in message.strip():
        causes.append(invalid(f"{at}.message", message, "must not contain line breaks"))
    return [*causes, *one_of(f"{at}.reason", validation.get("reason"), _REASONS)]


def _annotation_faults(name: str, annotations: Sequence[Body], scope: Scope) -> list[Cause]:
    causes: list[Cause] = []
    keys: set[str] = set()
    if len(annotations) > _ANNOTATIONS_MAX:
        why = f"must not have more than {_ANNOTATIONS_MAX} auditAnnotations"
        causes.append(invalid("spec.auditAnnotations", annotations, why))
    for index, annotation in enumerate(annotations[: _ANNOTATIONS_MAX + 1]):
        at, key = f"spec.auditAnnotations[{index}]", text(annotation.get("key"))
        causes += [
            invalid(f"{at}.key", f"{name}/{key}", problem) for problem in qualified_name_problems(f"{name}/{key}")
        ]
        value = text(annotation.get("valueExpression")).strip()
        if len(value.encode()) > _ANNOTATION_BYTES_MAX:
            why = f"must not exceed {_ANNOTATION_BYTES_MAX} bytes in length"
            causes.append(required(f"{at}.valueExpression", why))
        else:
            causes += expression_faults(
                f"{at}.valueExpression", value, scope, ANNOTATION, "valueExpression is not specified"
            )
        if key in keys:
            causes.append(duplicate(f"{at}.key", key))
        keys.add(key)
    return causes


def _changes(review: Review) -> Sequence[Cause]:
    """The faults of a MutatingAdmissionPolicy."""
    if review.new is None or review.operation == "DELETE":
        return ()
    spec = mapping(review.new.get("spec"))
    causes, scope = _shared(review, spec, MUTATING_OPERATIONS)
    mutations = rows(spec.get("mutations"))
    if not mutations:
        causes.append(required("spec.mutations", "mutations must contain at least one item"))
    for index, mutation in enumerate(mutations):
        causes += _mutation_faults(f"spec.mutations[{index}]", mutation, replace(scope, patches=True))
    again = spec.get("reinvocationPolicy")
    if not again:
        return [*causes, required("spec.reinvocationPolicy")]
    return [*causes, *one_of("spec.reinvocationPolicy", again, REINVOCATION_POLICIES)]


def _mutation_faults(at: str, mutation: Body, scope: Scope) -> list[Cause]:
    kind = mutation.get("patchType")
    if not kind:
        return [required(f"{at}.patchType")]
    if kind not in _PATCHES:
        return [unsupported(f"{at}.patchType", kind, tuple(_PATCHES))]
    causes: list[Cause] = []
    for other, (field, results) in sorted(_PATCHES.items(), key=lambda item: item[0] != kind):
        content = mutation.get(field)
        if other == kind and content is None:
            causes.append(required(f"{at}.{field}", f"must be specified when patchType is {kind}"))
        elif other == kind:
            said = text(mapping(content).get("expression")).strip()
            causes += expression_faults(f"{at}.{field}.expression", said, scope, results)
        elif content is not None:
            why = f"must not be specified when patchType is {kind}"
            causes.append(invalid(f"{at}.{field}", f"{{{field}}}", why))
    return causes


def _of_validations(review: Review) -> Sequence[Cause]:
    causes = _binding(review)
    if review.new is None or review.operation == "DELETE":
        return causes
    actions = mapping(review.new.get("spec")).get("validationActions") or []
    return [*causes, *_action_faults("spec.validationActions", actions)]


def _of_changes(review: Review) -> Sequence[Cause]:
    causes = _binding(review)
    if review.new is None or review.operation == "DELETE":
        return causes
    match = mapping(mapping(review.new.get("spec")).get("matchResources"))
    return [*causes, *_operation_faults("spec.matchResources", match, MUTATING_OPERATIONS)]


def _binding(review: Review) -> list[Cause]:
    """The faults of what both kinds of bindings have."""
    if review.new is None or review.operation == "DELETE":
        return []
    spec = mapping(review.new.get("spec"))
    name = text(spec.get("policyName"))
    causes = (
        [invalid("spec.policyName", name, problem) for problem in subdomain_problems(name)]
        if name
        else [required("spec.policyName")]
    )
    ref = spec.get("paramRef")
    if ref is not None:
        causes += _param_ref_faults("spec.paramRef", ref)
    if spec.get("matchResources") is not None:
        causes += match_faults("spec.matchResources", spec["matchResources"])
    return causes


def _param_ref_faults(at: str, ref: Body) -> list[Cause]:
    causes: list[Cause] = []
    name, selector = text(ref.get("name")), ref.get("selector")
    exclusive = "name and selector are mutually exclusive"
    if name:
        causes += [invalid(f"{at}.name", name, problem) for problem in path_segment_problems(name)]
        if selector is not None:
            causes.append(forbidden(f"{at}.name", exclusive))
    if selector is not None:
        causes += selector_faults(f"{at}.selector", selector)
        if name:
            causes.append(forbidden(f"{at}.selector", exclusive))
    elif not name:
        causes.append(required(at, "one of name or selector must be specified"))
    action = ref.get("parameterNotFoundAction")
    if not action:
        causes.append(required(f"{at}.parameterNotFoundAction"))
    return [*causes, *one_of(f"{at}.parameterNotFoundAction", action or None, _NOT_FOUND_ACTIONS)]


def _action_faults(at: str, actions: Sequence[Any]) -> list[Cause]:
    causes: list[Cause] = []
    action_set: set[str] = set()
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            causes.append(unsupported(f"{at}[{index}]", action, _ACTIONS))
        if action in action_set:
            causes.append(duplicate(f"{at}[{index}]", action))
        action_set.add(action)
    if {"Deny", "Warn"} <= action_set:
        why = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API response"
            " and headers serves no purpose)"
        )
        causes.append(invalid(at, actions, why))
    return causes if action_set else [*causes, required(at, "at least one validation action is required")]


POLICY = Checks(_policy, static_name_warning, ask=type_check)
BINDING = Checks(_of_validations, static_name_warning)
MUTATING = Checks(_changes, static_name_warning)
MUTATING_BINDING = Checks(_of_changes, static_name_warning)
