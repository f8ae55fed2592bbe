"""`fleet orphans`: copies in members that the hub does not know any more, after its database was restored."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli import lists
from fleet.cli.colors import Color
from fleet.cli.examples import of
from fleet.cli.failure import Failure, TimeIsOver
from fleet.cli.options import (
    ColorOption,
    ContextOption,
    DataDirOption,
    KubeconfigOption,
    ListOutput,
    ListOutputOption,
    SinceOption,
    WatchOption,
)
from fleet.cli.when import timeout_option

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

RECORDS = "/api/v1/namespaces/fleet-system/configmaps"
_COLUMNS = ("member", "kind", "namespace", "name", "job", "since")
LIST = lists.Listing(
    columns=_COLUMNS,
    wide=(*_COLUMNS, "uid", "problem"),
    sorts={name: itemgetter(name) for name in _COLUMNS},
    word=lambda copy: f"{copy['kind'].lower()}/{copy['name']}",
    key=("member", "uid"),
    down=("since",),
)
NOTHING = "No unknown copies"
POLL_S = 0.5
WAY_OUT = "take it for a job of the hub again with `fleet orphans adopt`, or remove it with `fleet orphans remove`"

app = typer.Typer(
    help="List, adopt and remove what a restored hub does not know.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def orphans() -> None:
    """List, adopt and remove what runs in members and a restored hub does not know.

    A database that was restored from an older backup does not know the jobs that were submitted after it. Their copies
    in the members stay until people decide. While a member has one, the hub removes no orphan there.
    """


NamesArgument = Annotated[list[str] | None, typer.Argument(help="KIND/NAME of each, as the list has them.")]
InNamespaceOption = Annotated[str | None, typer.Option("--namespace", "-n", help="Only those of this namespace.")]
OfMemberOption = Annotated[str | None, typer.Option("--member", help="Only those of this member.")]
AllOption = Annotated[bool, typer.Option("--all", help="All that the other options leave.")]


@app.command("list", epilog=of("orphans list"))
def list_(
    namespace: InNamespaceOption = None,
    member: OfMemberOption = None,
    since: SinceOption = None,
    sort: Annotated[str, lists.sort_option(LIST)] = "",
    watch: WatchOption = False,
    output: ListOutputOption = ListOutput.table,
    color: ColorOption = Color.auto,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List the unknown copies of all members."""
    from fleet.cli.hub import connect
    from fleet.cli.when import moment

    how = lists.options(LIST, output, sort, watch, color)
    earliest = moment(since, time.time()) if since else ""
    hub = connect(kubeconfig, data_dir, context)

    def fetch() -> Iterator[list[lists.Record]]:
        copies, more = unknown(hub)
        yield [copy for copy in _of(copies, namespace, member) if copy["since"] >= earliest]
        if more:
            hub.note(f"and {more} more")

    lists.show(how, fetch, nothing=NOTHING)


