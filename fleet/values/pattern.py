"""Regular expressions that users write (`pattern` in the schemas of their kinds), in time linear in the text.

RE2, as in a kube-apiserver: no expression makes it backtrack. RE2 refuses expressions for which it cannot promise this
(back-references, look-around, thousands of repetitions). "Linear" still means instructions × characters, so a match has
a cost, and the caller has a budget (api/engine/validate.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import re2  # type: ignore[import-untyped,unused-ignore]

CHARACTERS_MAX = 10_000  # of one expression
MEMORY_BYTES_MAX = 2 << 20  # of a compiled expression and of what is remembered while it matches

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True
_OPTIONS.max_mem = MEMORY_BYTES_MAX


class BadPattern(ValueError):
    """The text is no regular expression that RE2 takes."""


class Pattern:
    """One compiled expression. Raises BadPattern."""

    __slots__ = ("_matcher", "_size", "text")

    def __init__(self, text: str) -> None:
        if len(text) > CHARACTERS_MAX:
            raise BadPattern(f"must be at most {CHARACTERS_MAX} characters long")
        try:
            self._matcher = re2.compile(text, _OPTIONS)
        except (re2.error, UnicodeEncodeError) as error:
            raise BadPattern(_said(error)) from None
        self.text = text
        self._size: int = self._matcher.programsize

    def cost(self, value: str) -> int:
        """An upper bound of the steps that `matches` takes."""
        return self._size * (len(value) + 1)

    def matches(self, value: str) -> bool:
        """Is there a match anywhere in `value`? Text that UTF-8 cannot encode matches nothing."""
        try:
            return self._matcher.search(value) is not None
        except UnicodeEncodeError:
            return False

    def each(self, value: str) -> Iterator[Any]:
        """The matches from left to right, each as Python's `re.Match`."""
        try:
            yield from self._matcher.finditer(value)
        except UnicodeEncodeError:
            return


def _said(error: Exception) -> str:
    """RE2 says what it dislikes as bytes."""
    said = error.args[0] if error.args else ""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(error)
    return text[:200]
