"""May they: authorisation from Role, ClusterRole, RoleBinding and ClusterRoleBinding objects.

Bindings are compiled into grants by subject and answers are remembered until any of the four kinds changes, so that a
check costs a look-up. What holds without any object: the group system:masters may do everything, and everybody who is
authenticated may read what discovery needs and ask what they may do.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from api.auth import AUTHENTICATED, MASTERS
from fleet.engine.status import StatusError, forbidden
from fleet.ports import Expired, FutureRevision, Store, StoreUnavailable
from fleet.store.writing import User

GROUP = "rbac.authorization.k8s.io"
KINDS = ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
RETRY_S = 0.2
_CACHE = 50_000
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Attributes:
    """What somebody wants to do. Either `path` (and a lower-case HTTP method as verb) or a resource."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    def refusal(self, user: User, reason: str = "") -> StatusError:
        """The 403 that says what was wanted."""
        tail = f": {reason}" if reason else ""
        if self.path:
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
    def parse(cls, rule: Mapping[str, Any]) -> PolicyRule:
        return cls(
            frozenset(rule.get("verbs") or ()), frozenset(rule.get("apiGroups") or ()),
            frozenset(rule.get("resources") or ()), frozenset(rule.get("resourceNames") or ()),
            tuple(rule.get("nonResourceURLs") or ()),
        )  # fmt: skip

    def allows(self, wanted: Attributes) -> bool:
        if wanted.verb not in self.verbs and "*" not in self.verbs:
            return False
        if wanted.path:
            return any(_url_matches(url, wanted.path) for url in self.urls)
        if wanted.group not in self.groups and "*" not in self.groups:
            return False
        if self.names and wanted.name not in self.names:
            return False
        if "*" in self.resources:
            return True
        if not wanted.subresource:
            return wanted.resource in self.resources
        return (
            f"{wanted.resource}/{wanted.subresource}" in self.resources or f"*/{wanted.subresource}" in self.resources
        )

    def document(self) -> dict[str, Any]:
        """As a role writes it."""
        shown: dict[str, Any] = {"verbs": sorted(self.verbs)}
        for key, values in (
            ("apiGroups", self.groups), ("resources", self.resources), ("resourceNames", self.names),
        ):  # fmt: skip
            if values:
                shown[key] = sorted(values)
        if self.urls:
            shown["nonResourceURLs"] = list(self.urls)
        return shown


def _url_matches(pattern: str, path: str) -> bool:
    if pattern in ("*", path):
        return True
    return pattern.endswith("*") and path.startswith(pattern[:-1])


def _rule(verbs: str, groups: str, resources: str) -> PolicyRule:
    return PolicyRule(frozenset(verbs.split()), frozenset(groups.split(",")), frozenset(resources.split()))


