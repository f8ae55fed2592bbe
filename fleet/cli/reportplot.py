"""A report as a picture: horizontal bars, one for each row, the largest above."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BARS_MOST = 30
HOUR_S = 3600.0
NAMES = {"usage": "GPU-hours", "waits": "Hours from submission to the first start", "efficiency": "GPU-hours"}


def png(answer: dict[str, Any]) -> bytes:
    """The picture of a report, as its PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = answer["rows"][:BARS_MOST]
    figure = Figure(figsize=(9, 1.8 + 0.32 * max(3, len(rows))), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    labels = [row["key"] or "unknown" for row in rows]
    _DRAW[answer["report"]](axes, rows, labels, answer)
    axes.invert_yaxis()
    axes.set_xlabel(NAMES[answer["report"]])
    left = len(answer["rows"]) - len(rows) + answer["left"]
    more = f", {left} more not shown" if left else ""
    axes.set_title(
        f"{answer['report'].capitalize()} by {answer['by']}, {answer['from'][:10]} to {answer['to'][:10]}{more}"
    )
    axes.grid(axis="x", alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    if not rows:
        axes.text(0.5, 0.5, "nothing in this period", ha="center", transform=axes.transAxes)
    into = io.BytesIO()
    figure.savefig(into, format="png", dpi=120)
    return into.getvalue()


def _stacked(axes: Axes, labels: list[str], parts: dict[str, list[float]]) -> None:
    """Bars of several parts, one behind the other."""
    left = [0.0] * len(labels)
    for name, values in parts.items():
        axes.barh(labels, values, left=left, label=name)
        left = [at + value for at, value in zip(left, values, strict=True)]


def _usage(axes: Axes, rows: list[dict[str, Any]], labels: list[str], found: dict[str, Any]) -> None:
    models = sorted(found["total"]["models"], key=lambda name: -found["total"]["models"][name])
    _stacked(axes, labels, {model: [row["models"].get(model, 0.0) for row in rows] for model in models})


def _efficiency(axes: Axes, rows: list[dict[str, Any]], labels: list[str], found: dict[str, Any]) -> None:
    parts = {"counted": "countedGpuHours", "evicted": "evictedGpuHours", "failed": "failedGpuHours"}
    _stacked(axes, labels, {name: [row[field] for row in rows] for name, field in parts.items()})


def _waits(axes: Axes, rows: list[dict[str, Any]], labels: list[str], found: dict[str, Any]) -> None:
    for shade, rank in ((0.35, "p99"), (0.6, "p90"), (1.0, "p50")):  # each covers a part of the one before
        axes.barh(
            labels, [(row[f"{rank}S"] or 0.0) / HOUR_S for row in rows], color="tab:blue", alpha=shade, label=rank
        )


_DRAW = {"usage": _usage, "efficiency": _efficiency, "waits": _waits}
