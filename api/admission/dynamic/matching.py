"""Which requests a webhook or a policy is about: operations, resources, and the labels of namespace and object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from api.engine.selectors import Requirement, from_object, holds
from api.engine.status import not_found
from api.objects.hooking import HookRequest
from fleet.values.ports import Body, Key, Store
from fleet.values.untyped import mapping, rows, text, texts

GROUP = "admissionregistration.k8s.io"


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource under one of its names: that of the kind itself, or of a group or version that means the same."""

    group: str
    version: str
    resource: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


def own(request: HookRequest) -> Resource:
    return Resource(request.kind.group, request.kind.version, request.kind.resource)


def names_of(request: HookRequest) -> Iterator[Resource]:
    """The request's resource under all its names, its own first."""
    yield own(request)
    for alias in request.kind.aliases:
        group, _, version = alias.rpartition("/")
        yield Resource(group, version, request.kind.resource)
    for version in request.kind.versions:
        if version != request.kind.version:
            yield Resource(request.kind.group, version, request.kind.resource)


@dataclass(frozen=True, slots=True)
class MatchRule:
    """A rule with operations. `names`: of the objects, empty for all."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    scope: str
    names: frozenset[str]

    def matches(self, request: HookRequest, resource: Resource) -> bool:
        return (
            _has(self.operations, request.operation)
            and _has(self.groups, resource.group)
            and _has(self.versions, resource.version)
            and any(
                name in ("*", resource.resource) and below in ("*", request.subresource)
                for name, below in self.resources
            )
            and (not self.names or request.name in self.names)
            and self._in_scope(request)
        )

    def _in_scope(self, request: HookRequest) -> bool:
        return self.scope == "*" or (self.scope == "Namespaced") == request.kind.namespaced


def _has(allowed: frozenset[str], value: str) -> bool:
    return "*" in allowed or value in allowed


def rules_in(found: Any) -> tuple[MatchRule, ...]:
    return tuple(_rule(item) for item in rows(found))


def _rule(rule: Body) -> MatchRule:
    parts = (item.partition("/") for item in texts(rule.get("resources")))
    return MatchRule(
        frozenset(texts(rule.get("operations"))),
        frozenset(texts(rule.get("apiGroups"))),
        frozenset(texts(rule.get("apiVersions"))),
        tuple((name, below) for name, _, below in parts),
        text(rule.get("scope")) or "*",
        frozenset(texts(rule.get("resourceNames"))),
    )


@dataclass(frozen=True, slots=True)
class Match:
    """What a webhook or a policy is about. `open`: without a rule it is about everything."""

    rules: tuple[MatchRule, ...]
    excluded: tuple[MatchRule, ...]
    equivalent: bool
    of_namespace: tuple[Requirement, ...]
    of_object: tuple[Requirement, ...]
    open: bool = False

    @classmethod
    def of(cls, spec: Body, rules: Any, excluded: Any = (), *, open: bool = False) -> Match:
        """`spec` holds the selectors and the matchPolicy."""
        return cls(
            rules_in(rules),
            rules_in(excluded),
            spec.get("matchPolicy") != "Exact",
            from_object(mapping(spec.get("namespaceSelector"))),
            from_object(mapping(spec.get("objectSelector"))),
            open,
        )

    def resource(self, request: HookRequest) -> Resource | None:
        """The resource of the request under the name that a rule has for it; None where no rule is about it."""
        names = tuple(names_of(request)) if self.equivalent else (own(request),)
        if self.excluded and any(_any(self.excluded, request, name) for name in names):
            return None
        if self.open and not self.rules:
            return names[0]
        return next((name for name in names if _any(self.rules, request, name)), None)

    def selects(self, request: HookRequest, new: Body | None, old: Body | None, store: Store) -> bool:
        """Whether the selectors agree. StatusError 404 for a namespace that is not there."""
        if self.of_object and not any(holds(self.of_object, _labels(body)) for body in (new, old) if _labelled(body)):
            return False
        if not self.of_namespace or not (request.namespace or is_namespace(request)):
            return True
        return holds(self.of_namespace, _namespace_labels(request, new, store))


def _any(rules: Iterable[MatchRule], request: HookRequest, resource: Resource) -> bool:
    return any(rule.matches(request, resource) for rule in rules)


def is_namespace(request: HookRequest) -> bool:
    return request.kind.group == "" and request.kind.resource == "namespaces"


def _labels(body: Body) -> Mapping[str, Any]:
    return mapping(mapping(body.get("metadata")).get("labels"))


def _labelled(body: Body | None) -> TypeGuard[Body]:
    """Whether a selector can look at it: the options of a connection have no metadata."""
    return body is not None and "metadata" in body


def _namespace_labels(request: HookRequest, new: Body | None, store: Store) -> Mapping[str, Any]:
    if is_namespace(request) and new is not None and not request.subresource:
        return _labels(new)
    found = namespace_of(request, store)
    if found is None:
        raise not_found("", "namespaces", request.namespace or request.name)
    return _labels(found)


def namespace_of(request: HookRequest, store: Store) -> Body | None:
    """The stored namespace of the object; of a namespace, itself."""
    stored = store.peek(Key("", "namespaces", "", request.name if is_namespace(request) else request.namespace))
    return stored.body if stored is not None else None


def as_resource(resource: Resource, body: Body | None) -> Body | None:
    """The body under the version that a rule names; the versions of a kind differ in nothing else."""
    if body is None or body.get("apiVersion") == resource.api_version:
        return body
    return {**body, "apiVersion": resource.api_version}


def exempt(request: HookRequest) -> bool:
    """Whether the object registers webhooks or policies itself: these are never asked about it."""
    return request.kind.group == GROUP
