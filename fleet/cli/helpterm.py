"""`fleet help TERM`: the meaning of a word that Fleet uses, or of the code of a reason.

The words are those of docs/glossary.md, which docs/generate.py writes into glossary.json beside this file.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, TypedDict

import typer

from fleet.cli.failure import Failure

WIDTH = 100
NEAR_MOST = 3
_SOURCES = ("fleet/", "api/", "docs/")  # places in Fleet's own code, of no use to a reader of the command line


class Term(TypedDict):
    section: str
    term: str
    meaning: str
    elsewhere: str
    where: str


@cache
def terms() -> tuple[Term, ...]:
    """All terms of the glossary, in its order."""
    return tuple(json.loads((Path(__file__).parent / "glossary.json").read_text()))


def help_term(
    term: Annotated[
        list[str] | None, typer.Argument(help="A term such as gang, or the code of a reason; none: all terms.")
    ] = None,
) -> None:
    """Explain a word that Fleet uses, or the code of a reason."""
    print("\n".join(explained(" ".join(term)) if term else listed()))


def explained(word: str) -> list[str]:
    """The lines about a term, a code or a command. Raises Failure with the nearest names."""
    from fleet.cli.main import COMMANDS
    from fleet.core.model.reason import TABLE

    name = word.lower()
    lines = [
        line for entry in terms() if entry["term"].lower() in (name, name.removesuffix("s")) for line in _of(entry)
    ]
    code = next((code for code in TABLE if code.value.lower() == name), None)
    if code is not None:
        lines += [
            f"{code.value}: the reason of a job that waits ({TABLE[code].severity.value})",
            *_wrapped(TABLE[code].text),
        ]
    if name in COMMANDS:
        lines.append(
            f"{name} is a command, too: fleet {name} --help" if lines else f"{name} is a command: fleet {name} --help"
        )
    if not lines:
        lines = list(_elsewhere(name))
    if not lines:
        raise Failure(f'no term is called "{word}"{_near(name)}; fleet help lists all')
    return lines


def listed() -> Iterator[str]:
    """Every term with its meaning, by section."""
    width = max(len(entry["term"]) for entry in terms())
    section = ""
    for entry in terms():
        if entry["section"] != section:
            yield from ([""] if section else [])
            section = entry["section"]
            yield f"{section}:"
        yield f"  {entry['term']:<{width}}  {plain(entry['meaning'])}"
    yield ""
    yield "Codes of reasons, which fleet explain names, are explained as well: fleet help QuotaExhausted"


def plain(text: str) -> str:
    """Markdown as a terminal shows it: without code marks, and links by their texts."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("`", "")


def _of(entry: Term) -> Iterator[str]:
    yield f"{entry['term']}  ({entry['section']})"
    yield from _wrapped(plain(entry["meaning"]))
    if entry["elsewhere"] != "-":
        yield from _wrapped(f"Elsewhere: {plain(entry['elsewhere'])}")
    seen = [place for place in re.split(r"[;,] ", plain(entry["where"])) if not place.startswith(_SOURCES)]
    if seen:
        yield from _wrapped(f"Seen in: {'; '.join(seen)}")


def _elsewhere(word: str) -> Iterator[str]:
    """What is called so in other systems: commands here, and terms."""
    from fleet.cli.main import COMMANDS
    from fleet.cli.nearest import ELSEWHERE

    here = [f"fleet {name}" for name in ELSEWHERE.get(word, ()) if name in COMMANDS]
    if here:
        yield f"{word} of other systems is here: {', '.join(here)}"
    for entry in terms():
        if re.search(rf"\b{re.escape(word)}\b", plain(entry["elsewhere"]).lower()):
            yield from _of(entry)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ")


def _near(word: str) -> str:
    from difflib import get_close_matches

    from fleet.cli.main import COMMANDS
    from fleet.core.model.reason import TABLE

    names = {
        name.lower(): name for name in (*(entry["term"] for entry in terms()), *(c.value for c in TABLE), *COMMANDS)
    }
    near = [names[name] for name in get_close_matches(word, names, NEAR_MOST, 0.6)]
    return f", did you mean {' or '.join(near)}?" if near else ""
