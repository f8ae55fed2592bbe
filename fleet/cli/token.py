"""`fleet token`: credentials of users, which the hub keeps by their digests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli import lists
from fleet.cli.colors import Color
from fleet.cli.examples import of
from fleet.cli.failure import Failure
from fleet.cli.options import (
    ColorOption,
    ContextOption,
    DataDirOption,
    KubeconfigOption,
    ListOutput,
    ListOutputOption,
    WatchOption,
)

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

PATH = "/fleet/v1/tokens"
TTL_DAYS_MAX = 36_500
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_TTL = re.compile(r"(?:(\d{1,6})([dhms]))+")
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


class TokenForm(StrEnum):
    token = "token"
    kubeconfig = "kubeconfig"


@app.callback()
def tokens() -> None:
    """Make, list and revoke credentials of users; RBAC objects on the hub say what they may do."""


@app.command("create", epilog=of("token create"))
def create(
    user: Annotated[str, typer.Argument(help="Name of the user, as RBAC objects name it.")],
    group: Annotated[list[str] | None, typer.Option("--group", help="A group of the user; may be repeated.")] = None,
    output: Annotated[TokenForm, typer.Option("--output", "-o", help="The output.")] = TokenForm.token,
    server: Annotated[
        str | None, typer.Option(help="https://HOST:PORT of the hub for the kubeconfig (default: where it is asked).")
    ] = None,
    certificate_authority: Annotated[
        Path | None,
        typer.Option(
            help="Certificates (PEM) that the kubeconfig checks the hub's with (default: those that it is asked with)."
            " Give it with --server where the hub has a certificate of another authority for that address."
        ),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Namespace that the kubeconfig's context is in.")
    ] = None,
    ttl: Annotated[
        str | None, typer.Option(metavar="TIME", help="The token ends after this time, such as 12h or 30d.")
    ] = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Make a token for a user, and print it or a whole kubeconfig.

    Whoever asks must be allowed to impersonate the user and each group. Where the hub's data directory has no
    kubeconfig, its administrator asks at --server.
    """
    from fleet.cli.certificatefile import certificates_in
    from fleet.values.kubeconfig.document import write
    from fleet.values.names import label_problems

    if not all(_is_name(name) for name in (user, *(group or ()))):
        raise Failure("names of users and groups are printable text without commas, quotes and spaces around them")
    if server is not None and not re.fullmatch(r"https://[^\s/]+", server):
        raise Failure(f"--server {server}: not https://HOST:PORT")
    if namespace and label_problems(namespace):
        raise Failure(f"--namespace {namespace}: is no name of a namespace")
    ca = certificates_in(certificate_authority, "--certificate-authority") if certificate_authority else None
    body = {"user": user, "groups": group or [], "ttlSeconds": ttl_seconds(ttl) if ttl is not None else None}
    hub = _hub(kubeconfig, data_dir, context, server, ca)
    token = hub.request("POST", PATH, body).body["token"]
    if output is TokenForm.token:
        print(token)
        return
    access = hub.client.access
    same = server in (None, access.server) and ca is None
    text = write(
        server or access.server,
        name="fleet",
        user=user,
        namespace=namespace or "",
        ca=ca or access.ca,
        insecure=access.insecure and ca is None,
        server_name=access.server_name if same else "",
        token=token,
    )
    print(text, end="")


