"""A word of another system in the place of a command is answered with the command of Fleet."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from fleet.cli.main import COMMANDS, with_commands
from fleet.cli.nearest import ELSEWHERE


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("members",), "'clusters' or 'top'"),
        (("squeue",), "'jobs'"),
        (("ps",), "'jobs'"),
        (("ls",), "'jobs'"),
        (("sattach",), "'attach'"),
        (("scontrol",), "'show' or 'explain' or 'hold' or 'release' or 'priority'"),
        (("list",), "'jobs'"),
        (("nodes",), "'clusters' or 'top'"),
        (("describe",), "'show' or 'explain'"),
        (("kill",), "'cancel'"),
        (("stop",), "'cancel'"),
        (("token", "ls"), "'list'"),
        (("token", "rm"), "'revoke'"),
        (("jbos",), "'jobs'"),
    ],
)
def test_a_word_of_another_system_is_answered_with_the_command(words: tuple[str, ...], named: str) -> None:
    done = CliRunner().invoke(with_commands(COMMANDS), words)
    assert (done.exit_code, done.output.splitlines()[-1]) == (
        2,
        f"Error: No such command {words[-1]!r}. Did you mean {named}?",
    )


def test_every_word_of_another_system_has_a_command() -> None:
    subcommands = {"list", "revoke", "create"}
    assert {command for here in ELSEWHERE.values() for command in here} <= COMMANDS.keys() | subcommands
    assert ELSEWHERE.keys().isdisjoint(COMMANDS.keys())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("jobs", "--limit", "x"), "'x' is not a valid whole number."),
        (("decide", "case.json", "--now", "noon"), "'noon' is not a valid number."),
    ],
)
def test_a_value_that_is_no_number_is_refused_in_words_of_people(words: tuple[str, ...], says: str) -> None:
    done = CliRunner().invoke(with_commands(COMMANDS), words)
    assert (done.exit_code, done.output.splitlines()[-1].endswith(says)) == (2, True), done.output


@pytest.mark.parametrize("command", COMMANDS)
def test_help_calls_values_as_people_do(command: str) -> None:
    said = CliRunner().invoke(with_commands([command]), [command, "--help"]).output
    assert not [word for word in ("<str>", "<int>", "<int range>", "<float>", "<float range>") if word in said]
