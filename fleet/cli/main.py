"""`fleet`: one command, one file a subcommand.

Heavy imports stand inside the functions that need them, so that `fleet --help` and the small commands start at once. A
command that is named loads no other: each process of a hub that was killed starts through here, too.
An expected failure is one line on stderr and exit status 1, a disk that is full among them; a time that is over is 124,
Ctrl-C 130; anything else is a bug and shows itself.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from fleet.amc.terminal import FULL, drop_output, plain
from fleet.cli import logs, optional
from fleet.cli.completion import completing, prepare, relevant_commands
from fleet.cli.examples import of
from fleet.cli.failure import Failure
from fleet.cli.parsing import CommandGroup

# In the order of --help: the module of each command, and its function there where that is not named like the command.
# `hub.`: in the part of Fleet that a command line alone does not need.
COMMANDS = {
    "up": "hub.up",
    "demo": "hub.demo",
    "join": "join",
    "unjoin": "unjoin",
    "cordon": "cordon",
    "uncordon": "cordon:uncordon",
    "drain": "drain",
    "move": "move",
    "status": "status",
    "clusters": "clusters",
    "queues": "queues",
    "run": "run",
    "submit": "submit",
    "check": "check",
    "sweep": "sweep",
    "clone": "clone",
    "delete": "delete",
    "jobs": "jobs",
    "explain": "explain",
    "wait": "wait",
    "history": "history:app",
    "show": "show",
    "report": "report",
    "logs": "joblog:logs",
    "exec": "execute:execute",
    "attach": "execute:attach",
    "port-forward": "portforward:port_forward",
    "top": "top",
    "hold": "verbs:hold",
    "release": "verbs:release",
    "suspend": "verbs:suspend",
    "resume": "verbs:resume",
    "cancel": "verbs:cancel",
    "priority": "verbs:priority",
    "doctor": "doctor",
    "notifications": "notifications:app",
    "decide": "hub.decide",
    "what-if": "whatif:what_if",
    "replay": "hub.replay",
    "backup": "hub.backup",
    "restore": "hub.restore",
    "orphans": "orphans:app",
    "token": "token:app",
    "agent": "hub.agent",
    "api": "hub.api",
    "controllers": "hub.controllers",
    "sim": "hub.sim",
    "help": "helpterm:help_term",
    "completion": "completion",
    "version": "version",
}

# They hear signals themselves before they have anything to put away, and load modules until then.
LISTENING = frozenset({"up", "api", "controllers", "sim", "agent"})

# Of a command that is not installed: it takes all that stands behind it.
ANY_WORDS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}

app: typer.Typer  # with all commands; made when somebody asks for it


def __getattr__(name: str) -> typer.Typer:
    if name == "app":
        return _whole()
    raise AttributeError(name)


@functools.cache
def _whole() -> typer.Typer:
    return with_commands(COMMANDS)


def with_commands(names: Iterable[str]) -> typer.Typer:
    """The program with these commands alone."""
    program = _empty()
    for name in names:
        module, _, function = COMMANDS[name].partition(":")
        if module.startswith("hub.") and not optional.hub_is_installed():
            program.command(name, help=_first_lines()[name], context_settings=ANY_WORDS)(optional.absent(name))
            continue
        place = module if module.startswith("hub.") else f"cli.{module}"
        found = getattr(importlib.import_module(f"fleet.{place}"), function or module.removeprefix("hub."))
        if isinstance(found, typer.Typer):
            program.add_typer(found, name=name, cls=CommandGroup)
        else:
            program.command(name, epilog=of(name), cls=getattr(found, "command_class", None))(found)
    return program


def with_a_list() -> typer.Typer:
    """The program that only lists its commands: to load all modules for them takes as long as all the rest."""
    made = _empty()
    for name, first_line in _first_lines().items():
        made.command(name, help=first_line)(_nothing)
    return made


def _first_lines() -> dict[str, str]:
    """The first line of each command's help (docs/generate.py)."""
    import json

    lines: dict[str, str] = json.loads((Path(__file__).parent / "commands.json").read_text())
    return lines


def _empty() -> typer.Typer:
    program = typer.Typer(
        name="fleet",
        cls=CommandGroup,
        help="Queue training jobs under one quota over many Kubernetes clusters.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    program.callback()(_group)
    return program


def _said(wanted: bool) -> None:
    if wanted:
        from fleet.values.release import running

        print(f"fleet {running()}")
        raise typer.Exit


def _group(
    version: Annotated[
        bool, typer.Option("--version", callback=_said, is_eager=True, help="Print the version of this program.")
    ] = False,
    token: Annotated[
        str | None,
        typer.Option(help="Bearer token, in place of the credentials of the kubeconfig's user (default: FLEET_TOKEN)."),
    ] = None,
) -> None:
    """For all commands; and one command alone is a group so."""
    if token:
        os.environ["FLEET_TOKEN"] = token


def _nothing() -> None: ...


LISTED: tuple[list[str], ...] = ([], ["-h"], ["--help"], ["--version"])  # arguments that need no command


def main() -> None:
    """The console script: runs the command and turns what it raises into an exit status."""
    line = completing()
    if line is not None:
        prepare()
    names = relevant_commands(sys.argv if line is None else line, COMMANDS)
    with plain():
        _run(names, listed=sys.argv[1:] in LISTED and line is None)


def _run(names: Iterable[str], *, listed: bool) -> None:
    try:
        try:
            program = with_a_list() if listed else with_commands(names)
            # Default: as fleet.cli set it for the time of loading. A signal that the caller ignores stays ignored.
            if signal.getsignal(signal.SIGINT) is signal.SIG_DFL and not LISTENING.issuperset(names):
                signal.signal(signal.SIGINT, signal.default_int_handler)
            program()
        finally:
            sys.stdout.flush()  # here, where it can still be said in words that it was in vain
    except Failure as failure:
        logs.say(f"fleet: {failure}", "error")
        sys.exit(failure.exit_status)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # `| head` has seen enough
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.errno not in FULL:
            raise
        drop_output()
        logs.say(f"fleet: cannot write: {error.strerror}", "error")
        sys.exit(1)


if __name__ == "__main__":
    main()
