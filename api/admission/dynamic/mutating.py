"""MutatingAdmissionPolicies: their expressions make changes, which are applied one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field

from api.admission.dynamic.again import RoundState
from api.admission.dynamic.expressions import ConditionFailure, Fault, Values, holding
from api.admission.dynamic.matching import namespace_of
from api.admission.dynamic.names import Authorize, Surroundings
from api.admission.dynamic.patches import applied, patched
from api.admission.dynamic.policies import Concerned, Invocation, Misconfiguration, Mutation, invoked
from api.engine.registry import Registry
from api.engine.status import Cause, StatusError, forbidden, not_found
from api.objects.hooking import HookRequest
from fleet.values.ports import Body, Store


@dataclass(frozen=True, slots=True)
class _Failure:
    """A policy that could not do its work. `reason`: of the refusal."""

    message: str
    reason: str = "Forbidden"


@dataclass
class MutatingPolicies:
    """The policies that one request may concern, over both rounds."""

    request: HookRequest
    store: Store
    registry: Registry
    policies: Concerned
    authorize: Authorize | None
    again: RoundState = field(default_factory=RoundState)

    async def run(self, current: Body, old: Body | None, *, second: bool) -> tuple[Body, bool]:
        """The object after the policies, and whether any of them has made a change. StatusError for a refusal."""
        self.again.begin(current, second=second)
        failures: list[_Failure] = []
        around = Surroundings(self.request, self.authorize, self._namespace())
        changed = False
        due: list[Invocation] = []
        for one in invoked(self.policies, self.request, current, old, self.store, self.registry):
            if isinstance(one, Invocation):
                due.append(one)
            elif not one.policy.ignores_failures:
                failures.append(_Failure(_worded(one, one.why)))
        for invocation in due:
            try:
                known = around.values(invocation.resource, current, old, invocation.params)
                if not holding(invocation.policy.conditions, known, invocation.policy.variables):
                    continue
            except ConditionFailure as problem:
                if not invocation.policy.ignores_failures:
                    failures.append(_Failure(_worded(invocation, str(problem)), "Invalid"))
                continue
            key = _key(invocation)
            if second and not self.again.is_due(key):
                continue
            before = current
            for mutation in invocation.policy.mutations:
                try:
                    current = await self._mutate(invocation, mutation, around, current, old)
                    changed = True
                except Fault as problem:
                    if not invocation.policy.ignores_failures:
                        failures.append(_Failure(_worded(invocation, str(problem)), "Invalid"))
            if current != before:
                self.again.changed()
            if invocation.policy.reinvoked:
                self.again.invoked(key)
        if changed:
            self.again.changed()
        self.again.end(current)
        if failures:
            raise self._refusal(failures)
        return current, changed

    async def _mutate(
        self, invocation: Invocation, mutation: Mutation, around: Surroundings, current: Body, old: Body | None
    ) -> Body:
        """The object after one mutation. Raises Fault."""
        known = around.values(invocation.resource, current, old, invocation.params)
        values = Values(known, invocation.policy.variables, patches=True)
        try:
            made = values.of(mutation.expression)
        except Fault as problem:
            raise Fault(f"expression '{mutation.expression}' resulted in error: {problem}") from None
        await values.rest()
        change = applied if mutation.applied else patched
        return change(self.request, invocation.resource, current, made)

    def _namespace(self) -> Body | None:
        """The namespace of the object; StatusError 404 where there is none."""
        if not self.request.namespace:
            return None
        found = namespace_of(self.request, self.store)
        if found is None:
            raise not_found("", "namespaces", self.request.namespace)
        return found

    def _refusal(self, failures: list[_Failure]) -> StatusError:
        kind = self.request.kind
        error = forbidden(kind.group, kind.resource, self.request.name, failures[0].message)
        error.message, error.reason = failures[0].message, failures[0].reason
        error.causes = tuple(Cause("", failure.message, "") for failure in failures)
        return error


def _worded(one: Invocation | Misconfiguration, why: str) -> str:
    if one.binding is None:
        return f'policy "{one.policy.name}" denied request: {why}'
    return f"policy '{one.policy.name}' with binding '{one.binding.name}' denied request: {why}"


def _key(one: Invocation) -> str:
    """The same for as long as policy, binding and parameters are."""
    metadata = (one.params or {}).get("metadata") or {}
    return "/".join((one.policy.name, one.binding.name, metadata.get("namespace") or "", metadata.get("name") or ""))
