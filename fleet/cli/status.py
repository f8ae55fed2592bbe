"""`fleet status`: whether the hub works, and since when not."""

from __future__ import annotations

import time
from typing import Any

import typer

from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, Output, OutputOption

STATUS = "/fleet/v1/status"


def status(
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Say whether the hub works: leader, decisions, members.

    The exit status is 1 when something is wrong; each trouble is a line.
    """
    from fleet.cli.hub import connect
    from fleet.cli.output import show_one

    found = connect(kubeconfig, data_dir, context).request("GET", STATUS).body
    if output is Output.table:
        print("\n".join(lines(found, time.time())))
    else:
        show_one(found, output)
    if not found["healthy"]:
        raise typer.Exit(1)


def lines(found: dict[str, Any], now: float) -> list[str]:
    """The answer of /fleet/v1/status, for people; `now` in epoch seconds."""
    leader, members = found["leader"], found["members"]
    ready = sum(member["ready"] for member in members)
    led = leader and f"{leader['name']} for {_ago(leader['since'], now)}, renewed {_ago(leader['renewed'], now)} ago"
    decided = f"last {_ago(found['decided'], now)} ago" if found["decided"] else "none by this leader yet"
    looked = f"{_ago(found['looked'], now)} ago" if found["looked"] else "not yet"
    said = [
        ("Healthy:", "yes" if found["healthy"] else "no"),
        ("Leader:", led or "none has ever led"),
        ("Decisions:", f"{decided}; queues looked at {looked}"),
        ("Loops:", f"failing: {', '.join(entry['loop'] for entry in found['failing'])}" if found["failing"] else "ok"),
        ("Unhandled:", f"{found['aside']['count']} objects"),
        ("Database:", found["database"]),
        ("API:", "ok"),  # the API has just answered
        ("Members:", f"{ready} of {len(members)} ready"),
    ]
    shown = [f"{title:<11} {text}" for title, text in said]
    width = max((len(member["name"]) for member in members), default=0)
    for member in members:
        silent = f", last heard of {member['silent_s']}s ago" if member["silent_s"] is not None else ""
        shown.append(f"  {member['name']:<{width}}  {'ready' if member['ready'] else 'not ready'}{silent}")
    return shown + ([f"Wrong:      {text}" for text in found["problems"]])


def _ago(at: str | None, now: float) -> str:
    from fleet.cli.jobs import since

    return since(at, now, "?")
