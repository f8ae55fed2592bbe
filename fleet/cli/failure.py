"""The error of a command that cannot do its task: one line on stderr, exit status 1, no traceback."""

from __future__ import annotations


class Failure(Exception):
    """An expected failure; its text is the line that the user reads. Bugs are any other exception."""
