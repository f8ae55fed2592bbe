"""ValidatingAdmissionPolicies: their expressions are evaluated about a request, and their bindings say what follows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from api.admission.dynamic.expressions import ConditionFailure, CostExcess, Fault, Values, holding
from api.admission.dynamic.matching import namespace_of, own
from api.admission.dynamic.names import Authorize, Surroundings
from api.admission.dynamic.policies import (
    AdmissionPolicy,
    Binding,
    Concerned,
    Invocation,
    Misconfiguration,
    Validation,
    invoked,
)
from api.engine.registry import Registry
from api.engine.status import Cause, StatusError, forbidden
from api.objects.hooking import HookRequest, annotate
from fleet.values.ports import Body, Store

MESSAGE_MAX = 5 * 1024
_ANNOTATION_MAX = 10 * 1024
_FAILURE = "validation.policy.admission.k8s.io/validation_failure"
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}


@dataclass(frozen=True, slots=True)
class _Denial:
    """A validation that does not hold, or that has no value."""

    message: str
    reason: str = ""


@dataclass
class ValidatingPolicies:
    """The policies that one request may concern."""

    request: HookRequest
    store: Store
    registry: Registry
    policies: Concerned
    authorize: Authorize | None
    warnings: list[str]
    _denied: list[tuple[AdmissionPolicy, Binding | None, _Denial]] = field(default_factory=list)

    async def judge(self, request: HookRequest, new: Body | None, old: Body | None) -> None:
        """StatusError where a policy denies the request."""
        self.request = request
        self._denied.clear()
        published: dict[str, list[str]] = {}
        namespace = namespace_of(request, self.store) if request.namespace else None
        around = Surroundings(request, self.authorize, namespace)
        for one in invoked(self.policies, request, new, old, self.store, self.registry):
            if isinstance(one, Misconfiguration):
                if not one.policy.ignores_failures:
                    self._denied.append((one.policy, one.binding, _Denial(one.why)))
                continue
            await self._invoke(one, around.values(one.resource, new, old, one.params), published)
        for key, found in published.items():
            annotate(key, ", ".join(found))
        if self._denied:
            raise self._refusal(*self._denied[0])

    async def _invoke(
        self, invocation: Invocation, bindings: Mapping[str, Any], published: dict[str, list[str]]
    ) -> None:
        policy = invocation.policy
        try:
            if not holding(policy.conditions, bindings, policy.variables):
                return
        except ConditionFailure as problem:
            if not policy.ignores_failures:
                self._act(policy, invocation.binding, 0, _Denial(str(problem)))
            return
        values = Values(bindings, policy.variables)
        failed: list[tuple[int, _Denial]] = []
        try:
            for index, validation in enumerate(policy.validations):
                failed += [(index, denial) for denial in _judged(validation, values, policy.ignores_failures)]
                await values.rest()
        except CostExcess as problem:
            failed = [] if policy.ignores_failures else [(0, _Denial(str(problem)))]
        for index, denial in failed:
            self._act(policy, invocation.binding, index, denial)
        self._publish(policy, invocation.binding, Values(bindings, policy.variables), published)

    def _act(self, policy: AdmissionPolicy, binding: Binding, index: int, denial: _Denial) -> None:
        for action in binding.actions:
            if action == "Deny":
                self._denied.append((policy, binding, denial))
            elif action == "Warn":
                named = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}'"
                self.warnings.append(f"Validation failed for {named}: {denial.message}")
            elif action == "Audit":
                failure = {
                    "message": denial.message,
                    "policy": policy.name,
                    "binding": binding.name,
                    "expressionIndex": index,
                    "validationActions": list(binding.actions),
                }
                annotate(_FAILURE, orjson.dumps([failure]).decode())

    def _publish(
        self, policy: AdmissionPolicy, binding: Binding, values: Values, published: dict[str, list[str]]
    ) -> None:
        """Evaluate the audit annotations; one without a value denies, where failures are not ignored."""
        for key, expression in policy.annotations:
            try:
                value: Any = values.of(expression)
            except Fault as problem:
                if not policy.ignores_failures:
                    text = f"expression '{expression}' resulted in error: {problem}"
                    self._denied.append((policy, binding, _Denial(text)))
                continue
            if isinstance(value, str) and value.strip():
                said = published.setdefault(f"{policy.name}/{key}", [])
                if value.strip() not in said:
                    said.append(value.strip()[:_ANNOTATION_MAX])

    def _refusal(self, policy: AdmissionPolicy, binding: Binding | None, denial: _Denial) -> StatusError:
        bound = f" with binding '{binding.name}'" if binding is not None else ""
        message = f"ValidatingAdmissionPolicy '{policy.name}'{bound} denied request: {denial.message}"
        kind = own(self.request)
        error = forbidden(kind.group, kind.resource, self.request.name, message)
        error.reason = denial.reason or "Invalid"
        error.code = _CODES.get(error.reason, 422)
        error.causes = (Cause("", message, ""),)
        return error


def _judged(validation: Validation, values: Values, ignores_failures: bool) -> Iterator[_Denial]:
    """The denial of a validation that does not hold. Raises CostExcess."""
    try:
        if values.of(validation.expression) is not True:
            yield _Denial(_message(validation, values), validation.reason)
    except CostExcess:
        raise
    except Fault as problem:
        if not ignores_failures:
            yield _Denial(f"expression '{validation.expression}' resulted in error: {problem}")


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
