"""`fleet token`: credentials of users, in the data directory."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from enum import StrEnum
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleet.cli import lists
from fleet.cli.colors import Color
from fleet.cli.examples import of
from fleet.cli.failure import Failure
from fleet.cli.options import ColorOption, DataDirOption, ListOutput, ListOutputOption, WatchOption

if TYPE_CHECKING:
    from fleet.cli.datadir import DataDir

STATES = ("valid", "over")
LIST = lists.Listing(
    columns=("id", "user", "groups", "expires"),
    wide=("id", "user", "uid", "groups", "state", "expires"),
    sorts={
        "id": lambda line: line["id"],
        "user": lambda line: line["user"],
        "expires": lambda line: (line["expires"] in (None, "never"), line["expires"] or ""),
    },
    word=lambda line: str(line["id"]),
    key=("id",),
)
NOTHING = "No tokens"

app = typer.Typer(help="Make, list and revoke credentials of users.", no_args_is_help=True, rich_markup_mode=None)


class As(StrEnum):
    token = "token"
    kubeconfig = "kubeconfig"


@app.callback()
def tokens() -> None:
    """Make, list and revoke credentials of users; RBAC objects on the hub say what they may do."""


@app.command("create", epilog=of("token create"))
def create(
    user: Annotated[str, typer.Argument(help="Name of the user, as RBAC objects name it.")],
    group: Annotated[list[str] | None, typer.Option("--group", help="A group of the user; may be repeated.")] = None,
    output: Annotated[As, typer.Option("--output", "-o", help="The output.")] = As.token,
    server: Annotated[
        str | None, typer.Option(help="https://HOST:PORT for the kubeconfig (default: as in DATA-DIR/kubeconfig).")
    ] = None,
    certificate_authority: Annotated[
        Path | None,
        typer.Option(
            help="Certificates (PEM) that the kubeconfig checks the hub's with (default: the hub's CA). Give it with"
            " --server where the hub has a certificate of another authority for that address."
        ),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Namespace that the kubeconfig's context is in.")
    ] = None,
    ttl: Annotated[
        str | None, typer.Option(metavar="TIME", help="The token ends after this time, such as 12h or 30d.")
    ] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Make a token for a user, and print it or a whole kubeconfig. Run it where the data directory is."""
    from fleet.amc.kubeconfig import load
    from fleet.cli.access import certificates_in
    from fleet.cli.datadir import locate
    from fleet.cli.tokenfile import TokenLines, ttl_seconds
    from fleet.engine.kubeconfig import BadKubeconfig, write
    from fleet.model.names import label_problems

    data = locate(data_dir)
    data.need()
    if not all(_is_name(name) for name in (user, *(group or ()))):
        raise Failure("names of users and groups are printable text without commas, quotes and spaces around them")
    ca = certificates_in(certificate_authority, "--certificate-authority") if certificate_authority else None
    server_name = ""
    if server is None and output is As.kubeconfig:
        try:
            known = load([data.kubeconfig], must_exist=True)
            server, server_name = known.server, known.server_name if ca is None else ""
        except BadKubeconfig as error:
            raise Failure(f"the hub's address is not known: {error} (else give --server)") from error
    if server is not None and not re.fullmatch(r"https://[^\s/]+", server):
        raise Failure(f"--server {server}: not https://HOST:PORT")
    if namespace and label_problems(namespace):
        raise Failure(f"--namespace {namespace}: is no name of a namespace")
    expires = time.time() + ttl_seconds(ttl) if ttl is not None else inf
    _, token = TokenLines(data).add(user, tuple(group or ()), expires)
    if output is As.token or server is None:
        print(token)
        return
    text = write(
        server, name="fleet", user=user, namespace=namespace or "", ca=ca or data.ca_certificate.read_bytes(),
        server_name=server_name, token=token,
    )  # fmt: skip
    print(text, end="")


@app.command("list", epilog=of("token list"))
def list_(
    user: Annotated[str | None, typer.Option(help="Only those of this user.")] = None,
    state: Annotated[list[str] | None, typer.Option(help=f"Only {' or '.join(STATES)}.")] = None,
    sort: Annotated[str, lists.sort_option(LIST)] = "",
    watch: WatchOption = False,
    output: ListOutputOption = ListOutput.table,
    color: ColorOption = Color.auto,
    data_dir: DataDirOption = None,
) -> None:
    """List the tokens by their ids. Run it where the data directory is.

    An id tells nothing of its token. Tokens of service accounts and ID tokens are not in the list.
    """
    from fleet.cli.datadir import locate

    how = lists.asked(LIST, output, sort, watch, color)
    states = lists.spelt("--state", state, STATES) or STATES
    data = locate(data_dir)
    data.need()

    def fetch() -> Iterator[list[lists.Record]]:
        found = _records(data, people=output not in (ListOutput.json, ListOutput.yaml))
        yield [one for one in found if user in (None, one["user"]) and one["state"] in states]

    lists.show(how, fetch, nothing=NOTHING)


def _records(data: DataDir, *, people: bool) -> list[lists.Record]:
    """The tokens, for people or for programs."""
    from fleet.cli.tokenfile import TokenLines
    from fleet.model.times import rfc3339

    now = time.time()
    records: list[lists.Record] = [
        {
            "id": token.id, "user": token.line.user, "uid": token.line.uid, "groups": list(token.line.groups),
            "expires": rfc3339(token.line.expires) if isfinite(token.line.expires) else None,
            "expired": token.line.expires <= now, "state": STATES[token.line.expires <= now],
        }
        for token in TokenLines(data).listed()
    ]  # fmt: skip
    for record in records if people else ():
        end = record["expires"] or "never"
        record |= {"groups": ",".join(record["groups"]), "expires": f"{end} (over)" if record["expired"] else end}
    return records


@app.command("revoke", epilog=of("token revoke"))
def revoke(
    name: Annotated[str, typer.Argument(help="Id of a token, or name of a user whose tokens all end.")],
    data_dir: DataDirOption = None,
) -> None:
    """End a token, or all tokens of a user. Run it where the data directory is.

    The token ends within two seconds, and its open watches within ten more.
    """
    from fleet.cli.datadir import locate
    from fleet.cli.tokenfile import revoke as revoked

    data = locate(data_dir)
    data.need()
    for token in revoked(data, name):
        print(f"revoked {token.id} of {token.line.user}")


def _is_name(name: str) -> bool:
    """Whether the name reads back from the token file as it was given."""
    return bool(name) and name.isprintable() and name == name.strip() and not any(c in ',"' for c in name)
