"""The history under /fleet/v1: who sees what of the past, and the refusals of what makes no sense."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from fleet.accounts.models import UsageRecord
from fleet.rest.historydb import HistoryDatabase
from fleet.rest.historymodels import Changes, HistoryReport, Life, PastJobList, UsageOverTime
from fleet.values.times import rfc3339
from tests.accounts.past import Past, at, past_in
from tests.core.model.times import BEYOND, ENDS
from tests.rest.rest import Rest, causes, rest

JOBS = {"apiGroups": ["kubeflow.org"], "resources": ["pytorchjobs"], "verbs": ["list"]}
EVERY_JOB = {"apiGroups": ["kubeflow.org", "batch", "batch.volcano.sh", "apps"], "resources": ["*"], "verbs": ["list"]}
PATHS = {"nonResourceURLs": ["/fleet/v1/history", "/fleet/v1/reports/*"], "verbs": ["get"]}
PERIOD = {"from": "2026-11-01T00:00:00Z", "to": "2026-12-01T00:00:00Z"}
REPORTS = ("usage", "waits", "efficiency")


@pytest.fixture
async def past(database_url: str) -> AsyncIterator[Past]:
    async with past_in(database_url) as made:
        yield made


@pytest.fixture
async def hub(database_url: str, past: Past) -> AsyncIterator[Rest]:
    """A hub with a past: alice's job in her namespace, bob's in his, and one of a kind that is not served."""
    history = HistoryDatabase(database_url)
    ran: list[dict[str, Any]] = [{"started": 1, "ended": 2, "outcome": "Evicted"}, {"started": 3, "ended": 5}]
    await past.job("train", attempts=ran, waits={"QuotaExhausted": 1}, evictions=1, ended=at(5))
    await past.job("secret", 1, attempts=[{"started": 2, "ended": 3}], user="bob", namespace="theirs", kind="TFJob")
    await past.job("old", 2, user="bob", namespace="theirs", kind="FormerJob")
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("team", "theirs")]
    async with rest(start=False, objects=spaces, history=history) as face:
        yield face
    await history.aclose()


def named(found: Any) -> list[str]:
    return [item["name"] for item in found["items"]]


async def test_an_administrator_sees_all_of_the_past(hub: Rest) -> None:
    found = await hub.get("/history")
    PastJobList.model_validate(found)
    assert (named(found), found["partial"], found["continue"]) == (["old", "secret", "train"], False, None)
    assert found["recordedSince"] == "2026-11-02T00:00:00Z"
    life = await hub.get("/history/team/pytorchjobs/train")
    Life.model_validate(life)
    assert [one["outcome"] for one in life["placements"]] == ["Evicted", "Succeeded"]
    assert await hub.get(f"/history/{life['uid']}") == life
    assert (await hub.get("/history/theirs/FormerJob/old"))["name"] == "old"


async def test_pages_of_the_past_follow_each_other(hub: Rest) -> None:
    first = await hub.get("/history", limit=2)
    second = await hub.get("/history", **{"limit": 2, "continue": first["continue"]})
    assert (named(first), named(second), second["continue"]) == (["old", "secret"], ["train"], None)
    for mark in ("what", "WzEsMl0", "WyIyMDI2IiwgInVpZCJd"):
        refused = await hub.refused("GET", "/history", params={"continue": mark})
        assert causes(refused) == {"continue": "is not what a page said"}


async def test_every_report_is_as_its_model_says(hub: Rest) -> None:
    for report in REPORTS:
        for by in ("user", "queue", "namespace", "member", "model"):
            found = await hub.get(f"/reports/{report}", by=by, **PERIOD)
            HistoryReport.model_validate(found)
            assert (found["report"], found["by"], found["partial"], found["left"]) == (report, by, False, 0)
        cut = await hub.get(f"/reports/{report}", by="namespace", limit=1, **PERIOD)
        assert (len(cut["rows"]), cut["left"]) == (1, 1)


async def test_a_reader_of_one_namespace_sees_nothing_of_the_others(hub: Rest) -> None:
    await hub.grant("alice", EVERY_JOB, "team")
    found = await hub.get("/history", "alice-token")
    assert (named(found), found["partial"]) == (["train"], True)
    assert named(await hub.get("/history", "alice-token", user="bob")) == []
    for report in REPORTS:
        told = await hub.get(f"/reports/{report}", "alice-token", by="user", **PERIOD)
        assert ([row["key"] for row in told["rows"]], told["partial"]) == (["alice"], True)
    secret = (await hub.get("/history/theirs/TFJob/secret"))["uid"]
    assert (await hub.refused("GET", f"/history/{secret}", "alice-token"))["code"] == 404
    assert (await hub.refused("GET", "/history/theirs/TFJob/secret", "alice-token"))["code"] == 403
    assert (await hub.get("/history/team/PyTorchJob/train", "alice-token"))["name"] == "train"


async def test_the_right_to_list_one_kind_shows_no_other(hub: Rest) -> None:
    await hub.grant("alice", JOBS)
    found = await hub.get("/history", "alice-token")
    assert (named(found), found["partial"]) == (["train"], True)
    assert (await hub.get("/reports/usage", "alice-token", **PERIOD))["total"]["gpuHours"] == 24


async def test_the_right_to_list_every_job_everywhere_shows_all(hub: Rest) -> None:
    await hub.grant("alice", EVERY_JOB)
    assert (await hub.get("/history", "alice-token"))["partial"] is False


async def test_a_right_on_the_paths_shows_all_to_somebody_without_jobs(hub: Rest) -> None:
    assert (await hub.refused("GET", "/history", "bob-token"))["code"] == 403
    assert (await hub.refused("GET", "/reports/usage", "bob-token"))["code"] == 403
    await hub.grant("bob", PATHS)
    assert len(named(await hub.get("/history", "bob-token"))) == 3
    assert (await hub.get("/reports/waits", "bob-token", **PERIOD))["total"]["submitted"] == 3
    assert (await hub.refused("DELETE", "/history/users/alice", "bob-token"))["code"] == 403


async def test_only_an_administrator_has_a_user_forgotten(hub: Rest) -> None:
    await hub.grant("alice", EVERY_JOB, "team")
    assert (await hub.refused("DELETE", "/history/users/alice", "alice-token"))["code"] == 403
    answer = await hub.client().delete("/fleet/v1/history/users/alice")
    assert answer.json() == {"user": "alice", "rows": 4}
    assert (await hub.get("/history/team/PyTorchJob/train"))["user"] is None
    strange = await hub.client().delete("/fleet/v1/history/users/https%3A%2F%2Fissuer%23sub%2Fx")
    assert strange.json() == {"user": "https://issuer#sub/x", "rows": 0}


WRONG = [
    ("/reports/usage", {"by": "team"}, "by", "'user', 'queue', 'namespace', 'member' or 'model'"),
    ("/reports/usage", {"from": PERIOD["to"], "to": PERIOD["from"]}, "from", "is not before `to`"),
    ("/reports/usage", {"from": "last week"}, "from", "datetime"),
    ("/reports/usage", {"form": PERIOD["from"]}, "form", "there is no such parameter"),
    ("/reports/cost", {}, "report", "'usage', 'waits' or 'efficiency'"),
    ("/history", {"state": "Done"}, "state.0", "must be '"),
    ("/history", {"limit": "x"}, "limit", "must be a whole number"),
    ("/history", {"limit": "0"}, "limit", "must be greater than or equal to 1"),
    ("/history", {"since": PERIOD["to"], "until": PERIOD["from"]}, "since", "is not before `until`"),
    ("/history/no-uid", {}, "uid", "valid UUID"),
]


async def test_what_makes_no_sense_is_refused_by_its_name(hub: Rest) -> None:
    for path, params, field, says in WRONG:
        refused = await hub.refused("GET", path, params=params)
        assert refused["code"] == 422 and says in causes(refused)[field], (path, params, refused)


@pytest.mark.parametrize("path", ["/history", "/jobs", "/reports/usage", "/reports/series", "/reports/changes"])
async def test_times_at_the_ends_of_the_calendar_are_answered_or_refused(hub: Rest, path: str) -> None:
    names = {"/history": ("since", "until"), "/jobs": ("since",)}.get(path, ("from", "to"))
    for name in names:
        for text in (*ENDS, *BEYOND):
            answer = await hub.client().get(f"/fleet/v1{path}", params={name: text})
            assert answer.status_code in (200, 422), (name, text, answer.text)
            assert answer.status_code == 200 or set(causes(answer.json())) <= {"from", name}, (name, text, answer.text)


async def test_a_wrong_name_is_answered_with_the_nearest(hub: Rest) -> None:
    refused = await hub.refused("GET", "/history/team/PyTorchJob/trian")
    assert refused["message"] == 'the history has no PyTorchJob "trian" in namespace team; did you mean train?'
    await hub.grant("alice", {**JOBS, "verbs": ["get"]}, "theirs")
    refused = await hub.refused("GET", "/history/theirs/PyTorchJob/secrets", "alice-token")
    assert refused["message"] == 'the history has no PyTorchJob "secrets" in namespace theirs'


async def test_a_hub_without_a_history_says_so_and_one_whose_database_is_away(tmp_path: Any) -> None:
    async with rest(start=False) as without:
        assert (await without.refused("GET", "/reports/usage"))["message"] == "this hub keeps no history"
    history = HistoryDatabase(f"postgresql://fleet@/fleet?host={tmp_path}")
    async with rest(start=False, history=history) as face:
        refused = await face.refused("GET", "/history")
        assert (refused["code"], refused["message"]) == (503, "the history cannot be read now")
    await history.aclose()


async def test_a_history_that_has_not_begun_is_empty(database_url: str) -> None:
    history = HistoryDatabase(database_url)
    async with rest(start=False, history=history) as face:
        assert await face.get("/history") == {"items": [], "continue": None, "partial": False, "recordedSince": None}
        assert (await face.get("/reports/usage"))["rows"] == []
    await history.aclose()


async def test_the_newest_starts_and_ends_are_listed_and_counted_as_far_as_the_reader_may_list_them(hub: Rest) -> None:
    found = await hub.get("/reports/changes", **PERIOD)
    Changes.model_validate(found)
    assert found["counts"] == {"Started": 3, "Evicted": 1, "Succeeded": 2} and found["partial"] is False
    times = [change["at"] for change in found["items"]]
    assert times == sorted(times, reverse=True) and len(times) == 6
    assert len((await hub.get("/reports/changes", limit=2, **PERIOD))["items"]) == 2
    await hub.grant("alice", {**JOBS, "verbs": ["list"]}, "team")
    mine = await hub.get("/reports/changes", "alice-token", **PERIOD)
    assert (set(named(mine)), mine["partial"], mine["counts"]["Started"]) == ({"train"}, True, 2)
    assert (await hub.refused("GET", "/reports/changes", "bob-token"))["code"] == 403


async def test_use_over_time_has_means_of_steps_and_nothing_where_nothing_was_recorded(hub: Rest, past: Past) -> None:
    whose = [("queue", "root/a", "", 1.0, None), ("member", "cfa", "H100", 0.0, 8.0)]
    rows = [
        {
            "at": at(0) + timedelta(minutes=minute),
            "scope": scope,
            "name": name,
            "model": model,
            "used": used,
            "waiting": waiting,
            "capacity": capacity,
        }
        for minute, used in ((0, 2.0), (1, 4.0))
        for scope, name, model, waiting, capacity in whose
    ]
    await past.put((UsageRecord, rows))
    asked = {"from": rfc3339(at(0).timestamp()), "to": rfc3339((at(0) + timedelta(minutes=6)).timestamp())}
    found = await hub.get("/reports/series", points=3, **asked)
    UsageOverTime.model_validate(found)
    assert (found["stepS"], len(found["at"]), found["capacity"]) == (120, 3, [8.0, None, None])
    assert found["series"] == [{"name": "root/a", "used": [3.0, None, None], "waiting": [1.0, None, None]}]
    members = await hub.get("/reports/series", by="member", **asked)
    assert (members["stepS"], members["series"][0]["used"][:3]) == (60, [2.0, 4.0, None])
    for query, field in (("points=201", "points"), ("by=user", "by"), (f"from={asked['to']}&to={asked['to']}", "from")):
        assert field in causes(await hub.refused("GET", f"/reports/series?{query}"))
    for by in ("queue", "member"):
        assert (await hub.refused("GET", f"/reports/series?by={by}", "alice-token"))["code"] == 403
