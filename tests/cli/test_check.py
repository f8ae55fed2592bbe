"""`fleet check`: what becomes of a job, member by member."""

from __future__ import annotations

import pytest

from fleet.cli import check


@pytest.mark.parametrize(
    ("code", "numbers", "told"),
    [
        ("NoMemberAllowed", {"why": "1 member(s) were cordoned"}, "is cordoned"),
        ("NoMemberAllowed", {"why": "1 member(s) had untolerated taint {a: b}"}, "had untolerated taint {a: b}"),
        ("NoMemberFits", {"pods": 1}, "no node has 8 nvidia.com/gpu free"),
    ],
)
def test_a_member_that_takes_no_such_job_is_not_counted_in_its_own_row(
    code: str, numbers: dict[str, object], told: str
) -> None:
    reason = {"code": code, "numbers": numbers, "text": "no node has 8 nvidia.com/gpu free"}
    assert check._why({"reason": reason}) == told
    assert check._why({"reason": None}) == "-"
