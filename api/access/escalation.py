"""No user gives a right beyond her own: the check on writing roles and bindings.

Without it the right to write roles would be the right to everything. It is an admission rule, so it sees the object as
it will be stored, after any patch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from api.access.auth import MASTERS
from api.access.rbac import Rbac
from api.access.roles import GROUP, KINDS, ROLES, role_of
from api.engine.status import Cause, StatusError, forbidden, not_found
from api.objects.objects import Objects
from api.objects.writing import Review, Rule
from api.wire.rights import EVERYTHING, Attributes, PolicyRule, url_matches
from fleet.values.ports import Body

MAX_SHOWN = 10
MAX_COMPARED = 200_000  # comparisons of a grant with a rule that is held, in one write: some 50 ms

_Grant = tuple[str, str | None, str, str | None]  # verb, group (None: of a path), resource or path, name


class TooMuch(Exception):
    """A comparison of rules that would hold up everybody."""


def install(objects: Objects, rbac: Rbac) -> None:
    """Put the check behind the rules that `objects` has for the four kinds."""
    for resource in KINDS:
        objects.rules[GROUP, resource] = Escalation(rbac, objects.rules.get((GROUP, resource)))


class Escalation:
    """An admission rule for one of the four kinds, after another: a malformed object grants nothing to compare."""

    def __init__(self, rbac: Rbac, first: Rule | None) -> None:
        self._rbac = rbac
        self._first = first

    async def __call__(self, review: Review, objects: Objects) -> Sequence[Cause]:
        causes = await self._first(review, objects) if self._first is not None else ()
        if causes or review.new is None or MASTERS in review.user.groups or _only_for_garbage_collection(review):
            return causes
        # An update is checked whole, not only its change: a label alone can put a role into an aggregated one.
        if review.kind.resource in ROLES:
            self._role(review, review.new)
        else:
            self._binding(review, review.new)
        return ()

    def _role(self, review: Review, new: Body) -> None:
        name = "" if review.operation == "CREATE" else review.name
        if self._may(review, "escalate", review.kind.resource, name):
            return
        if not _aggregates(new) and not _aggregates(review.old):
            self._need(review, [PolicyRule.parse(rule or {}) for rule in new.get("rules") or ()])
        elif self._missing(review, EVERYTHING):  # selectors can gather anything
            raise self._refusal(review, "must have cluster-admin privileges to use the aggregationRule")

    def _binding(self, review: Review, new: Body) -> None:
        role = role_of(new, review.namespace)
        if role is None:  # refused before; never granted here
            raise self._refusal(review, "the binding names no role")
        if self._may(review, "bind", role.resource, role.name):
            return
        rules = self._rbac.roles.rules(role)
        if rules is None:
            raise not_found(GROUP, role.resource, role.name)
        self._need(review, rules)

    def _may(self, review: Review, verb: str, resource: str, name: str) -> bool:
        return self._rbac.allowed(review.user, Attributes(verb, GROUP, resource, "", review.namespace, name))

    def _missing(self, review: Review, wanted: Sequence[PolicyRule]) -> list[_Grant]:
        try:
            return missing(wanted, self._rbac.rules(review.user, review.namespace))
        except TooMuch:
            why = f"to compare it with what is held takes more than {MAX_COMPARED} comparisons: grant less at once"
            raise self._refusal(review, why) from None

    def _need(self, review: Review, wanted: Sequence[PolicyRule]) -> None:
        lacking = self._missing(review, wanted)
        if lacking:
            user = review.user
            groups = " ".join(_quoted(group) for group in user.groups)
            raise self._refusal(
                review,
                f"user {_quoted(user.name)} (groups=[{groups}]) is attempting to grant RBAC permissions not currently "
                "held:\n" + "\n".join(_shown(lacking)[:MAX_SHOWN]),
            )

    def _refusal(self, review: Review, why: str) -> StatusError:
        return forbidden(GROUP, review.kind.resource, review.name, why)


def missing(role_rules: Sequence[PolicyRule], user_rules: Sequence[PolicyRule]) -> list[_Grant]:
    """The grants of a role that no rule of the user covers: each single grant must be within one of the user's rules.
    TooMuch when that takes more than MAX_COMPARED comparisons."""
    left = MAX_COMPARED

    def among(rules: Sequence[PolicyRule]) -> Sequence[PolicyRule]:
        nonlocal left
        left -= len(rules) + 1
        if left < 0:
            raise TooMuch
        return rules

    lacking: list[_Grant] = []
    for rule in role_rules:
        for verb in sorted(rule.verbs):
            having = [h for h in among(user_rules) if "*" in h.verbs or verb in h.verbs]
            for url in rule.urls:
                if not any(url_matches(h, url) for own in among(having) if not own.names for h in own.urls):
                    lacking.append((verb, None, url, None))
            for group in sorted(rule.groups):
                of_group = [h for h in among(having) if "*" in h.groups or group in h.groups]
                for resource in sorted(rule.resources):
                    owners = [h for h in among(of_group) if _has_resource(h, resource)]
                    for name in sorted(rule.names) or (None,):
                        if not any(not own.names or name in own.names for own in among(owners)):
                            lacking.append((verb, group, resource, name))
    return lacking


def _has_resource(held: PolicyRule, resource: str) -> bool:
    _, _, sub = resource.partition("/")
    return "*" in held.resources or resource in held.resources or bool(sub and f"*/{sub}" in held.resources)


def _shown(lacking: Iterable[_Grant]) -> list[str]:
    """As a kube-apiserver prints rules: the verbs of one resource in one line, everything else by itself."""
    verbs: dict[tuple[str | None, str, str | None], list[str]] = {}
    alone: list[str] = []
    for verb, group, what, name in lacking:
        if group is None or name is not None:
            alone.append(_line(group, what, name, [verb]))
        else:
            verbs.setdefault((group, what, name), []).append(verb)
    return sorted(alone + [_line(*key, found) for key, found in verbs.items()])


def _line(group: str | None, what: str, name: str | None, verbs: Sequence[str]) -> str:
    parts = (
        [f"NonResourceURLs:[{_quoted(what)}]"]
        if group is None
        else [f"APIGroups:[{_quoted(group)}]", f"Resources:[{_quoted(what)}]"]
    )
    if name is not None:
        parts.append(f"ResourceNames:[{_quoted(name)}]")
    return "{" + ", ".join([*parts, f"Verbs:[{' '.join(map(_quoted, verbs))}]"]) + "}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _aggregates(role: Body | None) -> bool:
    aggregation = role.get("aggregationRule") if role is not None else None
    return isinstance(aggregation, dict) and bool(aggregation.get("clusterRoleSelectors"))


def _only_for_garbage_collection(review: Review) -> bool:
    """Does the update change nothing but finalizers and owners? A user who may update it may then let the object go."""
    return review.old is not None and review.new is not None and _kept(review.old) == _kept(review.new)


def _kept(body: Body) -> Body:
    metadata = {key: value for key, value in body["metadata"].items() if key not in _COLLECTORS}
    return {**body, "metadata": metadata}


_COLLECTORS = ("ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation", "selfLink")
