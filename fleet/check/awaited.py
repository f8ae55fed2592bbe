"""The checker on the quota that heads wait for, where others claim room: written apart from the planner.

Who claims and is bound by a head leaves it its quota, at its moment, beside what is claimed. So somebody may have to
leave though who claims would have quota without that: at the head's moment there would not be enough for both.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from fleet.check.heads import Then, ahead_of, stays
from fleet.check.quota import Sums
from fleet.check.ranks import Ranks
from fleet.check.units import may_start
from fleet.check.violation import Rule, Violation
from fleet.model.plan import Head, Plan
from fleet.model.unit import Unit
from fleet.snapshot import Snapshot


class Awaited:
    """What the heads of a plan have of quota once its `victims` are gone. `placed`: units that start; `live` and `new`:
    those that claimed room before, and that do now; each with its member."""

    def __init__(
        self,
        snapshot: Snapshot,
        plan: Plan,
        placed: Mapping[str, str],
        live: Mapping[str, str],
        new: Mapping[str, str],
        victims: Sequence[Unit],
        now: float,
    ) -> None:
        self._waits: list[_Waits] = []
        heads = [head for head in plan.heads if head.nomination.member in snapshot.members] if new else []
        ranks = Ranks(snapshot, {*new, *(head.unit for head in heads)}, now)
        for head in heads:
            unit = snapshot.units.get(head.unit)
            if unit is None or unit.leaf is None or not may_start(snapshot, unit, now) or snapshot.tree is None:
                continue
            bound = [snapshot.units[key] for key in new if _binds(snapshot, head, unit, key, ranks, now)]
            if not bound:
                continue
            then = Then(snapshot, head, head.delayed or head.nomination.at, placed, ranks, now)
            sums = Sums(snapshot, snapshot.tree, users=True)
            gone = {unit.id: unit for unit in (*filter(then.ended, snapshot.backlog.holding.values()), *victims)}
            for other in gone.values():
                sums.charge(other, -1)
            for key in (*placed, *live, *new):
                if key != head.unit and then.outlasts(snapshot.units[key]):
                    sums.charge(snapshot.units[key])
            self._waits.append(_Waits(unit, bound, then, sums))

    def enough(self, stay: Container[str], victims: Iterable[Unit]) -> bool:
        """Whether every head that has its quota once all victims are gone has it though these `stay`."""
        there = [unit for unit in victims if unit.id in stay]
        return all(waits.enough(there) for waits in self._waits if waits.enough(()))

    def broken(self) -> Iterable[Violation]:
        """Claims that leave a head without the quota that it would have without them."""
        for waits in self._waits:
            if not waits.enough(()) and waits.enough_without_claims():
                text = f"{waits.bound[-1].id} claims quota that {waits.unit.name} waits for"
                yield Violation(Rule.HEAD_QUOTA, waits.bound[-1].id, text)


class _Waits:
    """One head; `bound`: those that claim, and leave it its quota; `sums`: what is used at its moment."""

    def __init__(self, unit: Unit, bound: Sequence[Unit], then: Then, sums: Sums) -> None:
        self.unit = unit
        self.bound = bound
        self._then = then
        self._sums = sums

    def enough(self, stay: Iterable[Unit]) -> bool:
        there = [unit for unit in stay if not self._then.ended(unit)]
        return self._has_quota(there, 1)

    def enough_without_claims(self) -> bool:
        return self._has_quota([unit for unit in self.bound if self._then.outlasts(unit)], -1)

    def _has_quota(self, others: Sequence[Unit], times: int) -> bool:
        for unit in others:
            self._sums.charge(unit, times)
        broken = self._sums.broken(self.unit)
        for unit in others:
            self._sums.charge(unit, -times)
        return broken is None


def _binds(snapshot: Snapshot, head: Head, unit: Unit, key: str, ranks: Ranks, now: float) -> bool:
    """Whether a head keeps its quota from one that claims room."""
    claims = snapshot.units[key]
    before = key == head.unit or ahead_of(snapshot, claims, head, now) or ranks.passes(claims, unit)
    return not before and stays(snapshot, claims, head, ranks, now, head.nomination.at)
