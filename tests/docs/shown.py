"""The commands that a page shows, each with the output below it; and output without what time and chance decide."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
SHELL = ("", "sh", "text")  # languages of blocks that hold commands
HERE = re.compile(r"<<-?'?(\w+)'?")  # a here-document and the word that ends it
QUEUE = re.compile(r"\b(root(?:-[a-z0-9]+)*)-[a-z0-9]{5}\b")  # the name that a hub makes for a queue
CHANCE = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z?"), "TIME"),
    (re.compile(r"\b(?:127\.0\.0\.1|10(?:\.\d+){3})(?::\d+)?\b"), "ADDRESS"),
    (re.compile(r"\b[0-9a-f]{12}\b"), "ID"),
    (re.compile(r'"id":\d+'), '"id":NUMBER'),
    (re.compile(r"(Starts: +probably) in .*"), r"\1"),
    (QUEUE, r"\1-SUFFIX"),
    (re.compile(r"\(\d+(?:\.\d+)? s\)"), "(SECONDS)"),
    (re.compile(r"\b(?:\d+(?:\.\d+)?(?:ms|[smhd]))+\b"), "AGE"),
)


@dataclass(frozen=True, slots=True)
class Command:
    """`output`: the lines below the prompt; None: the page shows the command alone. `section`: the heading above."""

    line: str
    output: tuple[str, ...] | None = None
    section: str = ""


def commands(page: str) -> Iterator[Command]:
    """The commands of the page's blocks: after a prompt, or, in a block without prompts, one a line."""
    for fence in FENCE.finditer(page):
        if fence[1] not in SHELL:
            continue
        section = ["", *HEADING.findall(FENCE.sub("", page[: fence.start()]))][-1]
        lines = fence[2].splitlines()
        prompts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
        if not prompts:
            if fence[1] != "text":
                yield from (Command(line, section=section) for line in _of_a_script(lines))
            continue
        for number, following in zip(prompts, [*prompts[1:], len(lines)], strict=True):
            end = _end(lines, number)
            below = tuple(line for line in lines[end:following] if line.strip())
            yield Command("\n".join(lines[number:end])[2:], below or None, section)


def _of_a_script(lines: list[str]) -> Iterator[str]:
    number = 0
    while number < len(lines):
        end = _end(lines, number)
        if lines[number].strip():
            yield "\n".join(line.split("  #")[0].rstrip() for line in lines[number:end])
        number = end


def _end(lines: list[str], number: int) -> int:
    """Where the command of this line ends: after its here-document, and after a line without a backslash at its end."""
    here = HERE.search(lines[number])
    while number + 1 < len(lines) and (lines[number] != here[1] if here else lines[number].endswith("\\")):
        number += 1
    return number + 1


def settled(line: str) -> str:
    """The line without times, addresses, ages and the width of columns."""
    for pattern, word in CHANCE:
        line = pattern.sub(word, line)
    return " ".join(line.split())


def missing(shown: tuple[str, ...], said: str) -> list[str]:
    """The lines that the page shows and the command did not print, in this order; `…` stands for any lines, and within
    a line for any text."""
    printed = iter([settled(line) for line in said.splitlines()])
    return [line for line in shown if line != "…" and not any(_same(settled(line), other) for other in printed)]


def _same(shown: str, printed: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, shown.split("…"))), printed) is not None
