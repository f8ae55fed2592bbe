"""Roles and bindings as they are stored, kept in a form that a check can use at once.

Each object is read once for each of its revisions, by itself: a flaw in one leaves the others in force. An object that
cannot be read grants nothing and is logged once. A change costs a look at the names of its kind and the reading of what
changed, so that thousands of bindings do not stop the next request.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from api.engine.selectors import Requirement, holds
from api.wire.rights import PolicyRule
from fleet.values.ports import Key, Store, StoredObject

GROUP = "rbac.authorization.k8s.io"
ROLES = ("roles", "clusterroles")
BINDINGS = ("rolebindings", "clusterrolebindings")
KINDS = (*ROLES, *BINDINGS)
_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
log = structlog.get_logger(__name__)

Subject = tuple[str, str]  # (User or Group, name)
Selectors = tuple[tuple[Requirement, ...], ...]


def role_of(binding: Mapping[str, Any], namespace: str) -> Key | None:
    """The role that a binding names: the one reading of `roleRef`, for granting and for checking. `namespace` is the
    binding's, "" for a ClusterRoleBinding, which can name ClusterRoles only. None for a reference that names no
    role."""
    ref = binding.get("roleRef")
    if not isinstance(ref, Mapping) or ref.get("apiGroup") not in (None, "", GROUP):
        return None
    kind, name = ref.get("kind"), ref.get("name")
    if not isinstance(kind, str) or not isinstance(name, str) or not name:
        return None
    if kind == "Role":
        return Key(GROUP, "roles", namespace, name) if namespace else None
    return Key(GROUP, "clusterroles", "", name) if kind == "ClusterRole" else None


def subject_of(subject: Any, namespace: str) -> Subject | None:
    """Whom a subject of a binding in `namespace` means. None for one that means nobody, ValueError for no subject."""
    if not isinstance(subject, Mapping):
        raise ValueError("a subject is an object")
    kind, name, where = subject.get("kind"), subject.get("name"), subject.get("namespace") or namespace
    if not isinstance(name, str) or not isinstance(where, str):
        raise ValueError("name and namespace of a subject are strings")
    if kind == "ServiceAccount":
        return ("User", f"system:serviceaccount:{where}:{name}") if where else None
    return (kind, name) if kind in ("User", "Group") else None


def requirements(selector: Any) -> tuple[Requirement, ...]:
    """A stored LabelSelector; an empty one selects everything. ValueError for a malformed one."""
    if not isinstance(selector, Mapping):
        raise ValueError("a selector is an object")
    labels, expressions = _or(selector.get("matchLabels"), {}), _or(selector.get("matchExpressions"), [])
    if not isinstance(labels, Mapping) or not isinstance(expressions, list):
        raise ValueError("matchLabels is an object and matchExpressions a list")
    if not all(isinstance(value, str) for value in labels.values()):
        raise ValueError("labels are strings")
    out = [Requirement(key, "in", frozenset({value})) for key, value in labels.items()]
    for expression in expressions:
        if not isinstance(expression, Mapping):
            raise ValueError("an expression is an object")
        key, values = expression.get("key"), _or(expression.get("values"), [])
        operator = _OPERATORS.get(str(expression.get("operator")))
        if operator is None or not isinstance(key, str) or not isinstance(values, list):
            raise ValueError("an expression has a key, a known operator and a list of values")
        if not all(isinstance(value, str) for value in values) or bool(values) != (operator in ("in", "notin")):
            raise ValueError("values are strings, and belong to In and NotIn")
        out.append(Requirement(key, operator, frozenset(values)))
    return tuple(out)


def _or(value: Any, absent: Any) -> Any:
    return absent if value is None else value


@dataclass(frozen=True, slots=True)
class _Role:
    """One role. `selectors` is None for one that is not aggregated."""

    rules: tuple[PolicyRule, ...]
    selectors: Selectors | None
    labels: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Binding:
    role: Key | None
    subjects: frozenset[Subject]


class Roles:
    """The four kinds of a store, read. Call `invalidate` after a change; everything else is immediate."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stale = set(KINDS)
        self._read: dict[str, dict[Key, tuple[StoredObject, Any]]] = {resource: {} for resource in KINDS}
        # subject -> namespace of the binding ("": everywhere) -> binding -> role
        self._grants: dict[Subject, dict[str, dict[Key, Key]]] = {}
        self._resolved: dict[Key, tuple[PolicyRule, ...] | None] = {}

    def invalidate(self, resource: str | None = None) -> None:
        """Look again at one of the four kinds, or at all, before the next answer."""
        self._stale.update((resource,) if resource is not None else KINDS)

    def granted(self, subject: Subject, namespace: str) -> Iterator[PolicyRule]:
        """The rules that a subject has from the RoleBindings of a namespace, or ("") from ClusterRoleBindings."""
        self._refresh()
        roles = self._grants.get(subject, {}).get(namespace, {})
        for role in dict.fromkeys(roles.values()):
            yield from self.rules(role) or ()

    def bound(self, subject: Subject, namespace: str) -> Iterable[tuple[Key, Key]]:
        """The bindings of a namespace, or ("") the ClusterRoleBindings that name a subject, with their roles."""
        self._refresh()
        return self._grants.get(subject, {}).get(namespace, {}).items()

    def namespaces(self, subject: Subject) -> Collection[str]:
        """The roles whose bindings name the subject; "" stands for ClusterRoleBindings."""
        self._refresh()
        return self._grants.get(subject, {}).keys()

    def rules(self, role: Key) -> tuple[PolicyRule, ...] | None:
        """The rules of a role, aggregation included; None when there is no such role."""
        self._refresh()
        if role not in self._resolved:
            self._resolved[role] = self._resolve(role)
        return self._resolved[role]

    def _resolve(self, key: Key) -> tuple[PolicyRule, ...] | None:
        roles = self._read[key.resource]
        if key not in roles:
            return None
        first: _Role = roles[key][1]
        if first.selectors is None:
            return first.rules
        # The rules of an aggregated role are those of the roles that it selects, in any number of steps; its own do
        # not count, as if kube-controller-manager had overwritten them.
        rules: dict[PolicyRule, None] = {}
        visited, waiting = {key}, [first]
        while waiting:
            for selector in waiting.pop().selectors or ():
                for other, (_, role) in roles.items():
                    if other in visited or not holds(selector, role.labels):
                        continue
                    visited.add(other)
                    if role.selectors is None:
                        rules.update(dict.fromkeys(role.rules))
                    else:
                        waiting.append(role)
        return tuple(rules)

    # -- reading

    def _refresh(self) -> None:
        while self._stale:
            resource = self._stale.pop()
            entries, changed = self._read[resource], False
            stored_now = self._store.scan(GROUP, resource)
            for stored in stored_now:
                before = entries.get(stored.key)
                if before is None or before[0] is not stored:
                    changed = True
                    if before is not None:
                        self._forget(stored.key, before[1])
                    read = self._one(stored)
                    entries[stored.key] = stored, read
                    self._remember(stored.key, read)
            if len(entries) != len(stored_now):
                changed = True
                for key in entries.keys() - {stored.key for stored in stored_now}:
                    self._forget(key, entries.pop(key)[1])
            if changed and resource in ROLES:
                self._resolved.clear()

    def _remember(self, key: Key, read: _Role | _Binding) -> None:
        if isinstance(read, _Binding) and read.role is not None:
            for subject in read.subjects:
                self._grants.setdefault(subject, {}).setdefault(key.namespace, {})[key] = read.role

    def _forget(self, key: Key, read: _Role | _Binding) -> None:
        if isinstance(read, _Binding) and read.role is not None:
            for subject in read.subjects:
                by_namespace = self._grants[subject]
                del by_namespace[key.namespace][key]
                if not by_namespace[key.namespace]:
                    del by_namespace[key.namespace]
                if not by_namespace:
                    del self._grants[subject]

    def _one(self, stored: StoredObject) -> _Role | _Binding:
        is_role = stored.key.resource in ROLES
        try:
            return self._role(stored) if is_role else self._binding(stored)
        except Exception:
            # One object that nobody foresaw must not fail the requests of everybody.
            log.exception("a role or binding cannot be read and grants nothing", object=str(stored.key))
            return _Role((), None, {}) if is_role else _Binding(None, frozenset())

    def _role(self, stored: StoredObject) -> _Role:
        bad: list[str] = []
        body: Any = stored.body
        rules = tuple(_each(body.get("rules"), PolicyRule.parse, "rules", bad))
        selectors: Selectors | None = None
        if stored.key.resource == "clusterroles" and body.get("aggregationRule") is not None:
            aggregation = body["aggregationRule"]
            wanted = aggregation.get("clusterRoleSelectors") if isinstance(aggregation, Mapping) else aggregation
            selectors = tuple(_each(wanted, requirements, "aggregationRule.clusterRoleSelectors", bad))
        labels = (body.get("metadata") or {}).get("labels") or {}
        _complain(stored, bad)
        return _Role(rules, selectors, {key: value for key, value in labels.items() if isinstance(value, str)})

    def _binding(self, stored: StoredObject) -> _Binding:
        bad: list[str] = []
        body, namespace = stored.body, stored.key.namespace
        role = role_of(body, namespace)
        if role is None:
            bad.append("roleRef: names no role")
        subjects = _each(body.get("subjects"), lambda item: subject_of(item, namespace), "subjects", bad)
        _complain(stored, bad)
        return _Binding(role, frozenset(subject for subject in subjects if subject is not None))


def _each(items: Any, parse: Any, field: str, bad: list[str]) -> list[Any]:
    """Every item of a list that can be parsed; the others are named in `bad`."""
    if items is None:
        return []
    if not isinstance(items, list):
        bad.append(f"{field}: not a list")
        return []
    parsed = []
    for index, item in enumerate(items):
        try:
            parsed.append(parse(item))
        except ValueError as error:
            bad.append(f"{field}[{index}]: {error}")
    return parsed


def _complain(stored: StoredObject, bad: list[str]) -> None:
    if bad:
        log.warning("part of a role or binding grants nothing", object=str(stored.key), why=bad[:5])
