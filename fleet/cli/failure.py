"""The errors of a command that cannot do its task: one line on stderr, an exit status, no traceback."""

from __future__ import annotations


class Failure(Exception):
    """An expected failure; its text is the line that the user reads. Bugs are any other exception."""

    exit_status = 1


class Misfit(Failure):
    """A hub's data that is of a newer release, or not of its key: started again, the process would fail alike."""

    exit_status = 78  # EX_CONFIG of sysexits(3)


class TimeIsOver(Failure):
    """What the command waits for has not come by its --timeout."""

    exit_status = 124  # as timeout(1)
