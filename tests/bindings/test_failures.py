"""Attempts that come to nothing, as a binding tells of them: how many, how long the next waits, and the last."""

from __future__ import annotations

import pytest

from fleet.bindings.failures import (
    BACKOFF_LIMIT,
    AttemptFailure,
    backoff_until,
    backoffs,
    failures_of,
    failures_text,
    gave_up,
    with_failure,
)
from fleet.values.ports import Body
from fleet.wellknown import ANNOTATION_BACKOFF_LIMIT, ANNOTATION_RETRIES


def binding(failures: int, **annotations: str) -> Body:
    """A binding that failed so often, as it is stored."""
    body: Body = {"metadata": {"annotations": dict(annotations)}, "spec": {}}
    for number in range(failures):
        told = with_failure(failures_of(body), AttemptFailure("cfa", 100.0 + number, "GangNotWhole", message="no room"))
        body["metadata"]["annotations"][ANNOTATION_RETRIES] = failures_text(told)
    return body


def test_the_count_goes_on_although_only_the_newest_failures_are_kept() -> None:
    body = binding(57)
    assert (len(failures_of(body)), backoffs(failures_of(body))) == (20, 57)


def test_what_does_not_back_off_is_not_counted() -> None:
    failures = with_failure(failures_of(binding(3)), AttemptFailure("cfa", 1.0, "MemberUnreachable", backoff=False))
    assert backoffs(failures) == 3
    assert backoff_until(failures) is None
    assert backoffs(with_failure(failures, AttemptFailure("cfa", 2.0, "GangNotWhole"))) == 4


def test_failures_that_were_stored_before_they_were_counted_count() -> None:
    old = [AttemptFailure("cfa", float(n), "GangNotWhole") for n in range(5)]
    assert backoffs(old) == 5
    assert backoffs(with_failure(old, AttemptFailure("cfa", 9.0, "GangNotWhole"))) == 6


@pytest.mark.parametrize(
    ("failures", "limit", "over"),
    [
        (0, None, False),
        (BACKOFF_LIMIT - 1, None, False),
        (BACKOFF_LIMIT, None, True),
        (1, "1", True),
        (BACKOFF_LIMIT + 5, "0", False),
        (2, "3", False),
        (3, "many", False),
    ],
)
def test_attempts_end_at_a_limit(failures: int, limit: str | None, over: bool) -> None:
    body = binding(failures, **({} if limit is None else {ANNOTATION_BACKOFF_LIMIT: limit}))
    why = gave_up(body)
    assert bool(why) == over
    if over:
        assert why == f"{failures} attempt{'s' if failures > 1 else ''} came to nothing, the last: no room"


def test_the_back_off_doubles_from_one_second_to_five_minutes() -> None:
    failures = [AttemptFailure("cfa", 100.0, "GangNotWhole") for _ in range(12)]
    pauses = [(backoff_until(failures[:count]) or 0) - 100 for count in range(1, 12)]
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert backoff_until([AttemptFailure("cfa", 100.0, "MemberUnreachable", backoff=False)]) is None
