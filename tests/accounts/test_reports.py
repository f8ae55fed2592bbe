"""The three reports: what each number counts, over a past that is written by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import sqlalchemy as sa

from fleet.accounts.models import Cursor
from fleet.accounts.reports import ReportGrouping, efficiency, usage, waits
from fleet.accounts.reports_reader import HistoryReader, HistoryUnavailable
from fleet.accounts.reports_selection import JobSelection
from tests.accounts.past import Past, at, past_in, period

ALL = JobSelection()


@pytest.fixture
async def past(database_url: str) -> AsyncIterator[Past]:
    async with past_in(database_url) as made:
        yield made


def by_key(rows: list[dict[str, Any]], field: str) -> dict[Any, Any]:
    return {row["key"]: row[field] for row in rows}


async def test_usage_counts_the_part_of_an_attempt_that_lies_in_the_period(past: Past) -> None:
    await past.job("inside", attempts=[{"started": 10, "ended": 12}])
    await past.job("before", attempts=[{"started": 6, "ended": 10, "gpus": 4}])  # half of it lies in the period
    await past.job("after", attempts=[{"started": 19, "ended": 23, "gpus": 4}])  # a quarter
    await past.job("over-it", attempts=[{"started": 0, "ended": 24, "gpus": 1}])  # 12 hours
    await past.job("elsewhere", attempts=[{"started": 1, "ended": 8}, {"started": 20, "ended": 22}])
    rows, total = await usage(past.reader, ReportGrouping.USER, period(8, 20), ALL)
    assert rows == [
        {"key": "alice", "gpuHours": 16 + 8 + 4 + 12, "models": {"H100": 40.0}, "capacityGpuHours": None, "share": None}
    ]
    assert total == {**rows[0], "key": None}


async def test_work_that_goes_on_counts_up_to_now_and_no_further_than_the_period(past: Past) -> None:
    goes_on = {"started": 2, "ended": None, "counted": 3, "outcome": None}
    await past.job("on", attempts=[goes_on], state="Running")
    await past.job("placed", attempts=[{"placed": 2, "started": None, "ended": None, "outcome": None}], state="Placed")
    assert (await usage(past.reader, ReportGrouping.USER, period(0, 24, now=5), ALL))[1]["gpuHours"] == 24
    assert (await usage(past.reader, ReportGrouping.USER, period(0, 4, now=6), ALL))[1]["gpuHours"] == 16
    assert (await usage(past.reader, ReportGrouping.USER, period(6, 24, now=5), ALL))[1]["gpuHours"] == 0


@pytest.mark.parametrize(
    ("by", "hours"),
    [
        pytest.param(ReportGrouping.USER, {"alice": 8, "bob": 12, None: 2}, id="by user, one of whom is erased"),
        pytest.param(ReportGrouping.QUEUE, {"root/vision": 8, "root/nlp": 14}, id="by queue"),
        pytest.param(ReportGrouping.NAMESPACE, {"team": 8, "other": 14}, id="by namespace"),
        pytest.param(ReportGrouping.MEMBER, {"east": 8, "west": 14}, id="by member"),
        pytest.param(ReportGrouping.MODEL, {"H100": 8, "A100": 8, None: 6}, id="by model"),
    ],
)
async def test_the_rows_of_a_report_are_what_it_is_asked_by(
    past: Past, by: ReportGrouping, hours: dict[Any, float]
) -> None:
    await past.job("one", attempts=[{"started": 0, "ended": 1}])
    there = {"started": 0, "ended": 1, "number": 1, "member": "west"}
    two_models = [{**there, "model": "A100", "gpus": 8}, {**there, "model": "", "gpus": 4}]
    await past.job("two", attempts=two_models, user="bob", queue="root/nlp", namespace="other")
    await past.job("old", attempts=[{**there, "model": "", "gpus": 2}], user=None, queue="root/nlp", namespace="other")
    rows, total = await usage(past.reader, by, period(0, 2), ALL)
    assert by_key(rows, "gpuHours") == hours
    assert total["models"] == {"H100": 8, "A100": 8, "unknown": 6}
    assert [row["gpuHours"] for row in rows] == sorted(hours.values(), reverse=True)


async def test_the_capacity_of_members_is_known_by_member_by_model_and_in_the_sum(past: Past) -> None:
    await past.job("one", attempts=[{"started": 0, "ended": 5}])
    await past.minutes("east", 8, 0, 10)
    await past.minutes("west", 16, 5, 10, "A100")  # joined late
    rows, total = await usage(past.reader, ReportGrouping.MEMBER, period(0, 24), ALL)
    assert [(row["key"], row["capacityGpuHours"], row["share"]) for row in rows] == [("east", 80, 0.5)]
    assert (total["capacityGpuHours"], total["share"]) == (160, 0.25)
    rows, _ = await efficiency(past.reader, ReportGrouping.MODEL, period(0, 24), JobSelection(model="H100"))
    assert [(row["key"], row["capacityGpuHours"], row["share"]) for row in rows] == [("H100", 80, 0.5)]
    rows, total = await usage(past.reader, ReportGrouping.USER, period(0, 24), JobSelection(sight={"PyTorchJob": None}))
    assert [row["capacityGpuHours"] for row in (*rows, total)] == [None, None]


async def test_the_capacity_of_a_long_period_is_sampled_and_bridges_minutes_that_nobody_recorded(past: Past) -> None:
    await past.minutes("east", 8, 0, 20)
    await past.minutes("east", 8, 80, 100)
    _, total = await usage(past.reader, ReportGrouping.MEMBER, period(0, 200), ALL)
    assert total["capacityGpuHours"] == pytest.approx(800)


@pytest.mark.parametrize("report", [usage, efficiency])
async def test_work_before_the_first_recorded_minute_is_counted_and_has_no_part_in_the_share(
    past: Past, report: Any
) -> None:
    """A hub begins its history with jobs that run already, and counts these from their start."""
    await past.job("older", attempts=[{"started": 0, "ended": 22}])
    await past.minutes("east", 8, 20, 24)
    rows, total = await report(past.reader, ReportGrouping.MEMBER, period(0, 30), ALL)
    for row in (*rows, total):
        assert (row["gpuHours"], row["capacityGpuHours"], row["share"]) == (176, 32, 0.5)
    _, total = await report(past.reader, ReportGrouping.USER, period(0, 30), JobSelection(user="nobody"))
    assert (total["gpuHours"], total["capacityGpuHours"], total["share"]) == (0, 32, 0)


async def test_waits_are_of_jobs_submitted_in_the_period_and_of_their_first_start(past: Past) -> None:
    for number in range(1, 101):
        await past.job(f"job-{number}", attempts=[{"started": number, "ended": 200}, {"started": 300, "ended": 301}])
    await past.job("waiting", 5, state="Queued", waits={"QuotaExhausted": 2, "NoMemberFits": 1})
    await past.job("given-up", 5, state="Deleted", ended=period(0, 6).end)
    await past.job("early", -1, attempts=[{"started": 900, "ended": 901}])
    rows, total = await waits(past.reader, ReportGrouping.QUEUE, period(0, 24), ALL)
    hour = 3600
    assert rows == [
        {
            "key": "root/vision",
            "submitted": 102,
            "started": 100,
            "waiting": 1,
            "meanS": 50.5 * hour,
            "p50S": 50 * hour,
            "p90S": 90 * hour,
            "p99S": 99 * hour,
            "reasons": {"QuotaExhausted": 2, "NoMemberFits": 1},
        }
    ]
    assert total == {**rows[0], "key": None}


async def test_a_job_with_two_gpu_models_is_one_wait_in_its_member_and_one_with_each_model(past: Past) -> None:
    there = {"started": 2, "ended": 3, "number": 1}
    two = [{**there, "model": "A100"}, {**there, "model": "H100"}]
    await past.job("one", attempts=two, waits={"QuotaExhausted": 2})
    rows, total = await waits(past.reader, ReportGrouping.MEMBER, period(0, 24), ALL)
    assert (by_key(rows, "started"), by_key(rows, "reasons")) == ({"east": 1}, {"east": None})
    assert total["reasons"] == {"QuotaExhausted": 2}
    assert by_key((await waits(past.reader, ReportGrouping.MODEL, period(0, 24), ALL))[0], "p50S") == {
        "A100": 7200,
        "H100": 7200,
    }
    assert by_key(
        (await waits(past.reader, ReportGrouping.USER, period(0, 24), JobSelection(model="A100")))[0], "started"
    ) == {"alice": 1}
    assert (await waits(past.reader, ReportGrouping.USER, period(0, 24), JobSelection(member="west")))[0] == []


async def test_efficiency_tells_what_evictions_and_failures_cost(past: Past) -> None:
    evicted = {"started": 0, "ended": 1, "outcome": "Evicted"}
    failed = {"started": 2, "ended": 3, "outcome": "Failed", "gpus": 4}
    await past.job("one", attempts=[evicted, failed, {"started": 4, "ended": 6.5}])
    rows, total = await efficiency(past.reader, ReportGrouping.USER, period(0, 24), ALL)
    assert rows == [
        {
            "key": "alice",
            "gpuHours": 32,
            "countedGpuHours": 20,
            "lostGpuHours": 12,
            "evictedGpuHours": 8,
            "failedGpuHours": 4,
            "efficiency": 0.625,
            "capacityGpuHours": None,
            "share": None,
        }
    ]
    assert total == {**rows[0], "key": None}


@pytest.mark.parametrize("report", [usage, waits, efficiency])
async def test_a_reader_of_some_namespaces_gets_the_figures_of_these_alone(past: Past, report: Any) -> None:
    for namespace, kind in (("mine", "PyTorchJob"), ("mine", "Job"), ("theirs", "PyTorchJob"), ("open", "TFJob")):
        attempts = [{"started": 1, "ended": 2}]
        await past.job("one", attempts=attempts, namespace=namespace, kind=kind, waits={"QuotaExhausted": 1})
    sight = {"PyTorchJob": frozenset({"mine"}), "TFJob": None, "Job": frozenset({"other"})}
    rows, total = await report(past.reader, ReportGrouping.NAMESPACE, period(0, 24), JobSelection(sight=sight))
    assert {row["key"] for row in rows} == {"mine", "open"}
    assert total.get("gpuHours", 16) == 16 and total.get("reasons", {"QuotaExhausted": 2}) == {"QuotaExhausted": 2}
    assert (await report(past.reader, ReportGrouping.USER, period(0, 24), JobSelection(sight={})))[0] == []


async def test_a_queue_stands_for_those_below_it_and_for_no_other_that_begins_alike(past: Past) -> None:
    for queue in ("root/a", "root/a/x", "root/ab", "root/a_"):
        await past.job("one", attempts=[{"started": 0, "ended": 1}], queue=queue, waits={"QuotaExhausted": 1})
    chosen = JobSelection(queue="root/a/", user="alice", namespace="team", kind="PyTorchJob")
    rows, _ = await usage(past.reader, ReportGrouping.QUEUE, period(0, 2), chosen)
    assert set(by_key(rows, "gpuHours")) == {"root/a", "root/a/x"}
    _, total = await waits(
        past.reader, ReportGrouping.QUEUE, period(0, 2), JobSelection(queue="root/a", user="alice", namespace="team")
    )
    assert total["reasons"] == {"QuotaExhausted": 2}


async def test_an_empty_history_and_a_database_without_one_have_nothing(past: Past, postgres_server: Any) -> None:
    without = HistoryReader(postgres_server.dsn_of("postgres"))
    try:
        for reader in (past.reader, without):
            assert (await usage(reader, ReportGrouping.USER, period(0, 24), ALL))[0] == []
            assert (await waits(reader, ReportGrouping.USER, period(0, 24), ALL))[1]["submitted"] == 0
            assert await reader.since() is None
        assert await without.erase("alice") == 0
    finally:
        await without.close()


async def test_a_database_that_does_not_answer_is_said_to_be_so(tmp_path: Any) -> None:
    away = HistoryReader(f"postgresql://fleet@/fleet?host={tmp_path}")
    with pytest.raises(HistoryUnavailable):
        await away.since()
    await away.close()
    assert not list(tmp_path.iterdir())


async def test_a_history_says_since_when_it_records(past: Past) -> None:
    await past.minutes("east", 8, 3, 3.1)
    assert await past.reader.since() == at(3)
    await past.job("early", 2)
    assert await past.reader.since() == at(2)
    async with past.engine.begin() as connection:
        row = {"id": 1, "revision": 7, "state": {"since": "2026-11-02T01:00:00Z"}}
        await connection.execute(sa.insert(Cursor), row)
    assert await past.reader.since() == at(1)
