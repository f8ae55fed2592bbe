"""`fleet completion`: the script by which a shell completes commands, options and names.

The shell runs `fleet` again with a variable that says what stands on the line (`completing` in main.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import typer

VARIABLE = "_FLEET_COMPLETE"


class Shell(StrEnum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell.")]) -> None:
    """Print the script that makes a shell complete words.

    In ~/.bashrc or ~/.zshrc: source <(fleet completion bash), with the name of the shell. In fish: fleet completion
    fish | source. Names of jobs, queues, members and namespaces come from the hub.
    """
    from typer._completion_shared import get_completion_script

    print(get_completion_script(prog_name="fleet", complete_var=VARIABLE, shell=shell.value))


def completing() -> list[str] | None:
    """The words of the line that a shell asks about; None where no shell asks."""
    if VARIABLE not in os.environ:
        return None
    return (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or "").split()


def prepare() -> None:
    """Make this process answer the shell, and say nothing else: stderr is the terminal on which people type."""
    from typer._completion_classes import completion_init

    completion_init()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def relevant_commands(words: Iterable[str], commands: Iterable[str]) -> Iterable[str]:
    """The command whose words are completed, or all while its own name is."""
    second = list(words)[1:2]
    return second if second and second[0] in commands else commands
