"""Members that became ready, or were lost, at about the same time: one search among the bindings serves them all.

Each member turns a few times while a process begins. With a search for each, the start of a hub would cost its members
times its bindings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

GATHER_S = 0.1


class MemberGathering:
    """Calls `search` with the members of the last GATHER_S."""

    def __init__(self, search: Callable[[frozenset[str]], None]) -> None:
        self._search = search
        self._members: set[str] = set()

    def add(self, member: str) -> None:
        if not self._members:
            asyncio.get_running_loop().call_later(GATHER_S, self._look)
        self._members.add(member)

    def _look(self) -> None:
        members, self._members = frozenset(self._members), set()
        self._search(members)
