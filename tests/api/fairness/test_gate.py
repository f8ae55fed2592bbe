"""The gate in a served API: classes in the answers, refusals, and the turns of a flood and of another user."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import pytest

from api.fairness.defaults import GROUP, LEVELS, SCHEMAS
from api.fairness.gate import COMPANY
from api.store.memory import MemoryStore
from api.wire.http import Request
from fleet.values.ports import Key, Page, StoredObject
from tests.api.fairness.world import WORK, until, world

FLOWS = f"/apis/{GROUP}/v1/flowschemas"
LEVEL_PATH = f"/apis/{GROUP}/v1/prioritylevelconfigurations"


def level(name: str, shares: int = 10, **limited: Any) -> dict[str, Any]:
    spec = {"nominalConcurrencyShares": shares, "limitResponse": {"type": "Reject"}, **limited}
    return {"metadata": {"name": name}, "spec": {"type": "Limited", "limited": spec}}


def schema(name: str, of_level: str, user: str = "ann") -> dict[str, Any]:
    everything = {
        "verbs": ["*"],
        "apiGroups": ["*"],
        "resources": ["*"],
        "namespaces": ["*"],
        "clusterScope": True,
    }
    rule = {"subjects": [{"kind": "User", "user": {"name": user}}], "resourceRules": [everything]}
    reference = {"priorityLevelConfiguration": {"name": of_level}}
    return {"metadata": {"name": name}, "spec": {**reference, "matchingPrecedence": 100, "rules": [rule]}}


async def test_a_fresh_hub_has_the_objects_of_a_kube_apiserver_and_keeps_them() -> None:
    async with world() as hub, hub.client() as root:
        for path, specs in ((FLOWS, SCHEMAS), (LEVEL_PATH, LEVELS)):
            assert {one["metadata"]["name"] for one in (await root.get(path)).json()["items"]} == set(specs)
        assert (await root.delete(f"{FLOWS}/service-accounts")).status_code == 200
        patch = {"spec": {"matchingPrecedence": 7}}
        changed = await root.patch(
            f"{FLOWS}/global-default", json=patch, headers={"content-type": "application/merge-patch+json"}
        )
        assert changed.status_code == 200

        async def restored() -> bool:
            found = await root.get(f"{FLOWS}/service-accounts")
            precedence = (await root.get(f"{FLOWS}/global-default")).json()["spec"]["matchingPrecedence"]
            return found.status_code == 200 and precedence == 9900

        await until(restored)
        assert (await root.get(f"{FLOWS}/service-accounts")).json()["spec"] is not None


async def test_the_store_is_told_who_is_the_only_one_of_her_user() -> None:
    both, told = asyncio.Event(), dict[str, list[bool]]()

    async def work(request: Request) -> None:
        told.setdefault(request.user.name, []).append(request.alone)
        if request.user.name == "flood":
            await both.wait()

    async with world(work=work) as hub, hub.client("flood") as flood, hub.client("ann") as ann:
        first = asyncio.create_task(flood.get(WORK))
        await until(lambda: asyncio.sleep(0, "flood" in told))
        second = asyncio.create_task(flood.get(WORK))
        await until(lambda: asyncio.sleep(0, len(told["flood"]) == 2))
        await ann.get(WORK)
        await ann.get(WORK)
        both.set()
        await asyncio.gather(first, second)
        for _ in range(COMPANY):  # who had several at once may soon have them again
            await flood.get(WORK)
    assert told["ann"] == [True, True]
    assert told["flood"] == [True, False, *[False] * (COMPANY - 1), True]


async def test_reads_and_writes_tell_the_store_that_their_user_has_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, bool]] = []
    get, listed, revision = MemoryStore.get, MemoryStore.list, MemoryStore.revision

    async def noted_get(self: MemoryStore, key: Key, *, fresh: bool = True, alone: bool = False) -> StoredObject | None:
        if fresh and key.resource == "configmaps":
            told.append(("get", alone))
        return await get(self, key, fresh=fresh, alone=alone)

    async def noted_list(self: MemoryStore, group: str, resource: str, **asked: Any) -> Page:
        if resource == "configmaps":
            told.append(("list", asked.get("alone", False)))
        return await listed(self, group, resource, **asked)

    async def noted_revision(self: MemoryStore, *, alone: bool = False) -> int:
        told.append(("revision", alone))
        return await revision(self, alone=alone)

    monkeypatch.setattr(MemoryStore, "get", noted_get)
    monkeypatch.setattr(MemoryStore, "list", noted_list)
    path = "/api/v1/namespaces/default/configmaps"
    async with world() as hub, hub.client() as root:
        assert (await root.post("/api/v1/namespaces", json={"metadata": {"name": "default"}})).status_code == 201
        assert (await root.post(path, json={"metadata": {"name": "a"}})).status_code == 201
        monkeypatch.setattr(MemoryStore, "revision", noted_revision)
        told.clear()
        await root.get(f"{path}/a")
        await root.get(path)
        await root.get(path, params={"fieldSelector": "metadata.name=a"})
        headers = {"content-type": "application/merge-patch+json"}
        await root.patch(f"{path}/a", json={}, headers=headers)  # an answer without a commit
    assert told == [("get", True), ("list", True), ("revision", True), ("get", True)]


async def test_a_change_that_an_administrator_marks_as_her_own_stays() -> None:
    async with world() as hub, hub.client() as root:
        own = {
            "metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}},
            "spec": {"matchingPrecedence": 8999},
        }
        headers = {"content-type": "application/merge-patch+json"}
        assert (await root.patch(f"{FLOWS}/service-accounts", json=own, headers=headers)).status_code == 200
        await root.delete(f"{FLOWS}/probes")

        async def restored() -> bool:
            return (await root.get(f"{FLOWS}/probes")).status_code == 200

        await until(restored)
        assert (await root.get(f"{FLOWS}/service-accounts")).json()["spec"]["matchingPrecedence"] == 8999


async def test_a_schema_says_whether_its_level_exists() -> None:
    async with world() as hub, hub.client() as root:
        assert (await root.post(FLOWS, json=schema("mine", "later"))).status_code == 201

        async def dangling() -> tuple[str, str]:
            conditions = (await root.get(f"{FLOWS}/mine")).json().get("status", {}).get("conditions", [])
            return next(((one["status"], one["reason"]) for one in conditions if one["type"] == "Dangling"), ("", ""))

        async def is_dangling() -> bool:
            return await dangling() == ("True", "NotFound")

        async def is_found() -> bool:
            return await dangling() == ("False", "Found")

        await until(is_dangling)
        assert (await root.post(LEVEL_PATH, json=level("later"))).status_code == 201
        await until(is_found)
        assert (await root.get(f"{FLOWS}/system-nodes")).json()["status"]["conditions"][0]["status"] == "False"


async def test_answers_name_their_class_and_refusals_too() -> None:
    async with world() as hub, hub.client() as root, hub.client("ann") as ann:
        made = await root.post(LEVEL_PATH, json=level("mine", 100))
        flow = await root.post(FLOWS, json=schema("mine", "mine"))
        uids = (flow.json()["metadata"]["uid"], made.json()["metadata"]["uid"])

        async def classified() -> bool:
            return _uids(await ann.get("/api/v1/namespaces")) == uids

        await until(classified)
        missing = await ann.get("/api/v1/namespaces/none")
        other = await root.get("/api/v1/namespaces")
        exempt = (await root.get(f"{FLOWS}/exempt")).json()["metadata"]["uid"]
        assert missing.status_code == 404 and _uids(missing) == uids
        assert _uids(other)[0] == exempt
        watch = root.stream("GET", "/api/v1/namespaces?watch=true&timeoutSeconds=1")
        async with watch as answer:
            assert _uids(answer)[0] == exempt


def _uids(answer: httpx.Response) -> tuple[str, str]:
    headers = answer.headers
    return headers["x-kubernetes-pf-flowschema-uid"], headers["x-kubernetes-pf-prioritylevel-uid"]


async def test_a_level_without_queues_refuses_what_finds_no_seat() -> None:
    go_on = asyncio.Event()

    async def work(request: Request) -> None:
        if request.user.name == "ann":
            await go_on.wait()

    async with world(work=work, seats=20) as hub, hub.client() as root, hub.client("ann") as ann:
        assert (await root.post(LEVEL_PATH, json=level("one", 1, borrowingLimitPercent=0))).status_code == 201
        assert (await root.post(FLOWS, json=schema("one", "one"))).status_code == 201

        async def read() -> bool:
            await ann.get("/api/v1/namespaces")
            return "one" in hub.fairness.scheduler.levels

        await until(read)
        first = asyncio.create_task(ann.get(WORK))

        async def working() -> bool:
            return hub.fairness.scheduler.levels["one"].in_use == 1

        await until(working)
        refused = await ann.get("/api/v1/namespaces")
        others = await root.get(WORK)
        go_on.set()
        assert refused.status_code == 429 and refused.headers["retry-after"] == "1"
        assert refused.json()["reason"] == "TooManyRequests"
        assert others.status_code == (await first).status_code == 200
        metrics = (await root.get("/metrics")).text
        labels = 'flow_schema="one",priority_level="one",reason="concurrency-limit"'
        assert f"apiserver_flowcontrol_rejected_requests_total{{{labels}}} 1.0" in metrics
        assert 'apiserver_flowcontrol_nominal_limit_seats{priority_level="one"} 1.0' in metrics


async def test_another_user_passes_the_requests_of_a_flood() -> None:
    async def work(request: Request) -> None:
        for _ in range(
            3 if request.user.name == "flood" else 0
        ):  # her steps are short: a busy machine must not make them long
            until_s = time.perf_counter() + 0.002
            while time.perf_counter() < until_s:
                pass
            await asyncio.sleep(0)

    async with world(work=work) as hub, hub.client("flood") as flood, hub.client("ann") as ann:
        many = [asyncio.create_task(flood.get(WORK)) for _ in range(100)]

        async def under_way() -> bool:
            return bool(hub.order)

        await until(under_way)
        before = len(hub.order)
        answer = await ann.get(WORK)
        between = hub.order.index("ann") - before
        codes = {found.status_code for found in await asyncio.gather(*many)}
        assert answer.status_code == 200 and codes == {200}
        assert between <= 30
        assert hub.fairness.scheduler.waiting == 0
        assert all(one.in_use == 0 for one in hub.fairness.scheduler.levels.values())


async def test_a_flood_beyond_its_queue_is_refused_and_its_seats_come_back() -> None:
    go_on = asyncio.Event()

    async def work(request: Request) -> None:
        await go_on.wait()

    async with world(work=work, seats=20) as hub, hub.client("flood") as flood:
        many = [asyncio.create_task(flood.get(WORK)) for _ in range(400)]
        scheduler = hub.fairness.scheduler

        async def all_have_come() -> bool:
            there = scheduler.levels.get("global-default")
            return there is not None and sum(task.done() for task in many) + there.in_use + there.waiting == 400

        await until(all_have_come)
        waiting = scheduler.levels["global-default"]
        left = waiting.waiting
        assert 295 <= left <= 300  # of a full queue, some may have got the five seats since
        gone = [task for task in many if not task.done()][-10:]
        for task in gone:
            task.cancel()

        async def dropped() -> bool:
            return waiting.waiting == left - 10

        await until(dropped)
        go_on.set()
        answers = await asyncio.gather(*many, return_exceptions=True)
        codes = [one.status_code for one in answers if isinstance(one, httpx.Response)]
        assert len(codes) == 390 and set(codes) == {200, 429}
        assert codes.count(429) == 395 - left
        assert waiting.in_use == waiting.waiting == 0
