"""`fleet show`: the whole life of one job, from the history, and its present state while it lives."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from fleet.cli import completers
from fleet.cli.failure import Failure
from fleet.cli.history import HISTORY, hours, listed
from fleet.cli.nearest import suggestion
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, NamespaceOption, Output, OutputOption
from fleet.values.durations import human
from fleet.values.times import seconds

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

JOBS = "/fleet/v1/jobs"
UNKNOWN = "unknown"  # the hub's word for a GPU model that the nodes do not name
UNRECORDED = "not in the history yet: the hub records a job some seconds after it is submitted"
Event = tuple[float, int, str]  # time, place among events of one time, text


def show(
    job: Annotated[
        str,
        typer.Argument(
            help="NAME, KIND[.GROUP]/NAME when several kinds had a job of that name, or its uid.",
            autocompletion=completers.jobs,
        ),
    ],
    namespace: NamespaceOption = None,
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Show the whole life of a job: waits, attempts, outcome.

    Of several jobs that had the name, the newest. A job stays in the history when the hub has deleted it.
    """
    from fleet.cli.hub import connect
    from fleet.cli.output import show_one

    hub = connect(kubeconfig, data_dir, context)
    life, live = past_and_present(hub, namespace or hub.namespace, job)
    if output is not Output.table:
        show_one({"history": life, "job": live}, output)
        return
    print("\n".join(_lines(life, live, time.time())))


def past_and_present(hub: HubClient, namespace: str, job: str) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """What the history has of the job, and what the hub has of it now. Raises Failure where neither has anything."""
    kind, _, name = job.rpartition("/")
    if not name:
        raise Failure(f'"{job}" is no name of a job')
    life = _recorded(hub, namespace, kind, name)
    if life is not None:
        live = _live(hub, life["namespace"], life["kind"], life["name"])
    else:
        live = _live(hub, namespace, kind, name)
    if life is None and live is None:
        near = suggestion(name, (one["name"] for one in listed(hub, namespace=namespace)))
        raise Failure(f'no job "{job}" in namespace {namespace}, now or in the history{near} (fleet history -A)')
    if life is not None and live is not None and live["uid"] != life["uid"]:
        return (None, live) if (live["created"] or "") >= life["submitted"] else (life, None)
    return life, live


def _recorded(hub: HubClient, namespace: str, kind: str, name: str) -> dict[str, Any] | None:
    """The newest job of the name; the kind may be left out where one kind alone had it."""
    from fleet.cli.hub import HubRefusal

    try:
        if _is_uid(name) and not kind:
            return hub.find(f"{HISTORY}/{name}")
        if not kind:
            kinds = sorted({one["kind"] for one in listed(hub, namespace=namespace, name=name)})
            if len(kinds) > 1:
                raise Failure(f'"{name}" names several jobs: {", ".join(f"{kind}/{name}" for kind in kinds)}')
            if not kinds:
                return None
            kind = kinds[0]
        return hub.find(f"{HISTORY}/{quote(namespace)}/{quote(kind)}/{quote(name)}")
    except HubRefusal as refused:
        if refused.status == 404:  # this hub keeps no history
            return None
        raise


def _live(hub: HubClient, namespace: str, kind: str, name: str) -> dict[str, Any] | None:
    from fleet.cli import joblist
    from fleet.cli.hub import HubRefusal

    try:
        if not kind:
            here, _ = joblist.listed(hub, namespace, name=name)
            if not here:
                return None
            kind = here[0]["kind"]
        return hub.find(f"{JOBS}/{quote(namespace)}/{quote(kind)}/{quote(name)}")
    except HubRefusal as refused:
        if refused.status in (403, 422):  # 422: a kind that is served no more
            return None
        raise


def _is_uid(text: str) -> bool:
    return len(text) == 36 and text.count("-") == 4 and all(c in "0123456789abcdefABCDEF-" for c in text)


def _lines(life: dict[str, Any] | None, live: dict[str, Any] | None, now: float) -> Iterator[str]:
    either = live or life or {}
    where = f" in {live['member']}" if live and live["member"] else ""
    yield f"{either['kind']} {either['namespace']}/{either['name']}: {either['state']}{where}"
    if live and live["reason"]:
        yield f"Reason:     {live['reason']['text']}  ({live['reason']['code']})"
    for title in ("user", "queue", "priority"):
        if either[title] is not None:
            yield f"{title.capitalize() + ':':<11} {either[title]}"
    if life is None:
        yield f"Size:       {_size(either['gpus'], {}, either['pods'])}"
        yield f"History:    {UNRECORDED}"
        return
    yield f"Size:       {_size(life['gpus'], life['models'], life['pods'])}"
    lost = f", of which {hours(life['lostGpuHours'])} are lost" if life["lostGpuHours"] else ""
    yield f"GPU-hours:  {hours(life['gpuHours'])}{lost}"
    if life["started"] or not life["ended"]:
        yield f"Waited:     {human(life['waitedS'])}" + (" before its first start" if life["started"] else " until now")
    for wait in life["waits"]:
        if wait["seconds"] >= 1 or wait["goesOn"]:
            yield f"  {human(wait['seconds']):<8}  {wait['reason']}" + (" (goes on)" if wait["goesOn"] else "")
    yield "Timeline:"
    yield from _timeline(life, now)
    if life["earlier"]:
        more = len(life["earlier"])
        yield f"Earlier:    {more} of this name: fleet history -n {life['namespace']} --name {life['name']}"


def _size(gpus: int, models: dict[str, int], pods: int) -> str:
    of = _on(models) if set(models) - {UNKNOWN} else ""
    return f"{gpus} GPUs{f' ({of})' if of else ''} in {pods} {'pod' if pods == 1 else 'pods'}"


def _on(models: dict[str, int]) -> str:
    """GPUs by model, for people."""
    return " + ".join(f"{count} GPUs" if model == UNKNOWN else f"{count} × {model}" for model, count in models.items())


def _timeline(life: dict[str, Any], now: float) -> Iterator[str]:
    """Each event with its time in UTC, and how long after the one before it."""
    before: float | None = None
    for at, _, text in sorted(_events(life, now)):
        step = f"+{human(at - before)}" if before is not None else ""
        yield f"  {_clock(at)}  {step:<8}  {text}"
        before = at


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))


def _events(life: dict[str, Any], now: float) -> Iterator[Event]:
    yield seconds(life["submitted"]) or 0.0, 0, "submitted"
    for attempt in life["placements"]:
        name = f"attempt {attempt['number']}"
        models = _on(attempt["models"])
        placed, started, ended = (seconds(attempt[key]) for key in ("placed", "started", "ended"))
        if placed is not None:
            yield placed, 1, f"{name}: placed in {attempt['member']}"
        if started is not None:
            yield started, 2, f"{name}: runs" + (f" on {models}" if models else "")
            if ended is None:
                yield now, 3, f"{name}: goes on, {hours(attempt['gpuHours'])} GPU-hours"
        if ended is not None:
            why = f" ({attempt['why']})" if attempt["why"] and attempt["why"] != attempt["outcome"] else ""
            used = f", {hours(attempt['gpuHours'])} GPU-hours" if started is not None else ", before its pods ran"
            yield ended, 4, f"{name}: {attempt['outcome'] or 'ended'}{why}{used}"
    ended = seconds(life["ended"])
    if ended is not None:
        why = f" ({life['why']})" if life["why"] and life["why"] != life["state"] else ""
        said = f": {life['message']}" if life["message"] else ""
        yield ended, 5, f"{life['state']}{why}{said}"
