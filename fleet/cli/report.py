"""`fleet report`: usage, waits and efficiency of a period, by user, queue, namespace, member or GPU model."""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TextIO, cast
from urllib.parse import urlencode

import typer

from fleet.amc.terminal import FULL, PlainStream
from fleet.cli import completers, periods
from fleet.cli.failure import Failure
from fleet.cli.history import UNRECORDED, KindOption, MemberOption, ModelOption, UserOption, hours
from fleet.cli.jobs import PART
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, Output, QueueOption
from fleet.values.durations import human

REPORTS = "/fleet/v1/reports"
REASONS_MOST = 2  # of a row, in a table
app = typer.Typer(help="Sum up the past: usage, waits or efficiency.", no_args_is_help=True, rich_markup_mode=None)


class Report(StrEnum):
    usage = "usage"
    waits = "waits"
    efficiency = "efficiency"


class ReportKey(StrEnum):
    user = "user"
    queue = "queue"
    namespace = "namespace"
    member = "member"
    model = "model"


class ReportOutput(StrEnum):
    table = "table"
    csv = "csv"
    json = "json"
    png = "png"


def report(
    report: Annotated[
        Report,
        typer.Argument(
            metavar="REPORT",
            help="usage: GPU-hours. waits: times to the first start. efficiency: GPU-hours that counted, and lost.",
        ),
    ],
    by: Annotated[ReportKey, typer.Option("--by", help="What a row stands for.")] = ReportKey.user,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help=f"Start of the period, in UTC: {periods.FORMS} (default: 30d)."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="TIME", help="End of the period; a day or a month belongs to it (default: now)."),
    ] = None,
    output: Annotated[ReportOutput, typer.Option("--output", "-o", help="How to print.")] = ReportOutput.table,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Write there instead of to stdout.")] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            help="Only this namespace (default: all that you may see).",
            autocompletion=completers.namespaces,
        ),
    ] = None,
    user: UserOption = None,
    queue: QueueOption = None,
    kind: KindOption = None,
    member: MemberOption = None,
    model: ModelOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Sum up the past: usage, waits or efficiency.

    Of the namespaces where you may list jobs; of all where your role opens the path. All times are in UTC.
    """
    from fleet.cli import optional
    from fleet.cli.hub import connect

    if output is ReportOutput.png and file is None and sys.stdout.isatty():
        raise Failure("-o png: give --file, or send stdout to a file")
    if output is ReportOutput.png:
        optional.need_plots("-o png", optional.LIGHT)
    start, end = periods.bounds(from_, to, time.time())
    which = {
        "by": by,
        "from": start and start.isoformat(),
        "to": end and end.isoformat(),
        "namespace": namespace,
        "user": user,
        "queue": queue,
        "kind": kind,
        "member": member,
        "model": model,
    }
    query = urlencode({key: value for key, value in which.items() if value})
    found = connect(kubeconfig, data_dir, context).request("GET", f"{REPORTS}/{report}?{query}").body
    if found["partial"]:
        print(PART, file=sys.stderr)
    try:
        _write(found, output, file)
    except OSError as error:
        if file is None:
            raise
        if error.errno in FULL and file.is_file():  # a part of a report; no device and no pipe
            file.unlink()
        raise Failure(f"--file {file}: {error.strerror}") from error


def _write(answer: dict[str, Any], output: ReportOutput, file: Path | None) -> None:
    if output is ReportOutput.png:
        from fleet.cli.reportplot import png

        picture = png(answer)
        if file is not None:
            file.write_bytes(picture)
        else:
            sys.stdout.buffer.write(picture)
        return
    if file is None:
        _print(answer, output)
        return
    with file.open("w", newline="") as opened, redirect_stdout(cast(TextIO, PlainStream(opened))):
        _print(answer, output)


def _print(answer: dict[str, Any], output: ReportOutput) -> None:
    from fleet.cli.output import show, show_one

    if output is ReportOutput.json:
        show_one(answer, Output.json)
    elif output is ReportOutput.csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerows(_flat(answer))
    elif not answer["rows"]:
        since = answer["recordedSince"]
        print(f"Nothing in this period; recorded since {since}" if since else UNRECORDED, file=sys.stderr)
    else:
        print(f"{answer['from']} to {answer['to']}")
        lines = [_cells(answer, row) for row in answer["rows"]]
        if len(lines) > 1 or answer["left"]:
            lines.append(_cells(answer, answer["total"]) | {answer["by"]: "total"})
        show(lines, list(lines[0]), Output.table)
        if answer["left"]:
            print(f"{answer['left']} more rows are in the total", file=sys.stderr)


def _cells(answer: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """One row of a table for people."""
    cells: dict[str, Any] = {answer["by"]: row["key"] or "unknown"}
    if answer["report"] == "usage":
        cells |= {"gpu_hours": hours(row["gpuHours"])}
        if answer["by"] != "model":
            cells |= {model: hours(row["models"].get(model, 0.0)) for model in _names(answer, "models")}
        return cells | _share(answer, row)
    if answer["report"] == "efficiency":
        cells |= {"gpu_hours": hours(row["gpuHours"]), "counted": hours(row["countedGpuHours"])}
        cells |= {"evicted": hours(row["evictedGpuHours"]), "failed": hours(row["failedGpuHours"])}
        return cells | {"efficiency": _percent(row["efficiency"])} | _share(answer, row)
    cells |= {"jobs": row["submitted"], "started": row["started"], "waiting": row["waiting"]}
    cells |= {name: _span(row[f"{name}S"]) for name in ("mean", "p50", "p90", "p99")}
    if row["reasons"] is not None:
        first = sorted(row["reasons"].items(), key=lambda item: -item[1])[:REASONS_MOST]
        cells["hours_by_reason"] = ", ".join(f"{reason} {hours(value)}" for reason, value in first)
    elif answer["total"]["reasons"] is not None:
        cells["hours_by_reason"] = ""
    return cells


def _share(found: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """Capacity and share, where the report knows them of any row."""
    if found["total"]["share"] is None:
        return {}
    capacity = row["capacityGpuHours"]
    return {"capacity": "" if capacity is None else hours(capacity), "share": _percent(row["share"])}


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def _span(value: float | None) -> str:
    return "" if value is None else human(value)


def _names(found: dict[str, Any], field: str) -> list[str]:
    """The models, or reasons, of all rows, the largest first."""
    total = found["total"][field] or {}
    return sorted(total, key=lambda name: (-total[name], name))


def _flat(answer: dict[str, Any]) -> Iterator[list[Any]]:
    """Lines of a CSV: the fields of the rows, with a column for each model or reason. Without the total, so that the
    rows add up to it."""
    nested = "reasons" if answer["report"] == "waits" else "models" if answer["report"] == "usage" else ""
    plain = [field for field in answer["total"] if field not in ("key", nested)]
    names = _names(answer, nested) if nested else []
    prefix = "hours:" if nested == "reasons" else "gpuHours:"
    yield [answer["by"], *plain, *(prefix + name for name in names)]
    for row in answer["rows"]:
        yield [row["key"], *(row[field] for field in plain), *((row[nested] or {}).get(name, 0.0) for name in names)]
