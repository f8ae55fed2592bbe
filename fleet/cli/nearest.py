"""The name that a user may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST = 3  # names that are suggested
ALIKE = 0.65


def meant(name: str, names: Iterable[str]) -> str:
    """The end of a message about a wrong name: the nearest of `names`, or nothing when none is near."""
    by_lower = {known.lower(): known for known in names}
    near = [by_lower[found] for found in difflib.get_close_matches(name.lower(), by_lower, MOST, ALIKE)]
    return f"; did you mean {' or '.join(near)}?" if near else ""
