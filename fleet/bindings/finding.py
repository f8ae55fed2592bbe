"""A trouble of one object, as `fleet status` and `fleet doctor` show it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One object that is not as it should be. `check`: the name of the check that found it. `member`: the member that
    it is about, if any."""

    check: str
    kind: str
    namespace: str
    name: str
    why: str
    what_to_do: str
    member: str = ""
