"""Which requests a webhook or a policy is about: operations, resources, and the labels of namespace and object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from api.engine.selectors import Requirement, from_object, holds
from api.engine.status import not_found
from api.objects.hooking import Asked
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


def own(asked: Asked) -> Resource:
    return Resource(asked.kind.group, asked.kind.version, asked.kind.resource)


def names_of(asked: Asked) -> Iterator[Resource]:
    """The request's resource under all its names, its own first."""
    yield own(asked)
    for alias in asked.kind.aliases:
        group, _, version = alias.rpartition("/")
        yield Resource(group, version, asked.kind.resource)
    for version in asked.kind.versions:
        if version != asked.kind.version:
            yield Resource(asked.kind.group, version, asked.kind.resource)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with operations. `names`: of the objects, empty for all."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    scope: str
    names: frozenset[str]

    def matches(self, asked: Asked, resource: Resource) -> bool:
        return (
            _has(self.operations, asked.operation)
            and _has(self.groups, resource.group)
            and _has(self.versions, resource.version)
            and any(
                name in ("*", resource.resource) and below in ("*", asked.subresource) for name, below in self.resources
            )
            and (not self.names or asked.name in self.names)
            and self._in_scope(asked)
        )

    def _in_scope(self, asked: Asked) -> bool:
        return self.scope == "*" or (self.scope == "Namespaced") == asked.kind.namespaced


def _has(allowed: frozenset[str], value: str) -> bool:
    return "*" in allowed or value in allowed


def rules_in(found: Any) -> tuple[Rule, ...]:
    return tuple(_rule(item) for item in rows(found))


def _rule(rule: Body) -> Rule:
    parts = (item.partition("/") for item in texts(rule.get("resources")))
    return Rule(
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

    rules: tuple[Rule, ...]
    excluded: tuple[Rule, ...]
    equivalent: bool
    of_namespace: tuple[Requirement, ...]
    of_object: tuple[Requirement, ...]
    open: bool = False

    @classmethod
    def of(cls, said: Body, rules: Any, excluded: Any = (), *, open: bool = False) -> Match:
        """`said` holds the selectors and the matchPolicy."""
        return cls(
            rules_in(rules),
            rules_in(excluded),
            said.get("matchPolicy") != "Exact",
            from_object(mapping(said.get("namespaceSelector"))),
            from_object(mapping(said.get("objectSelector"))),
            open,
        )

    def resource(self, asked: Asked) -> Resource | None:
        """The resource of the request under the name that a rule has for it; None where no rule is about it."""
        names = tuple(names_of(asked)) if self.equivalent else (own(asked),)
        if self.excluded and any(_any(self.excluded, asked, name) for name in names):
            return None
        if self.open and not self.rules:
            return names[0]
        return next((name for name in names if _any(self.rules, asked, name)), None)

    def selects(self, asked: Asked, new: Body | None, old: Body | None, store: Store) -> bool:
        """Whether the selectors agree. StatusError 404 for a namespace that is not there."""
        if self.of_object and not any(holds(self.of_object, _labels(body)) for body in (new, old) if _labelled(body)):
            return False
        if not self.of_namespace or not (asked.namespace or is_namespace(asked)):
            return True
        return holds(self.of_namespace, _namespace_labels(asked, new, store))


def _any(rules: Iterable[Rule], asked: Asked, resource: Resource) -> bool:
    return any(rule.matches(asked, resource) for rule in rules)


def is_namespace(asked: Asked) -> bool:
    return asked.kind.group == "" and asked.kind.resource == "namespaces"


def _labels(body: Body) -> Mapping[str, Any]:
    return mapping(mapping(body.get("metadata")).get("labels"))


def _labelled(body: Body | None) -> TypeGuard[Body]:
    """Whether a selector can look at it: the options of a connection have no metadata."""
    return body is not None and "metadata" in body


def _namespace_labels(asked: Asked, new: Body | None, store: Store) -> Mapping[str, Any]:
    if is_namespace(asked) and new is not None and not asked.subresource:
        return _labels(new)
    found = namespace_of(asked, store)
    if found is None:
        raise not_found("", "namespaces", asked.namespace or asked.name)
    return _labels(found)


def namespace_of(asked: Asked, store: Store) -> Body | None:
    """The stored namespace of the object; of a namespace, itself."""
    stored = store.peek(Key("", "namespaces", "", asked.name if is_namespace(asked) else asked.namespace))
    return stored.body if stored is not None else None


def as_resource(resource: Resource, body: Body | None) -> Body | None:
    """The body under the version that a rule names; the versions of a kind differ in nothing else."""
    if body is None or body.get("apiVersion") == resource.api_version:
        return body
    return {**body, "apiVersion": resource.api_version}


def exempt(asked: Asked) -> bool:
    """Whether the object registers webhooks or policies itself: these are never asked about it."""
    return asked.kind.group == GROUP
