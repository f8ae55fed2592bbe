"""Nobody gives what they do not have: the check on writing roles and bindings.

Without it the right to write roles would be the right to everything. It is an admission rule, so it sees the object as
it will be stored, after any patch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from api.auth import MASTERS
from api.rbac import GROUP, Attributes, PolicyRule, Rbac
from fleet.engine.status import Cause, forbidden, not_found
from fleet.ports import Body
from fleet.store.objects import Objects
from fleet.store.writing import Review, Rule

MAX_SHOWN = 10


def install(objects: Objects, rbac: Rbac) -> None:
    """Put the check before whatever rule `objects` has for the four kinds."""
    for resource in ("roles", "clusterroles", "rolebindings", "clusterrolebindings"):
        objects.rules[GROUP, resource] = Escalation(rbac, objects.rules.get((GROUP, resource)))


class Escalation:
    """An admission rule for one of the four kinds, in front of another."""

    def __init__(self, rbac: Rbac, then: Rule | None) -> None:
        self._rbac = rbac
        self._then = then

    async def __call__(self, review: Review, objects: Objects) -> Sequence[Cause]:
        if review.new is not None and MASTERS not in review.user.groups:
            if review.kind.resource in ("roles", "clusterroles"):
                self._role(review, review.new)
            else:
                self._binding(review, review.new)
        return await self._then(review, objects) if self._then is not None else ()

    def _role(self, review: Review, new: Body) -> None:
        old = review.old or {}
        if old.get("rules") == new.get("rules") and old.get("aggregationRule") == new.get("aggregationRule"):
            return
        resource = review.kind.resource
        if self._rbac.allowed(review.user, Attributes("escalate", GROUP, resource, "", review.namespace, review.name)):
            return
        wanted = [PolicyRule.parse(rule) for rule in new.get("rules") or ()]
        if new.get("aggregationRule"):
            wanted.append(PolicyRule(frozenset("*"), frozenset("*"), frozenset("*")))
        self._need(review, wanted)

    def _binding(self, review: Review, new: Body) -> None:
        old = review.old or {}
        if old.get("roleRef") == new.get("roleRef") and old.get("subjects") == new.get("subjects"):
            return
        ref: dict[str, Any] = new.get("roleRef") or {}
        kind, name = str(ref.get("kind", "")), str(ref.get("name", ""))
        resource = "clusterroles" if kind == "ClusterRole" else "roles"
        wanted = Attributes("bind", GROUP, resource, "", review.namespace, name)
        if self._rbac.allowed(review.user, wanted):
            return
        rules = self._rbac.role_rules(review.namespace, kind, name)
        if rules is None:
            raise not_found(GROUP, resource, name)
        self._need(review, rules)

    def _need(self, review: Review, wanted: Iterable[PolicyRule]) -> None:
        held = self._rbac.rules(review.user, review.namespace)
        missing = [rule for rule in wanted if not covered(rule, held)]
        if missing:
            shown = "\n".join(str(rule.document()) for rule in missing[:MAX_SHOWN])
            user = review.user
            raise forbidden(
                GROUP, review.kind.resource, review.name,
                f'user "{user.name}" (groups={list(user.groups)}) is attempting to grant RBAC permissions not currently'
                f" held:\n{shown}",
            )  # fmt: skip


def covered(rule: PolicyRule, held: Sequence[PolicyRule]) -> bool:
    """Whether everything the rule allows is allowed by the held rules: each verb on each resource or path by one."""
    for verb in rule.verbs:
        having = [h for h in held if "*" in h.verbs or verb in h.verbs]
        for url in rule.urls:
            if not any(_path_covered(url, h.urls) for h in having):
                return False
        for group in rule.groups:
            for resource in rule.resources:
                for name in rule.names or (None,):
                    if not any(_resource_covered(group, resource, name, h) for h in having):
                        return False
    return True


def _path_covered(url: str, held: Iterable[str]) -> bool:
    return any(h in ("*", url) or (h.endswith("*") and url.startswith(h[:-1])) for h in held)


def _resource_covered(group: str, resource: str, name: str | None, held: PolicyRule) -> bool:
    if not held.groups & {"*", group} or (held.names and name not in held.names):
        return False
    _, _, sub = resource.partition("/")
    return bool(held.resources & {"*", resource}) or bool(sub and f"*/{sub}" in held.resources)
