"""Making rules from functions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from api.admission.causes import invalid
from api.engine.schema import compiled
from api.engine.status import Cause
from api.engine.validate import validate
from api.objects.apart import apart
from api.objects.objects import Objects
from api.objects.writing import Review, Rule
from fleet.values.ports import Body
from fleet.values.untyped import at, mapping

Check = Callable[[Review], Sequence[Cause]]
Ask = Callable[[Review, Objects], Awaitable[Sequence[Cause]]]


_APART = ("status", "finalize")  # subresources that leave the object itself alone; a write to /scale does not
_UNREADABLE = (TypeError, AttributeError, KeyError, IndexError, ValueError, OverflowError)


class Checks:
    """A Rule: pure checks first, then, when they find nothing, the checks that must look at other objects."""

    def __init__(self, *checks: Check, ask: Ask | None = None, early: Ask | None = None) -> None:
        """`early`: a refusal for the user's sake, of what the hub would hold back later anyway. Such a check is asked
        once a request, and not again under the writer's lock, so the rule stays pure beside it."""
        self._checks = checks
        self._ask = ask
        self._early = early

    def after(self, *checks: Check) -> Checks:
        """This rule with other checks before it."""
        return Checks(*checks, *self._checks, ask=self._ask, early=self._early)

    @property
    def pure(self) -> Check | None:
        """The whole rule as a function of the review, when it is one."""
        return self._check if self._ask is None else None

    def _check(self, review: Review) -> Sequence[Cause]:
        """A part that a write leaves as it was stored is not asked of its schema again, so a check may meet what was
        stored before the schema said no. The next writer of the object corrects that first."""
        try:
            return [cause for check in self._checks for cause in check(review)]
        except _UNREADABLE:
            damage = validate(compiled(review.kind), review.new) if review.new is not None else []
            if not damage:
                raise
            return damage

    async def __call__(self, review: Review, objects: Objects) -> Sequence[Cause]:
        causes = await apart(self._check, review) if review.large else self._check(review)
        for ask in (self._ask, self._early):
            if not causes and ask is not None:
                causes = await ask(review, objects)
        return causes


def of_new(validate: Callable[[Body], Sequence[Cause]]) -> Check:
    """A check of the object as it is to be stored; deletions and writes to the status pass."""

    def check(review: Review) -> Sequence[Cause]:
        return () if review.new is None or review.subresource in _APART else validate(review.new)

    return check


def immutable(*paths: str, why: str = "field is immutable") -> Check:
    """Updates may not change these fields (dotted paths)."""

    def check(review: Review) -> Sequence[Cause]:
        if review.new is None or review.old is None or review.subresource:
            return ()
        changed = [path for path in paths if dig(review.new, path) != dig(review.old, path)]
        return [invalid(path, dig(review.new, path), why) for path in changed]

    return check


def only_mutable(*paths: str, instead: str = "") -> Check:
    """Updates may change nothing of the spec but these fields (names under spec): the rest is a controller's.
    `instead`: what users may do where there are none."""

    def check(review: Review) -> Sequence[Cause]:
        if review.new is None or review.old is None or review.subresource:
            return ()
        new, old = mapping(review.new.get("spec")), mapping(review.old.get("spec"))
        changed = sorted(key for key in {*new, *old} if key not in paths and new.get(key) != old.get(key))
        allowed = f"users may change {', '.join(f'spec.{path}' for path in paths)}" if paths else instead
        message = f"Forbidden: Fleet keeps this field; {allowed}"
        return [Cause(f"spec.{key}", message, "FieldValueForbidden") for key in changed]

    return check


def dig(body: Mapping[str, Any] | None, path: str) -> Any:
    """Return the value at a dotted path, None when it is not there."""
    return at(body, *path.split("."))


__all__ = ["Checks", "Rule", "dig", "immutable", "of_new", "only_mutable"]
