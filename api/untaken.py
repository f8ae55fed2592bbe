"""A client that writes an object with pods is warned when nothing will come of it.

A job, a Pod or an object with a pod template that no policy takes stays on the hub, and so does one of a kind whose
pods Fleet does not know. Nothing is refused: a policy may come after its job.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleet.admission.selecting import best_policy, policies_for, policy_claim, untaken
from fleet.admission.workloads import carries_pods, known
from fleet.engine.status import Cause
from fleet.kinds import interpreter_for
from fleet.objects.apart import apart
from fleet.objects.objects import EVERY_KIND, Objects
from fleet.objects.writing import Review, Rule
from fleet.ports import Body, Key, Store


def install(objects: Objects) -> None:
    """Put the warning behind the rule that `objects` has for all kinds without a rule of their own, jobs among them."""
    objects.rules[EVERY_KIND] = Untaken(objects.store, objects.rules.get(EVERY_KIND))


class Untaken:
    """An admission rule behind another; it refuses nothing. As pure as that one."""

    def __init__(self, store: Store, first: Rule | None) -> None:
        self._store = store
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
        text = self._text(review, review.new)
        if text:
            review.warnings.append(text)
        return ()

    def _text(self, review: Review, new: Body) -> str:
        kind, key = review.kind, Key(review.kind.group, review.kind.resource, review.namespace, review.name)
        policy = best_policy(new, policies_for(self._store, kind, key, new))
        if policy is None:
            return untaken(kind, key) if review.operation == "CREATE" else ""
        if interpreter_for(kind) is None:
            return f"{policy_claim(policy)} does not take it to members, since it has pods: {known()}"
        return ""


def _has_pods(review: Review) -> bool:
    """Whether the write is of an object with pods, and may be worth a word: of a job, only the first."""
    if review.new is None or review.user.hub or review.subresource:
        return False
    if interpreter_for(review.kind) is not None:
        return review.operation == "CREATE"
    return carries_pods(review.new)
