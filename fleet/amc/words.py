"""The words of `kubectl amc`: its commands with their options."""

from __future__ import annotations

import argparse

PROG = "kubectl amc"
MEMBER_S = 5.0
EXAMPLES = """examples:
  kubectl amc get pytorchjob -M                        jobs in every member
  kubectl amc get pods -m member1,member2 -n team-a    pods in two members
  kubectl amc get pods -M -w                           and each change
  kubectl amc get pytorchjob NAME -m member1 -o yaml   one object as it is there
  kubectl amc describe pod NAME -m member1             an object with its events
  kubectl amc logs POD -m member1 -f                   what a pod writes
  kubectl amc exec POD -m member1 -it -- bash          a shell in a pod
  kubectl amc top pod -M                               what pods use
  kubectl amc apply -f FILE -M                         an object into every member
  kubectl amc delete configmap NAME -m member1         an object in a member"""
Commands = argparse._SubParsersAction
KINDS = "as in kubectl get; several kinds: a,b"


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog=PROG,
        description="Look into the member clusters of a Fleet hub.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _get(commands)
    _describe(commands)
    _logs(commands)
    _exec(commands)
    _top(commands)
    _apply(commands)
    _delete(commands)
    return top


def _get(commands: Commands[argparse.ArgumentParser]) -> None:
    get = commands.add_parser(
        "get",
        help="list objects in members, or show them",
        epilog=EXAMPLES,
        description="List objects in members. ADOPTION says Y where the hub put the object there, N where it did not.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    get.add_argument("what", nargs="+", metavar="KIND[/NAME] [NAME …]", help=KINDS)
    _members(get)
    _namespaces(get)
    get.add_argument("-l", "--selector", default="", help="label selector")
    get.add_argument("--field-selector", default="", help="field selector")
    get.add_argument("-o", "--output", choices=("wide", "yaml", "json", "name"), default="", help="output format")
    get.add_argument("-w", "--watch", action="store_true", help="go on with each change")
    get.add_argument("--show-labels", action="store_true", help="labels as the last column")
    get.add_argument("--no-headers", action="store_true", help="no line of column names")
    _hub(get)


def _describe(commands: Commands[argparse.ArgumentParser]) -> None:
    describe = commands.add_parser(
        "describe", help="describe objects in members", description="kubectl's description of objects in members."
    )
    describe.add_argument("what", nargs="+", metavar="KIND[/NAME] [NAME …]", help=KINDS)
    _members(describe)
    _namespaces(describe)
    describe.add_argument("-l", "--selector", default="", help="label selector")
    _hub(describe)


def _logs(commands: Commands[argparse.ArgumentParser]) -> None:
    logs = commands.add_parser("logs", help="print the log of a pod in a member", description="Print a pod's log.")
    _pod(logs)
    logs.add_argument("container_", nargs="?", default="", metavar="CONTAINER", help="as -c")
    logs.add_argument("-f", "--follow", action="store_true", help="go on with what it writes")
    logs.add_argument("--tail", type=int, metavar="LINES", help="only the last lines")
    logs.add_argument("-p", "--previous", action="store_true", help="of the container before it was restarted")
    logs.add_argument("--timestamps", action="store_true", help="when each line was written")
    _hub(logs)


def _exec(commands: Commands[argparse.ArgumentParser]) -> None:
    execute = commands.add_parser(
        "exec",
        help="run a command in a pod of a job",
        description="Run a command in a pod of a job of the hub. Needs the right to create pods/exec on the hub.",
    )
    _pod(execute)
    execute.add_argument("-i", "--stdin", action="store_true", help="pass stdin on to the command")
    execute.add_argument("-t", "--tty", action="store_true", help="with a terminal")
    _hub(execute)
    execute.add_argument("words", nargs="+", metavar="-- COMMAND", help="the command and its words")


def _top(commands: Commands[argparse.ArgumentParser]) -> None:
    top = commands.add_parser(
        "top", help="show what nodes or pods use", description="CPU and memory, where the members serve metrics.k8s.io."
    )
    top.add_argument("kind", choices=("node", "nodes", "no", "pod", "pods", "po"), help="of nodes, or of pods")
    top.add_argument("names", nargs="*", metavar="NAME", help="only these")
    _members(top)
    _namespaces(top)
    top.add_argument("-l", "--selector", default="", help="label selector")
    top.add_argument("--no-headers", action="store_true", help="no line of column names")
    _hub(top)


def _apply(commands: Commands[argparse.ArgumentParser]) -> None:
    apply = commands.add_parser(
        "apply",
        help="apply objects in members",
        description="Apply objects in members, by server-side apply. What the hub put there is refused.",
    )
    apply.add_argument("-f", "--filename", action="append", required=True, metavar="FILE", help="a manifest; - : stdin")
    _members(apply)
    apply.add_argument("-n", "--namespace", help="of objects that name none; default: the context's namespace")
    apply.add_argument("--force-conflicts", action="store_true", help="take fields over that others own")
    apply.add_argument("--dry-run", action="store_true", help="ask the members, and change nothing")
    _hub(apply)


def _delete(commands: Commands[argparse.ArgumentParser]) -> None:
    delete = commands.add_parser(
        "delete",
        help="delete objects in members",
        description="Delete objects in members. What the hub put there is refused: delete its job on the hub.",
    )
    delete.add_argument("what", nargs="+", metavar="KIND[/NAME] [NAME …]", help=KINDS)
    _members(delete)
    delete.add_argument("-n", "--namespace", help="default: the context's namespace")
    delete.add_argument("-l", "--selector", default="", help="label selector, instead of names")
    delete.add_argument("--dry-run", action="store_true", help="ask the members, and change nothing")
    _hub(delete)


def _members(command: argparse.ArgumentParser) -> None:
    where = command.add_mutually_exclusive_group(required=True)
    where.add_argument("-M", "--all-members", action="store_true", help="every member")
    where.add_argument("-m", "--members", metavar="CLUSTER[,CLUSTER]", help="these members")


def _namespaces(command: argparse.ArgumentParser) -> None:
    command.add_argument("-n", "--namespace", help="default: the context's namespace")
    command.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces")


def _pod(command: argparse.ArgumentParser) -> None:
    command.add_argument("pod", metavar="POD", help="name of the pod, or pod/NAME")
    command.add_argument("-m", "--member", required=True, metavar="CLUSTER", help="the member that it runs in")
    command.add_argument("-c", "--container", default="", help="default: its first")
    command.add_argument("-n", "--namespace", help="default: the context's namespace")


def _hub(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--member-timeout",
        "--request-timeout",
        type=float,
        default=MEMBER_S,
        metavar="SECONDS",
        help=f"for each answer of a member ({MEMBER_S:g})",
    )
    command.add_argument("--kubeconfig", help="default: $KUBECONFIG, then ~/.kube/config")
    command.add_argument("--context", help="context of the kubeconfig")
    command.add_argument("--token", help="bearer token in place of the user's credentials; default: $FLEET_TOKEN")
