"""What one line of `fleet jobs` says of a job, from its binding and its queue unit."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.cli.jobs import record

LOST = {"type": "MemberReachable", "status": "False", "message": "member cfa cannot be reached"}
WAITS = {"type": "Scheduled", "status": "False", "message": "no member fits"}
RUNS = {"clusterName": "cfa", "status": {"conditions": [{"type": "Running", "status": "True"}]}}


def line(*conditions: dict[str, Any], member: str = "", unit: dict[str, Any] | None = None) -> tuple[str, str]:
    """State and reason."""
    binding = {
        "metadata": {"namespace": "default", "name": "a-pytorchjob", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"resource": {"kind": "PyTorchJob", "name": "a"}, "clusters": [{"name": member}] if member else []},
        "status": {"conditions": list(conditions), "aggregatedStatus": [RUNS] if member else []},
    }
    found = record(binding, {"status": unit} if unit else None, 1767225600.0)
    return found["state"], found["reason"]


@pytest.mark.parametrize(
    ("expected", "given"),
    [
        pytest.param(("Running", ""), line(member="cfa"), id="a job that runs has no reason"),
        pytest.param(("Running", LOST["message"]), line(LOST, member="cfa"), id="its member does not answer"),
        pytest.param(("Waiting", "no member fits"), line(WAITS), id="it waits without a queue"),
        pytest.param(
            ("Queued", "max-jobs"), line(WAITS, unit={"phase": "Enqueued", "message": "max-jobs"}), id="it waits in one"
        ),
        pytest.param(
            ("Reserved", "checks"), line(WAITS, unit={"phase": "Reserved", "message": "checks"}), id="others must agree"
        ),
    ],
)
def test_a_line_says_how_the_job_stands_and_why(expected: tuple[str, str], given: tuple[str, str]) -> None:
    assert given == expected
