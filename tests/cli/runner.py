"""Commands that are run in this process."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner, Result

from fleet.cli.failure import Failure
from fleet.cli.main import with_commands


class Told:
    """Commands that ask one hub, run in this process."""

    def __init__(self, folder: Path) -> None:
        self._hub = ("--data-dir", str(folder))

    def __call__(self, *words: str) -> Result:
        return CliRunner().invoke(with_commands(words[:1]), [*words, *self._hub])

    def refused(self, *words: str) -> str:
        """The line of a command that refuses what was asked."""
        done = self(*words)
        assert isinstance(done.exception, Failure), (done.stdout, done.stderr)
        return str(done.exception)
