"""A client that writes an object with pods is warned when nothing will come of it.

A job, a Pod or an object with a pod template that no policy takes stays on the hub, and so does one of a kind whose
pods Fleet does not know. A job whose policy sends it to a queue waits for good where its namespace has none, and so
does one that asks for a resource that no member has. Nothing is refused: policies, queues and members may come later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from api.engine.status import Cause
from api.objects.apart import apart
from api.objects.objects import EVERY_KIND, Objects
from api.objects.writing import Review, Rule
from fleet.admission import misspelt
from fleet.admission.latesttree import latest_tree
from fleet.admission.selecting import best_policy, policies_for, policy_reference, untaken, why_untaken
from fleet.admission.workloads import carries_pods, kinds_in_words
from fleet.bindings import binding as b
from fleet.bindings.leaf import leaf_for
from fleet.core.model.reason import NAMESPACE, Code, Reason
from fleet.kinds import interpreter_for
from fleet.values.ports import Body, Key, Store
from fleet.values.quantity import BadQuantity
from fleet.values.untyped import at


def install(objects: Objects) -> None:
    """Put the warning behind the rule that `objects` has for all kinds without a rule of their own, jobs among them."""
    objects.rules[EVERY_KIND] = UntakenRule(objects.store, objects.rules.get(EVERY_KIND))


class UntakenRule:
    """An admission rule behind another; it refuses nothing. As pure as that one."""

    def __init__(self, store: Store, first: Rule | None) -> None:
        self._store = store
        self._tree = latest_tree(store)
        self._first = first
        pure = getattr(first, "pure", None)
        if pure is not None:
            self.pure = lambda review: [*pure(review), *self._warn(review, _has_pods(review))]

    async def __call__(self, review: Review, objects: Objects) -> Sequence[Cause]:
        causes = await self._first(review, objects) if self._first is not None else ()
        if not causes:
            self._warn(review, await apart(_has_pods, review) if review.large else _has_pods(review))
        return causes

    def _warn(self, review: Review, has_pods: bool) -> Sequence[Cause]:
        if not has_pods or review.new is None:
            return ()
        review.warnings.extend(filter(None, self._texts(review, review.new)))
        return ()

    def _texts(self, review: Review, new: Body) -> Iterator[str]:
        kind, key = review.kind, Key(review.kind.group, review.kind.resource, review.namespace, review.name)
        policies = policies_for(self._store, kind, key, new)
        policy = best_policy(new, policies)
        if policy is None:
            yield untaken(kind, key, why_untaken(new, policies)) if review.operation == "CREATE" else ""
            return
        reader = interpreter_for(kind)
        if reader is None:
            yield f"{policy_reference(policy)} does not take it to members, since it has pods: {kinds_in_words()}"
            return
        if at(policy, "spec", "suspension", "scheduling") is True:
            yield self._queueless(f"{kind.kind} {key.namespace}/{key.name}", key.namespace, b.labels_of(new))
        with suppress(BadQuantity):  # told of elsewhere
            asked = {name for part in reader.components(new) for name, amount in part.requests.items_ if amount}
            yield from misspelt.of_requests(self._store, sorted(asked))

    def _queueless(self, job: str, namespace: str, labels: Mapping[str, str]) -> str:
        tree = self._tree.read()
        leaf = leaf_for(tree, namespace, labels)
        if tree is not None and tree.is_leaf(leaf):
            return ""
        why = Reason(Code.NO_LEAF, {"leaf": leaf, "tree": "none" if tree is None else tree.root})
        leaves = [node.name for path, node in tree.nodes.items() if tree.is_leaf(path)] if tree is not None else []
        return f"no queue takes {job}: {why.text}" + ("" if leaf.startswith(NAMESPACE) else misspelt.near(leaf, leaves))


def _has_pods(review: Review) -> bool:
    """Whether the write is of an object with pods, and may be worth a word: of a job, only the first."""
    if review.new is None or review.user.hub or review.subresource:
        return False
    if interpreter_for(review.kind) is not None:
        return review.operation == "CREATE"
    return carries_pods(review.new)
