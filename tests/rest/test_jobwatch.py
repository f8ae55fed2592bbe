"""The watch of jobs under /fleet/v1: what it tells, in which order, to whom, and how it goes on after a break."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import pytest

from fleet.rest import jobevents, jobwatch
from fleet.rest.jobwatch import PATH
from fleet.rest.models import Job
from fleet.values.ports import Body
from tests.controllers.world import ALICE, member, policy, pytorchjob, tree
from tests.rest.rest import Rest, causes, fill, rest

QUEUED = (tree(), policy(queue=True))
JOBS = {"apiGroups": ["kubeflow.org"], "resources": ["pytorchjobs"]}


class Lines:
    """The lines of one open watch."""

    def __init__(self) -> None:
        self.status = 0
        self.bookmark = ""
        self._lines: asyncio.Queue[Any] = asyncio.Queue()

    def put(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        for line in message.get("body", b"").splitlines():
            self._lines.put_nowait(json.loads(line))
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self._lines.put_nowait(None)

    async def next(self, within_s: float = 30.0) -> Any:
        """None at the end."""
        async with asyncio.timeout(within_s):
            line = await self._lines.get()
        if line is not None and line.get("type") == "BOOKMARK":
            self.bookmark = line["resourceVersion"]
        return line

    async def first(self) -> list[Any]:
        """All before the first bookmark."""
        found: list[Any] = []
        while (line := await self.next())["type"] != "BOOKMARK":
            found.append(line)
        return found

    async def until(self, last: Callable[[Any], bool]) -> list[Any]:
        """All that is no bookmark, up to the line that is looked for."""
        found: list[Any] = []
        while not found or not last(found[-1]):
            line = await self.next()
            assert line is not None, f"the watch ended after {found}"
            if line["type"] != "BOOKMARK":
                found.append(line)
        return found

    async def quiet(self, seconds: float) -> None:
        """Nothing but bookmarks comes for so long."""
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(seconds):
                while (line := await self.next(seconds + 1))["type"] == "BOOKMARK":
                    pass
                raise AssertionError(line)


@asynccontextmanager
async def watching(hub: Rest, token: str = "admin-token", **params: Any) -> AsyncIterator[Lines]:
    lines, left = Lines(), asyncio.Event()
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": PATH,
        "raw_path": PATH.encode(),
        "scheme": "https",
        "client": ("10.0.0.1", 1),
        "headers": [(b"authorization", f"Bearer {token}".encode())],
        "query_string": urlencode(params, doseq=True).encode(),
    }

    async def receive() -> Any:
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        lines.put(message)

    serving = asyncio.create_task(hub.app(scope, receive, send))
    try:
        yield lines
    finally:
        left.set()
        await serving


async def refused(hub: Rest, token: str = "admin-token", **params: Any) -> Any:
    async with watching(hub, token, **params) as lines:
        return await lines.next()


def label(**labels: str) -> Callable[[Body], None]:
    def change(job: Body) -> None:
        job["metadata"]["labels"] = labels

    return change


def stands(line: Any) -> tuple[str, str, str | None]:
    return line["type"], line["job"]["name"], line["job"].get("state")


async def test_every_state_of_a_job_is_told_in_order_and_then_that_it_is_gone() -> None:
    async with rest(member("cfa"), objects=[*QUEUED, pytorchjob("old")]) as hub:
        await hub.world.running("old")
        async with watching(hub) as lines:
            [old] = await lines.first()
            assert stands(old)[:2] == ("JOB", "old")
            Job.model_validate(old["job"])
            await hub.world.delete("PyTorchJob", "old")
            await hub.world.apply(pytorchjob("new"))
            assert await hub.world.running("new") == "cfa"
            found = await lines.until(lambda line: stands(line)[1:] == ("new", "Running"))
            new = [stands(line)[2] for line in found if line["job"]["name"] == "new"]
            in_order = list(dict.fromkeys(new))
            assert in_order == ["Unclaimed", "Queued", "Placed", "Created", "Running"], in_order
            gone = next(line for line in found if line["type"] == "GONE")
            assert gone == {
                "type": "GONE",
                "uid": old["uid"],
                "job": {"namespace": "default", "kind": "PyTorchJob", "name": "old"},
            }


async def test_states_that_pass_between_two_looks_at_the_log_are_told_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jobevents, "LOOK_S", 10.0)
    async with rest(member("cfa"), objects=QUEUED) as hub, watching(hub) as lines:
        assert await lines.first() == []
        await hub.world.apply(pytorchjob("brief"))
        await hub.world.running("brief")
        await hub.world.delete("PyTorchJob", "brief")
        found = [stands(line) for line in await lines.until(lambda line: line["type"] == "GONE")]
        states = list(dict.fromkeys(state for _, _, state in found))
        assert states[:2] == ["Unclaimed", "Queued"] and "Placed" in states and states[-1] is None, states


async def test_a_watch_goes_on_from_its_bookmark_and_says_what_is_gone_meanwhile() -> None:
    async with rest(start=False) as hub:
        await fill(hub, 3)
        async with watching(hub) as lines:
            assert [stands(line)[1] for line in await lines.first()] == ["job-00000", "job-00001", "job-00002"]
        await hub.world.delete("PyTorchJob", "job-00000")
        await hub.world.edit("PyTorchJob", "job-00002", label(a="b"))
        async with watching(hub, resourceVersion=lines.bookmark) as again:
            assert sorted(stands(line)[:2] for line in await again.first()) == [
                ("GONE", "job-00000"),
                ("JOB", "job-00002"),
            ]
            assert int(again.bookmark) > int(lines.bookmark)
        async with watching(hub, resourceVersion=again.bookmark) as last:
            assert await last.first() == []


async def test_a_watch_that_cannot_go_on_is_told_to_begin_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with rest(start=False) as hub:
        await fill(hub, 2)
        assert (await refused(hub, resourceVersion=10_000))["reason"] == "Expired", "a backup was restored"
        async with watching(hub) as lines:
            await lines.first()
        await hub.world.delete("PyTorchJob", "job-00000")
        await hub.world.store.compact(await hub.world.store.revision())
        assert (await refused(hub, resourceVersion=lines.bookmark))["code"] == 410
        monkeypatch.setattr(jobevents, "BACKLOG", 2)
        async with watching(hub) as lines:
            await lines.first()
            for number in range(9):
                await hub.world.edit("PyTorchJob", "job-00001", label(n=str(number)))
            error = (await lines.until(lambda line: line["type"] == "ERROR"))[-1]
            assert error["object"]["code"] == 410 and await lines.next() is None


async def test_a_job_that_is_none_of_those_asked_for_any_more_is_gone() -> None:
    async with rest(start=False) as hub:
        await fill(hub, 2)
        async with watching(hub, labelSelector="mine=yes", state="Queued", kind="pytorchjobs") as lines:
            assert await lines.first() == []
            await hub.world.edit("PyTorchJob", "job-00001", label(mine="yes"))
            assert stands((await lines.until(lambda line: line["type"] == "JOB"))[-1])[1:] == ("job-00001", "Queued")
            await hub.world.edit("PyTorchJob", "job-00001", label(mine="no"))
            assert stands((await lines.until(lambda _: True))[-1])[:2] == ("GONE", "job-00001")
        async with watching(hub, name=["job-00001", "none"]) as lines:
            assert [stands(line)[1] for line in await lines.first()] == ["job-00001"]
            await hub.world.edit("PyTorchJob", "job-00000", label(a="b"))
            await lines.quiet(3.0)


async def test_places_that_move_up_are_told_of_the_jobs_that_are_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobwatch, "PLACES_MOST", 2)
    async with rest(start=False) as hub:
        await fill(hub, 4)  # the last one is the first in line
        async with watching(hub) as lines:
            assert {line["job"]["name"]: line["job"]["position"] for line in await lines.first()} == {
                "job-00000": 4,
                "job-00001": 3,
                "job-00002": 2,
                "job-00003": 1,
            }
            await hub.world.delete("QueueUnit", "job-00003-pytorchjob-rb-qu")
            await lines.until(lambda line: line["job"]["name"] == "job-00003")
            told = await lines.until(lambda line: line["job"]["name"] == "job-00001")
            assert [(line["type"], line["job"]["name"], line["job"]["position"]) for line in told] == [
                ("PLACE", "job-00002", 1),
                ("PLACE", "job-00001", 2),
            ]
            await lines.quiet(3 * jobwatch.PLACES_S)


async def test_a_user_hears_of_the_jobs_that_she_may_list_alone() -> None:
    async with rest(start=False) as hub:
        await fill(hub, 1)
        await hub.grant("alice", {**JOBS, "verbs": ["list"]}, "team-b")
        await hub.grant("bob", {**JOBS, "verbs": ["get"], "resourceNames": ["job-00000"]}, "default")
        async with watching(hub, "alice-token") as alice, watching(hub, "bob-token", name="job-00000") as bob:
            assert await alice.first() == []
            assert [stands(line)[1] for line in await bob.first()] == ["job-00000"]
            await hub.world.apply(pytorchjob("theirs"), pytorchjob("mine", namespace="team-b"))
            await hub.world.edit("PyTorchJob", "job-00000", lambda job: job["metadata"].update(labels={"a": "b"}))
            assert stands((await alice.until(lambda _: True))[-1])[1] == "mine"
            assert stands((await bob.until(lambda _: True))[-1])[1] == "job-00000"
        status = await refused(hub, "bob-token")
        assert (status["code"], "cannot list jobs in any namespace" in status["message"]) == (403, True)
        assert (await refused(hub, "bob-token", name=["job-00000", "other"]))["code"] == 403


async def test_a_watch_begins_again_when_the_rights_of_its_user_change() -> None:
    async with rest(start=False) as hub:
        await fill(hub, 1)
        await hub.grant("alice", {**JOBS, "verbs": ["list"]}, "team-b")
        async with watching(hub, "alice-token") as lines:
            assert await lines.first() == []
            await hub.grant("alice", {**JOBS, "verbs": ["list"]}, "default")
            error = (await lines.until(lambda line: line["type"] == "ERROR"))[-1]
            assert error["object"]["code"] == 410
        async with watching(hub, "alice-token") as lines:
            assert [stands(line)[1] for line in await lines.first()] == ["job-00000"]


async def test_a_job_that_cannot_be_read_costs_the_others_nothing() -> None:
    async with rest(start=False) as hub:
        await fill(hub, 2)
        kind = hub.world.registry.need("work.karmada.io", "resourcebindings")

        def broken(body: Any) -> Any:
            body["spec"]["components"] = 7
            body["status"] = {"conditions": "none"}
            return body

        await hub.world.objects.change(kind, "default", "job-00000-pytorchjob-rb", broken, ALICE)
        async with watching(hub) as lines:
            assert [stands(line)[1] for line in await lines.first()] == ["job-00000", "job-00001"]


async def test_wrong_parameters_are_named_and_the_time_of_a_watch_is_bounded() -> None:
    async with rest(start=False) as hub:
        assert causes(await refused(hub, state="Sleeping", tail=3, timeoutSeconds=0)).keys() == {
            "state.0",
            "tail",
            "timeoutSeconds",
        }
        async with watching(hub, timeoutSeconds=2.5) as lines:
            assert await lines.first() == []
            assert await lines.next(5) is None


async def test_an_idle_hub_has_no_task_and_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobevents, "LINGER_S", 1.0)

    def following() -> list[str]:
        return [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "job events"]

    async with rest(start=False) as hub:
        await fill(hub, 1)
        async with watching(hub) as one, watching(hub) as two:
            await one.first()
            await two.first()
            assert following() == ["job events"]
        await asyncio.sleep(jobevents.LINGER_S + 1)
        assert following() == []
        async with watching(hub) as lines:
            assert len(await lines.first()) == 1
