"""`fleet sweep`: the jobs of a sweep with their parameters, and the best of them by a number that they print.

The number is read from the logs, by this command: the hub reads no logs of jobs. So a sweep ends at its goal only while
somebody waits for it.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from fleet.cli.failure import Failure
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, NamespaceOption, Output, OutputOption
from fleet.cli.series import Goal, UntilOption, goal_of
from fleet.values.untyped import digits, mapping, text
from fleet.wellknown import ANNOTATION_AT_MOST, ANNOTATION_SWEEP_PLACE, ANNOTATION_SWEEP_VALUES, LABEL_SWEEP

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

Json = dict[str, Any]

LOOK_S = 3.0  # between two looks at the jobs and their logs
LOG_LINES = 2_000  # of the end of each
LOG_MOST = 1 << 20  # bytes of each
OVER = ("Succeeded", "Failed")
PRINTS = ("Running", *OVER)  # states of a job that may have a log


def sweep(
    name: Annotated[
        str,
        typer.Argument(
            help="The sweep or array: the name of the job that it was made of. Without it: all of the namespace."
        ),
    ] = "",
    lowest: Annotated[
        str, typer.Option(metavar="METRIC", help="Show a number that the jobs print, lowest first.")
    ] = "",
    highest: Annotated[str, typer.Option(metavar="METRIC", help="The same, highest first.")] = "",
    until: UntilOption = "",
    output: OutputOption = Output.table,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List sweeps and arrays, or the jobs of one.

    A number is read from the end of each log, where it stands as loss=0.07 or loss: 0.07. Of several the best counts.
    """
    from fleet.cli.hub import connect

    if lowest and highest:
        raise Failure("--lowest or --highest, not both")
    hub = connect(kubeconfig, data_dir, context)
    where = namespace or hub.namespace
    goal = goal_of(until)
    if goal is not None and not name:
        raise Failure("--until is about one sweep: name it (fleet sweep lists all)")
    if goal is not None:
        follow(hub, where, name, goal)
        return
    ranking = Goal(lowest or highest, "<" if lowest else ">", 0.0) if lowest or highest else None
    lines = _lines(hub, where, name)
    if ranking is not None:
        _measure(hub, lines, ranking, {})
    for note in _cut_short(lines):
        print(f"fleet: {note}", file=sys.stderr)
    if name:
        _show(lines, ranking, output)
    else:
        _show_sweeps(lines, ranking, output)


def sweep_in(bodies: Sequence[Json], namespace: str) -> tuple[str, str]:
    """The namespace and the name of the sweep among objects that were submitted."""
    job = next(body for body in bodies if LABEL_SWEEP in mapping(body["metadata"].get("labels")))
    return job["metadata"].get("namespace") or namespace, job["metadata"]["labels"][LABEL_SWEEP]


def follow(hub: HubClient, namespace: str, name: str, goal: Goal) -> None:
    """Wait until a job of the sweep prints what the goal asks for, and cancel those that are not over then. Raises
    Failure when all are over before."""
    try:
        _until_reached(hub, namespace, name, goal)
    except KeyboardInterrupt:
        print(f"\nsweep {name} goes on; fleet cancel -l {LABEL_SWEEP}={name} stops its jobs", file=sys.stderr)
        raise typer.Exit(130) from None


def _until_reached(hub: HubClient, namespace: str, name: str, goal: Goal) -> None:
    read: dict[str, float | None] = {}  # by the jobs that are over: their logs are read once
    message = ""
    while True:
        lines = _lines(hub, namespace, name)
        _measure(hub, lines, goal, read)
        ahead = lines[0] if lines[0]["value"] is not None else None
        best = f"; the best: {_told(ahead, goal)}" if ahead else ""
        if ahead is not None and goal.reached(ahead["value"]):
            print(f"{_told(ahead, goal)}: {goal} is reached", flush=True)
            _cancel(hub, [line for line in lines if line is not ahead and not _is_over(line)])
            return
        states = [line["state"] for line in lines]
        over = sum(map(_is_over, lines))
        if over == len(states):
            raise Failure(f"sweep {name} is over, and no job has reached {goal}{best}")
        told = f"{states.count('Running')} running, {over} of {len(states)} over{best}"
        if told != message:
            message = told
            print(told, file=sys.stderr)
        time.sleep(LOOK_S)


def _cut_short(lines: Sequence[Json]) -> Iterator[str]:
    """A note for each sweep that lacks its last jobs, as a command that was killed leaves it."""
    for sweep in sorted({line["sweep"] for line in lines} - {""}):
        jobs = [line for line in lines if line["sweep"] == sweep]
        last, total = (max((line[part] or 0 for line in jobs), default=0) for part in ("place", "of"))
        if last < total:
            yield (
                f"sweep {sweep} ends at job {last} of {total}: the others are deleted, or were never made; the command "
                "that made the sweep, given again with its name, makes those that are missing"
            )


def _cancel(hub: HubClient, lines: Sequence[Json]) -> None:
    """Those that wait go first: none of them starts in the place of one that ran."""
    from fleet.cli.hub import HubRefusal

    for line in sorted(lines, key=lambda line: line["state"] == "Running"):
        try:
            hub.request("DELETE", line["path"], missing=True)
            print(f"{line['kind'].lower()}/{line['name']} cancelled")
        except HubRefusal as refused:
            print(f"fleet: {refused}", file=sys.stderr)


