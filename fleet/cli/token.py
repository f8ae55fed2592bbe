"""`fleet token`: credentials for users."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

import typer

from fleet.cli.examples import of
from fleet.cli.failure import Failure
from fleet.cli.options import DataDirOption

app = typer.Typer(help="Make credentials for users.", no_args_is_help=True, rich_markup_mode=None)


class As(StrEnum):
    token = "token"
    kubeconfig = "kubeconfig"


@app.callback()
def tokens() -> None:
    """Make credentials for users; RBAC objects on the hub say what they may do."""


@app.command("create", epilog=of("token create"))
def create(
    user: Annotated[str, typer.Argument(help="Name of the user, as RBAC objects name it.")],
    group: Annotated[list[str] | None, typer.Option("--group", help="A group of the user; may be repeated.")] = None,
    output: Annotated[As, typer.Option("--output", "-o", help="The output.")] = As.token,
    server: Annotated[
        str | None, typer.Option(help="https://HOST:PORT for the kubeconfig (default: as in DATA-DIR/kubeconfig).")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Namespace that the kubeconfig's context is in.")
    ] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Make a token for a user, and print it or a whole kubeconfig. Run it where the data directory is."""
    from fleet.amc.kubeconfig import load
    from fleet.cli.datadir import add_token, locate
    from fleet.engine.kubeconfig import BadKubeconfig, write
    from fleet.model.names import label_problems

    data = locate(data_dir)
    data.need()
    if not all(_is_name(name) for name in (user, *(group or ()))):
        raise Failure("names of users and groups are printable text without commas, quotes and spaces around them")
    if server is None and output is As.kubeconfig:
        try:
            server = load([data.kubeconfig], must_exist=True).server
        except BadKubeconfig as error:
            raise Failure(f"the hub's address is not known: {error} (else give --server)") from error
    if server is not None and not re.fullmatch(r"https://[^\s/]+", server):
        raise Failure(f"--server {server}: not https://HOST:PORT")
    if namespace and label_problems(namespace):
        raise Failure(f"--namespace {namespace}: is no name of a namespace")
    token = add_token(data, user, tuple(group or ()))
    if output is As.token or server is None:
        print(token)
        return
    ca = data.ca_certificate.read_bytes()
    print(write(server, name="fleet", user=user, namespace=namespace or "", ca=ca, token=token), end="")


def _is_name(name: str) -> bool:
    """Whether the name reads back from the token file as it was given."""
    return bool(name) and name.isprintable() and name == name.strip() and not any(c in ',"' for c in name)
