"""The parts of `make bench` that measure the console's views work, at a small size."""

from __future__ import annotations

from pathlib import Path

from tests.bench import console, views
from tests.bench.report import Report


def test_the_views_are_measured_with_queues_that_have_fair_shares_and_nodes_that_have_jobs(tmp_path: Path) -> None:
    report = Report()
    views.measure(report, tmp_path, 2, queues=6, members=2, each=3)
    found = {figure.name: figure for figure in report.figures if not figure.beside}
    assert {"first 5,000 of 6 nodes", "6 queues with fair shares", "until 6 fair shares are there"} <= found.keys()
    assert all(
        len(figure.values) == 2 and min(figure.values) > 0 for name, figure in found.items() if "until" not in name
    )


def test_the_built_console_is_measured_compressed() -> None:
    report = Report()
    console.measure_bundle(report)
    packed, plain = (figure.median for figure in report.figures)
    assert 0 < packed < 500 and packed < plain
