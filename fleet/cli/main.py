"""`fleet`: one command, one file a subcommand.

Heavy imports stand inside the functions that need them, so that `fleet --help` and the small commands start at once. A
command that is named loads no other: each process of a hub that was killed starts through here, too.
An expected failure is one line on stderr and exit status 1, a disk that is full among them; Ctrl-C is 130; anything
else is a bug and shows itself.
"""

from __future__ import annotations

import errno
import functools
import importlib
import os
import signal
import sys
from collections.abc import Iterable

import typer

from fleet.cli import logs
from fleet.cli.examples import of
from fleet.cli.failure import Failure

# In the order of --help: the module of each command, and its function there where that is not named like the command.
COMMANDS = {
    "up": "up", "demo": "demo", "join": "join", "unjoin": "unjoin", "cordon": "cordon", "uncordon": "cordon:uncordon",
    "drain": "drain", "move": "move", "status": "status", "clusters": "clusters", "queues": "queues",
    "submit": "submit", "clone": "clone", "delete": "delete", "jobs": "jobs", "explain": "explain", "wait": "wait",
    "logs": "joblog:logs",
    "hold": "verbs:hold", "release": "verbs:release", "suspend": "verbs:suspend", "resume": "verbs:resume",
    "cancel": "verbs:cancel", "priority": "verbs:priority", "doctor": "doctor",
    "decide": "decide", "what-if": "whatif:what_if", "replay": "replay", "backup": "backup", "restore": "restore",
    "orphans": "orphans:app", "token": "token:app", "agent": "agent", "api": "api", "controllers": "controllers",
    "sim": "sim", "version": "version",
}  # fmt: skip

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
    made = typer.Typer(
        name="fleet",
        help="Queue training jobs under one quota over many Kubernetes clusters.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(_group)
    for name in names:
        module, _, function = COMMANDS[name].partition(":")
        found = getattr(importlib.import_module(f"fleet.cli.{module}"), function or module)
        if isinstance(found, typer.Typer):
            made.add_typer(found, name=name)
        else:
            made.command(name, epilog=of(name))(found)
    return made


def _group() -> None:
    """Nothing: it makes one command alone a group."""


_FULL = (errno.ENOSPC, errno.EDQUOT)


def main() -> None:
    """The console script: runs the command and turns what it raises into an exit status."""
    named = sys.argv[1:2] if sys.argv[1:2] and sys.argv[1] in COMMANDS else COMMANDS
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # as fleet.cli left it while the modules were loaded
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        try:
            with_commands(named)()
        finally:
            sys.stdout.flush()  # here, where it can still be said in words that it was in vain
    except Failure as failure:
        logs.say(f"fleet: {failure}")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # `| head` has seen enough
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the rest of the output is not tried again
        logs.say(f"fleet: cannot write: {error.strerror}")
        sys.exit(1)


if __name__ == "__main__":
    main()
