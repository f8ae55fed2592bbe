"""The packing of a gang whose rules bundle its pods: bundles into domains, and within these the bundles that they hold.

A bundle goes into the tightest domain that takes it, so that large domains stay whole, and into as few domains as there
are where its rule is not hard. Equal pods are counted into a domain at once, however many bundles they make.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from fleet.core.model.effort import Effort
from fleet.core.placement.packing.draft import PackingDraft
from fleet.core.placement.packing.levels import Domain, Levels, PartBundle
from fleet.core.placement.packing.space import GangPart, Shape, bundle_of

Ground = Sequence[int]  # pools, by index
_Mark = tuple[tuple[object, ...], Counter[tuple[int, Domain]], int]


class BundlePacker:
    """Packs the bundles of one gang into a draft of a member's pools."""

    def __init__(
        self,
        shape: Shape,
        draft: PackingDraft,
        domains: Callable[[Levels], Iterable[tuple[Domain, Ground]]],
        effort: Effort,
    ) -> None:
        """`domains`: the domains of some levels with their pools; `effort`: of the searches of this decision."""
        self._shape = shape
        self._draft = draft
        self._domains = domains
        self._effort = effort
        self._bundles_in: Counter[tuple[int, Domain]] = Counter()  # by cap and domain
        self._log: list[tuple[int, str, int]] = []  # (number of a bundle, its domain or "", how many), in their order
        self._soft = _soft(bundle_of(shape))

    @property
    def bundles(self) -> tuple[tuple[int, str, int], ...]:
        """Where the bundles lie, as (number, domain, how many); one of a soft rule may lie in several."""
        places: Counter[tuple[int, str]] = Counter()
        for number, domain, count in self._log:
            if domain:
                places[number, domain] += count
        return tuple([(number, domain, count) for (number, domain), count in sorted(places.items()) if count])

    @property
    def spread(self) -> int:
        """The domains that soft rules take beyond one each; each pod in none counts as one more."""
        used = {(number, domain) for number, domain, _ in self._log if number in self._soft and domain}
        outside = sum(count for number, domain, count in self._log if number in self._soft and not domain)
        return max(0, len(used) + outside - len(self._soft))

    def place(self, bundle: PartBundle, ground: Ground) -> bool:
        """Put the pods of one bundle into this ground, whole; or some of them, and False. The bundles within it come
        first, and after the other pods where these find no place beside them."""
        if not bundle.inner or not bundle.pods:
            return self._fill(bundle, ground) and self._spread_all(bundle, ground)
        return self._tried(lambda: self._spread_all(bundle, ground) and self._fill(bundle, ground)) or (
            self._fill(bundle, ground) and self._spread_all(bundle, ground)
        )

    def _spread_all(self, bundle: PartBundle, ground: Ground) -> bool:
        return not any(self._spread(one, one.count, ground) for one in bundle.inner)

    def unplaced(self, bundle: PartBundle, ground: Ground) -> list[int]:
        """How many pods of each part find no place, when the bundles go one after another."""
        rest = [0] * len(self._shape)
        for one in bundle.inner:
            out = self._spread(one, one.count, ground)
            for part, pods in pods_in(one).items():
                rest[part] += out * pods
        for part, pods in bundle.pods:
            rest[part] += self._draft.fill(self._shape[part], pods, ground=ground)
        return rest

    def _fill(self, bundle: PartBundle, ground: Ground) -> bool:
        mark = self._draft.mark() if len(bundle.pods) > 1 else ()
        for part, pods in bundle.pods:
            if self._draft.fill(self._shape[part], pods, whole=True, ground=ground):
                break
        else:
            return True
        if not mark:
            return False
        self._draft.back(mark)
        pods_of = [(self._shape[part], pods) for part, pods in bundle.pods]
        return self._draft.fill_exactly(pods_of, self._effort, (self._shape, bundle), ground)

    def _spread(self, bundle: PartBundle, count: int, ground: Ground) -> int:
        """Put `count` of these bundles into domains of the ground; return how many found none."""
        if not bundle.hard:
            return 0 if self._gather(bundle, ground) else count
        if bundle.even:
            return self._balance(bundle, count, ground)
        for domain, there in self._tightest_first(bundle, bundle.levels[0], ground):
            count -= self._put(bundle, count, domain, there)
            if not count:
                break
        return count

    def _put(self, bundle: PartBundle, most: int, domain: Domain, ground: Ground) -> int:
        """Put bundles into one domain, `most` of them at most; return how many."""
        if bundle.most:
            most = min(most, bundle.most - self._bundles_in[bundle.cap, domain])
        if bundle.inner or len(bundle.pods) > 1:
            count = 0
            while count < most and self._tried(partial(self.place, bundle, ground)):
                count += 1
        else:
            ((part, pods),) = bundle.pods
            count = min(most, self._draft.room(self._shape[part], ground) // pods)
            self._draft.fill(self._shape[part], count * pods, ground=ground)
        if bundle.most:
            self._bundles_in[bundle.cap, domain] += count
        self._log.append((bundle.number, domain[0], count))
        return count

    def _tried(self, act: Callable[[], bool]) -> bool:
        """Whether the act succeeds; if not, all that it packed is undone."""
        mark = self._mark()
        if act():
            return True
        self._back(mark)
        return False

    def _balance(self, bundle: PartBundle, count: int, ground: Ground) -> int:
        """Put bundles into the fewest domains that take them with numbers that differ by one at most."""
        domains = self._tightest_first(bundle, bundle.levels[0], ground)
        offers = [(self._offers(bundle, count, domain, there), domain, there) for domain, there in domains]
        offers.sort(key=lambda offer: offer[0])
        for few in range(1, min(count, len(offers)) + 1):
            each, more = divmod(count, few)
            larger = [offer for offer in offers if offer[0] > each][:more]
            others = [offer for offer in offers if offer[0] >= each and offer not in larger][: few - more]
            if len(larger) + len(others) == few:
                shares = [(each + 1, *place[1:]) for place in larger] + [(each, *place[1:]) for place in others]
                # A cap at a coarser level may still keep what each domain alone would take.
                return count - sum(self._put(bundle, share, domain, there) for share, domain, there in shares)
        return count

    def _gather(self, bundle: PartBundle, ground: Ground) -> bool:
        """Put the pods of a soft rule into one domain of its level, else into one of a coarser level and there into few
        of its own, else into few of the ground. False where some find no place."""
        fine, *coarser = bundle.levels
        tries = [
            partial(self._in_one, bundle, domain, there) for domain, there in self._tightest_first(bundle, fine, ground)
        ]
        for level in coarser:
            tries += [partial(self._in_few, bundle, there) for _, there in self._tightest_first(bundle, level, ground)]
        return any(map(self._tried, (*tries, partial(self._in_few, bundle, ground))))

    def _in_one(self, bundle: PartBundle, domain: Domain, ground: Ground) -> bool:
        self._log.append((bundle.number, domain[0], 1))
        return self.place(bundle, ground)

    def _in_few(self, bundle: PartBundle, ground: Ground) -> bool:
        """Put the pods of one bundle into few domains of its level: each time into the tightest that takes the rest,
        else into the one that takes most. What none takes stands beside them."""
        items: list[tuple[int, Callable[[int, Ground], int]]] = [
            (one.count, partial(self._spread, one)) for one in bundle.inner
        ]
        items += [(pods, partial(self._loose, self._shape[part])) for part, pods in bundle.pods]
        used: set[Domain] = set()
        for rest, put in items:
            domains = list(self._tightest_first(None, bundle.levels[0], ground))
            while rest and domains:
                offers = [rest - self._undone(partial(put, rest, there)) for _, there in domains]
                most = max(offers)
                best = [place for offer, place in zip(offers, domains, strict=True) if offer == most]
                domain, there = next((place for place in best if place[0] in used), best[0])
                if not most:
                    break
                rest = put(rest, there)
                used.add(domain)
                self._log.append((bundle.number, domain[0], 1))
            if rest and put(rest, ground):
                return False
            self._log.append((bundle.number, "", rest))
        return True

    def _loose(self, part: GangPart, pods: int, ground: Ground) -> int:
        return self._draft.fill(part, pods, ground=ground)

    def _offers(self, bundle: PartBundle, most: int, domain: Domain, ground: Ground) -> int:
        """How many bundles the domain would take, up to `most`."""
        return self._undone(partial(self._put, bundle, most, domain, ground))

    def _undone(self, put: Callable[[], int]) -> int:
        """The answer of an act of packing, which is undone."""
        mark = self._mark()
        count = put()
        self._back(mark)
        return count

    def _mark(self) -> _Mark:
        return self._draft.mark(), self._bundles_in.copy(), len(self._log)

    def _back(self, mark: _Mark) -> None:
        pools, self._bundles_in, length = mark
        self._draft.back(pools)
        del self._log[length:]

    def _tightest_first(self, bundle: PartBundle | None, level: int, ground: Ground) -> list[tuple[Domain, Ground]]:
        """The domains in the ground, by what is free of all that the gang asks for; those alone, where a bundle is
        given, that have as much in all as one of these asks for."""
        needs = self._sums(bundle) if bundle is not None else {}
        order = sorted({resource for part in self._shape for resource, _ in part.need})
        among, rows = set(ground), list[tuple[tuple[int, ...], Domain, Ground]]()
        for domain, pools in self._domains((level,)):
            there = [index for index in pools if index in among]
            free = self._draft.free(there)
            if free and all(free[resource] >= amount for resource, amount in needs.items()):
                rows.append((tuple([free[resource] for resource in order]), domain, there))
        rows.sort()
        return [(domain, there) for _, domain, there in rows]

    def _sums(self, bundle: PartBundle) -> Counter[int]:
        """What one bundle asks for in all, by resource."""
        sums = Counter[int]()
        for part, pods in pods_in(bundle).items():
            for resource, amount in self._shape[part].need:
                sums[resource] += amount * pods
        return sums


def pods_in(bundle: PartBundle) -> Counter[int]:
    """The pods of one bundle by part, with those of the bundles in it."""
    pods = Counter(dict(bundle.pods))
    for one in bundle.inner:
        for part, each in pods_in(one).items():
            pods[part] += each * one.count
    return pods


def _soft(bundle: PartBundle | None) -> frozenset[int]:
    """The numbers of the bundles of soft rules."""
    if bundle is None:
        return frozenset()
    own = () if bundle.hard else (bundle.number,)
    return frozenset(own).union(*map(_soft, bundle.inner))


def around(bundle: PartBundle, part: int) -> list[PartBundle]:
    """The bundles with hard rules that the pods of a part stand in, the outermost first."""
    for one in bundle.inner:
        if part in pods_in(one):
            return [one, *around(one, part)] if one.hard else around(one, part)
    return []
