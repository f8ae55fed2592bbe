"""Reasons as readers of another namespace see them, and a reason without numbers. (Other reasons: tests/scenarios.)"""

from __future__ import annotations

from fleet.core.model.reason import Code, Reason
from tests.builders import GPU


def test_a_job_of_another_namespace_for_which_quota_is_reserved_is_not_named() -> None:
    numbers: dict[str, str | int] = {
        "node": "root/ml",
        "resource": GPU,
        "request": 8,
        "used": 8,
        "max": 8,
        "short": 16,
        "reserved": 8,
        "preemptor": "vision/takes and 2 more",
    }
    told = Reason(Code.QUOTA_EXHAUSTED, numbers).told_to("speech").text
    assert "reserved 8 for a job of another namespace and 2 more, max 8" in told


def test_a_job_that_gets_the_room_is_not_named_in_another_namespace() -> None:
    found = Reason(
        Code.LOST_TO_OTHERS,
        {"member": "x", "pods": 1, "short": 1, "what": "8 nvidia.com/gpu free", "where": "x", "taker": "vision/first"},
    )
    assert found.told_to("speech").text == (
        "the room for it in x goes to a job of another namespace. Closest is x: no node has 8 nvidia.com/gpu free"
    )


def test_a_job_that_only_does_not_pack_beside_others_says_so() -> None:
    assert Reason(Code.LOST_TO_OTHERS, {"member": "x"}).text == (
        "x has room for it, but not on the same nodes as the jobs that start there now"
    )
