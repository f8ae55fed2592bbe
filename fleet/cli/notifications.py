"""`fleet notifications`: who is told of what happens to jobs, and what could not be delivered."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from fleet.cli import lists
from fleet.cli.colors import Color
from fleet.cli.examples import of
from fleet.cli.failure import Failure
from fleet.cli.history import pages
from fleet.cli.jobs import age, since
from fleet.cli.options import (
    AllNamespacesOption,
    ColorOption,
    ContextOption,
    DataDirOption,
    KubeconfigOption,
    ListOutput,
    ListOutputOption,
    NamespaceOption,
    WatchOption,
)
from fleet.values.times import seconds

NOTIFICATIONS = "/fleet/v1/notifications"
STATES = ("Pending", "Retrying", "Delivered", "GaveUp", "NoReceiver")
FAILED = ("Retrying", "GaveUp", "NoReceiver")
PART = "only receivers in namespaces where you may list notificationreceivers"
LIST = lists.Listing(
    columns=("receiver", "job", "event", "age", "state", "tries", "next_try", "error"),
    wide=("receiver", "job", "kind", "event", "at", "state", "tries", "next_try", "over", "id", "error"),
    sorts={
        "age": lambda line: line["at"],
        "receiver": lambda line: (line["receiver"], line["namespace"]),
        "job": lambda line: line["job"],
        "state": lambda line: line["state"],
        "tries": lambda line: line["tries"],
    },
    word=lambda line: str(line["id"]),
    key=("id",),
    down=("age", "tries"),
    moving=("age", "next_try"),
)
ReceiverOption = Annotated[str | None, typer.Option(metavar="NAME", help="Only to the receiver of this name.")]
app = typer.Typer(rich_markup_mode=None, epilog=of("notifications"))


@app.callback(invoke_without_command=True)
def notifications(
    called: typer.Context,
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    receiver: ReceiverOption = None,
    state: Annotated[
        list[str] | None, typer.Option(help=f"Only in this state, of {', '.join(STATES)}; may be repeated.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only those whose last try failed.")] = False,
    limit: Annotated[int, typer.Option(min=0, help="At most so many, the newest; 0: all.")] = 100,
    sort: Annotated[str, lists.sort_option(LIST)] = "",
    watch: WatchOption = False,
    output: ListOutputOption = ListOutput.table,
    color: ColorOption = Color.auto,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List what receivers are told of jobs, and failures.

    The newest first, of the receivers in a namespace. A notification stays here for a week after its last try.
    """
    if called.invoked_subcommand is not None:
        return
    from fleet.cli.hub import connect

    if failed and state:
        raise Failure("--failed stands for some states: give it or --state")
    how = lists.options(LIST, output, sort, watch, color, spaces=all_namespaces)
    states = list(FAILED) if failed else lists.spelt("--state", state, STATES)
    hub = connect(kubeconfig, data_dir, context)
    where = None if all_namespaces else namespace or hub.namespace
    people = output not in (ListOutput.json, ListOutput.yaml)

    def fetch() -> Iterator[list[lists.Record]]:
        now, count = time.time(), 0
        for page in pages(hub, NOTIFICATIONS, limit, namespace=where, receiver=receiver, state=states):
            if page["partial"]:
                hub.note(PART)
            yield [_line(one, now) if people else one for one in page["items"]]
            count += len(page["items"])
            if page["continue"] is not None and count == limit:
                hub.note(f"there are more than these {limit} (--limit)")

    some = "No such notifications" if states or receiver else "No notifications"
    lists.show(how, fetch, nothing=f"{some} in {where} namespace" if where else some)


@app.command("retry", epilog=of("notifications retry"))
def retry(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Only these, as -o name prints them.")] = None,
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    receiver: ReceiverOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Try failed notifications once more, now.

    Those that were given up have all their tries again.
    """
    from fleet.cli.hub import connect

    hub = connect(kubeconfig, data_dir, context)
    which = {"namespace": None if all_namespaces else namespace or hub.namespace, "receiver": receiver, "id": ids}
    given = {key: value for key, value in which.items() if value}
    tried = hub.request("POST", f"{NOTIFICATIONS}/retry?{urlencode(given, doseq=True)}").body["notifications"]
    if ids and tried < len(set(ids)):
        place = f"namespace {which['namespace']}" if which["namespace"] else "any namespace"
        raise Failure(f"{tried} of {len(set(ids))} tried again: no failed notification of {place} has another ID")
    print(f"{tried} notification{'s' if tried != 1 else ''} tried again" if tried else "no notification has failed")


def _line(item: dict[str, Any], now: float) -> dict[str, Any]:
    """For people; a receiver for all has jobs of other namespaces."""
    job, due = item["job"], seconds(item["nextTry"])
    name = job["name"] if job["namespace"] == item["namespace"] else f"{job['namespace']}/{job['name']}"
    return {
        **item,
        "job": name,
        "kind": job["kind"],
        "age": since(item["at"], now),
        "next_try": "" if due is None else f"in {age(due - now)}" if due > now else "now",
    }
