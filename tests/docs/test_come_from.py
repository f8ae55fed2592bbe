"""Fleet's side of the tables for people who come from another system: each command is one, with these options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import typer

from fleet.cli.main import app
from tests.checkout import ROOT

PAGES = ("come-from-slurm.md", "come-from-kueue.md", "come-from-arena.md")
CODE = re.compile(r"`([^`]+)`")
FLAGS = ("--code",)  # options without a value
RUN = "fleet run --image I "  # what a row that shows an option alone is about


def commands(page: str) -> Iterator[str]:
    """The commands of the last column; an option alone as one of `fleet run`."""
    for line in (ROOT / "docs" / "how-to" / page).read_text().splitlines():
        if line.startswith("| "):
            for code in CODE.findall(line.rstrip(" |").rpartition(" | ")[2]):
                if code.startswith("fleet "):
                    yield code.removesuffix(" …")
                elif code.startswith("--"):
                    yield RUN + (code if " " in code or code in FLAGS else f"{code} K=V")


SHOWN = [(page, command) for page in PAGES for command in commands(page)]


@cache
def program() -> Any:
    return typer.main.get_command(app)


def parsed(command: str) -> Any:
    """The parameters of the command. Raises click's UsageError."""
    found = program()
    words = shlex.split(command.replace(" …", ""))[1:]
    while hasattr(found, "commands") and words and words[0] in found.commands:
        found = found.commands[words.pop(0)]
    return found.make_context(command, words).params


@pytest.mark.parametrize(("page", "command"), SHOWN)
def test_each_command_beside_that_of_another_system_is_one(page: str, command: str) -> None:
    parsed(command)


def test_the_tables_are_read_and_a_wrong_option_is_found() -> None:
    assert len(SHOWN) > 50 and {page for page, _ in SHOWN} == set(PAGES)
    with pytest.raises(Exception, match="No such option"):
        parsed("fleet jobs --mineral")
