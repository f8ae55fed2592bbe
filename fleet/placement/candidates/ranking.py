"""Which member takes the next gang of a kind: the members in order, kept between questions.

Asking every member again for every gang that starts costs members times gangs. What a start changes is the room of one
member; so the members that could take a kind are kept in order, and before an answer only those whose room changed
since the last one are asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush

from fleet.placement.candidates.eligibility import Choice
from fleet.placement.packing.room import Fit, MemberRoom

_Fits = Callable[[str], Fit | None]
_Entry = tuple[tuple[int, int], int, tuple[int, int, int, int], int, int]  # order, potential, broken, place, version


class Ranking:
    """Members for gangs of one shape and eligibility. Policy's rank and weight come first, so members of the next rank
    are not asked before those of one rank are full: room only shrinks while a plan is made."""

    def __init__(self, choices: Sequence[Choice], rooms: Mapping[str, MemberRoom]) -> None:
        self._choices = choices
        self._rooms = rooms
        self._asked: dict[str, int] = {}  # members of the ranks so far, by their place among the choices
        self._queue: list[_Entry] = []
        self._seen = 0

    def best(
        self, fit: _Fits, touched: Sequence[str], takes: Callable[[str], bool] | None = None
    ) -> tuple[str, Fit] | None:
        """The first member that takes one, with the packing. `fit`: the packing into a member as it is now, None for
        good once there is none; `touched`: the members whose room has changed, in all; `takes`: whether a member may
        be used for this gang, if that is in question."""
        if self._seen < len(touched):
            for name in set(touched[self._seen :]):
                if name in self._asked:
                    self._push(self._asked[name], fit)
            self._seen = len(touched)
        passed: list[_Entry] = []
        found: tuple[str, Fit] | None = None
        while found is None:
            if not self._queue:
                if not self._next_rank(fit):
                    break
                continue
            entry = self._queue[0]
            name = self._choices[entry[3]].member
            packing = fit(name) if entry[4] == self._rooms[name].version else None
            if packing is None:
                heappop(self._queue)  # it changed since, and was asked again then
            elif takes is not None and not takes(name):
                passed.append(heappop(self._queue))
            else:
                found = (name, packing)
        for entry in passed:
            heappush(self._queue, entry)
        return found

    def _next_rank(self, fit: _Fits) -> bool:
        """Ask the members of the next rank, whether or not one of them has room; False when there is none."""
        start = len(self._asked)
        if start == len(self._choices):
            return False
        for place in range(start, len(self._choices)):
            if self._choices[place].order != self._choices[start].order:
                break
            self._asked[self._choices[place].member] = place
            self._push(place, fit)
        return True

    def _push(self, place: int, fit: _Fits) -> None:
        choice = self._choices[place]
        packing = fit(choice.member)
        if packing is not None:
            version = self._rooms[choice.member].version
            heappush(self._queue, (choice.order, packing.potential, packing.broken, place, version))
