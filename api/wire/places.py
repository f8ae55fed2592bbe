"""The number of things that one API process has open, in all and by user."""

from __future__ import annotations

from collections import Counter

from api.engine.status import StatusError

RETRY_S = 5


class Places:
    """`take` gives a place, which its `leave` gives back; StatusError 429 without one. `what` they are for, in the
    plural."""

    def __init__(self, most: int, of_user: int, what: str) -> None:
        self._most, self._of_user, self._what = most, of_user, what
        self._by_user: Counter[str] = Counter()
        self._taken = 0

    def __len__(self) -> int:
        return self._taken

    def take(self, user: str) -> Place:
        if self._by_user[user] >= self._of_user:
            raise _none(f"you have {self._of_user} {self._what} open, the most")
        if self._taken >= self._most:
            raise _none(f"too many {self._what} are open at once")
        self._by_user[user] += 1
        self._taken += 1
        return Place(self, user)

    def left(self, user: str) -> None:
        self._taken -= 1
        self._by_user[user] -= 1
        if not self._by_user[user]:
            del self._by_user[user]


def _none(why: str) -> StatusError:
    return StatusError(429, "TooManyRequests", why, retry_after_s=RETRY_S)


class Place:
    """One of them; `leave` may be called more than once."""

    def __init__(self, places: Places, user: str) -> None:
        self._places: Places | None = places
        self._user = user

    def leave(self) -> None:
        if self._places is not None:
            self._places.left(self._user)
            self._places = None
