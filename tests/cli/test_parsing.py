"""Options are read as Typer reads them, and mostly without pydantic, which takes as long as all of Typer."""

from __future__ import annotations

import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.core import TyperCommand
from typer.testing import CliRunner

from fleet.cli.main import COMMANDS, with_commands
from fleet.cli.nearest import ELSEWHERE
from fleet.cli.parsing import Command


class Form(StrEnum):
    table = "table"
    json = "json"


def show(
    name: Annotated[str, typer.Argument()] = "",
    word: Annotated[list[str] | None, typer.Option()] = None,
    form: Annotated[Form, typer.Option(case_sensitive=False)] = Form.table,
    file: Annotated[Path | None, typer.Option()] = None,
    there: Annotated[Path | None, typer.Option(exists=True)] = None,
    folder: Annotated[Path | None, typer.Option(file_okay=False)] = None,
    least: Annotated[int, typer.Option(min=2)] = 3,
    pace: Annotated[float, typer.Option()] = 1,
    quiet: Annotated[bool, typer.Option("--quiet/--loud")] = False,
    upper: Annotated[str, typer.Option(parser=str.upper)] = "",
) -> None:
    values: tuple[Any, ...] = (name, word, form, file, there, folder, least, pace, quiet, upper)
    print([(type(value).__name__, value) for value in values])


def outcome(cls: type[TyperCommand], words: list[str]) -> tuple[int, str]:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(cls=cls)(show)
    done = CliRunner().invoke(app, words)
    return done.exit_code, done.output


@pytest.mark.parametrize(
    "words",
    [
        [], ["one"], [""], ["--word", "a", "--word", "b"], ["--form", "json"], ["--form", "JSON"], ["--form", "xml"],
        ["--file", "nowhere"], ["--file", "."], ["--there", "nowhere"], ["--there", "."], ["--folder", "FILE"],
        ["--folder", "."], ["--least", "2"], ["--least", "1"], ["--least", "x"], ["--pace", "2"], ["--quiet"],
        ["--upper", "a"], ["--nonsense"], ["one", "two"],
    ],
)  # fmt: skip
def test_every_value_is_the_one_that_typer_reads(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "FILE").write_text("")
    words = [str(tmp_path / word) if word == "FILE" else word for word in words]
    assert outcome(Command, words) == outcome(TyperCommand, words)


@pytest.mark.parametrize(
    "words",
    [["jobs", "-A", "-o", "json", "--state", "queued", "--kubeconfig", "/nowhere"], ["status"], ["explain", "a"]],
)
def test_a_command_that_is_run_loads_no_pydantic(words: list[str], tmp_path: Path) -> None:
    code = f"import sys; sys.argv = ['fleet', *{words!r}]; from fleet.cli.main import main\ntry: main()\n"
    code += "finally: print('pydantic' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=180, check=False,
        env={"HOME": str(tmp_path), "FLEET_DATA_DIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 1 and "no hub found" in done.stderr, done.stderr
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("members",), "'clusters' or 'top'"), (("squeue",), "'jobs'"), (("ps",), "'jobs'"), (("ls",), "'jobs'"),
        (("sattach",), "'attach'"), (("scontrol",), "'show' or 'explain' or 'hold' or 'release' or 'priority'"),
        (("list",), "'jobs'"), (("nodes",), "'clusters' or 'top'"), (("describe",), "'show' or 'explain'"),
        (("kill",), "'cancel'"), (("stop",), "'cancel'"), (("token", "ls"), "'list'"), (("token", "rm"), "'revoke'"),
        (("jbos",), "'jobs'"),
    ],
)  # fmt: skip
def test_a_word_of_another_system_is_answered_with_the_command(words: tuple[str, ...], named: str) -> None:
    done = CliRunner().invoke(with_commands(COMMANDS), words)
    assert (done.exit_code, done.output.splitlines()[-1]) == (
        2, f"Error: No such command {words[-1]!r}. Did you mean {named}?",
    )  # fmt: skip


def test_every_word_of_another_system_has_a_command() -> None:
    subcommands = {"list", "revoke", "create"}
    assert {command for here in ELSEWHERE.values() for command in here} <= COMMANDS.keys() | subcommands
    assert ELSEWHERE.keys().isdisjoint(COMMANDS.keys())
