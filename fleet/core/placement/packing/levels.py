"""Levels and bundles of a decision, by number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from fleet.core.model.member import Pool
from fleet.core.model.nesting import Bundle, all_in
from fleet.core.model.rule import PlacementRule

Levels = tuple[int, ...]
Domain = tuple[str, ...]  # the value of each of some levels


@dataclass(frozen=True, slots=True)
class PartBundle:
    """Pods of a gang that stand in one domain each, by the numbers of a Space: `count` bundles alike in each bundle
    around them. `number`: among the bundles of the gang, as `all_in` gives them. `levels`: the level of the domain; of
    a bundle that is not `hard`, the coarser ones after it, too.
    `pods`: (place of the part in the shape, its pods in one bundle), beside those of the `inner` bundles. `most`: the
    bundles that one domain takes at most, 0 for any number, together with all others of the same `cap`; `even`: see
    PlacementRule."""

    number: int
    count: int
    levels: Levels
    pods: tuple[tuple[int, int], ...]
    inner: tuple[PartBundle, ...]
    hard: bool = True
    most: int = 0
    even: bool = False
    cap: int = 0


class LevelNumbers:
    """The levels of some rules by number, with those above the levels of soft rules, and bundles over them."""

    def __init__(self, rules: Sequence[PlacementRule], pools: Iterable[Pool]) -> None:
        """`pools`: of all members that the decision is about."""
        self._coarser = _coarser({rule.level for rule in rules if not rule.hard}, pools)
        levels = {rule.level for rule in rules}
        self.names: tuple[str, ...] = tuple(sorted(levels.union(*self._coarser.values())))
        self._index = {level: number for number, level in enumerate(self.names)}

    def of(self, rule: PlacementRule) -> Levels:
        """The level of a rule; of a soft one also those above it, fine to coarse."""
        coarser = () if rule.hard else self._coarser[rule.level]
        return tuple([self._index[level] for level in (rule.level, *coarser)])

    def bundle(self, gang: Bundle, parts: Mapping[int, int]) -> PartBundle:
        """The bundles of a gang by number. `parts`: by the place of each component, its part of the shape."""
        bundles = list(all_in(gang))
        caps = list(dict.fromkeys([bundle.rule for bundle in bundles]))
        numbers = {id(bundle): (number, caps.index(bundle.rule)) for number, bundle in enumerate(bundles)}
        return self._numbered(gang, parts, numbers)

    def _numbered(self, bundle: Bundle, parts: Mapping[int, int], numbers: Mapping[int, tuple[int, int]]) -> PartBundle:
        rule, pods = bundle.rule, Counter[int]()
        for place, each in bundle.pods:
            pods[parts[place]] += each
        inner = tuple([self._numbered(one, parts, numbers) for one in bundle.inner])
        (number, cap), loose = numbers[id(bundle)], tuple(sorted(pods.items()))
        if rule is None:
            return PartBundle(number, 1, (), loose, inner)
        most = rule.most // rule.size if rule.most else 0
        return PartBundle(number, bundle.count, self.of(rule), loose, inner, rule.hard, most, rule.even, cap)


def _coarser(levels: Set[str], pools: Iterable[Pool]) -> dict[str, tuple[str, ...]]:
    """Of each of these levels, those above it in any place tree, fine to coarse."""
    above: dict[str, dict[str, int]] = {level: {} for level in sorted(levels)}
    for pool in pools if levels else ():
        for level, path in pool.places:
            for other, start in pool.places if level in above else ():
                if path.startswith(f"{start}/"):
                    above[level].setdefault(other, start.count("/"))
    return {level: tuple(sorted(others, key=lambda one: (-others[one], one))) for level, others in above.items()}
