"""`kubectl amc`: look into the members through the hub, with the words and columns of kubectl.

Run by kubectl as its plugin `kubectl-amc`. Standard library and PyYAML only, so that it answers as fast as kubectl.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.amc.client import Client
    from fleet.amc.get import Query

PROG = "kubectl amc"
EXAMPLES = """examples:
  kubectl amc get pytorchjob -M                        jobs in every member
  kubectl amc get pods -m member1,member2 -n team-a    pods in two members
  kubectl amc get pytorchjob NAME -m member1 -o yaml   one object as it is there
  kubectl amc logs POD -m member1                      what a pod has written"""


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog=PROG, description="Look into the member clusters of a Fleet hub.", epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    get = commands.add_parser(
        "get", help="list objects in members, or show them", epilog=EXAMPLES,
        description="List objects in members. ADOPTION says Y where the hub put the object there, N where it did not.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    get.add_argument("what", nargs="+", metavar="KIND[/NAME] [NAME …]", help="as in kubectl get; several kinds: a,b")
    where = get.add_mutually_exclusive_group(required=True)
    where.add_argument("-M", "--all-members", action="store_true", help="look into every member")
    where.add_argument("-m", "--members", metavar="CLUSTER[,CLUSTER]", help="look into these members")
    get.add_argument("-n", "--namespace", help="default: the context's namespace")
    get.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces")
    get.add_argument("-l", "--selector", default="", help="label selector")
    get.add_argument("--field-selector", default="", help="field selector")
    get.add_argument("-o", "--output", choices=("wide", "yaml", "json", "name"), default="", help="output format")
    get.add_argument("--show-labels", action="store_true", help="labels as the last column")
    get.add_argument("--no-headers", action="store_true", help="no line of column names")
    get.add_argument("--request-timeout", type=float, default=10.0, metavar="SECONDS", help="for each member (10)")
    get.add_argument("--kubeconfig", help="default: $KUBECONFIG, then ~/.kube/config")
    get.add_argument("--context", help="context of the kubeconfig")
    _add_logs(commands)
    return top


def _add_logs(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    logs = commands.add_parser(
        "logs", help="print the log of a pod in a member", description="Print a pod's log so far."
    )
    logs.add_argument("pod", metavar="POD", help="name of the pod, or pod/NAME")
    logs.add_argument("container_", nargs="?", default="", metavar="CONTAINER", help="as -c")
    logs.add_argument("-m", "--member", required=True, metavar="CLUSTER", help="the member that it runs in")
    logs.add_argument("-c", "--container", default="", help="default: its first")
    logs.add_argument("-n", "--namespace", help="default: the context's namespace")
    logs.add_argument("--tail", type=int, metavar="LINES", help="only the last lines")
    logs.add_argument("-p", "--previous", action="store_true", help="of the container before it was restarted")
    logs.add_argument("--timestamps", action="store_true", help="when each line was written")
    logs.add_argument("--request-timeout", type=float, default=10.0, metavar="SECONDS", help="for the member (10)")
    logs.add_argument("--kubeconfig", help="default: $KUBECONFIG, then ~/.kube/config")
    logs.add_argument("--context", help="context of the kubeconfig")


def main(arguments: Sequence[str] | None = None) -> None:
    try:
        status = run(parser().parse_args(arguments))
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(status)


def run(options: argparse.Namespace) -> int:
    """The exit status: 1 when anything asked for could not be shown."""
    from fleet.amc import get, kubeconfig
    from fleet.amc.client import Client, NoAnswer
    from fleet.engine.kubeconfig import BadKubeconfig

    try:
        files = kubeconfig.paths(options.kubeconfig, os.environ)
        access = kubeconfig.load(files, context=options.context, must_exist=bool(options.kubeconfig))
        client = Client(access, timeout_s=options.request_timeout)
        if options.command == "logs":
            sys.stdout.write(_logs(client, options, access.namespace))
            return 0
        query = _query(options, access.namespace)
        text, complaints = get.run(client, query)
    except (BadKubeconfig, NoAnswer) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except get.Refused as error:
        print(error, file=sys.stderr)
        return 1
    sys.stdout.write(text)
    sys.stdout.flush()
    for line in complaints:
        print(line, file=sys.stderr)
    if not text and not complaints and query.output in ("", "wide"):
        print(get.empty_line(query), file=sys.stderr)
    return 1 if complaints else 0


def _logs(client: Client, options: argparse.Namespace, namespace: str) -> str:
    from fleet.amc.logs import LogQuery, logs

    query = LogQuery(
        options.pod, options.member, options.namespace or namespace, options.container or options.container_,
        options.tail, options.previous, options.timestamps,
    )  # fmt: skip
    return logs(client, query)


def _query(options: argparse.Namespace, namespace: str) -> Query:
    from fleet.amc.get import Query, Refused

    first, *names = options.what
    if "/" in first:
        pairs = [word.partition("/") for word in options.what]
        kinds = {kind for kind, _, _ in pairs}
        if len(kinds) != 1 or not all(name for _, _, name in pairs):
            raise Refused("error: KIND/NAME arguments must all name one kind")
        words, names = [pairs[0][0]], [name for _, _, name in pairs]
    else:
        words = [word for word in first.split(",") if word]
    if names and options.all_namespaces:
        raise Refused("error: a resource cannot be retrieved by name across all namespaces")
    if names and options.selector:
        raise Refused("error: name cannot be provided when a selector is specified")
    members = None if options.all_members else [name for name in options.members.split(",") if name]
    return Query(
        words=words, names=names, members=members,
        namespace=None if options.all_namespaces else options.namespace or namespace,
        selector=options.selector, field_selector=options.field_selector, output=options.output,
        show_labels=options.show_labels, no_headers=options.no_headers,
    )  # fmt: skip


if __name__ == "__main__":
    main()
