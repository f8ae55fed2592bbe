"""`fleet orphans`: copies in members that the hub does not know any more, after its database was restored."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli.examples import of
from fleet.cli.failure import Failure
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, Output, OutputOption

if TYPE_CHECKING:
    from fleet.cli.hub import Hub

RECORDS = "/api/v1/namespaces/fleet-system/configmaps"
COLUMNS = ("member", "kind", "namespace", "name", "job", "since")
NOTHING = "No unknown copies"
POLL_S = 0.5
WAY_OUT = "let it run to its end, or remove it with `fleet orphans remove` and submit its job again"

app = typer.Typer(
    help="List and remove what members run since before a restore.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def orphans() -> None:
    """List and remove what runs in members and a restored hub does not know.

    A database that was restored from an older backup does not know the jobs that were submitted after it. Their copies
    in the members stay until people decide. While a member has one, the hub removes no orphan there.
    """


@app.command("list", epilog=of("orphans list"))
def list_(
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List the unknown copies of all members."""
    from fleet.cli.hub import connect
    from fleet.cli.output import show

    copies, more = unknown(connect(kubeconfig, data_dir, context))
    show(copies, COLUMNS, output, nothing=NOTHING)
    if more and output is Output.table:
        print(f"and {more} more")


@app.command("remove", epilog=of("orphans remove"))
def remove(
    names: Annotated[list[str] | None, typer.Argument(help="KIND/NAME of each, as the list has them.")] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Only those of this namespace.")] = None,
    member: Annotated[str | None, typer.Option("--member", help="Only those of this member.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="All that the other options leave.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait until they are gone.")] = 60.0,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Remove unknown copies from their members: what they run ends.

    A job takes along the ConfigMaps, Secrets and claims that no other job uses there, and the volumes of these claims.
    """
    from fleet.cli.hub import connect

    if bool(names) == all_:
        raise Failure("name copies as KIND/NAME, or say --all")
    hub = connect(kubeconfig, data_dir, context)
    found = [
        copy for copy in unknown(hub)[0]
        if member in (None, copy["member"]) and namespace in (None, copy["namespace"])
    ]  # fmt: skip
    chosen = found if all_ else [copy for name in names or () for copy in _named(found, name)]
    if not chosen:
        raise Failure("nothing to remove: the list has no such copy")
    _order(hub, chosen)
    _await(hub, chosen, timeout)


def unknown(hub: Hub) -> tuple[list[dict[str, Any]], int]:
    """The unknown copies of all members, and how many the records do not name."""
    from fleet.model.untyped import digits, mapping
    from fleet.wellknown import UNKNOWN_COPIES

    copies: list[dict[str, Any]] = []
    more = 0
    for record in hub.list(RECORDS):
        member = record["metadata"]["name"].removeprefix(UNKNOWN_COPIES)
        if member == record["metadata"]["name"]:
            continue
        data = mapping(record.get("data"))
        named = [{**entry, "member": member} for entry in _entries(data.get("copies"))]
        copies += named
        more += max(0, (digits(str(data.get("count") or "")) or 0) - len(named))
    return copies, more


def _entries(text: object) -> list[dict[str, Any]]:
    import json

    try:
        found = json.loads(str(text or "[]"))
    except ValueError:
        found = []
    entries = [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
    fields = ("kind", "namespace", "name", "uid", "job", "since")
    return [{field: str(entry.get(field) or "") for field in fields} for entry in entries]


def _named(copies: Sequence[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """The one copy of this KIND/NAME. Raises Failure."""
    kind, _, name = text.partition("/")
    found = [copy for copy in copies if (copy["kind"].lower(), copy["name"]) == (kind.lower(), name)]
    if not found:
        raise Failure(f'"{text}" is not KIND/NAME of an unknown copy: see `fleet orphans list`')
    if len(found) > 1:
        places = ", ".join(f"{copy['member']} {copy['namespace']}" for copy in found[:3])
        raise Failure(f'"{text}" is there {len(found)} times ({places}): say --member and --namespace')
    return found


def _order(hub: Hub, copies: Sequence[dict[str, Any]]) -> None:
    """Tell the controllers, which do it, since a member takes orders from them alone."""
    import json

    from fleet.wellknown import UNKNOWN_COPIES

    for member in sorted({copy["member"] for copy in copies}):
        path = f"{RECORDS}/{UNKNOWN_COPIES}{member}"
        before = ((hub.find(path) or {}).get("data") or {}).get("remove")
        uids = {copy["uid"] for copy in copies if copy["member"] == member}
        try:
            uids.update(map(str, json.loads(before or "[]")))
        except (TypeError, ValueError):
            pass  # not an order that anybody could carry out
        body = {"data": {"remove": json.dumps(sorted(uids))}}
        hub.request("PATCH", path, body, content_type="application/merge-patch+json", missing=True)


def _await(hub: Hub, copies: Sequence[dict[str, Any]], limit_s: float) -> None:
    """Say of each copy that it is removed. Raises Failure when that takes too long."""
    waiting = {(copy["member"], copy["uid"]): copy for copy in copies}
    deadline = time.monotonic() + limit_s
    while True:
        there = {(copy["member"], copy["uid"]) for copy in unknown(hub)[0]}
        for key in [key for key in waiting if key not in there]:
            copy = waiting.pop(key)
            print(f'{copy["kind"]} "{copy["name"]}" removed from {copy["member"]}')
        if not waiting:
            return
        if time.monotonic() > deadline:
            members = ", ".join(sorted({member for member, _ in waiting}))
            raise Failure(f"{len(waiting)} copies are still in {members}; they go when the member and controllers work")
        time.sleep(POLL_S)
