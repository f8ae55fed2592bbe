"""Times as text, and back."""

from __future__ import annotations

import pytest

from fleet.model.times import rfc3339, rfc3339_micro, seconds


def test_a_time_is_written_in_utc_and_whole_seconds() -> None:
    assert rfc3339(1_714_564_800.9) == "2024-05-01T12:00:00Z"


def test_a_micro_time_has_six_digits() -> None:
    assert rfc3339_micro(1_714_564_800.25) == "2024-05-01T12:00:00.250000Z"


@pytest.mark.parametrize(
    "text",
    [
        "2024-05-01T12:00:00Z", "2024-05-01T12:00:00.000000Z", "2024-05-01T12:00:00.000000000Z",
        "2024-05-01T14:00:00+02:00", "2024-05-01T12:00:00",
    ],
)  # fmt: skip
def test_a_time_is_read_with_any_fraction_and_offset(text: str) -> None:
    assert seconds(text) == 1_714_564_800.0


@pytest.mark.parametrize("text", ["", "soon", "2024-13-01T00:00:00Z", None, 5, [], {}])
def test_anything_else_is_no_time(text: object) -> None:
    assert seconds(text) is None


def test_what_is_written_is_read_back() -> None:
    assert seconds(rfc3339(1_714_564_801)) == 1_714_564_801.0
    assert seconds(rfc3339_micro(1_714_564_801.5)) == 1_714_564_801.5
