"""`logs`: of all pods of a job, followed until it is over, whatever happens to pods, hub and connections meanwhile."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fleet.client import AsyncFleet, BadRequest, Forbidden, HubWarning, LogLine, NotFound
from fleet.client.following import _Log
from fleet.client.jobvalues import Pod
from tests.cli.hub import Up, until
from tests.cli.manifests import job
from tests.client.conftest import BOTH, Face, faces, is_ready
from tests.client.faulty import Said, faulty, refusal
from tests.client.scripts import at, pod, scripted
from tests.controllers.fastloop import eventually

PODS = "/apis/cluster.karmada.io/v1alpha1/clusters/cfa/proxy/api/v1/namespaces/default/pods"


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.client.steps.FIRST_WAIT_S", 0.01)
    monkeypatch.setattr("fleet.client.following.MISSING_S", 0.2)
    monkeypatch.setattr("fleet.client.following.STEADY_S", 0.5)


def gang(name: str, run_for: str = "1h", **metadata: Any) -> dict[str, Any]:
    """A master and two workers."""
    body = job(name, gpus=1, **metadata)
    [template] = [part["template"] for part in body["spec"]["pytorchReplicaSpecs"].values()]
    template["metadata"] = {"annotations": {"testbed/run-for": run_for}}
    parts = {"Master": 1, "Worker": 2}
    body["spec"]["pytorchReplicaSpecs"] = {
        part: {"replicas": replicas, "template": template} for part, replicas in parts.items()
    }
    return body


async def lines(face: Face, *args: Any, **how: Any) -> AsyncIterator[LogLine]:
    """Those of a log, by either client."""
    found: Any = face.client.logs(*args, **how)
    if isinstance(face.client, AsyncFleet):
        async for line in found:
            yield line
        return
    iterator = iter(found)
    while (line := await asyncio.to_thread(next, iterator, None)) is not None:
        yield line


async def test_the_logs_of_all_ranks_are_followed_as_one_until_the_job_is_over(face: Face) -> None:
    await face.call("submit", gang("merged", "3s"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HubWarning)  # that it waits, where that is still so
            async with asyncio.timeout(120):
                found = [line async for line in lines(face, "merged", follow=True)]
        assert sorted((line.rank, line.pod) for line in found) == [
            (0, "merged-master-0"),
            (1, "merged-worker-0"),
            (2, "merged-worker-1"),
        ]
        assert all("in the simulated cluster cfa" in str(line) for line in found)
        assert (await face.call("job", "merged")).state == "Succeeded"
        whole = await face.all("logs", "merged")
        assert [(line.rank, line.pod) for line in whole] == sorted((line.rank, line.pod) for line in found)
        assert whole == await face.all("all_logs", "merged")
        one = [line async for line in lines(face, "merged", rank=2, follow=True, timestamps=True)]
        assert [line.pod for line in one] == ["merged-worker-1"] and one[0].text.startswith("20")
        assert [line.rank for line in await face.all("logs", "merged", role="worker", index=1)] == [2]
    finally:
        await face.call("cancel", "merged")


async def collect(face: Face, seen: asyncio.Queue[str], *args: Any, **how: Any) -> None:
    async for line in lines(face, *args, **how):
        seen.put_nowait(line.pod)


async def test_a_job_that_waits_is_waited_for_and_a_pod_that_is_made_anew_is_read_too(face: Face, up: Up) -> None:
    await face.call("submit", gang("waited-for", annotations={"fleet.io/hold": "true"}))
    seen: asyncio.Queue[str] = asyncio.Queue()
    with pytest.warns(HubWarning, match="waited-for has no pod that runs; it is ") as said:
        async with asyncio.timeout(120):
            following = asyncio.create_task(collect(face, seen, "waited-for", follow=True))
            await eventually(lambda: len(said))
            await face.call("release", "waited-for")
            names = [await seen.get() for _ in range(3)]
            assert sorted(names) == ["waited-for-master-0", "waited-for-worker-0", "waited-for-worker-1"]
            await asyncio.to_thread(up.hub.request, "DELETE", f"{PODS}/waited-for-worker-1")
            assert await seen.get() == "waited-for-worker-1"
            await face.call("cancel", "waited-for")
            await following
    assert seen.empty()


@pytest.mark.filterwarnings("ignore::fleet.client.HubWarning")  # a pod may be gone when its turn comes
@BOTH
async def test_a_followed_log_goes_on_after_a_restart_of_the_hub_without_repeating_lines(which: str, up: Up) -> None:
    def restart() -> None:
        killed = up.child("api")
        killed.kill()
        killed.wait(30)
        until("another API process answers", lambda: is_ready(up))

    name, seen = f"restarted-{which}", asyncio.Queue[str]()
    async for face in faces(which, data_dir=up.folder):
        await face.call("submit", gang(name))
        await face.call("wait", name, until="started", timeout=90)
        async with asyncio.timeout(120):
            following = asyncio.create_task(collect(face, seen, name, follow=True))
            assert len({await seen.get() for _ in range(3)}) == 3
            await asyncio.to_thread(restart)
            await asyncio.to_thread(up.hub.request, "DELETE", f"{PODS}/{name}-master-0")
            assert await seen.get() == f"{name}-master-0"
            await face.call("cancel", name)
            await following
    assert seen.empty()


@BOTH
async def test_a_log_that_breaks_off_is_gone_on_with_after_its_last_line(which: str, tmp_path: Path) -> None:
    asked: list[dict[str, str]] = []
    whole = at(1, "one") + at(2, "two") + at(2, "two") + at(3, "bar 10%\rbar 20%")
    answers = [
        Said(429, refusal(429, "TooManyRequests", "you have 64 relays open")),
        Said(200, (at(1, "one") + at(2, "two") + "2026-01-01T00:00:0").encode(), cut=72),
        Said(503, refusal(503, "ServiceUnavailable", "cluster m does not answer")),
        Said(400, refusal(400, "BadRequest", 'container "c" in pod "a" is waiting to start: ContainerCreating')),
        Said(200, (at(2, "two") + at(2, "two") + at(3, "bar 10%\rbar 20%")).encode()),
        Said(200, at(3, "bar 10%\rbar 20%").encode()),
    ]
    pods = [pod("a", 0)]

    def log(query: dict[str, str]) -> Said:
        asked.append(query)
        if len(answers) == 1:
            pods[0]["phase"] = "Succeeded"
        return answers.pop(0) if len(answers) > 1 else answers[0]

    with faulty(tmp_path, scripted(pods, log, ["Running"] * 8 + ["Succeeded"])) as server:
        async for face in faces(which, server=server.url, token="t", ca=server.ca, tries=1):
            with pytest.warns(HubWarning) as said:
                async with asyncio.timeout(60):
                    found = [line async for line in lines(face, "Job/j", follow=True, tail=9)]
        assert [str(one.message) for one in said] == ["you have 64 relays open", "cluster m does not answer"]
    assert [line.text for line in found] == [text[31:] for text in whole.split("\n") if text]
    assert [query.get("tailLines") for query in asked[:3]] == ["9", "9", None]
    assert {query.get("sinceTime") for query in asked[2:5]} == {"2026-01-01T00:00:02Z"}


@pytest.mark.filterwarnings("ignore::fleet.client.HubWarning")
@BOTH
async def test_a_pod_without_a_log_costs_the_others_nothing(which: str, tmp_path: Path) -> None:
    gone = Said(404, refusal(404, "NotFound", 'pods "b" not found'))
    forbidden = Said(403, refusal(403, "Forbidden", "cannot get pods/log"))
    said = {"a": Said(200, at(1, "of a").encode()), "b": gone, "c": Said(200, at(1, "of c").encode())}
    three = [pod(name, rank, "Succeeded") for rank, name in enumerate("abc")]

    async def read(face: Face, **how: Any) -> list[str]:
        return sorted([f"{line.rank} {line.text}" async for line in lines(face, "Job/j", **how)])

    with faulty(tmp_path, scripted(three, lambda query: said[query["pod"]], ["Succeeded"])) as server:
        async for face in faces(which, server=server.url, token="t", ca=server.ca, tries=1):
            with pytest.warns(HubWarning, match="b is deleted, and its log with it"):
                assert await read(face, follow=True) == ["0 of a", "2 of c"]
            with pytest.warns(HubWarning, match='pods "b" not found'):
                assert [line.rank async for line in lines(face, "Job/j")] == [0, 2]
            said["a"] = said["c"] = gone
            with pytest.warns(HubWarning), pytest.raises(NotFound, match="has no pods any more"):
                await read(face, follow=True)
            with pytest.raises(NotFound, match='pods "b" not found'):
                await read(face)
            said["b"] = forbidden
            with pytest.warns(HubWarning, match="b: cannot get"), pytest.raises(Forbidden, match="cannot get pods/log"):
                await read(face, follow=True)


@BOTH
async def test_a_wrong_container_is_said_at_once_and_a_wrong_rank_before(which: str, tmp_path: Path) -> None:
    wrong = Said(400, refusal(400, "BadRequest", "container x is not valid for pod a"))
    with faulty(tmp_path, scripted([pod("a", 0)], lambda _: wrong, ["Running"])) as server:
        async for face in faces(which, server=server.url, token="t", ca=server.ca, tries=1):
            with pytest.warns(HubWarning), pytest.raises(BadRequest, match="container x is not valid"):
                _ = [line async for line in lines(face, "Job/j", container="x", follow=True)]
            with pytest.raises(BadRequest, match="has ranks 0 to -1, not 3"):
                _ = [line async for line in lines(face, "Job/j", rank=3, follow=True)]
            with pytest.raises(ValueError, match="does not go with follow"):
                _ = [line async for line in lines(face, "Job/j", previous=True, follow=True)]


@BOTH
async def test_more_pods_than_are_read_at_once_are_read_one_after_another(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet.client.following.FOLLOWED_MOST", 2)
    many = [pod(f"p{number}", number, "Succeeded") for number in range(5)]

    def log(query: dict[str, str]) -> Said:
        return Said(200, at(1, query["pod"]).encode())

    with faulty(tmp_path, scripted(many, log, ["Succeeded"])) as server:
        async for face in faces(which, server=server.url, token="t", ca=server.ca):
            with pytest.warns(HubWarning, match="has 5 pods, of which 2 are followed at once"):
                found = {line.rank: line.text async for line in lines(face, "Job/j", follow=True)}
    assert found == {number: f"p{number}" for number in range(5)}


def test_lines_of_one_time_are_told_apart_by_their_number() -> None:
    log = _Log(Pod(name="a"))
    first, second = at(1, "x").strip(), at(2, "y").strip()
    assert [log.take(line) for line in (first, second, second)] == ["x", "y", "y"]
    log.repeats = log.same
    assert [log.take(line) for line in (first, second, second, second, at(3, "z").strip())] == [
        None,
        None,
        None,
        "y",
        "z",
    ]
    assert log.take("no time at all") == "no time at all" and log.done
