"""`fleet check`: what would become of jobs, before they are submitted.

The hub answers (/fleet/v1/check): the same checks as at submission, and the decider's newest snapshot for the rest.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, NamespaceOption, Output, OutputOption

if TYPE_CHECKING:
    from fleet.cli.applying import Applier
    from fleet.cli.hub import HubClient

Json = dict[str, Any]

CHECK = "/fleet/v1/check"
MEMBERS = 20  # that a table shows
RANGE = ("p10", "p50", "p90")
BAD = ("refused", "never")


def check(
    files: Annotated[list[Path], typer.Argument(help='YAML files or directories with jobs ("-": stdin).')],
    output: OutputOption = Output.table,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Say what would become of jobs, and submit nothing.

    Of each: whether it is valid, its policy, its queue, the members with room for it, and its start.
    The exit status is 1 where a job would be refused, or would never start. Policies and quota that stand in the same
    file do not count: submit them first.
    """
    from fleet.cli.applying import Applier
    from fleet.cli.hub import connect
    from fleet.cli.manifests import documents_of
    from fleet.cli.output import show

    bodies, faults = documents_of(files)
    verdicts: list[Json] = []
    if bodies:
        hub = connect(kubeconfig, data_dir, context)
        applier = Applier(hub, namespace or hub.namespace, dry_run=True)
        verdicts = list(_checked(applier, bodies))
    if output is Output.table:
        sys.stdout.write("\n".join("".join(f"{line}\n" for line in _lines(verdict)) for verdict in verdicts))
    else:
        show(verdicts, (), output)
    for fault in faults:
        print(f"fleet: {fault}", file=sys.stderr)
    if faults or any(verdict["verdict"] in BAD for verdict in verdicts):
        raise typer.Exit(1)


def _checked(applier: Applier, bodies: Sequence[Json]) -> Iterator[Json]:
    from fleet.cli.applying import UnservedKind
    from fleet.cli.declarations import know_kinds
    from fleet.cli.hub import HubRefusal
    from fleet.kinds.lookup import interpreter_of

    hub = applier.hub
    if any(interpreter_of(body["apiVersion"], body["kind"]) is None for body in bodies):
        know_kinds(bodies, hub)
    for body in bodies:
        name = body["metadata"].get("name") or body["metadata"].get("generateName")
        row: Json = {"job": f"{body['kind'].lower()}/{name}", "verdict": "refused", "why": None}
        try:
            if interpreter_of(body["apiVersion"], body["kind"]) is not None:
                yield row | _asked(hub, applier.namespace, body)
            else:
                applier.apply(body)
                yield row | {"verdict": "valid", "why": "is no job: nothing of it waits or starts"}
        except (UnservedKind, HubRefusal) as failure:
            yield row | {"why": str(failure)}


def _asked(hub: HubClient, namespace: str, body: Json) -> Json:
    home = body["metadata"].get("namespace") or namespace
    answer: Json = hub.request("POST", f"{CHECK}?{urlencode({'namespace': home})}", body).body
    return answer


def _lines(row: Json) -> Iterator[str]:
    from fleet.amc import table

    yield f"{row['job']}: {_verdict(row)}"
    if "policy" not in row:
        return
    yield f"  Policy:   {row['policy'] or 'none takes it'}"
    yield f"  Queue:    {row['queue'] or '-'}"
    if row["reason"]:
        yield f"  Reason:   {row['reason']['text']}"
    if not row["members"]:
        return
    ordered = sorted(row["members"], key=lambda member: not member["fits"])
    rows = [[member["name"], "yes" if member["fits"] else "no", _why(member)] for member in ordered[:MEMBERS]]
    yield from (f"  {line.rstrip()}" for line in table.lines([["MEMBER", "ROOM", "WHY"], *rows]))
    if len(ordered) > MEMBERS:
        yield f"  and {len(ordered) - MEMBERS} more members (-o json lists all)"


def _why(member: Json) -> str:
    """Why a job does not start there. Each member is asked alone: the text of one that takes no such job counts one."""
    reason = member["reason"]
    if reason is None:
        return "-"
    if reason["code"] != "NoMemberAllowed":
        return str(reason["text"])
    return str(reason["numbers"]["why"]).removeprefix("1 member(s) ").replace("were ", "is ", 1)


def _verdict(row: Json) -> str:
    """In a few words."""
    from fleet.cli.jobs import age
    from fleet.values.times import seconds

    if row["verdict"] == "starts":
        return f"starts at once, in {row['member']}" if row["member"] else "starts at once"
    if row["verdict"] == "waits" and row["start"]:
        now = time.time()
        early, middle, late = (then and age(then - now) for then in (seconds(row["start"][p]) for p in RANGE))
        if early == late:
            return f"waits, and starts in about {middle}"
        return f"waits, and starts in about {middle} ({early} to {late or 'later than can be told'})"
    if row["verdict"] == "waits":
        return "waits; no time can be told"
    if row["verdict"] == "never":
        return "never starts as things are" + (f": {row['why']}" if row["why"] else "")
    if row["verdict"] == "refused":
        return f"is refused: {row['why']}"
    return f"is valid; {row['why']}"
