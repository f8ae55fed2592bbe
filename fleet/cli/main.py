"""`fleet`: one command, one file a subcommand.

Heavy imports stand inside the functions that need them, so that `fleet --help` and the small commands start at once.
An expected failure is one line on stderr and exit status 1, a disk that is full among them; Ctrl-C is 130; anything
else is a bug and shows itself.
"""

from __future__ import annotations

import errno
import os
import sys

import typer

from fleet.cli import (
    agent,
    api,
    backup,
    clusters,
    controllers,
    cordon,
    decide,
    delete,
    demo,
    doctor,
    drain,
    explain,
    jobs,
    join,
    logs,
    move,
    orphans,
    queues,
    replay,
    restore,
    sim,
    status,
    submit,
    token,
    unjoin,
    up,
    version,
    whatif,
)
from fleet.cli.examples import of
from fleet.cli.failure import Failure

app = typer.Typer(
    name="fleet",
    help="Queue training jobs under one quota over many Kubernetes clusters.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("up", epilog=of("up"))(up.up)
app.command("demo", epilog=of("demo"))(demo.demo)
app.command("join", epilog=of("join"))(join.join)
app.command("unjoin", epilog=of("unjoin"))(unjoin.unjoin)
app.command("cordon", epilog=of("cordon"))(cordon.cordon)
app.command("uncordon", epilog=of("uncordon"))(cordon.uncordon)
app.command("drain", epilog=of("drain"))(drain.drain)
app.command("move", epilog=of("move"))(move.move)
app.command("status", epilog=of("status"))(status.status)
app.command("clusters", epilog=of("clusters"))(clusters.clusters)
app.command("queues", epilog=of("queues"))(queues.queues)
app.command("submit", epilog=of("submit"))(submit.submit)
app.command("delete", epilog=of("delete"))(delete.delete)
app.command("jobs", epilog=of("jobs"))(jobs.jobs)
app.command("explain", epilog=of("explain"))(explain.explain)
app.command("doctor", epilog=of("doctor"))(doctor.doctor)
app.command("decide", epilog=of("decide"))(decide.decide)
app.command("what-if", epilog=of("what-if"))(whatif.what_if)
app.command("replay", epilog=of("replay"))(replay.replay)
app.command("backup", epilog=of("backup"))(backup.backup)
app.command("restore", epilog=of("restore"))(restore.restore)
app.add_typer(orphans.app, name="orphans")
app.add_typer(token.app, name="token")
app.command("agent", epilog=of("agent"))(agent.agent)
app.command("api", epilog=of("api"))(api.api)
app.command("controllers", epilog=of("controllers"))(controllers.controllers)
app.command("sim", epilog=of("sim"))(sim.sim)
app.command("version", epilog=of("version"))(version.version)


_FULL = (errno.ENOSPC, errno.EDQUOT)


def main() -> None:
    """The console script: runs the command and turns what it raises into an exit status."""
    try:
        try:
            app()
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
