"""`fleet status`: one screen about the hub, as far as the user may see it."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.amc.client import ServerAnswer
from fleet.cli.hub import HubClient, HubRefusal
from fleet.cli.status import CLUSTERS, DECISIONS, QUEUES, STATUS, gathered, lines
from fleet.values.times import rfc3339
from tests.cli.hub import fleet, refusal

NOW = 1_800_000_000.0
WELL: dict[str, Any] = {
    "healthy": True,
    "problems": [],
    "leader": {"name": "one", "since": rfc3339(NOW - 60), "renewed": rfc3339(NOW - 1)},
    "decided": rfc3339(NOW - 9),
    "looked": rfc3339(NOW - 2),
    "failing": [],
    "aside": {"count": 0, "first": []},
    "database": "ok",
    "members": [{"name": "cfa", "ready": True, "message": "", "silent_s": 1}],
}
MEMBER = {"jobs": {"Running": 3, "Succeeded": 1}, "allocatable": {"nvidia.com/gpu": "64"}, "allocated": {}}
FULL = MEMBER | {"jobs": {"Running": 1}, "allocated": {"nvidia.com/gpu": "24"}}


def screen(**answers: Any) -> list[str]:
    """Of a hub that answers so by path; the number of a status stands for a refusal."""
    told = {
        STATUS: WELL,
        CLUSTERS: {"items": [MEMBER, FULL]},
        QUEUES: {"items": [{"parent": None, "waiting": 7}, {"parent": "root", "waiting": 7}]},
        f"{DECISIONS}?limit=1": {"items": [{"at": rfc3339(NOW - 9), "placed": 2, "waiting": 7}]},
    } | answers

    class Api:
        def request(self, method: str, path: str, *_: Any, **__: Any) -> ServerAnswer:
            body = told[path]
            return ServerAnswer(body, {"message": "no"}) if isinstance(body, int) else ServerAnswer(200, body)

    return lines(gathered(HubClient(Api(), "kubeconfig")), NOW)  # type: ignore[arg-type]


def test_the_screen_says_what_runs_what_waits_and_the_last_decision() -> None:
    shown = screen()
    assert "Jobs:       waiting in queues: 7; in members: 4 Running, 1 Succeeded; GPUs in use: 24 of 128" in shown
    assert "Decisions:  last 9s ago, 2 started and 7 left waiting; queues looked at 2s ago" in shown


def test_a_new_leader_has_not_looked_at_the_queues_yet() -> None:
    shown = screen(**{STATUS: WELL | {"decided": None, "looked": None}})
    assert "Decisions:  none by this leader yet; queues not looked at yet" in shown


@pytest.mark.parametrize(
    ("path", "missing"),
    [(QUEUES, "waiting in queues"), (f"{DECISIONS}?limit=1", "started and"), (CLUSTERS, "Running")],
)
def test_the_parts_that_a_user_may_not_see_are_left_out(path: str, missing: str) -> None:
    assert any(missing in line for line in screen())
    shown = screen(**{path: 403})
    assert shown[0] == "Healthy:    yes" and not any(missing in line for line in shown)


def test_a_hub_that_cannot_tell_its_jobs_says_what_is_wrong_all_the_same() -> None:
    """Without its database an API process knows neither decisions nor the newest jobs."""
    sick = WELL | {"healthy": False, "database": "does not answer: x", "problems": ["the database does not answer: x"]}
    for path in (CLUSTERS, QUEUES, f"{DECISIONS}?limit=1"):
        shown = screen(**{STATUS: sick, path: 503})
        assert "Wrong:      the database does not answer: x" in shown and "Jobs:       not known now" in shown
        with pytest.raises(HubRefusal):
            screen(**{path: 503})


def test_a_screen_is_watched_as_a_table_alone() -> None:
    assert refusal(fleet("status", "-w", "-o", "json")) == "fleet: --watch prints the screen alone"
