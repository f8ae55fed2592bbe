"""`fleet status`: whether the hub works, and since when not."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from fleet.amc.terminal import CLEAR, own
from fleet.cli.failure import Failure
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, Output, OutputOption

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

STATUS = "/fleet/v1/status"
CLUSTERS, QUEUES, DECISIONS = "/fleet/v1/clusters", "/fleet/v1/queues", "/fleet/v1/decisions"
GPU = "nvidia.com/gpu"
WATCH_S = 2.0


def status(
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again and again, until Ctrl-C.")] = False,
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Say whether the hub works, what runs and what waits.

    Leader, decisions, jobs and members. The exit status is 1 when something is wrong; each trouble is a line.
    """
    from fleet.cli.hub import connect
    from fleet.cli.output import show_one

    if watch and output is not Output.table:
        raise Failure("--watch prints the screen alone")
    hub = connect(kubeconfig, data_dir, context)
    if watch:
        _watch(hub)
    found = gathered(hub)
    if output is Output.table:
        print("\n".join(lines(found, time.time())))
    else:
        show_one(found, output)
    if not found["healthy"]:
        raise typer.Exit(1)


def _watch(hub: HubClient) -> NoReturn:
    """Show the screen every WATCH_S, at the same place of a terminal, or below a line of another output."""
    begin = CLEAR if sys.stdout.isatty() else "---\n"
    while True:
        shown = "\n".join(lines(gathered(hub), time.time()))
        own(sys.stdout).write(begin)
        print(shown, flush=True)
        time.sleep(WATCH_S)


def gathered(hub: HubClient) -> dict[str, Any]:
    """The answer of /fleet/v1/status, with `jobs`, `gpus` and `decision` as far as the user may see them; None
    where the hub cannot tell, for what is wrong with it."""
    from fleet.cli.hub import HubRefusal

    answer: dict[str, Any] = hub.request("GET", STATUS).body
    try:
        members = _if_allowed(hub, CLUSTERS, "items") or []
        queues = _if_allowed(hub, QUEUES, "items")
        decisions = _if_allowed(hub, f"{DECISIONS}?limit=1", "items")
    except HubRefusal as refused:
        if refused.status != 503 or answer["healthy"]:
            raise
        return answer | {"jobs": None, "gpus": None, "decision": None}  # what is wrong is known, and why
    states = Counter[str]()
    for member in members:
        states.update(member["jobs"])
    waiting = next((node["waiting"] for node in queues or () if node["parent"] is None), None)
    total, used = (sum(int(member[field].get(GPU, 0)) for member in members) for field in ("allocatable", "allocated"))
    return answer | {
        "jobs": {"waiting": waiting, "members": dict(sorted(states.items()))},
        "gpus": {"total": total, "used": used},
        "decision": decisions[0] if decisions else None,
    }


def _if_allowed(hub: HubClient, path: str, field: str) -> Any:
    """A field of the answer; None without the right to it."""
    from fleet.cli.hub import HubRefusal

    try:
        return hub.request("GET", path).body[field]
    except HubRefusal as refused:
        if refused.status == 403:
            return None
        raise


def lines(answer: dict[str, Any], now: float) -> list[str]:
    """What was gathered, for people; `now` in epoch seconds."""
    leader, members = answer["leader"], answer["members"]
    ready = sum(member["ready"] for member in members)
    led = leader and f"{leader['name']} for {_ago(leader['since'], now)}, renewed {_ago(leader['renewed'], now)} ago"
    decided = f"last {_ago(answer['decided'], now)} ago" if answer["decided"] else "none by this leader yet"
    decision = answer["decision"]
    if decision and decision["at"] == answer["decided"]:
        decided += f", {decision['placed']} started and {decision['waiting']} left waiting"
    looked = f"looked at {_ago(answer['looked'], now)} ago" if answer["looked"] else "not looked at yet"
    rows = [
        ("Healthy:", "yes" if answer["healthy"] else "no"),
        ("Leader:", led or "none has ever led"),
        ("Decisions:", f"{decided}; queues {looked}"),
        ("Jobs:", _jobs(answer)),
        (
            "Loops:",
            f"failing: {', '.join(entry['loop'] for entry in answer['failing'])}" if answer["failing"] else "ok",
        ),
        ("Unhandled:", f"{answer['aside']['count']} objects"),
        ("Database:", answer["database"]),
        ("API:", "ok"),  # the API has just answered
        ("Members:", f"{ready} of {len(members)} ready"),
    ]
    texts = [f"{title:<11} {text}" for title, text in rows]
    width = max((len(member["name"]) for member in members), default=0)
    for member in members:
        silent = f", last heard of {member['silent_s']}s ago" if member["silent_s"] is not None else ""
        texts.append(f"  {member['name']:<{width}}  {'ready' if member['ready'] else 'not ready'}{silent}")
    texts += [f"Wrong:      {text}" for text in answer["problems"]]
    return texts + [f"Look at:    {one['kind']} {one['name']}: {one['why']}" for one in answer.get("warnings", ())]


def _jobs(found: dict[str, Any]) -> str:
    """waiting in queues: 4; in members: 3 Running, 1 Succeeded; GPUs in use: 24 of 128"""
    jobs, gpus = found["jobs"], found["gpus"]
    if jobs is None:
        return "not known now"
    told = [f"waiting in queues: {jobs['waiting']}"] if jobs["waiting"] is not None else []
    there = ", ".join(f"{count} {state}" for state, count in jobs["members"].items())
    told += [f"in members: {there or 'none'}", f"GPUs in use: {gpus['used']} of {gpus['total']}"]
    return "; ".join(told)


def _ago(at: str | None, now: float) -> str:
    from fleet.cli.jobs import since

    return since(at, now, "?")
