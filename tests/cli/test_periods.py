"""Periods as people name them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import typer

from fleet.cli.failure import Failure
from fleet.cli.periods import bounds
from fleet.cli.when import patience
from tests.cli.hub import fleet

NOW = datetime(2026, 12, 15, 10, 30, tzinfo=UTC).timestamp()


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("from_", "to", "start", "end"),
    [
        pytest.param("7d", None, "2026-12-08T10:30", None, id="the last seven days"),
        pytest.param("90m", None, "2026-12-15T09:00", None, id="ninety minutes"),
        pytest.param("today", None, "2026-12-15", "2026-12-16", id="today ends at midnight"),
        pytest.param("yesterday", None, "2026-12-14", "2026-12-15", id="yesterday"),
        pytest.param("2026-12", None, "2026-12-01", "2027-01-01", id="a December"),
        pytest.param("2026-02-28", None, "2026-02-28", "2026-03-01", id="a day"),
        pytest.param("2025", None, "2025-01-01", "2026-01-01", id="a year"),
        pytest.param("2026-09", "2026-10", "2026-09-01", "2026-11-01", id="two months, the second too"),
        pytest.param("2026-09-01T08:00Z", "2026-09-02", "2026-09-01T08:00", "2026-09-03", id="from a time to a day"),
        pytest.param("2026-09-01T08:00+02:00", None, "2026-09-01T06:00", None, id="a time of another zone"),
        pytest.param("30d", "7d", "2026-11-15T10:30", "2026-12-08T10:30", id="up to a week ago"),
        pytest.param("2027", None, "2027-01-01", "2028-01-01", id="a year to come, whose report is empty"),
        pytest.param(None, "yesterday", None, "2026-12-15", id="an end alone"),
    ],
)
def test_a_period_is_what_its_words_mean(from_: str | None, to: str | None, start: str | None, end: str | None) -> None:
    found = bounds(from_, to, NOW)
    assert found == (at(start) if start else None, at(end) if end else None)


def test_the_start_of_a_list_has_no_end_of_its_own() -> None:
    assert bounds("2026-02", None, NOW, open_end=True) == (at("2026-02-01"), None)


@pytest.mark.parametrize(
    ("from_", "to", "says"),
    [
        ("2026-11", "2026-10", "--from 2026-11: is not before the end, 2026-11-01T00:00:00Z"),
        ("2027-01-02T00:00Z", None, "--from 2027-01-02T00:00Z: is not before the end, 2026-12-15T10:30:00Z"),
        ("last week", None, "--from last week: is none of the forms 7d,"),
        (None, "2026-13", "--to 2026-13: is none of the forms 7d,"),
        ("99999999d", None, "--from 99999999d: is none of the forms 7d,"),
        ("0d", None, "--from 0d: is no duration such as"),
    ],
)
def test_a_period_that_means_nothing_is_refused_by_its_option(from_: str | None, to: str | None, says: str) -> None:
    with pytest.raises(Failure) as refused:
        bounds(from_, to, NOW)
    assert str(refused.value).startswith(says)


def test_a_timeout_is_seconds_or_a_duration() -> None:
    given = {"600": 600.0, "2.5": 2.5, "0": 0.0, "90s": 90.0, "10m": 600.0, "2h": 7200.0, "1d": 86400.0}
    assert {text: patience(text) for text in given} == given


@pytest.mark.parametrize("text", ["", "-1", "10x", "s", "1e400", "inf", "nan", "ten minutes"])
def test_a_timeout_that_is_neither_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="neither seconds"):
        patience(text)


def test_the_help_shows_the_default_of_a_timeout_as_people_type_it() -> None:
    help_ = " ".join(fleet("move", "--help").stdout.split())
    assert "(90s, 10m) until the job is there. [default: (10m)]" in help_, help_
