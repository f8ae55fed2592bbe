"""`fleet check`: what becomes of a job, member by member."""

from __future__ import annotations

import pytest

from fleet.cli import check


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("0/1 members are available: 1 member(s) were cordoned", "is cordoned"),
        (
            "0/1 members are available: 1 member(s) had untolerated taint {team: red}",
            "had untolerated taint {team: red}",
        ),
        ("no member has room for the pod. Closest is east: no node has 8 nvidia.com/gpu free",) * 2,
    ],
)
def test_a_member_that_takes_no_such_job_is_not_counted_in_its_own_row(text: str, told: str) -> None:
    assert check._why({"reason": {"text": text}}) == told
    assert check._why({"reason": None}) == "-"
