"""Times as text, and back."""

from __future__ import annotations

import pytest

from fleet.values.times import in_calendar, instant, is_rfc3339, rfc3339, rfc3339_micro, seconds
from tests.core.model.times import BEYOND, ENDS


def test_a_time_is_written_in_utc_and_whole_seconds() -> None:
    assert rfc3339(1_714_564_800.9) == "2024-05-01T12:00:00Z"


def test_a_micro_time_has_six_digits() -> None:
    assert rfc3339_micro(1_714_564_800.25) == "2024-05-01T12:00:00.250000Z"


@pytest.mark.parametrize(
    "text",
    [
        "2024-05-01T12:00:00Z",
        "2024-05-01T12:00:00.000000Z",
        "2024-05-01T12:00:00.000000000Z",
        "2024-05-01T14:00:00+02:00",
        "2024-05-01T12:00:00",
    ],
)
def test_a_time_is_read_with_any_fraction_and_offset(text: str) -> None:
    assert seconds(text) == 1_714_564_800.0


@pytest.mark.parametrize("text", ENDS)
def test_what_is_read_can_be_written_with_all_of_its_digits(text: str) -> None:
    at = seconds(text)
    assert at is not None and rfc3339(at) == instant(at) == ENDS[text]
    assert seconds(rfc3339_micro(at)) == pytest.approx(at, abs=1e-4)
    assert is_rfc3339(text)


@pytest.mark.parametrize("text", BEYOND)
def test_a_time_beyond_the_calendar_is_none(text: str) -> None:
    assert seconds(text) is None and not is_rfc3339(text)


@pytest.mark.parametrize("text", ["2024-01-01", "2024-01-01T00:00:00", "20240101T000000Z", "٢٠٢٤-01-01T00:00:00Z"])
def test_other_forms_than_rfc_3339_are_none_for_the_fields_of_objects(text: str) -> None:
    assert not is_rfc3339(text)


def test_a_micro_time_has_six_decimals() -> None:
    assert is_rfc3339("2024-01-01T00:00:00.000000Z", micro=True)
    assert not is_rfc3339("2024-01-01T00:00:00.00Z", micro=True) and not is_rfc3339("2024-01-01T00:00:00Z", micro=True)


@pytest.mark.parametrize("now", [1e300, -1e300, float("inf"), float("nan"), 253_402_300_800.0, -62_135_596_801.0])
def test_a_number_that_no_calendar_reaches_is_said_as_it_is(now: float) -> None:
    assert instant(now) == str(now) and not in_calendar(now)


@pytest.mark.parametrize("text", ["", "soon", "2024-13-01T00:00:00Z", None, 5, [], {}])
def test_anything_else_is_no_time(text: object) -> None:
    assert seconds(text) is None


def test_what_is_written_is_read_back() -> None:
    assert seconds(rfc3339(1_714_564_801)) == 1_714_564_801.0
    assert seconds(rfc3339_micro(1_714_564_801.5)) == 1_714_564_801.5
