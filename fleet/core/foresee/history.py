"""The history of earlier work: its durations and its arrivals. The future is drawn from them.

The duration of a unit is unknown beforehand, and mean and spread differ by user, leaf and size more than any formula
says. So durations are drawn from those of like work: the same leaf, user and devices where there are enough such units,
else the same leaf and devices, else the same leaf, else the fleet. Users submit ten of a kind, so most draws are from
the units that were submitted nearest to this one, before or after it, and the others from all times.

Work that still runs counts too, as lasting longer than it has until now. A draw of such a job passes on to jobs that
lasted longer (which is the Kaplan-Meier estimate); without such jobs long work would look rare. There is little work
like a job that has run for long. The fewer jobs have lasted so long, the more draws say that it lasts as long again
(median): durations of training jobs have this heavy tail. Beyond everything seen, all draws say so. For a job that has
just started, and that all its like outlasted, no draw does.

Where users give a walltime, their use of it is drawn instead: the shares of their walltimes that such units ran. A job
over its walltime, and over the longest share of any, is over it for as long again (median).

Arrivals are drawn by the day: a past day at random with all its arrivals at their hours, in all leaves together. So
bursts, nights and patterns that leaves share stay as they were. Days before the first known end are left out: the hub
forgets finished jobs some day, and of earlier arrivals only the long work is still there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from fleet.core.model.unit import Unit

DAY_S = 86_400.0
_LIKE = 20  # so many ends of a kind tell about the kind
_NEAR = 40  # so many are nearest to a unit in submission …
_NEAR_LEAST = 8  # … and so few tell nothing
_NEAR_SHARE = 0.7  # of the draws that are from the nearest
_DOUBT = 10.0  # where a draw goes beyond the time that a unit has run, so many units count as like it
_DAYS_MOST = 28  # days of arrivals that are looked back
_LEAST_S = 3600.0  # a history shorter than this counts as this long: a script submits hundreds in a minute
_DAYS_AHEAD_MOST = 4096
_PRIOR_S = (60.0, 86_400.0)  # how long work runs where nothing has run yet: evenly in the logarithm between these
_SHORTEST_S = 1.0
_OVER_LEAST = 0.01  # of a walltime


@dataclass(frozen=True, slots=True)
class PastUnit:
    """One unit of the past: submitted, and perhaps started and ended, at epoch seconds. `ended` is None while the unit
    runs, and for a unit that was taken away before its end."""

    unit: Unit
    submitted: float
    started: float | None = None
    ended: float | None = None

    @property
    def waited_s(self) -> float | None:
        return None if self.started is None else max(0.0, self.started - self.submitted)


class Durations:
    """The durations of work of one kind: a list of (seconds, whether the work ended then)."""

    def __init__(self, seen: Iterable[tuple[float, bool]]) -> None:
        self._seen = sorted(seen, key=lambda entry: (entry[0], not entry[1]))
        self._lengths = [length for length, _ in self._seen]
        self.ended = sum(ended for _, ended in self._seen)

    def __len__(self) -> int:
        return len(self._seen)

    @property
    def longest(self) -> float:
        return self._lengths[-1] if self._lengths else 0.0

    def lasted(self, beyond: float) -> int:
        """The number of units that lasted longer."""
        return len(self._lengths) - bisect_right(self._lengths, beyond)

    def draw(self, rng: Random, beyond: float) -> float | None:
        """A duration above `beyond` seconds; None where nothing seen lasted so long."""
        first = bisect_right(self._lengths, beyond)
        while first < len(self._seen):
            number = rng.randrange(first, len(self._seen))
            if self._seen[number][1]:
                return self._lengths[number]
            first = number + 1
        return None


class _Kind:
    """Work of one kind, in order of submission."""

    def __init__(self) -> None:
        self._submitted: list[float] = []
        self._seen: list[tuple[float, bool]] = []
        self._slices: dict[int, Durations] = {}
        self._all: Durations | None = None

    def add(self, submitted: float, length: float, ended: bool) -> None:
        """In order of `submitted`, and before anything is asked."""
        self._submitted.append(submitted)
        self._seen.append((length, ended))

    @property
    def all(self) -> Durations:
        if self._all is None:
            self._all = Durations(self._seen)
        return self._all

    def near(self, submitted: float) -> Durations:
        """The `_NEAR` units that were submitted nearest to that epoch second."""
        low, high = 0, len(self._submitted) - _NEAR
        while low < high:  # the first slice whose end is nearer than the next one
            middle = (low + high) // 2
            if submitted - self._submitted[middle] > self._submitted[middle + _NEAR] - submitted:
                low = middle + 1
            else:
                high = middle
        if low not in self._slices:
            self._slices[low] = Durations(self._seen[low : low + _NEAR])
        return self._slices[low]


class History:
    """The past as known at one time. Immutable."""

    def __init__(self, pasts: Iterable[PastUnit], now: float) -> None:
        """`now`: later events do not count."""
        self.now = now
        self.pasts = sorted((p for p in pasts if p.submitted <= now), key=lambda p: (p.submitted, p.unit.id))
        self._kinds: dict[_Key, _Kind] = {}
        shares: dict[str | None, list[tuple[float, bool]]] = {}
        for past in self.pasts:
            if past.started is None or past.started > now:
                continue
            ended = past.ended is not None and past.ended <= now
            length = max(_SHORTEST_S, (past.ended if past.ended is not None and ended else now) - past.started)
            for key in _keys(past.unit):
                self._kinds.setdefault(key, _Kind()).add(past.submitted, length, ended)
            if past.unit.walltime_s:
                for leaf in {past.unit.leaf, None}:
                    shares.setdefault(leaf, []).append((length / past.unit.walltime_s, ended))
        self._shares = {leaf: Durations(entries) for leaf, entries in shares.items()}
        ends = [past.ended for past in self.pasts if past.ended is not None and past.ended <= now]
        first = min(ends, default=self.pasts[0].submitted if self.pasts else now)
        self._block_s = min(DAY_S, max(now - first, _LEAST_S))
        self._blocks = min(_DAYS_MOST, max(1, int((now - first) / self._block_s)))
        self._submitted = [past.submitted for past in self.pasts]

    def runs_s(self, rng: Random, unit: Unit, ran: float = 0.0, factor: float = 1.0) -> float:
        """The whole duration of the unit in seconds, drawn given that the unit has run for `ran` seconds. The rest of
        it is taken times `factor`, unless a walltime bounds it."""
        if unit.walltime_s:
            share = self._share(rng, unit, ran / unit.walltime_s)
            return max(ran + _SHORTEST_S, share * unit.walltime_s)
        low, high = max(ran, _PRIOR_S[0]), _PRIOR_S[1]
        beyond, sure = ran, ran <= 0
        for like in self._like(unit, rng.random() < _NEAR_SHARE):
            if not sure and rng.random() < _doubt(like, ran):
                break
            found, sure = like.draw(rng, beyond), True
            if found is not None:
                return ran + max(_SHORTEST_S, (found - ran) * factor)
            beyond = max(beyond, like.longest)
        if self.ended_jobs == 0 and low < high:
            drawn: float = low * (high / low) ** rng.random()
            return ran + max(_SHORTEST_S, (drawn - ran) * factor)
        return ran + (_tail(rng, max(low, beyond)) - ran) * factor

    def _like(self, unit: Unit, near: bool) -> Iterator[Durations]:
        """The history of units like this one, the closest first: of each kind the nearest in time, then the kinds as a
        whole."""
        kinds = [kind for kind in map(self._kinds.get, _keys(unit)) if kind is not None]
        for kind in kinds[:-1] if near else ():
            close = kind.near(unit.enqueued_at)
            if len(close) >= _NEAR_LEAST:
                yield close
        for kind in kinds:
            if kind.all.ended >= (_LIKE if kind is not kinds[-1] else 1):
                yield kind.all

    @property
    def ended_jobs(self) -> int:
        """The number of jobs that have ended: durations are drawn from these."""
        everything = self._kinds.get(_FLEET)
        return everything.all.ended if everything is not None else 0

    def _share(self, rng: Random, unit: Unit, used: float) -> float:
        for leaf in (unit.leaf, None):
            like = self._shares.get(leaf)
            if like is not None and like.ended >= _LIKE:
                found = like.draw(rng, used)
                if found is not None:
                    return found
        if used < 1.0:
            return used + (1.0 - used) * rng.random()
        over = max(used - 1.0, _OVER_LEAST)
        return used - over + _tail(rng, over)

    def arrivals(self, rng: Random) -> Iterator[tuple[float, Unit]]:
        """Pairs (epoch second after `now`, a unit like the one that comes then), in order and without end. Nothing,
        where no unit ever came."""
        for ahead in range(_DAYS_AHEAD_MOST if self.pasts else 0):
            back = rng.randint(1, self._blocks)
            begin = self.now - back * self._block_s
            low = bisect_right(self._submitted, begin)
            high = bisect_right(self._submitted, begin + self._block_s)
            for past in self.pasts[low:high]:
                yield self.now + ahead * self._block_s + past.submitted - begin, past.unit


_Key = tuple[str | int | None, ...]
_FLEET: _Key = ()


def _keys(unit: Unit) -> tuple[_Key, ...]:
    """The kinds that a unit is of, from the closest likeness to the widest."""
    wider: tuple[_Key, ...] = ((unit.leaf, devices(unit)), (unit.leaf,), _FLEET)
    return ((unit.leaf, unit.user, devices(unit)), *wider) if unit.user else wider


def devices(unit: Unit) -> int:
    """How many devices (resources with a "/" in their name) all its pods ask for together."""
    return sum(amount for name, amount in unit.total.items_ if "/" in name)


def _doubt(like: Durations, ran: float) -> float:
    """Which share of draws takes the tail: the more, the fewer have lasted so long; less while most have."""
    lasted = like.lasted(ran)
    return _DOUBT / (lasted + _DOUBT) * min(1.0, 2.0 * (1.0 - lasted / len(like)))


def _tail(rng: Random, ran: float) -> float:
    """Longer than anything seen: twice as long in the median, and never more than sixteen times."""
    return ran / max(1 / 16, 1.0 - rng.random())


__all__ = ["DAY_S", "Durations", "History", "PastUnit", "devices"]
