"""ValidatingAdmissionPolicies: their expressions are evaluated about a request, and their bindings say what follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from fleet.admission.dynamic.expressions import ConditionFailed, Fault, Values, holding
from fleet.admission.dynamic.matching import Resource, as_resource, namespace_of, own
from fleet.admission.dynamic.policies import BadBinding, BadPolicy, Binding, Policies, Policy, Validation, params_of
from fleet.admission.dynamic.review import request_of
from fleet.engine.registry import Registry
from fleet.engine.status import Cause, StatusError, forbidden
from fleet.objects.hooking import Asked, annotate
from fleet.ports import Body, Store

MESSAGE_MAX = 5 * 1024
_ANNOTATION_MAX = 10 * 1024
_FAILURE = "validation.policy.admission.k8s.io/validation_failure"
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}
_SHOWN_OF_NAMESPACE = (
    "name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "finalizers",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Denial:
    """A validation that does not hold, or that has no value."""

    message: str
    reason: str = ""


@dataclass
class Judging:
    """The policies that one request may concern."""

    asked: Asked
    store: Store
    registry: Registry
    policies: Sequence[tuple[Policy, Resource]]
    warnings: list[str]
    _denied: list[tuple[Policy, Binding | None, _Denial]] = field(default_factory=list)

    @classmethod
    def of(
        cls, asked: Asked, store: Store, registry: Registry, policies: Policies, warnings: list[str]
    ) -> Judging | None:
        """None where no policy has a rule about the request."""
        named = [(policy, policy.match.resource(asked)) for policy in policies.all()]
        found = [(policy, resource) for policy, resource in named if resource is not None]
        return cls(asked, store, registry, found, warnings) if found else None

    def judge(self, asked: Asked, new: Body | None, old: Body | None) -> None:
        """StatusError where a policy denies the request."""
        self.asked = asked
        self._denied.clear()
        for policy, resource in self.policies:
            self._policy(policy, resource, new, old)
        if self._denied:
            raise self._refusal(*self._denied[0])

    def _policy(self, policy: Policy, resource: Resource, new: Body | None, old: Body | None) -> None:
        if not policy.match.selects(self.asked, new, old, self.store):
            return
        published: dict[str, list[str]] = {}
        for binding in policy.bindings:
            if binding.match.resource(self.asked) is None:
                continue
            if not binding.match.selects(self.asked, new, old, self.store):
                continue
            namespace = self.asked.namespace
            try:
                params = params_of(policy, binding, namespace, self.store, self.registry)
            except BadPolicy as problem:
                self._misconfigured(policy, None, f"failed to configure policy: {problem}")
                return
            except BadBinding as problem:
                self._misconfigured(policy, binding, f"failed to configure binding: {problem}")
                continue
            for param in params:
                values = self._values(policy, resource, new, old, param)
                for index, denial in self._evaluated(policy, values):
                    self._act(policy, binding, index, denial)
                self._publish(policy, binding, values, published)
        for key, found in published.items():
            annotate(f"{policy.name}/{key}", ", ".join(found))

    def _misconfigured(self, policy: Policy, binding: Binding | None, why: str) -> None:
        if not policy.ignores_failures:
            self._denied.append((policy, binding, _Denial(why)))

    def _values(
        self, policy: Policy, resource: Resource, new: Body | None, old: Body | None, param: Body | None
    ) -> Values:
        namespace = namespace_of(self.asked, self.store) if self.asked.namespace else None
        known = {
            "object": as_resource(resource, new), "oldObject": as_resource(resource, old),
            "request": request_of(self.asked, resource), "namespaceObject": _shown(namespace), "params": param,
        }  # fmt: skip
        return Values(known, policy.variables)

    def _evaluated(self, policy: Policy, values: Values) -> Iterator[tuple[int, _Denial]]:
        """The validations that fail, by their place."""
        try:
            if not holding(policy.conditions, values):
                values.skipped = True
                return
        except ConditionFailed as problem:
            values.skipped = True
            if not policy.ignores_failures:
                yield 0, _Denial(str(problem))
            return
        for index, validation in enumerate(policy.validations):
            try:
                if values.of(validation.expression) is not True:
                    yield index, _Denial(_message(validation, values), validation.reason)
            except Fault as problem:
                if not policy.ignores_failures:
                    yield index, _Denial(f"expression '{validation.expression}' resulted in error: {problem}")

    def _act(self, policy: Policy, binding: Binding, index: int, denial: _Denial) -> None:
        for action in binding.actions:
            if action == "Deny":
                self._denied.append((policy, binding, denial))
            elif action == "Warn":
                named = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}'"
                self.warnings.append(f"Validation failed for {named}: {denial.message}")
            elif action == "Audit":
                failure = {
                    "message": denial.message, "policy": policy.name, "binding": binding.name, "expressionIndex": index,
                    "validationActions": list(binding.actions),
                }  # fmt: skip
                annotate(_FAILURE, orjson.dumps([failure]).decode())

    def _publish(self, policy: Policy, binding: Binding, values: Values, published: dict[str, list[str]]) -> None:
        """Evaluate the audit annotations; one without a value denies, where failures are not ignored."""
        if values.skipped:
            return
        for key, expression in policy.annotations:
            try:
                value: Any = values.of(expression)
            except Fault as problem:
                if not policy.ignores_failures:
                    text = f"expression '{expression}' resulted in error: {problem}"
                    self._denied.append((policy, binding, _Denial(text)))
                continue
            if isinstance(value, str) and value.strip():
                said = published.setdefault(key, [])
                if value.strip() not in said:
                    said.append(value.strip()[:_ANNOTATION_MAX])

    def _refusal(self, policy: Policy, binding: Binding | None, denial: _Denial) -> StatusError:
        bound = f" with binding '{binding.name}'" if binding is not None else ""
        message = f"ValidatingAdmissionPolicy '{policy.name}'{bound} denied request: {denial.message}"
        kind = own(self.asked)
        error = forbidden(kind.group, kind.resource, self.asked.name, message)
        error.reason = denial.reason or "Invalid"
        error.code = _CODES.get(error.reason, 422)
        error.causes = (Cause("", message, ""),)
        return error


def _message(validation: Validation, values: Values) -> str:
    """The words for a validation that does not hold."""
    if validation.message_expression:
        try:
            said = values.of(validation.message_expression)
        except Fault:
            said = None
        if isinstance(said, str) and said.strip() and "\n" not in said.strip() and len(said) <= MESSAGE_MAX:
            return said.strip()
    return validation.message or f"failed expression: {validation.expression.strip()}"


def _shown(namespace: Body | None) -> Body | None:
    """A namespace as expressions see it."""
    if namespace is None:
        return None
    metadata = namespace["metadata"]
    shown = {key: metadata[key] for key in _SHOWN_OF_NAMESPACE if key in metadata}
    return {**namespace, "metadata": shown}
