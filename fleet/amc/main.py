"""`kubectl amc`: look into the members through the hub, with the words and columns of kubectl.

Run by kubectl as its plugin `kubectl-amc`. Standard library and PyYAML only, so that it answers as fast as kubectl;
`exec` alone loads a library for WebSockets.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fleet.amc.terminal import FULL, drop_output, plain
from fleet.amc.words import parser

if TYPE_CHECKING:
    from fleet.amc.client import Client
    from fleet.amc.get import Query

__all__ = ["main", "parser"]


def main(arguments: Sequence[str] | None = None) -> None:
    with plain():
        try:
            status = run(parser().parse_args(arguments))
            sys.stdout.flush()
        except KeyboardInterrupt:
            status = 130
        except BrokenPipeError:  # `| head` has seen enough
            drop_output()
            status = 0
        except OSError as error:
            if error.errno not in FULL:
                raise
            drop_output()
            print(f"error: cannot write: {error.strerror}", file=sys.stderr)
            status = 1
    sys.exit(status)


def run(options: argparse.Namespace) -> int:
    """The exit status: 1 when anything asked for could not be shown or done."""
    from fleet.amc import get
    from fleet.amc.client import Client, NoAnswer
    from fleet.values.kubeconfig import files as kubeconfig
    from fleet.values.kubeconfig.document import BadKubeconfig

    try:
        files = kubeconfig.paths(options.kubeconfig, os.environ)
        access = kubeconfig.load(
            files, context=options.context, must_exist=bool(options.kubeconfig), programs=True, token=_token(options)
        )
        client = Client(access, timeout_s=options.member_timeout)
        options.namespace = options.namespace or access.namespace
        return _COMMANDS[options.command](client, options)
    except (BadKubeconfig, NoAnswer) as error:
        print(f"error: {error}", file=sys.stderr)
    except get.CommandRefusal as error:
        print(error, file=sys.stderr)
    return 1


def _token(options: argparse.Namespace) -> str:
    return str(options.token or os.environ.get("FLEET_TOKEN") or "")


def _get(client: Client, options: argparse.Namespace) -> int:
    from fleet.amc import get

    query = _query(options)
    if options.watch:
        from fleet.amc.watch import watch

        watch(client, query)
    text, complaints = get.run(client, query)
    status = _shown(text, complaints)
    if not text and not complaints and query.output in ("", "wide"):
        print(get.empty_line(query), file=sys.stderr)
    return status


def _describe(client: Client, options: argparse.Namespace) -> int:
    from fleet.amc.describe import describe

    how = [f"--kubeconfig={options.kubeconfig}"] if options.kubeconfig else []
    how += [f"--context={options.context}"] if options.context else []
    how += [f"--token={token}"] if (token := _token(options)) else []
    return _shown(*describe(client, _query(options), how, options.member_timeout))


def _logs(client: Client, options: argparse.Namespace) -> int:
    from fleet.amc.logs import LogQuery, logs

    query = LogQuery(
        options.pod,
        options.member,
        options.namespace,
        options.container or options.container_,
        options.tail,
        options.previous,
        options.timestamps,
        options.follow,
    )
    for piece in logs(client, query):
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    return 0


def _exec(client: Client, options: argparse.Namespace) -> int:
    from fleet.amc.streams import StreamTarget, session

    pod = options.pod.removeprefix("pod/").removeprefix("pods/")
    wanted = StreamTarget(options.namespace, f"{pod}.{options.member}", options.container, options.stdin, options.tty)
    return session(client, "exec", wanted, options.words)


def _top(client: Client, options: argparse.Namespace) -> int:
    from fleet.amc.get import Query
    from fleet.amc.top import top

    namespace = None if options.all_namespaces else options.namespace
    query = Query(
        words=["nodes" if options.kind.startswith("no") else "pods"],
        names=options.names,
        members=_chosen(options),
        namespace=namespace,
        selector=options.selector,
        no_headers=options.no_headers,
    )
    return _shown(*top(client, query))


def _apply(client: Client, options: argparse.Namespace) -> int:
    from fleet.amc.change import ApplyOptions, apply, documents, read

    stdin = sys.stdin.buffer.read() if "-" in options.filename else None
    bodies = documents(read(options.filename, stdin))
    asked = ApplyOptions(_chosen(options), options.namespace, options.dry_run, options.force_conflicts)
    return _said(*apply(client, bodies, asked))


def _delete(client: Client, options: argparse.Namespace) -> int:
    from fleet.amc.change import delete

    return _said(*delete(client, _query(options), dry_run=options.dry_run))


_COMMANDS = {
    "get": _get,
    "describe": _describe,
    "logs": _logs,
    "exec": _exec,
    "top": _top,
    "apply": _apply,
    "delete": _delete,
}


def _said(done: Sequence[str], failed: Sequence[str]) -> int:
    return _shown("".join(f"{line}\n" for line in done), failed)


def _shown(text: str, complaints: Sequence[str]) -> int:
    """Print both; the exit status."""
    sys.stdout.write(text)
    sys.stdout.flush()
    for line in complaints:
        print(line, file=sys.stderr)
    return 1 if complaints else 0


def _chosen(options: argparse.Namespace) -> list[str] | None:
    return None if options.all_members else [name for name in options.members.split(",") if name]


def _query(options: argparse.Namespace) -> Query:
    from fleet.amc.get import CommandRefusal, Query

    first, *names = options.what
    if "/" in first:
        pairs = [word.partition("/") for word in options.what]
        kinds = {kind for kind, _, _ in pairs}
        if len(kinds) != 1 or not all(name for _, _, name in pairs):
            raise CommandRefusal("error: KIND/NAME arguments must all name one kind")
        words, names = [pairs[0][0]], [name for _, _, name in pairs]
    else:
        words = [word for word in first.split(",") if word]
    everywhere = getattr(options, "all_namespaces", False)
    if names and everywhere:
        raise CommandRefusal("error: a resource cannot be retrieved by name across all namespaces")
    if names and options.selector:
        raise CommandRefusal("error: name cannot be provided when a selector is specified")
    return Query(
        words=words,
        names=names,
        members=_chosen(options),
        namespace=None if everywhere else options.namespace,
        selector=options.selector,
        field_selector=getattr(options, "field_selector", ""),
        output=getattr(options, "output", ""),
        show_labels=getattr(options, "show_labels", False),
        no_headers=getattr(options, "no_headers", False),
    )


if __name__ == "__main__":
    main()
