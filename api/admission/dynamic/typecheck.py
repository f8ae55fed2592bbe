"""status.typeChecking of a ValidatingAdmissionPolicy: what is wrong with its expressions for the kinds that it names.

A wrong field is no reason to refuse the policy, whose author may know better than a schema. A cluster leaves this work
to a controller; here the writer sees the outcome at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from api.admission.dynamic.expressions import ANYTHING, Scope, fault_of, type_of
from api.engine.kind import Kind
from api.engine.registry import Registry
from api.engine.schema import META_SCHEMA
from api.engine.status import Cause
from api.objects.apart import apart
from api.objects.objects import Objects
from api.objects.writing import Review
from fleet.values.cel.shapes import type_of_schema
from fleet.values.cel.types import DYN, Type
from fleet.values.ports import Body
from fleet.values.untyped import mapping, rows, text, texts

KINDS_MAX = 10  # that a policy is checked for


async def type_check(review: Review, objects: Objects) -> Sequence[Cause]:
    """Write the warnings into the status of a policy that is new or has changed."""
    if review.new is None or review.operation == "DELETE" or review.subresource:
        return ()
    status, generation = mapping(review.new.get("status")), review.new["metadata"].get("generation")
    if review.old is None or status.get("observedGeneration") != generation:
        found = await apart(_warnings, mapping(review.new.get("spec")), objects.registry)
        checked = {"expressionWarnings": found} if found else {}
        review.new["status"] = {**status, "observedGeneration": generation, "typeChecking": checked}
    return ()


def _warnings(spec: Body, registry: Registry) -> list[Body]:
    params = spec.get("paramKind")
    kind_of_params = registry.kind_of(text(mapping(params).get("apiVersion")), text(mapping(params).get("kind")))
    of_params = _type_of(kind_of_params) if kind_of_params is not None else DYN
    scopes = [
        (f"{kind.group}/{kind.version}, Kind={kind.kind}", _scope(spec, _type_of(kind), params is not None, of_params))
        for kind in _kinds(spec, registry)
    ]
    warnings = []
    for index, validation in enumerate(rows(spec.get("validations"))):
        for field in ("expression", "messageExpression"):
            said = text(validation.get(field))
            faults = [(name, fault_of(said, scope, ANYTHING)) for name, scope in scopes] if said else []
            warning = "\n".join(f"{name}: {_issues(fault)}\n" for name, fault in faults if fault)
            if warning:
                warnings.append({"fieldRef": f"spec.validations[{index}].{field}", "warning": warning})
    return warnings


def _issues(fault: str) -> str:
    return fault.removeprefix("compilation failed: ")


def _scope(spec: Body, objects: Type, params: bool, params_type: Type) -> Scope:
    """The names of the expressions, where objects have a type."""
    known: tuple[tuple[str, Type], ...] = ()
    for variable in rows(spec.get("variables")):
        before = Scope(params, known, objects=objects, params_type=params_type)
        known = (*known, (text(variable.get("name")), type_of(text(variable.get("expression")), before)))
    return Scope(params, known, objects=objects, params_type=params_type)


def _kinds(spec: Body, registry: Registry) -> list[Kind]:
    """The kinds that the rules name, without those of rules with wildcards, in the order of their names."""
    found = {kind.api_version + kind.kind: kind for kind in _named(spec, registry)}
    return sorted(found.values(), key=lambda kind: (kind.group, kind.version, kind.kind))


def _named(spec: Body, registry: Registry) -> Iterator[Kind]:
    for rule in rows(mapping(spec.get("matchConstraints")).get("resourceRules")):
        groups, versions = texts(rule.get("apiGroups")), texts(rule.get("apiVersions"))
        if "*" in groups or "*" in versions:
            continue
        count = 0
        for group in sorted(groups):
            for version in sorted(versions):
                for resource in sorted(texts(rule.get("resources"))):
                    kind = _kind(registry, group, version, resource)
                    if kind is not None and count < KINDS_MAX:
                        count += 1
                        yield kind


def _kind(registry: Registry, group: str, version: str, resource: str) -> Kind | None:
    """None for a subresource, a wildcard, and what is not served."""
    kind = registry.resource(group, resource)
    if kind is None or kind.version == version:
        return kind
    return kind.family.kinds.get(f"{group}/{version}") if kind.family is not None else None


def _type_of(kind: Kind) -> Type:
    if kind.schema is None:
        return DYN
    properties = {
        **mapping(kind.schema.get("properties")),
        "kind": {"type": "string"},
        "apiVersion": {"type": "string"},
        "metadata": META_SCHEMA,
    }
    return type_of_schema({**kind.schema, "properties": properties}, name=kind.kind) or DYN
