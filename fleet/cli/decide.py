"""`fleet decide`: one decision, offline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.options import Output, OutputOption


def decide(
    snapshot: Annotated[Path, typer.Argument(help="A snapshot as JSON.")],
    output: OutputOption = Output.table,
) -> None:
    """Decide a snapshot offline: who starts where, who waits why."""
