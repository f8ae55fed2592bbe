"""What became of earlier work: how long it ran, and when it came. The future is drawn from it.

How long a unit runs is known of nobody beforehand, and mean and spread differ by leaf and by size more than any formula
says; so durations are drawn from those of like work: the same leaf and the same devices where there are enough of
those, else the same leaf, else the fleet. Work that still runs counts too, as lasting longer than it has until now:
who is drawn and has not ended yet passes the draw on to those that lasted longer (which is the Kaplan-Meier estimate);
to leave it out would take long work for rare. Beyond everything seen, what has lasted so long lasts as long again
(median): the heavy tail that durations of training jobs have.

Where users give a walltime, their use of it is drawn instead: the shares of their walltimes that such units ran.

Who comes is drawn by the day: a past day at random with all its arrivals at their hours, in all leaves together, so
that bursts, nights and what leaves have in common stay as they were.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from fleet.model.unit import Unit

DAY_S = 86_400.0
_LIKE = 20  # so many of a kind tell about the kind
_DAYS_MOST = 28  # days of arrivals that are looked back
_DAYS_AHEAD_MOST = 4096
_PRIOR_S = (60.0, 86_400.0)  # how long work runs where nothing has run yet: evenly in the logarithm between these
_SHORTEST_S = 1.0


@dataclass(frozen=True, slots=True)
class Past:
    """One unit of the past: submitted, and perhaps started and ended, at epoch seconds. `ended` is None while it runs,
    and for what was taken away before its end."""

    unit: Unit
    submitted: float
    started: float | None = None
    ended: float | None = None

    @property
    def waited_s(self) -> float | None:
        return None if self.started is None else max(0.0, self.started - self.submitted)


class Durations:
    """How long work of one kind ran: a list of (seconds, whether that was its end)."""

    def __init__(self, seen: Iterable[tuple[float, bool]]) -> None:
        self._seen = sorted(seen, key=lambda entry: (entry[0], not entry[1]))
        self._lengths = [length for length, _ in self._seen]
        self.ended = sum(ended for _, ended in self._seen)

    def draw(self, rng: Random, beyond: float) -> float | None:
        """A duration above `beyond` seconds; None where nothing seen lasted so long."""
        first = bisect_right(self._lengths, beyond)
        while first < len(self._seen):
            number = rng.randrange(first, len(self._seen))
            if self._seen[number][1]:
                return self._lengths[number]
            first = number + 1
        return None


class History:
    """The past as known at one time. Immutable."""

    def __init__(self, pasts: Iterable[Past], now: float) -> None:
        """`now`: nothing that happened later is looked at."""
        self.now = now
        self.pasts = sorted((p for p in pasts if p.submitted <= now), key=lambda p: (p.submitted, p.unit.id))
        seen: dict[tuple[str | None, int] | str | None, list[tuple[float, bool]]] = {}
        shares: dict[str | None, list[tuple[float, bool]]] = {}
        for past in self.pasts:
            if past.started is None or past.started > now:
                continue
            ended = past.ended is not None and past.ended <= now
            length = max(_SHORTEST_S, (past.ended if past.ended is not None and ended else now) - past.started)
            for kind in self._kinds(past.unit):
                seen.setdefault(kind, []).append((length, ended))
            if past.unit.walltime_s:
                for leaf in {past.unit.leaf, None}:
                    shares.setdefault(leaf, []).append((length / past.unit.walltime_s, ended))
        self._durations = {kind: Durations(entries) for kind, entries in seen.items()}
        self._shares = {leaf: Durations(entries) for leaf, entries in shares.items()}
        first = self.pasts[0].submitted if self.pasts else now
        self._block_s = min(DAY_S, max(now - first, 0.0))
        self._blocks = min(_DAYS_MOST, int((now - first) / self._block_s)) if self._block_s > 0 else 0
        self._submitted = [past.submitted for past in self.pasts]

    @staticmethod
    def _kinds(unit: Unit) -> tuple[tuple[str | None, int] | str | None, ...]:
        """From the closest likeness to the widest: leaf and devices, leaf, everything."""
        leaf = unit.leaf or ""
        return (leaf, devices(unit)), leaf, None

    def runs_s(self, rng: Random, unit: Unit, ran: float = 0.0, factor: float = 1.0) -> float:
        """For how long the unit runs in all, drawn given that it has run for `ran` seconds. What is still to come is
        taken times `factor`, unless a walltime bounds it."""
        if unit.walltime_s:
            share = self._share(rng, unit, ran / unit.walltime_s)
            return max(ran + _SHORTEST_S, share * unit.walltime_s)
        for kind in self._kinds(unit):
            like = self._durations.get(kind)
            if like is not None and like.ended >= (_LIKE if kind is not None else 1):
                found = like.draw(rng, ran)
                if found is not None:
                    return ran + max(_SHORTEST_S, (found - ran) * factor)
        low, high = max(ran, _PRIOR_S[0]), _PRIOR_S[1]
        if self.ended == 0 and low < high:
            drawn: float = low * (high / low) ** rng.random()
            return ran + max(_SHORTEST_S, (drawn - ran) * factor)
        return ran + (_tail(rng, low) - ran) * factor

    @property
    def ended(self) -> int:
        """How many have ended: what durations are drawn from."""
        everything = self._durations.get(None)
        return everything.ended if everything is not None else 0

    def _share(self, rng: Random, unit: Unit, used: float) -> float:
        for leaf in (unit.leaf, None):
            like = self._shares.get(leaf)
            if like is not None and like.ended >= _LIKE:
                found = like.draw(rng, used)
                if found is not None:
                    return found
        return used + (1.0 - used) * rng.random() if used < 1.0 else used * 1.1

    def arrivals(self, rng: Random) -> Iterator[tuple[float, Unit]]:
        """(epoch second after `now`, a unit like the one that comes then), in order, for as long as is asked. Nothing,
        where nothing ever came."""
        for ahead in range(_DAYS_AHEAD_MOST if self._blocks else 0):
            back = rng.randint(1, self._blocks)
            begin = self.now - back * self._block_s
            low = bisect_right(self._submitted, begin)
            high = bisect_right(self._submitted, begin + self._block_s)
            for past in self.pasts[low:high]:
                yield self.now + ahead * self._block_s + past.submitted - begin, past.unit


def devices(unit: Unit) -> int:
    """How many devices (resources with a "/" in their name) all its pods ask for together."""
    return sum(amount for name, amount in unit.total.items_ if "/" in name)


def _tail(rng: Random, ran: float) -> float:
    """Longer than anything seen: twice as long in the median, and never more than sixteen times."""
    return ran / max(1 / 16, 1.0 - rng.random())


__all__ = ["DAY_S", "Durations", "History", "Past", "devices"]
