"""`fleet status`: whether the hub works, and since when not."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import typer

from fleet.cli.options import DataDirOption, KubeconfigOption, Output, OutputOption

STATUS = "/fleet/v1/status"


def status(
    output: OutputOption = Output.table, kubeconfig: KubeconfigOption = None, data_dir: DataDirOption = None
) -> None:
    """Say whether the hub works: leader, decisions, members.

    The exit status is 1 when something is wrong; each trouble is a line.
    """
    from fleet.cli.hub import connect
    from fleet.cli.output import show_one

    found = connect(kubeconfig, data_dir).request("GET", STATUS).body
    if output is Output.table:
        print("\n".join(lines(found, time.time())))
    else:
        show_one(found, output)
    if not found["healthy"]:
        raise typer.Exit(1)


def lines(found: dict[str, Any], now: float) -> list[str]:
    """What /fleet/v1/status says, for people; `now` in epoch seconds."""
    leader, members = found["leader"], found["members"]
    ready = sum(member["ready"] for member in members)
    said = [
        ("Healthy:", "yes" if found["healthy"] else "no"),
        ("Leader:", f"{leader['name']}, for {_ago(leader['since'], now)}" if leader else "none has ever led"),
        ("Renewed:", f"{_ago(leader['renewed'], now)} ago" if leader else "-"),
        ("Looked:", f"{_ago(found['looked'], now)} ago" if found["looked"] else "-"),
        ("Decided:", f"{_ago(found['decided'], now)} ago" if found["decided"] else "-"),
        ("Failing:", ", ".join(entry["loop"] for entry in found["failing"]) or "-"),
        ("Set aside:", str(found["aside"]["count"])),
        ("Database:", found["database"]),
        ("API:", "ok"),  # it has just answered
        ("Members:", f"{ready} of {len(members)} ready"),
    ]
    shown = [f"{title:<11} {text}" for title, text in said]
    for member in members:
        silent = f"heard of {member['silent_s']} s ago" if member["silent_s"] is not None else "not heard of"
        shown.append(f"  {member['name']:<10} {'ready' if member['ready'] else 'not ready'}, {silent}")
    return shown + ([f"Wrong:      {text}" for text in found["problems"]])


def _ago(at: str | None, now: float) -> str:
    from fleet.cli.jobs import age

    return age(now - datetime.fromisoformat(at).timestamp()) if at else "?"
