"""Jobs of the past: lists of them, page by page, and the whole life of one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from fleet.accounts.models import WaitRecord
from fleet.accounts.reports_lives import jobs, life, names, of_name, of_uid
from fleet.accounts.reports_selection import JobSelection
from tests.accounts.past import Past, at, past_in

NOW = at(100)


@pytest.fixture
async def past(database_url: str) -> AsyncIterator[Past]:
    async with past_in(database_url) as made:
        yield made


async def listed(past: Past, chosen: JobSelection | None = None, **how: Any) -> list[str]:
    """The names of the jobs of all pages."""
    found: list[str] = []
    after, limit = None, how.pop("limit", 50)
    while True:
        items, after = await jobs(past.reader, chosen or JobSelection(), limit=limit, after=after, now=NOW, **how)
        found += [item["name"] for item in items]
        if after is None:
            return found


async def test_pages_show_every_job_once_the_newest_first(past: Past) -> None:
    for number in range(7):
        await past.job(f"job-{number}", number // 3)
    assert await listed(past, limit=2) == [f"job-{number}" for number in range(6, -1, -1)]
    assert await listed(past, limit=7) == await listed(past)


async def test_a_list_is_narrowed_by_all_that_a_job_is(past: Past) -> None:
    again: dict[str, Any] = {"started": 5, "ended": 6, "member": "west", "model": "A100"}
    await past.job("one", 1, attempts=[{"started": 2, "ended": 4}, again], ended=at(6))
    await past.job("two", 8, attempts=[{"started": 9, "ended": None}], state="Running", user="bob", namespace="other")
    await past.job("three", 9, state="Queued", queue="root/nlp/x", kind="TFJob")
    everything = ["three", "two", "one"]
    for names_, chosen in {
        ("one",): JobSelection(member="west"),
        ("two", "one"): JobSelection(member="east"),
        ("three",): JobSelection(kind="TFJob"),
    }.items():
        assert await listed(past, chosen) == list(names_)
    assert await listed(past, JobSelection(model="A100")) == await listed(past, name="one") == ["one"]
    assert (
        await listed(past, JobSelection(user="bob")) == await listed(past, JobSelection(namespace="other")) == ["two"]
    )
    assert await listed(past, JobSelection(queue="root/nlp")) == await listed(past, states=["Queued"]) == ["three"]
    assert await listed(past, JobSelection(sight={"PyTorchJob": frozenset({"team"})})) == ["one"]
    assert await listed(past, since=at(6)) == everything
    assert await listed(past, since=at(6.1)) == ["three", "two"]  # what still goes on is of every later time
    assert await listed(past, until=at(8)) == ["one"]
    assert await listed(past, JobSelection(user="a\0b")) == []
    assert await names(past.reader, JobSelection(namespace="team")) == ["one", "three"]


async def test_the_life_of_a_job_has_its_waits_and_attempts_with_what_they_used_and_lost(past: Past) -> None:
    evicted = {"started": 1, "ended": 2, "outcome": "Evicted", "why": "Reclaimed"}
    again = {"placed": 3, "started": 4, "ended": None, "counted": 5, "outcome": None, "member": "west", "number": 2}
    uid = await past.job(
        "train",
        attempts=[evicted, {**again, "model": "A100", "gpus": 4}, {**again, "model": "", "gpus": 2}],
        waits={"NoMemberFits": 0.25, "QuotaExhausted": 0.75},
        state="Running",
        evictions=1,
        lost_gpu_s=8 * 3600.0,
    )
    told = await life(past.reader, at(6), *of_name("team", "PyTorchJob", "train"))
    assert told is not None and told == await life(past.reader, at(6), *of_uid(uid, JobSelection()))
    assert told["waits"] == [
        {"reason": "QuotaExhausted", "goesOn": False, "seconds": 2700},
        {"reason": "NoMemberFits", "goesOn": False, "seconds": 900},
    ]
    first, second = told["placements"]
    assert (first["member"], first["outcome"], first["why"], first["gpuHours"]) == ("east", "Evicted", "Reclaimed", 8)
    assert (second["models"], second["gpuHours"], second["outcome"]) == ({"A100": 4, "unknown": 2}, 12, None)
    assert (second["placed"], second["started"], second["ended"]) == (
        "2026-11-02T03:00:00Z",
        "2026-11-02T04:00:00Z",
        None,
    )
    assert (told["members"], told["models"]) == (["east", "west"], {"A100": 4, "unknown": 2})
    assert (told["gpuHours"], told["lostGpuHours"], told["evictions"], told["waitedS"]) == (20, 8, 1, 3600)
    assert told["ranS"] == 3 * 3600, "an attempt on two models ran once, and the wait between attempts does not count"


async def test_a_spell_of_waiting_that_goes_on_counts_up_to_now(past: Past) -> None:
    uid = await past.job("train", 1, state="Queued")
    spell = {"job": uid, "submitted": at(1), "reason": "QuotaExhausted", "namespace": "team", "seconds": 60.0}
    await past.put((WaitRecord, [spell | {"since": at(2)}]))
    told = await life(past.reader, at(3), *of_uid(uid, JobSelection()))
    assert told is not None and told["waitedS"] == 2 * 3600
    assert told["waits"] == [{"reason": "QuotaExhausted", "goesOn": True, "seconds": 3660}]


async def test_a_name_means_the_newest_job_that_had_it(past: Past) -> None:
    first = await past.job("train", 1, state="Failed")
    await past.job("train", 2, kind="TFJob")
    second = await past.job("train", 3, state="Running")
    told = await life(past.reader, NOW, *of_name("team", "PyTorchJob", "train"))
    assert told is not None and told["uid"] == second
    assert told["earlier"] == [
        {"uid": first, "kind": "PyTorchJob", "state": "Failed", "submitted": "2026-11-02T01:00:00Z"}
    ]
    assert await life(past.reader, NOW, *of_name("team", "PyTorchJob", "trian")) is None
    assert await life(past.reader, NOW, *of_uid(first, JobSelection(sight={"TFJob": None}))) is None


async def test_an_erased_user_is_named_nowhere_and_her_jobs_stay(past: Past) -> None:
    for user in ("alice", "bob"):
        await past.job(f"of-{user}", attempts=[{"started": 1, "ended": 2}], waits={"QuotaExhausted": 1}, user=user)
    assert await past.reader.erase("alice") == 3
    assert await listed(past, JobSelection(user="alice")) == [] and await listed(past) == ["of-bob", "of-alice"]
    assert await past.reader.erase("alice") == 0
