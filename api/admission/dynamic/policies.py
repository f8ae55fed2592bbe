"""The stored admission policies with their bindings as values, read again when one of them changes, and the times that
one request invokes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from api.admission.dynamic.matching import GROUP, Match, Resource
from api.engine.registry import Registry
from api.engine.selectors import from_object, holds
from api.objects.hooking import HookRequest
from fleet.values.ports import Body, Key, Store
from fleet.values.untyped import mapping, rows, text, texts

VALIDATING, VALIDATING_BINDINGS = "validatingadmissionpolicies", "validatingadmissionpolicybindings"
MUTATING, MUTATING_BINDINGS = "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"


class BadBinding(Exception):
    """A binding cannot be used. The text is for the client."""


class BadPolicy(Exception):
    """A policy cannot be used, whatever its bindings say. The text is for the client."""


@dataclass(frozen=True, slots=True)
class Validation:
    """One expression that has to be true."""

    expression: str
    message: str
    message_expression: str
    reason: str


@dataclass(frozen=True, slots=True)
class Binding:
    """A binding of the policy. `params`: its paramRef, None without one."""

    name: str
    match: Match
    params: Body | None
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mutation:
    """One expression that makes a change. `applied`: it gives a configuration to apply, and no JSON patch."""

    expression: str
    applied: bool


@dataclass(frozen=True, slots=True)
class AdmissionPolicy:
    """A policy of either kind with all its bindings."""

    name: str
    match: Match
    params: Body | None  # paramKind
    conditions: tuple[tuple[str, str], ...]  # name, expression
    variables: tuple[tuple[str, str], ...]
    validations: tuple[Validation, ...]
    annotations: tuple[tuple[str, str], ...]  # key, expression
    mutations: tuple[Mutation, ...]
    ignores_failures: bool
    reinvoked: bool
    bindings: tuple[Binding, ...]


Concerned = Sequence[
    tuple[AdmissionPolicy, Resource]
]  # with the request's resource under the name that a rule has for it


class Policies:
    """The policies of one kind that have a binding, in the order of their names."""

    def __init__(self, store: Store, resource: str, bindings: str) -> None:
        self._store, self._resource, self._bindings = store, resource, bindings
        self._seen: tuple[int, ...] = ()
        self._policies: tuple[AdmissionPolicy, ...] = ()

    def all(self) -> Sequence[AdmissionPolicy]:
        bindings = self._store.scan(GROUP, self._bindings)
        if not bindings:
            return ()
        policies = self._store.scan(GROUP, self._resource)
        revisions = (*(item.revision for item in policies), -1, *(item.revision for item in bindings))
        if revisions != self._seen:
            bound: dict[str, list[Binding]] = {}
            for item in bindings:
                spec = mapping(item.body.get("spec"))
                bound.setdefault(text(spec.get("policyName")), []).append(_binding(item.key.name, spec))
            self._policies = tuple(
                _policy(item.key.name, mapping(item.body.get("spec")), tuple(bound[item.key.name]))
                for item in policies
                if item.key.name in bound
            )
            self._seen = revisions
        return self._policies

    def about(self, request: HookRequest) -> Concerned:
        """The policies with a rule about the request."""
        named = ((policy, policy.match.resource(request)) for policy in self.all())
        return [(policy, resource) for policy, resource in named if resource is not None]


def _binding(name: str, spec: Body) -> Binding:
    said = mapping(spec.get("matchResources"))
    match = Match.of(said, said.get("resourceRules"), said.get("excludeResourceRules"), open=True)
    return Binding(name, match, spec.get("paramRef"), texts(spec.get("validationActions")))


def _policy(name: str, spec: Body, bindings: tuple[Binding, ...]) -> AdmissionPolicy:
    said = mapping(spec.get("matchConstraints"))
    return AdmissionPolicy(
        name,
        Match.of(said, said.get("resourceRules"), said.get("excludeResourceRules"), open=True),
        spec.get("paramKind"),
        _pairs(spec, "matchConditions", "name", "expression"),
        _pairs(spec, "variables", "name", "expression"),
        tuple(_validation(item) for item in rows(spec.get("validations"))),
        _pairs(spec, "auditAnnotations", "key", "valueExpression"),
        tuple(_mutation(item) for item in rows(spec.get("mutations"))),
        spec.get("failurePolicy") == "Ignore",
        spec.get("reinvocationPolicy") == "IfNeeded",
        bindings,
    )


def _pairs(spec: Body, field: str, name: str, value: str) -> tuple[tuple[str, str], ...]:
    return tuple((text(item.get(name)), text(item.get(value))) for item in rows(spec.get(field)))


def _validation(item: Body) -> Validation:
    return Validation(
        text(item.get("expression")),
        text(item.get("message")).strip(),
        text(item.get("messageExpression")),
        text(item.get("reason")) or "Invalid",
    )


def _mutation(item: Body) -> Mutation:
    applied = item.get("patchType") == "ApplyConfiguration"
    said = mapping(item.get("applyConfiguration" if applied else "jsonPatch"))
    return Mutation(text(said.get("expression")), applied)


@dataclass(frozen=True, slots=True)
class Invocation:
    """One evaluation of a policy, for one of its bindings and one of their parameters."""

    policy: AdmissionPolicy
    resource: Resource
    binding: Binding
    params: Body | None


@dataclass(frozen=True, slots=True)
class Misconfiguration:
    """A policy that cannot be invoked, or not for this binding. `why` is for the client."""

    policy: AdmissionPolicy
    binding: Binding | None
    why: str


def invoked(
    concerned: Concerned, request: HookRequest, new: Body | None, old: Body | None, store: Store, registry: Registry
) -> Iterator[Invocation | Misconfiguration]:
    """The invocations of the policies whose selectors agree, in order. StatusError 404 for a namespace that is not
    there."""
    for policy, resource in concerned:
        if not policy.match.selects(request, new, old, store):
            continue
        for binding in policy.bindings:
            if binding.match.resource(request) is None or not binding.match.selects(request, new, old, store):
                continue
            try:
                all_params = _params_of(policy, binding, request.namespace, store, registry)
            except BadPolicy as problem:
                yield Misconfiguration(policy, None, f"failed to configure policy: {problem}")
                break
            except BadBinding as problem:
                yield Misconfiguration(policy, binding, f"failed to configure binding: {problem}")
                continue
            yield from (Invocation(policy, resource, binding, params) for params in all_params)


def _params_of(
    policy: AdmissionPolicy, binding: Binding, namespace: str, store: Store, registry: Registry
) -> Sequence[Body | None]:
    """The parameters to evaluate the policy with, each in turn; [None] where it has none. Raises BadBinding or
    BadPolicy, in the words of a kube-apiserver."""
    if policy.params is None:
        return [None]
    api_version, name = text(policy.params.get("apiVersion")), text(policy.params.get("kind"))
    kind = registry.kind_of(api_version, name)
    if kind is None:
        named = api_version if "/" in api_version else f"/{api_version}"
        raise BadPolicy(f"failed to find resource referenced by paramKind: '{named}, Kind={name}'")
    ref = binding.params
    if ref is None:
        return [None]
    place = text(ref.get("namespace"))
    if kind.namespaced:
        place = place or namespace
        if not place:
            why = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            raise BadBinding(why)
    elif place:
        raise BadBinding("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    if ref.get("name"):
        stored = store.peek(Key(kind.group, kind.resource, place, text(ref.get("name"))))
        all_params = [stored.body] if stored is not None else []
    else:
        wanted = from_object(mapping(ref.get("selector")))
        scanned = store.scan(kind.group, kind.resource, namespace=place or None)
        all_params = [item.body for item in scanned if holds(wanted, mapping(item.body["metadata"]).get("labels"))]
    if not all_params and ref.get("parameterNotFoundAction") == "Deny":
        raise BadBinding("no params found for policy binding with `Deny` parameterNotFoundAction")
    return all_params
