"""What a table says of many jobs alike is one row."""

from __future__ import annotations

from fleet.cli.alike import merged


def test_rows_that_say_the_same_of_numbered_jobs_are_one() -> None:
    rows = [*([f"a-{i}", "x"] for i in range(1, 5)), *([f"b-{i}", "x"] for i in range(1, 4)), ["c", "y"]]
    assert merged(rows) == [["a-1 … a-4 (4)", "x"], ["b-1", "x"], ["b-2", "x"], ["b-3", "x"], ["c", "y"]]


def test_no_rows_stay_none() -> None:
    assert merged([]) == []