EVERYTHING = (
    PolicyRule(frozenset("*"), frozenset("*"), frozenset("*")),
    PolicyRule(frozenset("*"), urls=("*",)),
)
_DISCOVERY = (
    "/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version", "/version/", "/healthz", "/livez",
    "/readyz",
)  # fmt: skip
FOR_EVERYBODY = (
    PolicyRule(frozenset({"get"}), urls=_DISCOVERY),
    _rule("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
    _rule("create", "authentication.k8s.io", "selfsubjectreviews"),
)


class Authorizer(Protocol):
    """Decides on attributes. Synchronous: it is asked on every request."""

    def allowed(self, user: User, wanted: Attributes) -> bool: ...

    def rules(self, user: User, namespace: str) -> Sequence[PolicyRule]:
        """Every rule that holds for the user in the namespace ("" = cluster-wide ones only)."""
        ...

    def invalidate(self) -> None:
        """A role or binding has been written through this process."""
        ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class AllowAll:
    """Everybody who is authenticated may do everything."""

    def allowed(self, user: User, wanted: Attributes) -> bool:
        return True

    def rules(self, user: User, namespace: str) -> Sequence[PolicyRule]:
        return EVERYTHING

    def invalidate(self) -> None:
        """Nothing is remembered."""

    async def start(self) -> None:
        """Nothing to follow."""

    async def stop(self) -> None:
        """Nothing to follow."""


@dataclass(frozen=True, slots=True)
class _Grant:
    namespace: str | None  # None: everywhere
    rules: tuple[PolicyRule, ...]


class Rbac:
    """Roles and bindings of a store, compiled."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._grants: dict[tuple[str, str], list[_Grant]] | None = None
        self._decided: dict[tuple[User, Attributes], bool] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Follow the four kinds, so that what other processes write counts here too."""
        self._tasks = [asyncio.create_task(self._follow(resource), name=f"rbac-{resource}") for resource in KINDS]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks = []

    async def _follow(self, resource: str) -> None:
        while True:
            self.invalidate()
            try:
                await self._watch(resource)
            except (Expired, FutureRevision, StoreUnavailable):
                pass
            except Exception:
                # A follower that ended would leave revoked rights in force: say so and begin again.
                log.exception("following roles failed", resource=resource)
            await asyncio.sleep(RETRY_S)

    async def _watch(self, resource: str) -> None:
        watch = await self._store.watch(GROUP, resource)
        self.invalidate()  # what changed before the watch began
        try:
            while True:
                if await watch.next(60.0) is not None:
                    self.invalidate()
        finally:
            await watch.aclose()

    def invalidate(self) -> None:
        self._grants = None
        self._decided.clear()

    def allowed(self, user: User, wanted: Attributes) -> bool:
        if MASTERS in user.groups:
            return True
        key = (user, wanted)
        answer = self._decided.get(key)
        if answer is None:
            answer = any(rule.allows(wanted) for rule in self._held(user, wanted.namespace))
            if len(self._decided) >= _CACHE:
                self._decided.clear()
            self._decided[key] = answer
        return answer

    def rules(self, user: User, namespace: str) -> Sequence[PolicyRule]:
        return list(self._held(user, namespace))

    def _held(self, user: User, namespace: str) -> Iterable[PolicyRule]:
        if MASTERS in user.groups:
            yield from EVERYTHING
        if AUTHENTICATED in user.groups:
            yield from FOR_EVERYBODY
        grants = self._compiled()
        for subject in (("User", user.name), *(("Group", group) for group in user.groups)):
            for grant in grants.get(subject, ()):
                if grant.namespace is None or (namespace and grant.namespace == namespace):
                    yield from grant.rules

    def role_rules(self, namespace: str, kind: str, name: str) -> tuple[PolicyRule, ...] | None:
        """The rules of a Role in a namespace or of a ClusterRole; None when there is none."""
        resource = "clusterroles" if kind == "ClusterRole" else "roles"
        for stored in self._store.scan(GROUP, resource, namespace=namespace if kind == "Role" else None):
            if stored.key.name == name:
                return self._rules_of(stored.body)
        return None

    def _rules_of(self, role: Mapping[str, Any]) -> tuple[PolicyRule, ...]:
        rules = [PolicyRule.parse(rule) for rule in role.get("rules") or ()]
        for wanted in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
            labels = (wanted.get("matchLabels") or {}).items()
            for stored in self._store.scan(GROUP, "clusterroles"):
                metadata = stored.body["metadata"]
                if metadata["name"] != role["metadata"]["name"] and labels <= (metadata.get("labels") or {}).items():
                    rules += [PolicyRule.parse(rule) for rule in stored.body.get("rules") or ()]
        return tuple(rules)

    def _compiled(self) -> dict[tuple[str, str], list[_Grant]]:
        if self._grants is not None:
            return self._grants
        roles = {
            (stored.key.namespace, stored.key.name): self._rules_of(stored.body)
            for resource in ("roles", "clusterroles")
            for stored in self._store.scan(GROUP, resource)
        }
        grants: dict[tuple[str, str], list[_Grant]] = {}
        for resource in ("rolebindings", "clusterrolebindings"):
            for stored in self._store.scan(GROUP, resource):
                namespace = stored.key.namespace
                ref = stored.body.get("roleRef") or {}
                rules = roles.get((namespace if ref.get("kind") == "Role" else "", ref.get("name", "")))
                if not rules:
                    continue
                grant = _Grant(namespace or None, rules)
                for subject in stored.body.get("subjects") or ():
                    key = _subject(subject, namespace)
                    if key is not None:
                        grants.setdefault(key, []).append(grant)
        self._grants = grants
        return grants


def _subject(subject: Mapping[str, Any], namespace: str) -> tuple[str, str] | None:
    kind, name = subject.get("kind"), str(subject.get("name", ""))
    if kind == "ServiceAccount":
        return "User", f"system:serviceaccount:{subject.get('namespace') or namespace}:{name}"
    return (str(kind), name) if kind in ("User", "Group") else None
