"""May they: authorisation from Role, ClusterRole, RoleBinding and ClusterRoleBinding objects.

Answers are remembered until any of the four kinds changes, so that a check costs a look-up. Two rights hold without any
object. The group system:masters may do everything. Every authenticated user may read the discovery documents and ask
about her own rights.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice

import structlog

from api.access.auth import AUTHENTICATED, MASTERS
from api.access.roles import GROUP, KINDS, Roles, Subject
from api.objects.writing import User
from api.wire.rights import EVERYTHING, FOR_EVERYBODY, Attributes, Authorizer, PolicyRule
from fleet.values.ports import ExpiredRevision, FutureRevision, Key, Store, StoreUnavailable

RETRY_S = 0.2
_ASKED = ("group", "resource", "subresource", "namespace", "name")
# Rules that one question looks at: those given everywhere, then in its namespace, each time the user's before those of
# groups. A user who may write roles could otherwise make each request there a long one. The rest does not count: it
# grants nothing.
MAX_RULES = 20_000
_CACHE = 50_000
_REMEMBERED_CHARS = 1024  # of a question: any user may ask long ones, and all remembered ones must fit into memory
log = structlog.get_logger(__name__)


def answering(authorizer: Authorizer) -> Callable[[User, Mapping[str, str]], tuple[bool, str, str]]:
    """Answers the questions of expressions in policies: (user, question) -> whether it is allowed, the reason, an error
    (`fleet.values.cel.kubernetes.Authorizer`). RBAC gives no reasons, and no errors."""

    def answer(user: User, question: Mapping[str, str]) -> tuple[bool, str, str]:
        account = question.get("serviceAccount")
        if account is not None:
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{account.partition(':')[0]}")
            user = User(f"system:serviceaccount:{account}", groups)
        if "path" in question:
            attributes = Attributes(question["verb"], path=question["path"])
        else:
            attributes = Attributes(question["verb"], *(question.get(key, "") for key in _ASKED))
        return authorizer.allowed(user, attributes), "", ""

    return answer


class AllowAll:
    """Every authenticated user may do everything."""

    def allowed(self, user: User, attributes: Attributes) -> bool:
        return True

    def reason(self, user: User, attributes: Attributes) -> str:
        return ""

    def rules(self, user: User, namespace: str) -> Sequence[PolicyRule]:
        return EVERYTHING

    def namespaces(self, user: User) -> Collection[str]:
        return ()

    def invalidate(self) -> None:
        """Nothing is remembered."""

    async def start(self) -> None:
        """Nothing to follow."""

    async def stop(self) -> None:
        """Nothing to follow."""


class Rbac:
    """Roles and bindings of a store, compiled."""

    def __init__(self, store: Store) -> None:
        self.roles = Roles(store)
        self._store = store
        self._decided: dict[tuple[User, Attributes], bool] = {}
        self._reasons: dict[tuple[User, Attributes], str] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Follow the four kinds, so that writes of other processes count here too."""
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
            self._changed(resource)
            try:
                await self._watch(resource)
            except (ExpiredRevision, FutureRevision, StoreUnavailable):
                pass
            except Exception:
                # A follower that ended would leave revoked rights in force: say so and begin again.
                log.exception("following roles failed", resource=resource)
            await asyncio.sleep(RETRY_S)

    async def _watch(self, resource: str) -> None:
        watch = await self._store.watch(GROUP, resource)
        self._changed(resource)  # before the watch began
        try:
            while True:
                if await watch.next(60.0) is not None:
                    self._changed(resource)
        finally:
            await watch.aclose()

    def invalidate(self) -> None:
        self.roles.invalidate()
        self._forget()

    def _changed(self, resource: str) -> None:
        self.roles.invalidate(resource)
        self._forget()

    def _forget(self) -> None:
        self._decided.clear()
        self._reasons.clear()

    def allowed(self, user: User, attributes: Attributes) -> bool:
        if MASTERS in user.groups:
            return True
        key = (user, attributes)
        answer = self._decided.get(key)
        if answer is None:
            answer = any(rule.allows(attributes) for rule in islice(self._held(user, attributes.namespace), MAX_RULES))
            if _size(user, attributes) <= _REMEMBERED_CHARS:
                if len(self._decided) >= _CACHE:
                    self._decided.clear()
                self._decided[key] = answer
        return answer

    def reason(self, user: User, attributes: Attributes) -> str:
        if MASTERS in user.groups:
            return ""
        key = (user, attributes)
        answer = self._reasons.get(key)
        if answer is None:
            answer = self._reason(user, attributes)
            if _size(user, attributes) <= _REMEMBERED_CHARS:
                if len(self._reasons) >= _CACHE:
                    self._reasons.clear()
                self._reasons[key] = answer
        return answer

    def _reason(self, user: User, attributes: Attributes) -> str:
        """In the words of a kube-apiserver: the binding, its role and its subject."""
        if AUTHENTICATED in user.groups and any(rule.allows(attributes) for rule in FOR_EVERYBODY):
            return "every authenticated user may"
        for where in ("", attributes.namespace) if attributes.namespace else ("",):
            for subject in _subjects(user):
                for binding, role in self.roles.bound(subject, where):
                    if any(rule.allows(attributes) for rule in self.roles.rules(role) or ()):
                        return f"RBAC: allowed by {_named(binding)} of {_role(role)} to {_subject(*subject)}"
        return ""

    def rules(self, user: User, namespace: str) -> Sequence[PolicyRule]:
        return list(islice(self._held(user, namespace), MAX_RULES))

    def namespaces(self, user: User) -> Collection[str]:
        return {space for subject in _subjects(user) for space in self.roles.namespaces(subject) if space}

    def _held(self, user: User, namespace: str) -> Iterable[PolicyRule]:
        if MASTERS in user.groups:
            yield from EVERYTHING
        if AUTHENTICATED in user.groups:
            yield from FOR_EVERYBODY
        for where in ("", namespace) if namespace else ("",):
            for subject in _subjects(user):
                yield from self.roles.granted(subject, where)


def _named(binding: Key) -> str:
    """A binding in the words of a kube-apiserver."""
    if binding.namespace:
        return f'RoleBinding "{binding.name}/{binding.namespace}"'
    return f'ClusterRoleBinding "{binding.name}"'


def _role(role: Key) -> str:
    return f'{"Role" if role.namespace else "ClusterRole"} "{role.name}"'


def _subject(kind: str, name: str) -> str:
    account = name.removeprefix("system:serviceaccount:")
    if kind == "User" and account != name:
        namespace, _, name = account.partition(":")
        return f'ServiceAccount "{name}/{namespace}"'
    return f'{kind} "{name}"'


def _subjects(user: User) -> tuple[Subject, ...]:
    return (("User", user.name), *(("Group", group) for group in user.groups))


def _size(user: User, attributes: Attributes) -> int:
    parts = (
        attributes.verb,
        attributes.group,
        attributes.resource,
        attributes.subresource,
        attributes.namespace,
        attributes.name,
    )
    extra = sum(len(key) + sum(map(len, values)) for key, values in user.extra)
    return sum(map(len, (*parts, attributes.path or "", user.name, user.uid, *user.groups))) + extra
