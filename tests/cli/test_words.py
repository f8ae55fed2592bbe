"""What users read at the command line names nothing of the hub's inside; `fleet help` explains the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from fleet.cli import explain, helpterm
from fleet.cli.main import app
from fleet.controllers.decide import commit
from fleet.core.model import reason
from tests.cli.hub import fleet, refusal

INSIDE = re.compile(r"\b(units?|heads?|slots?|tiers?|greed\w+|claim\w*|crossing)\b", re.IGNORECASE)
# Words that mean something else there: the claims of an OpenID token, and 30s as a number with its unit.
OTHERS = re.compile(r"Claim with the |A claim that tokens must have|one with a unit: 30s")


def helps(words: str, command: Any) -> Iterator[tuple[str, str]]:
    yield words, f"{command.help or ''} {command.epilog or ''}"
    for parameter in command.params:
        if not getattr(parameter, "hidden", False):
            yield f"{words} {parameter.opts[0]}", getattr(parameter, "help", None) or ""
    for name, child in getattr(command, "commands", {}).items():
        yield from helps(f"{words} {name}", child)


def test_no_help_names_the_inside_of_the_hub() -> None:
    texts = dict(helps("fleet", typer.main.get_command(app)))
    texts = {where: re.sub(r"--[a-z-]+", "", OTHERS.sub("", text)) for where, text in texts.items()}
    assert len(texts) > 100
    assert {where: text for where, text in texts.items() if INSIDE.search(text)} == {}


def test_no_reason_names_the_inside_of_the_hub() -> None:
    special = {name: text for name, text in vars(reason).items() if name.startswith("_") and isinstance(text, str)}
    by_tier = {f"{table} {tier}": text for table in (reason._WAITS_AS, commit._WHY) for tier, text in table.items()}
    sentences = {**special, **by_tier, **explain.NUMBERS, **explain.COUNTS_AS}
    sentences |= {code.value: entry.text for code, entry in reason.TABLE.items()}
    shown = {name: re.sub(r"\{\w+\}", "", text) for name, text in sentences.items() if not name.startswith("__")}
    assert len(shown) > 50
    assert {name: text for name, text in shown.items() if INSIDE.search(text)} == {}


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (["fair", "share"], "fair share  (Quota)"),
        (["Gangs"], "gang  (Objects)"),
        (["quotaexhausted"], "QuotaExhausted: the reason of a job that waits (Info)"),
        (["what-if"], "what-if  (Scheduling)"),
        (["drain"], "drain is a command: fleet drain --help"),
        (["squeue"], "squeue of other systems is here: fleet jobs"),
        (["partition"], "queue  (Quota)"),
    ],
)
def test_a_term_a_code_and_a_command_are_explained(words: list[str], first: str) -> None:
    done = fleet("help", *words)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, first)
    assert not re.search(r"`|\]\(|fleet/|api/", done.stdout)


def test_without_a_term_all_are_listed() -> None:
    shown = fleet("help").stdout
    assert [entry["term"] for entry in helpterm.terms() if f"  {entry['term']} " not in shown] == []


def test_a_word_that_is_no_term_is_answered_with_the_nearest() -> None:
    assert refusal(fleet("help", "backfil")) == (
        'fleet: no term is called "backfil", did you mean backfill or BackOff or back-off?; fleet help lists all'
    )
    assert refusal(fleet("help", "xyzzy")) == 'fleet: no term is called "xyzzy"; fleet help lists all'