@app.command("list", epilog=of("token list"))
def list_(
    user: Annotated[str | None, typer.Option(help="Only those of this user.")] = None,
    state: Annotated[list[str] | None, typer.Option(help=f"Only {' or '.join(STATES)}.")] = None,
    sort: Annotated[str, lists.sort_option(LIST)] = "",
    watch: WatchOption = False,
    output: ListOutputOption = ListOutput.table,
    color: ColorOption = Color.auto,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List the tokens by their ids.

    An id tells nothing of its token. Tokens of service accounts and ID tokens are not in the list.
    """
    how = lists.options(LIST, output, sort, watch, color)
    states = lists.spelt("--state", state, STATES) or STATES
    hub = _hub(kubeconfig, data_dir, context)

    def fetch() -> Iterator[list[lists.Record]]:
        found = _records(hub, people=output not in (ListOutput.json, ListOutput.yaml))
        yield [one for one in found if user in (None, one["user"]) and one["state"] in states]

    lists.show(how, fetch, nothing=NOTHING)


def _records(hub: HubClient, *, people: bool) -> list[lists.Record]:
    """The tokens, for people or for programs."""
    shown = ("id", "user", "uid", "groups", "expires", "expired")
    records: list[lists.Record] = [
        {**{name: token[name] for name in shown}, "state": STATES[token["expired"]]} for token in _tokens(hub)
    ]
    for record in records if people else ():
        end = record["expires"] or "never"
        record |= {"groups": ",".join(record["groups"]), "expires": f"{end} (over)" if record["expired"] else end}
    return records


@app.command("revoke", epilog=of("token revoke"))
def revoke(
    name: Annotated[str, typer.Argument(help="Id of a token, or name of a user whose tokens all end.")],
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """End a token, or all tokens of a user.

    The token ends within a second, and its open watches within ten more.
    """
    hub = _hub(kubeconfig, data_dir, context)
    tokens = _tokens(hub)
    matches = [token for token in tokens if token["id"] == name] or [token for token in tokens if token["user"] == name]
    if not matches:
        raise Failure(f"{name}: no token has this id or this user (fleet token list)")
    for token in matches:
        if token["own"]:
            raise Failure(
                f"{name}: {token['id']} is the administrator's token, which the kubeconfig of the hub's data directory"
                " is made with: make another user of system:masters, and take the first line out of tokens.csv by hand"
            )
    for token in matches:
        hub.request("DELETE", f"{PATH}/{token['id']}", missing=True)
        print(f"revoked {token['id']} of {token['user']}")


def _tokens(hub: HubClient) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = hub.request("GET", PATH).body["items"]
    return items


def _hub(
    kubeconfig: Path | None,
    data_dir: Path | None,
    context: str | None,
    server: str | None = None,
    ca: bytes | None = None,
) -> HubClient:
    """The hub as other commands find it. Where its data directory has no kubeconfig, since no `fleet up` has run there,
    the administrator of the directory asks, at `server`. Raises Failure."""
    from fleet.amc.client import Client
    from fleet.cli.datadir import locate
    from fleet.cli.hub import HubClient, connect
    from fleet.values.kubeconfig.files import Access

    data = locate(data_dir)
    if server is None or kubeconfig is not None or context is not None or not data.tokens.exists():
        return connect(kubeconfig, data_dir, context)
    if data.kubeconfig.exists():
        return connect(data.kubeconfig)
    from fleet.values.wellknown import LOCAL

    access = Access(
        server=server,
        token=data.admin_token(),
        ca=ca or data.ca_certificate.read_bytes(),
        server_name="" if ca else LOCAL,
    )
    return HubClient(Client(access), str(data.root))


def ttl_seconds(text: str) -> int:
    """The seconds of 90s, 12h, 30d or 1d12h. Raises Failure."""
    seconds = 0
    if _TTL.fullmatch(text):
        seconds = sum(int(amount) * _SECONDS[unit] for amount, unit in re.findall(r"(\d+)([dhms])", text))
    if not seconds:
        raise Failure(f"--ttl {text[:50]}: not a time such as 12h or 30d")
    if seconds > TTL_DAYS_MAX * _SECONDS["d"]:
        raise Failure(f"--ttl {text[:50]}: longer than {TTL_DAYS_MAX}d; leave --ttl out for a token without an end")
    return seconds


def _is_name(name: str) -> bool:
    """Whether the name is one that RBAC objects can hold and people can tell."""
    return bool(name) and name.isprintable() and name == name.strip() and not any(c in ',"' for c in name)