@app.command("adopt", epilog=of("orphans adopt"))
def adopt(
    names: NamesArgument = None,
    namespace: InNamespaceOption = None,
    member: OfMemberOption = None,
    all_: AllOption = False,
    timeout: Annotated[float, timeout_option("until they are adopted", "1m")] = 60.0,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Take unknown copies for jobs of the hub again.

    Their pods run on as they are. The job is made of the copy in the member, and charged to its queue from then on,
    over its quota too.
    """
    from fleet.cli.hub import connect

    hub = connect(kubeconfig, data_dir, context)
    chosen = _chosen(hub, names, namespace, member, all_)
    _order(hub, chosen, "adopt")
    _await(hub, chosen, timeout, "adopted in", "adopt")


@app.command("remove", epilog=of("orphans remove"))
def remove(
    names: NamesArgument = None,
    namespace: InNamespaceOption = None,
    member: OfMemberOption = None,
    all_: AllOption = False,
    timeout: Annotated[float, timeout_option("until they are gone", "1m")] = 60.0,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Remove unknown copies from their members.

    Their pods end. A job takes along the ConfigMaps, Secrets and PersistentVolumeClaims that no other job uses there,
    and the volumes of the latter.
    """
    from fleet.cli.hub import connect

    hub = connect(kubeconfig, data_dir, context)
    chosen = _chosen(hub, names, namespace, member, all_)
    _order(hub, chosen, "remove")
    _await(hub, chosen, timeout, "removed from", "remove")


def _chosen(
    hub: HubClient, names: list[str] | None, namespace: str | None, member: str | None, all_: bool
) -> list[dict[str, Any]]:
    """The copies that the options name. Raises Failure."""
    if bool(names) == all_:
        raise Failure("name copies as KIND/NAME, or say --all")
    found = _of(unknown(hub)[0], namespace, member)
    chosen = found if all_ else [copy for name in names or () for copy in _named(found, name)]
    if not chosen:
        raise Failure("the list has no such copy")
    return chosen


def _of(copies: Sequence[dict[str, Any]], namespace: str | None, member: str | None) -> list[dict[str, Any]]:
    return [copy for copy in copies if member in (None, copy["member"]) and namespace in (None, copy["namespace"])]


def unknown(hub: HubClient) -> tuple[list[dict[str, Any]], int]:
    """The unknown copies of all members, and how many the records do not name."""
    from fleet.values.untyped import digits, mapping
    from fleet.wellknown import UNKNOWN_COPIES

    copies: list[dict[str, Any]] = []
    more = 0
    for record in hub.list(RECORDS):
        member = record["metadata"]["name"].removeprefix(UNKNOWN_COPIES)
        if member == record["metadata"]["name"]:
            continue
        data = mapping(record.get("data"))
        told = _problems(dict(data))
        named = [
            {**entry, "member": member, "problem": told.get(entry["uid"], "")} for entry in _entries(data.get("copies"))
        ]
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
    matches = [copy for copy in copies if (copy["kind"].lower(), copy["name"]) == (kind.lower(), name)]
    if not matches:
        raise Failure(f'"{text}" is not KIND/NAME of an unknown copy: see `fleet orphans list`')
    if len(matches) > 1:
        places = ", ".join(f"{copy['member']} {copy['namespace']}" for copy in matches[:3])
        raise Failure(f'"{text}" is there {len(matches)} times ({places}): say --member and --namespace')
    return matches


def _order(hub: HubClient, copies: Sequence[dict[str, Any]], order: str) -> None:
    """Tell the controllers, which do it, since a member takes orders from them alone."""
    import json

    from fleet.wellknown import UNKNOWN_COPIES

    for member in sorted({copy["member"] for copy in copies}):
        path = f"{RECORDS}/{UNKNOWN_COPIES}{member}"
        data = (hub.find(path) or {}).get("data") or {}
        uids = {copy["uid"] for copy in copies if copy["member"] == member}
        try:
            before = {str(uid) for uid in json.loads(data.get(order) or "[]")}
        except (TypeError, ValueError):
            before = set()  # not an order that anybody could carry out
        problems = {uid: why for uid, why in _problems(data).items() if uid not in uids}
        body = {"data": {order: json.dumps(sorted(before | uids)), "problems": json.dumps(problems)}}
        hub.request("PATCH", path, body, content_type="application/merge-patch+json", missing=True)


def _problems(data: dict[str, Any]) -> dict[str, str]:
    import json

    try:
        found = json.loads(data.get("problems") or "{}")
    except (TypeError, ValueError):
        found = {}
    return {str(uid): str(why) for uid, why in found.items()} if isinstance(found, dict) else {}


def _await(hub: HubClient, copies: Sequence[dict[str, Any]], limit_s: float, done: str, order: str) -> None:
    """Say of each copy that it is done. Raises Failure when that takes too long, or cannot be."""
    waiting = {(copy["member"], copy["uid"]): copy for copy in copies}
    refused: list[str] = []
    deadline = time.monotonic() + limit_s
    while True:
        there = {(copy["member"], copy["uid"]): copy for copy in unknown(hub)[0]}
        for key in list(waiting):
            copy = waiting[key]
            why = there[key]["problem"] if key in there and order == "adopt" else ""
            if key in there and not why:
                continue
            del waiting[key]
            if why:
                refused.append(f'{copy["kind"]} "{copy["name"]}" in {copy["member"]}: {why}')
            else:
                print(f'{copy["kind"]} "{copy["name"]}" {done} {copy["member"]}')
        if not waiting and refused:
            raise Failure(f"not adopted: {'; '.join(refused)}")
        if not waiting:
            return
        if time.monotonic() > deadline:
            members = ", ".join(sorted({member for member, _ in waiting}))
            raise TimeIsOver(
                f"{len(waiting)} copies are still in {members} as they were; that changes when the member and the"
                " controllers work"
            )
        time.sleep(POLL_S)
