"""The quota that a job may be charged to: the check on the label that names another leaf than the namespace's own.

A leaf that lists namespaces is theirs. A job of another namespace that names it would use up what others were promised,
so its user needs the verb `use` on the leaf's Queue. A leaf that lists none is open to every job that names it. It is
an admission rule, so it sees the object as it will be stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from api.engine.status import Cause
from api.objects.objects import EVERY_KIND, Objects
from api.objects.writing import Review, Rule
from api.wire.rights import Attributes, Authorizer
from fleet.admission.leaves import Leaves
from fleet.bindings.leaf import leaf_for
from fleet.kinds import interpreter_for
from fleet.values.ports import Body, Store
from fleet.wellknown import QUEUE, QUEUE_NAMESPACE, QUOTA_NAME_LABELS


def install(objects: Objects, authorizer: Authorizer) -> None:
    """Put the check before the rule that `objects` has for jobs."""
    objects.rules[EVERY_KIND] = QueueUseRule(authorizer, objects.store, objects.rules.get(EVERY_KIND))


class QueueUseRule:
    """An admission rule for jobs, in front of another. It waits for nothing, and so is as pure as that one."""

    def __init__(self, authorizer: Authorizer, store: Store, then: Rule | None) -> None:
        self._authorizer = authorizer
        self._leaves = Leaves(store)
        self._then = then
        behind = getattr(then, "pure", None)
        if then is None or behind is not None:
            self.pure = lambda review: [*self._check(review), *(behind(review) if behind is not None else ())]

    async def __call__(self, review: Review, objects: Objects) -> Sequence[Cause]:
        await self._leaves.refresh()
        causes = self._check(review)
        return [*causes, *(await self._then(review, objects) if self._then is not None else ())]

    def _check(self, review: Review) -> list[Cause]:
        if review.new is None or review.user.hub or review.subresource == "status":
            return []
        if interpreter_for(review.kind) is None:
            return []
        labels, before = _quota_names(review.new), _quota_names(review.old)
        if not labels or labels == before or self._may_use(review, ""):
            return []
        tree = self._leaves.tree()
        leaf = leaf_for(tree, review.namespace, labels)
        node = tree.nodes.get(leaf) if tree is not None else None
        if node is None or not node.namespaces or review.namespace in node.namespaces:
            return []
        queue = self._leaves.queue_of(leaf)
        if queue and self._may_use(review, queue):
            return []
        why = (
            f'Forbidden: {leaf} is the leaf of other namespaces; user "{review.user.name}" needs the verb "use" on'
            f" queues.{QUEUE} {queue or leaf} in namespace {QUEUE_NAMESPACE}"
        )
        return [Cause(f"metadata.labels[{next(iter(labels))}]", why, "FieldValueForbidden")]

    def _may_use(self, review: Review, queue: str) -> bool:
        wanted = Attributes("use", QUEUE, "queues", "", QUEUE_NAMESPACE, queue)
        return self._authorizer.allowed(review.user, wanted)


def _quota_names(body: Body | None) -> Mapping[str, Any]:
    labels = ((body or {}).get("metadata") or {}).get("labels") or {}
    return {name: labels[name] for name in QUOTA_NAME_LABELS if labels.get(name)}
