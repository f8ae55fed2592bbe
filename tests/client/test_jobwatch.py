"""`watch` and `wait`: each state of a job is seen, a break costs nothing, and nothing is asked again and again."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest

from fleet.client import AsyncFleet, Fleet, Forbidden, HubWarning, JobChange, JobFailed, NotFound, NotInTime
from tests.cli.hub import BIN, Up, fleet, until
from tests.cli.manifests import binding, job, namespace
from tests.client.conftest import BOTH, Face, faces, is_ready
from tests.client.faulty import Asked, Said, faulty, refusal
from tests.client.scripts import LOST, bookmark, line, stream

BRIEF = {"testbed/run-for": "200ms"}  # how long the pod runs


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.client.steps.FIRST_WAIT_S", 0.01)
    monkeypatch.setattr("fleet.client.jobwatch.AGAIN_S", 0.05)


def brief(name: str, **labels: str) -> dict[str, Any]:
    body = job(name, labels=labels)
    for part in body["spec"]["pytorchReplicaSpecs"].values():
        part["template"]["metadata"] = {"annotations": BRIEF}
    return body


def error(status: dict[str, Any]) -> bytes:
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


async def changes(face: Face, **which: Any) -> AsyncIterator[JobChange]:
    """Those of a watch, by either client."""
    found: Any = face.client.watch(**which)
    if isinstance(face.client, AsyncFleet):
        async for change in found:
            yield change
        return
    iterator = iter(found)
    while (change := await asyncio.to_thread(next, iterator, None)) is not None:
        yield change


async def first(face: Face, count: int, **which: Any) -> list[JobChange]:
    """The first changes of a watch, which is left then."""
    found = []
    async for change in changes(face, **which):
        found.append(change)
        if len(found) == count:
            break
    return found


def told(changes: list[JobChange]) -> list[tuple[str, str, str, int | None]]:
    return [(one.type, one.job.name, one.job.state, one.job.position) for one in changes]


def versions(asked: list[Asked]) -> list[str]:
    return [parse_qs(urlparse(one.path).query).get("resourceVersion", [""])[0] for one in asked]


@BOTH
async def test_a_watch_goes_on_from_its_bookmark_and_begins_again_where_the_log_ends(
    which: str, tmp_path: Path
) -> None:
    answers = (
        stream(
            line("JOB", "a", state="Running"),
            line("JOB", "m", state="Queued", position=3),
            bookmark(10),
            line("JOB", "a", state="Running"),
            line("PLACE", "m", position=2),
            line("GONE", "unknown"),
            line("JOB", "b", state="Queued", position=4),
            bookmark(12),
            line("JOB", "b", state="Created"),
        ),
        Said(cut=0),  # the connection is lost
        Said(503, refusal(503, "ServiceUnavailable", "later")),
        stream(line("JOB", "b", state="Created"), line("JOB", "b", state="Running"), bookmark(20), error(LOST)),
        stream(
            line("JOB", "b", state="Running"),
            line("JOB", "m", "another", state="Queued", position=9),
            bookmark(30),
            line("GONE", "m", "another"),
            line("GONE", "b", "of before"),
        ),
        Said(410, LOST),
        stream(bookmark(40)),
    )
    with faulty(tmp_path, *answers) as server:
        async for face in faces(which, server=server.url, token="t", ca=server.ca, tries=1):
            found = await asyncio.wait_for(first(face, 11, kind="PyTorchJob", labels="a=b"), 60)
        assert told(found) == [
            ("ADDED", "a", "Running", None),
            ("ADDED", "m", "Queued", 3),
            ("MODIFIED", "m", "Queued", 2),
            ("ADDED", "b", "Queued", 4),
            ("MODIFIED", "b", "Created", None),
            ("MODIFIED", "b", "Running", None),
            ("DELETED", "m", "Queued", 2),
            ("ADDED", "m", "Queued", 9),
            ("DELETED", "a", "Running", None),
            ("DELETED", "m", "Queued", 9),
            ("DELETED", "b", "Running", None),
        ]
        assert found[2].job.raw["position"] == 2
        assert versions(server.asked) == ["", "12", "12", "12", "", "30", ""]
        query = parse_qs(urlparse(server.asked[0].path).query)
        assert (query["namespace"], query["kind"], query["labelSelector"]) == (["default"], ["PyTorchJob"], ["a=b"])


@BOTH
async def test_a_refusal_ends_the_watch_and_an_old_hub_is_named(which: str, tmp_path: Path) -> None:
    gone = error(refusal(403, "Forbidden", "jobs are forbidden"))
    with faulty(tmp_path, stream(line("JOB", "a", state="Running"), bookmark(1), gone)) as server:
        async for face in faces(which, server=server.url, token="t", ca=server.ca):
            with pytest.raises(Forbidden, match="jobs are forbidden"):
                await asyncio.wait_for(first(face, 2), 60)
    with faulty(tmp_path, Said(404, refusal(404, "NotFound", "there is nothing at /fleet/v1/watch/jobs"))) as server:
        async for face in faces(which, server=server.url, token="t", ca=server.ca):
            with pytest.raises(NotFound, match="this hub is older than its client"):
                await asyncio.wait_for(first(face, 1), 60)


async def test_each_state_of_a_brief_job_is_seen(face: Face) -> None:
    await face.call("submit", brief("of-before", brief="yes"))
    states: list[str] = []
    async for change in changes(face, labels="brief=yes", timeout=90):
        if not states:
            await face.call("submit", brief("short-lived", brief="yes"))
        states.append(change.job.state if change.job.name == "short-lived" else "of-before")
        if states[-1] == "Succeeded":
            break
    for name in ("of-before", "short-lived"):
        await face.call("cancel", name)
    wanted = ["Unclaimed", "Queued", "Placed", "Running", "Succeeded"]
    assert [state for state in dict.fromkeys(states) if state in wanted] == wanted, states


@BOTH
async def test_a_watch_and_a_wait_live_through_a_restart_of_the_hub(which: str, up: Up) -> None:
    def restart() -> None:
        killed = up.child("api")
        killed.kill()
        killed.wait(30)
        until("another API process answers", lambda: is_ready(up))

    async def broken() -> str:
        """The state of the job at the end of a wait that goes on over a restart."""
        waiting = asyncio.create_task(face.call("wait", name, until="deleted", timeout=120))
        await asyncio.to_thread(restart)
        await face.call("cancel", name)
        return str((await waiting).state)

    name, seen, breaking = f"through-{which}", list[str](), None
    async for face in faces(which, data_dir=up.folder):
        await face.call("submit", job(name, gpus=40, labels={"through": which}))
        async for change in changes(face, labels=f"through={which}", timeout=120):
            seen.append(change.type)
            breaking = breaking or asyncio.create_task(broken())
            if change.type == "DELETED":
                break
        assert breaking is not None and await breaking == "Deleted"
        assert (seen[0], seen.count("ADDED"), seen[-1]) == ("ADDED", 1, "DELETED")


async def test_a_user_with_rights_in_one_namespace_watches_and_waits_there(up: Up, tmp_path: Path) -> None:
    with Fleet(data_dir=up.folder) as admin:
        admin.apply([namespace("team-w"), binding("wendy", "viewer", "team-w")])
        with pytest.warns(HubWarning):  # no policy takes it there
            admin.submit(job("hers", namespace="team-w"))
    token = fleet("token", "create", "wendy", "--data-dir", str(up.folder)).stdout.strip()
    server, ca = up.hub.client.access.server, up.hub.client.access.ca
    async with AsyncFleet(server=server, token=token, ca=ca) as wendy, asyncio.timeout(60):
        found = [change.job.name async for change in wendy.watch(all_namespaces=True, timeout=2)]
        assert found == ["hers"]
        with pytest.raises(Forbidden, match='cannot list jobs in the namespace "default"'):
            _ = [change async for change in wendy.watch()]
        with pytest.raises(NotInTime):
            await wendy.wait("hers", namespace="team-w", timeout=1)
    with Fleet(data_dir=up.folder) as admin:
        admin.delete([job("hers", namespace="team-w"), namespace("team-w")])


@BOTH
async def test_a_wait_sees_a_state_that_has_passed_and_asks_only_once(which: str, tmp_path: Path) -> None:
    job = {"namespace": "n", "kind": "PyTorchJob", "name": "j", "uid": "1", "state": "Queued"}
    lines = (line("JOB", "j", "1", state="Queued"), bookmark(1), line("JOB", "j", "1", state="Running", member="m"))
    answers = (Said(200, job), stream(*lines), Said(200, {**job, "state": "Evicting", "pods": 3}))
    with faulty(tmp_path, *answers) as server:
        async for face in faces(which, server=server.url, token="t", ca=server.ca):
            started = await face.call("wait", "PyTorchJob/j", until="started", timeout=60)
        assert (started.state, started.member, started.pods) == ("Running", "m", 3)
        assert len(server.asked) == 3


@BOTH
async def test_a_job_that_fails_or_goes_ends_the_wait(which: str, tmp_path: Path) -> None:
    job = {"namespace": "n", "kind": "PyTorchJob", "name": "j", "uid": "1", "state": "Running"}
    reason = {"code": "JobFailed", "text": "exit status 3"}
    runs, fails = line("JOB", "j", "1", state="Running"), line("JOB", "j", "1", state="Failed", reason=reason)
    failed, another = {**job, "state": "Failed", "reason": reason}, {**job, "uid": "2"}
    for lines, last, said in (
        ((runs, bookmark(1), fails), failed, "pytorchjob n/j failed: exit status 3"),
        ((runs, bookmark(1), line("GONE", "j", "1")), another, "pytorchjob n/j was deleted"),
        ((bookmark(1),), another, "pytorchjob n/j was deleted"),  # before the watch began
        ((line("JOB", "j", "2", state="Running"),), another, "pytorchjob n/j was deleted"),
    ):
        with faulty(tmp_path, Said(200, job), stream(*lines), Said(200, last)) as server:
            async for face in faces(which, server=server.url, token="t", ca=server.ca):
                with pytest.raises(JobFailed, match=said) as error:
                    await face.call("wait", "PyTorchJob/j", timeout=60)
        assert error.value.job.over or error.value.job.state == "Deleted"
    with faulty(tmp_path, Said(200, failed)) as server:
        async for face in faces(which, server=server.url, token="t", ca=server.ca):
            assert (await face.call("wait", "PyTorchJob/j", check=False)).state == "Failed"


@BOTH
async def test_a_job_that_fails_and_starts_anew_is_waited_for(which: str, tmp_path: Path) -> None:
    reason = {"code": "StartsAnew", "text": "it starts anew"}
    job = {"namespace": "n", "kind": "PyTorchJob", "name": "j", "uid": "1", "state": "Failed", "reason": reason}
    fails, done = line("JOB", "j", "1", state="Failed", reason=reason), line("JOB", "j", "1", state="Succeeded")
    with faulty(tmp_path, Said(200, job), stream(fails, bookmark(1), fails, done), Said(200, job)) as server:
        async for face in faces(which, server=server.url, token="t", ca=server.ca):
            over = await face.call("wait", "PyTorchJob/j", timeout=60)
        assert (over.state, over.over) == ("Succeeded", True)


async def test_a_time_that_is_over_ends_a_wait_and_a_watch(face: Face) -> None:
    began = time.monotonic()
    with pytest.raises(NotInTime, match=r"pytorchjob default/long is not started after 1\.5 s"):
        await face.call("wait", "long", until="started", timeout=1.5)
    assert 1.5 <= time.monotonic() - began < 20
    assert {change.job.name for change in await face.all("watch", name=["long", "running"], timeout=1.0)} == {
        "long",
        "running",
    }


def test_the_command_line_prints_each_state_too_and_that_a_job_is_gone(up: Up) -> None:
    command = [str(BIN / "fleet"), "jobs", "-w", "-l", "by=command", "--color", "never"]
    with (
        Fleet(data_dir=up.folder) as fleet,
        subprocess.Popen([*command, "--data-dir", str(up.folder)], stdout=subprocess.PIPE, text=True) as watching,
    ):
        assert watching.stdout is not None
        lines = iter(watching.stdout.readline, "")
        fleet.submit(brief("of-before", by="command"))
        try:
            assert next(lines).split()[:3] == ["NAME", "KIND", "STATE"] and next(lines).startswith("of-before")
            fleet.submit(brief("by-command", by="command"))
            states: list[str] = []
            while "Succeeded" not in states:
                states += [line.split()[2] for line in [next(lines)] if line.startswith("by-command")]
            wanted = ["Unclaimed", "Queued", "Placed", "Running", "Succeeded"]
            assert [state for state in dict.fromkeys(states) if state in wanted] == wanted, states
            fleet.cancel("by-command")
            assert next(line for line in lines if "no longer listed" in line).startswith("by-command")
        finally:
            watching.kill()
            fleet.cancel("of-before")
