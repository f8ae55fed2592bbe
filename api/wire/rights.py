"""The wish of a request, and the grants of one rule of a role: the comparison that RBAC is made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from api.engine.status import StatusError, forbidden
from api.objects.writing import User


@dataclass(frozen=True, slots=True)
class Attributes:
    """The wish of a user. Either `path` (and a lower-case HTTP method as verb) or a resource."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str | None = None

    def refusal(self, user: User, reason: str = "") -> StatusError:
        """The 403 that says what was wanted."""
        tail = f": {reason}" if reason else ""
        if self.path is not None:
            return StatusError(
                403, "Forbidden", f'forbidden: User "{user.name}" cannot {self.verb} path "{self.path}"{tail}'
            )
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        where = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        why = f'User "{user.name}" cannot {self.verb} resource "{resource}" in API group "{self.group}" {where}{tail}'
        return forbidden(self.group, self.resource, self.name, why)


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One rule of a role."""

    verbs: frozenset[str]
    groups: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    urls: tuple[str, ...] = ()

    @classmethod
    def parse(cls, rule: Any) -> PolicyRule:
        """The rule as it stands in a role. ValueError for a malformed one: a list that lost its wrong items could
        allow more than was written, since no names are all names."""
        if not isinstance(rule, Mapping):
            raise ValueError("a rule is an object")
        return cls(
            frozenset(_texts(rule, "verbs")),
            frozenset(_texts(rule, "apiGroups")),
            frozenset(_texts(rule, "resources")),
            frozenset(_texts(rule, "resourceNames")),
            _texts(rule, "nonResourceURLs"),
        )

    def allows(self, attributes: Attributes) -> bool:
        if attributes.verb not in self.verbs and "*" not in self.verbs:
            return False
        if attributes.path is not None:
            return any(url_matches(url, attributes.path) for url in self.urls)
        if attributes.group not in self.groups and "*" not in self.groups:
            return False
        if self.names and attributes.name not in self.names:
            return False
        if "*" in self.resources:
            return True
        if not attributes.subresource:
            return attributes.resource in self.resources
        return (
            f"{attributes.resource}/{attributes.subresource}" in self.resources
            or f"*/{attributes.subresource}" in self.resources
        )

    def document(self) -> dict[str, Any]:
        """As a role writes it."""
        rule: dict[str, Any] = {"verbs": sorted(self.verbs)}
        for key, values in (
            ("apiGroups", self.groups),
            ("resources", self.resources),
            ("resourceNames", self.names),
        ):
            if values:
                rule[key] = sorted(values)
        if self.urls:
            rule["nonResourceURLs"] = list(self.urls)
        return rule


def _texts(rule: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = rule.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{key} is a list of strings")
    return tuple(value)


def url_matches(pattern: str, path: str) -> bool:
    """Whether a nonResourceURL covers a path (or another nonResourceURL): by equality, or by what is before its `*`."""
    return pattern == path or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))


def _rule(verbs: str, groups: str, resources: str) -> PolicyRule:
    return PolicyRule(frozenset(verbs.split()), frozenset(groups.split(",")), frozenset(resources.split()))


EVERYTHING = (
    PolicyRule(frozenset("*"), frozenset("*"), frozenset("*")),
    PolicyRule(frozenset("*"), urls=("*",)),
)
_DISCOVERY = (
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/openapi",
    "/openapi/*",
    "/version",
    "/version/",
    "/healthz",
    "/livez",
    "/readyz",
)
FOR_EVERYBODY = (
    PolicyRule(frozenset({"get"}), urls=_DISCOVERY),
    _rule("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
    _rule("create", "authentication.k8s.io", "selfsubjectreviews"),
)


class Authorizer(Protocol):
    """Decides on attributes. Synchronous: it is asked on every request."""

    def allowed(self, user: User, attributes: Attributes) -> bool: ...

    def reason(self, user: User, attributes: Attributes) -> str:
        """Why it is allowed, for the audit log; "" where there is nothing to say."""
        ...

    def rules(self, user: User, namespace: str) -> Sequence[PolicyRule]:
        """Every rule that holds for the user in the namespace ("" = cluster-wide ones only)."""
        ...

    def namespaces(self, user: User) -> Collection[str]:
        """Where RoleBindings give the user anything at all."""
        ...

    def invalidate(self) -> None:
        """A role or binding has been written through this process."""
        ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...