def _lines(hub: HubClient, namespace: str, name: str) -> list[Json]:
    """The jobs of a sweep, as the hub lists them, each with its parameters and the path of its object; of all sweeps
    where `name` is "". Raises Failure where there are none of the name."""
    from fleet.cli import joblist
    from fleet.cli.jobselection import job_in

    selector = f"{LABEL_SWEEP}={name}" if name else LABEL_SWEEP
    rows, _ = joblist.listed(hub, namespace, labelSelector=selector)
    if name and not rows:
        raise Failure(f'no sweep "{name}" in namespace {namespace} (fleet sweep lists those that there are)')
    paths = {job_in(hub, row).path.rpartition("/")[0] for row in rows}
    bodies = ((path, body) for path in paths for body in hub.list(path, labelSelector=selector))
    said = {f"{path}/{body['metadata']['name']}": body for path, body in bodies}
    lines = [{**row, "path": job_in(hub, row).path, "value": None} for row in rows]
    for line in lines:
        job = said.get(line["path"]) or {}
        metadata = mapping(job.get("metadata"))
        line["values"] = _values(job)
        line["sweep"] = text(mapping(metadata.get("labels")).get(LABEL_SWEEP))
        annotations = mapping(metadata.get("annotations"))
        line["at_most"] = digits(text(annotations.get(ANNOTATION_AT_MOST)))
        place, _, total = text(annotations.get(ANNOTATION_SWEEP_PLACE)).partition("/")
        line["place"], line["of"] = digits(place), digits(total)
    return sorted(lines, key=lambda line: (len(line["name"]), line["name"]))  # train-2 before train-10


def _values(job: Json) -> dict[str, str]:
    """Its parameters, as its annotation has them; none where a person wrote something else there."""
    said = text(mapping(mapping(job.get("metadata")).get("annotations")).get(ANNOTATION_SWEEP_VALUES))
    try:
        return {str(name): str(value) for name, value in mapping(json.loads(said or "{}")).items()}
    except ValueError:
        return {}


def _is_over(line: Json) -> bool:
    """A failed job is not while its policy has it tried again."""
    from fleet.client.jobvalues import STARTS_ANEW

    return line["state"] in OVER and mapping(line.get("reason")).get("code") != STARTS_ANEW


def _measure(hub: HubClient, lines: list[Json], goal: Goal, read: dict[str, float | None]) -> None:
    """Give each line the best number of its log, and put the best line first."""
    for line in lines:
        if line["path"] in read:
            line["value"] = read[line["path"]]
        elif line["state"] in PRINTS:
            line["value"] = goal.best(_log(hub, line["path"]))
            if _is_over(line):
                read[line["path"]] = line["value"]
    sign = 1 if goal.downwards else -1
    lines.sort(key=lambda line: (line["value"] is None, sign * (line["value"] or 0.0)))


def _log(hub: HubClient, path: str) -> str:
    """The end of the log of the job's first pod; "" where there is none (any more)."""
    from fleet.amc.client import NoAnswer, StreamRefusal

    tail = b""
    try:
        for piece in hub.client.stream(f"{path}/log?{urlencode({'tailLines': str(LOG_LINES)})}"):
            tail = (tail + piece)[-LOG_MOST:]
    except (StreamRefusal, NoAnswer):  # its pods are gone, or its member does not answer now
        pass
    return tail.decode(errors="replace")


def _told(line: Json, goal: Goal) -> str:
    values = ", ".join(f"{name}={value}" for name, value in line["values"].items())
    return f"{line['name']} ({values}) {goal.metric}={line['value']:g}"


def _show_sweeps(lines: Sequence[Json], goal: Goal | None, output: Output) -> None:
    """A line for each sweep: its jobs by state, and the best of them."""
    from fleet.cli.output import show

    records = []
    for sweep in sorted({line["sweep"] for line in lines} - {""}):
        jobs = [line for line in lines if line["sweep"] == sweep]  # the best first
        states = Counter(line["state"] for line in jobs)
        bounds = [line["at_most"] for line in jobs if line["at_most"]]
        best = _told(jobs[0], goal) if goal is not None and jobs[0]["value"] is not None else None
        counts = ", ".join(f"{count} {state}" for state, count in states.items())
        records.append(
            {
                "name": sweep,
                "jobs": len(jobs),
                "at_most": min(bounds, default=None),
                "states": counts if output is Output.table else dict(states),
                **({"best": best} if goal is not None else {}),
            }
        )
    columns = ("name", "jobs", "at_most", "states", *(("best",) if goal is not None else ()))
    show(records, columns, output, nothing="No sweeps: fleet run --sweep or --array makes one")


def _show(lines: Sequence[Json], goal: Goal | None, output: Output) -> None:
    from fleet.cli.output import show

    names = dict.fromkeys(name for line in lines for name in line["values"])
    records = [
        {
            "name": line["name"],
            "kind": line["kind"],
            "state": line["state"],
            **line["values"],
            **({goal.metric: line["value"]} if goal is not None else {}),
            "member": line["member"] or "",
            "reason": (line["reason"] or {}).get("text") or "",
        }
        for line in lines
    ]
    metric = (goal.metric,) if goal is not None else ()
    show(records, ("name", "state", *names, *metric, "member", "reason"), output)
