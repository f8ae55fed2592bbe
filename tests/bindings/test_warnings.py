"""Troubles of many jobs at once, from what the leader, the members and the API process tell."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.bindings.finding import Finding
from fleet.bindings.warnings import warnings


def cluster(total: object, ready: object) -> dict[str, Any]:
    return {"metadata": {"name": "cfa"}, "status": {"nodeSummary": {"totalNum": total, "readyNum": ready}}}


@pytest.mark.parametrize(("total", "ready", "told"), [(10, 8, 0), (10, 7, 1), (2, 1, 1), (0, 0, 0), (None, "x", 0)])
def test_a_member_may_lack_a_fifth_of_its_nodes(total: object, ready: object, told: int) -> None:
    assert len(warnings([cluster(total, ready)], {}, ())) == told


def test_nodes_that_are_not_ready_are_counted_with_the_command_that_shows_them() -> None:
    assert warnings([cluster(8, 4)], {}, ()) == [
        Finding(
            "nodes-not-ready",
            "Cluster",
            "",
            "cfa",
            "4 of 8 nodes are not ready",
            "see which, and why: kubectl amc get nodes -m cfa",
            "cfa",
        )
    ]


def refused(jobs: int) -> dict[str, Any]:
    first = {"kind": "PyTorchJob", "namespace": "a", "name": "one"}
    return {"refused": [{"code": "OverrideFailed", "jobs": jobs, "text": "cannot be sent", "first": first}]}


def test_one_cause_for_several_jobs_is_told_with_one_of_them() -> None:
    assert warnings((), refused(2), ()) == []
    [warned] = warnings((), refused(3), ())
    assert (warned.check, warned.kind, warned.namespace, warned.name) == ("jobs-refused", "PyTorchJob", "a", "one")
    assert "3 jobs" in warned.why and "cannot be sent (OverrideFailed)" in warned.why
    assert "fleet explain one -n a" in warned.what_to_do


@pytest.mark.parametrize(("most", "jobs", "told"), [(999, 999, 0), (1000, 1999, 1), (1000, 2000, 0), (5000, 5001, 1)])
def test_a_user_with_most_of_many_waiting_jobs_is_named(most: int, jobs: int, told: int) -> None:
    found = warnings((), {"waiting": {"user": "ada", "most": most, "jobs": jobs}}, ())
    assert [warned.name for warned in found] == ["ada"] * told


@pytest.mark.parametrize(("ignored", "what"), [(True, "requests are let through"), (False, "requests are refused")])
def test_a_webhook_that_fails_is_told_with_its_error(ignored: bool, what: str) -> None:
    call = {
        "kind": "ValidatingWebhookConfiguration",
        "configuration": "checks",
        "webhook": "a.example.com",
        "failures": 3,
        "ignored": ignored,
        "last": "2026-01-01T00:00:00Z",
        "error": "connection refused",
    }
    [warned] = warnings((), {}, [call])
    assert (warned.kind, warned.name) == ("ValidatingWebhookConfiguration", "checks")
    assert what in warned.why and warned.why.endswith("connection refused")
    assert "--outgoing-allow" in warned.what_to_do
    assert warnings((), {}, [{**call, "failures": 2}]) == []


@pytest.mark.parametrize("report", [{"refused": 7, "waiting": "x"}, {"refused": [{"jobs": "9", "first": []}]}])
def test_a_report_that_cannot_be_read_tells_nothing(report: dict[str, Any]) -> None:
    assert warnings([{}, {"metadata": None, "status": 3}], report, [{}]) == []
