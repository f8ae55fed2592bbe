"""Which members may take a unit, and in which order policy wants them tried.

Units with the same policy share one `Eligibility`, so it is made once per policy, not once per unit. Rank 0 comes
first: the policy's groups in order, and members to avoid after all others. Weights and price order within a rank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from fleet.model.matching import member_bars
from fleet.model.member import Member
from fleet.model.reason import Code, Reason
from fleet.model.unit import Unit


@dataclass(frozen=True, slots=True)
class Choice:
    """One member that may take the unit. Smaller `order` is preferred before fit, smaller `after` among equal fits."""

    member: str
    order: tuple[int, int]  # rank, minus weight
    after: tuple[int, str]  # price, name


@dataclass(frozen=True, slots=True)
class Eligibility:
    """`choices`: ready members, best first. `allowed`: with those that are not ready. `refusal`: why there are none."""

    number: int
    choices: tuple[Choice, ...]
    allowed: tuple[str, ...]
    refusal: Reason | None


class Policies:
    """Eligibilities of one decision, by the part of a unit that decides them."""

    def __init__(self, members: Mapping[str, Member]) -> None:
        self._members = [members[name] for name in sorted(members)]
        self._found: dict[object, Eligibility] = {}
        self._same: dict[object, int] = {}
        self.all: list[Eligibility] = []

    def of(self, unit: Unit) -> Eligibility:
        key = (
            unit.affinity_groups, unit.tolerations, unit.needs_kind, unit.excluded, unit.avoid, unit.preferences,
        )  # fmt: skip
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._make(unit)
        return found

    def _make(self, unit: Unit) -> Eligibility:
        weights = dict(unit.preferences)
        choices: list[Choice] = []
        allowed: list[str] = []
        bars: Counter[str] = Counter()
        waiting: list[str] = []
        for member in self._members:
            barred = member_bars(unit, member)
            if barred:
                bars[barred] += 1
                continue
            allowed.append(member.name)
            if not member.ready:
                waiting.append(f"{member.name} ({member.not_ready_reason or 'not ready'})")
                continue
            groups = [number for number, group in enumerate(unit.affinity_groups) if member.name in group.members]
            rank = (groups[0] if groups else 0) + (len(unit.affinity_groups) + 1) * (member.name in unit.avoid)
            choices.append(Choice(member.name, (rank, -weights.get(member.name, 0)), (member.price, member.name)))
        refusal = None
        if not self._members:
            refusal = Reason(Code.NO_MEMBERS)
        elif not allowed:
            refusal = Reason(Code.NO_MEMBER_ALLOWED, {"why": _list_bars(bars), "members": len(self._members)})
        elif not choices:
            refusal = Reason(Code.MEMBER_NOT_READY, {"why": ", ".join(waiting[:3]), "members": len(waiting)})
        choices.sort(key=lambda choice: (choice.order, choice.after))
        same = (tuple(choices), tuple(allowed), tuple(bars.items()))
        number = self._same.setdefault(same, len(self._same))
        made = Eligibility(number, tuple(choices), tuple(allowed), refusal)
        if number == len(self.all):
            self.all.append(made)
        return made


def _list_bars(bars: Counter[str]) -> str:
    ranked = sorted(bars.items(), key=lambda bar: (-bar[1], bar[0]))
    return ", ".join(f"{count} member(s) {why}" for why, count in ranked)
