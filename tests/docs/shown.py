"""The commands that a page shows, each with the output below it; and output without what time and chance decide."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = ("", "sh", "text")  # languages of blocks that hold commands
CHANCE = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z?"), "TIME"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\b(?:\d+(?:\.\d+)?(?:ms|[smhd]))+\b"), "AGE"),
)


@dataclass(frozen=True, slots=True)
class Command:
    """`output`: the lines below the prompt; None: the page shows the command alone."""

    line: str
    output: tuple[str, ...] | None = None


def commands(page: str) -> Iterator[Command]:
    """The commands of the page's blocks: after a prompt, or, in a block without prompts, one a line."""
    for language, block in FENCE.findall(page):
        if language not in SHELL:
            continue
        lines = block.splitlines()
        prompts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
        if not prompts:
            if language != "text":
                yield from (Command(line.split("  #")[0].strip()) for line in lines if line.strip())
            continue
        for number, following in zip(prompts, [*prompts[1:], len(lines)], strict=True):
            below = tuple(line for line in lines[number + 1 : following] if line.strip())
            yield Command(lines[number][2:], below or None)


def settled(line: str) -> str:
    """The line without times, addresses, ages and the width of columns."""
    for pattern, word in CHANCE:
        line = pattern.sub(word, line)
    return " ".join(line.split())


def missing(shown: tuple[str, ...], said: str) -> list[str]:
    """The lines that the page shows and the command did not print, in this order; `…` stands for any lines."""
    printed = iter([settled(line) for line in said.splitlines()])
    return [line for line in shown if line != "…" and settled(line) not in printed]
