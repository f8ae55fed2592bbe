"""Runs the commands that a page shows, and puts what they print where the page shows it.

In a fenced block without a language, `$ cat NAME` is followed by the file, and `$ fleet …` by what the command prints.
Each page has a folder of its own. Seconds that a solver took are not compared: where all else is the same, the page
keeps its own.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from typer.testing import CliRunner

from fleet.cli.failure import Failure
from fleet.cli.main import app

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS = re.compile(r"\d+\.\d{3} s")


def renewed(page: str) -> str:
    """The page with what its commands print now."""
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return FENCE.sub(lambda block: block[0] if block[1] else f"```\n{''.join(_block(block[2]))}```", page)
        finally:
            os.chdir(home)


def files(page: str) -> dict[str, str]:
    """The files that the page shows, by name."""
    return {
        prompt.split()[2]: below
        for _, block in FENCE.findall(page)
        for prompt, below in _commands(block)
        if prompt.startswith("$ cat ")
    }


def _block(text: str) -> Iterator[str]:
    for prompt, below in _commands(text):
        yield prompt
        words = prompt[2:].split()
        if words[:1] == ["cat"] and len(words) == 2:
            Path(words[1]).write_text(below.rstrip("\n") + "\n")
        if words[:1] != ["fleet"]:
            yield below
            continue
        space = "\n" if below.endswith("\n\n") else ""  # between two commands
        said = _run(words[1:]) + space
        yield below if SECONDS.sub("", below) == SECONDS.sub("", said) else said


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Each line with a prompt, and what stands below it up to the next."""
    prompt, below = "", ""
    for line in text.splitlines(keepends=True):
        if line.startswith("$ "):
            if prompt or below:
                yield prompt, below
            prompt, below = line, ""
        else:
            below += line
    yield prompt, below


def _run(words: list[str]) -> str:
    done = CliRunner().invoke(app, words)
    if isinstance(done.exception, Failure):
        return done.output + f"fleet: {done.exception}\n"
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output
