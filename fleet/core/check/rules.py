"""The checker's own reading of the rules of a gang, and its own packing of pods that keep them.

A rule is read as whole parts of some kinds of pods, each part in one domain. The outermost rule, that of the largest
parts, goes first: its parts go into the domains with the least free room that take them, and within a part the rules of
smaller parts do the same. Soft rules forbid nothing, so nobody reads them here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter

from fleet.core.check.nodes import EqualPods, Mask, NodeRows, asked_by, merged
from fleet.core.model.rule import PlacementRule, Rules

Counts = Mapping[int, int]  # kinds of pods, by place in the gang, and how many


@dataclass(frozen=True, slots=True)
class PartRule:
    """Pods in parts alike, each within one domain of a level. `place`: that of the rule that it is read from; `each`:
    (kind, pods of one part); `most`: the parts that one domain takes at most, 0 for any number, counted over all that
    are read from one rule."""

    place: int
    level: str
    each: tuple[tuple[int, int], ...]
    parts: int
    most: int = 0
    even: bool = False

    @property
    def kinds(self) -> frozenset[int]:
        """The kinds of pods that it is about."""
        return frozenset(kind for kind, _ in self.each)


def read_rules(rules: Rules, pods: Sequence[tuple[str, int]]) -> tuple[PartRule, ...]:
    """The hard rules over the pods of a gang, (component, how many), outermost first. A rule whose parts the pods do
    not make is left out: of a gang that is there, only the pods that a member does not show yet are put."""
    read: list[PartRule] = []
    for place, rule in enumerate(rules):
        about = [(kind, count) for kind, (name, count) in enumerate(pods) if count and name in (rule.of or (name,))]
        if rule.hard:
            for some in [[one] for one in about] if rule.size == 1 else [about]:
                read += _in_parts(place, rule, some)
    return tuple(sorted(read, key=lambda rule: (-len(rule.each), rule.parts)))


def _in_parts(place: int, rule: PlacementRule, pods: Sequence[tuple[int, int]]) -> Iterable[PartRule]:
    """The rule about these pods, (kind, how many), if there are any and they make its parts."""
    parts, rest = divmod(sum(count for _, count in pods), rule.size) if rule.size else (1, 0)
    if pods and not rest and not any(count % parts for _, count in pods):
        each = tuple([(kind, count // parts) for kind, count in pods])
        yield PartRule(place, rule.level, each, parts, rule.most // max(1, rule.size), rule.even)


class RuledGang:
    """Puts the pods of one gang onto nodes so that they keep its rules."""

    def __init__(self, nodes: NodeRows, pods: Sequence[EqualPods]) -> None:
        self._nodes = nodes
        self._pods = pods
        self._parts_in: Counter[tuple[int, str]] = Counter()

    def put(self, rules: Sequence[PartRule]) -> bool:
        """Put all of the pods, or change nothing."""
        counts = {kind: pods.count for kind, pods in enumerate(self._pods)}
        return self._whole(lambda: self._lay(counts, rules, None))

    def _lay(self, counts: Counts, rules: Sequence[PartRule], among: Mask | None) -> bool:
        """Put so many pods onto some nodes."""
        if not rules:
            pods = [replace(self._pods[kind], count=count) for kind, count in counts.items() if count]
            return self._nodes.put_whole(merged(pods), among)
        first = rules[0]
        its = {kind: count for kind, count in counts.items() if kind in first.kinds}
        rest = {kind: count for kind, count in counts.items() if kind not in first.kinds}
        inner = [rule for rule in rules[1:] if rule.kinds <= first.kinds]
        others = [rule for rule in rules[1:] if not rule.kinds <= first.kinds]
        some = first.each[0]
        steps: list[Callable[[], bool]] = [lambda: self._spread(first, its[some[0]] // some[1], inner, among)]
        if rest:
            steps.append(lambda: self._lay(rest, others, among))
        orders = (steps, steps[::-1])
        return any(self._whole(partial(_all_of, order)) for order in orders[: len(steps)])

    def _spread(self, rule: PartRule, parts: int, inner: Sequence[PartRule], among: Mask | None) -> bool:
        """Put so many parts of a rule into domains."""
        domains = self._tightest_first(rule, among)
        if not rule.even:
            for name, mask in domains:
                parts -= self._parts(rule, parts, inner, name, mask)
            return not parts
        room = [self._room(rule, parts, inner, name, mask) for name, mask in domains]
        for used in range(1, 1 + min(parts, len(domains))):
            fewer, more = divmod(parts, used)
            shares = _shares(room, fewer, more, used)
            if shares is not None:
                put = [self._parts(rule, share, inner, *domains[at]) for at, share in shares.items()]
                return sum(put) == parts
        return False

    def _parts(self, rule: PartRule, most: int, inner: Sequence[PartRule], name: str, mask: Mask) -> int:
        """Put up to `most` parts into one domain; return how many."""
        if rule.most:
            most = min(most, rule.most - self._parts_in[rule.place, name])
        put = 0
        if len(rule.each) == 1 and not inner:
            ((kind, each),) = rule.each
            put = min(most, int(self._nodes.room(replace(self._pods[kind], count=most * each), mask).sum()) // each)
            self._nodes.put(replace(self._pods[kind], count=put * each), mask)
        else:
            while put < most and self._whole(lambda: self._lay(dict(rule.each), inner, mask)):
                put += 1
        self._parts_in[rule.place, name] += put
        return put

    def _room(self, rule: PartRule, most: int, inner: Sequence[PartRule], name: str, mask: Mask) -> int:
        free, before = self._nodes.free.copy(), self._parts_in.copy()
        parts = self._parts(rule, most, inner, name, mask)
        self._nodes.free, self._parts_in = free, before
        return parts

    def _whole(self, act: Callable[[], bool]) -> bool:
        """Whether the act succeeds; if it does not, nothing is changed."""
        free, before = self._nodes.free.copy(), self._parts_in.copy()
        if act():
            return True
        self._nodes.free, self._parts_in = free, before
        return False

    def _tightest_first(self, rule: PartRule, among: Mask | None) -> list[tuple[str, Mask]]:
        """The domains with as much in all as one part of a rule asks for, by what is free there of that."""
        sums = asked_by([replace(self._pods[kind], count=count) for kind, count in rule.each])
        rows: list[tuple[list[int], str, Mask]] = []
        for name, nodes in self._nodes.domains(rule.level):
            mask = nodes if among is None else nodes & among
            free = self._nodes.free[mask].clip(0).sum(axis=0).tolist()
            if all(amount <= have for amount, have in zip(sums, free, strict=True)):
                rows.append(([have for amount, have in zip(sums, free, strict=True) if amount], name, mask))
        return [(name, mask) for _, name, mask in sorted(rows, key=itemgetter(0, 1))]


def _all_of(steps: Iterable[Callable[[], bool]]) -> bool:
    return all(step() for step in steps)


def _shares(room: Sequence[int], fewer: int, more: int, used: int) -> dict[int, int] | None:
    """The parts of each of `used` domains: `more` of them one more than the others' `fewer`. None where the room of no
    such domains suffices. The domains with the least room that suffices are taken."""
    order = sorted(range(len(room)), key=lambda at: room[at])
    larger = [at for at in order if room[at] > fewer][:more]
    others = [at for at in order if room[at] >= fewer and at not in larger][: used - more]
    if len(larger) < more or len(others) < used - more:
        return None
    return {**dict.fromkeys(larger, fewer + 1), **dict.fromkeys(others, fewer)}
