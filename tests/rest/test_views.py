"""Queues, clusters, decisions and chosen jobs under /fleet/v1, and the document that describes it all."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from typing import Any

import orjson
import pytest

from fleet.controllers.decide.decisionrow import listed
from fleet.controllers.decide.record import RowPacker
from fleet.core.decide import decide
from fleet.core.model.amounts import Amounts
from fleet.core.model.cause import Cause, CauseCode
from fleet.core.model.member import Member, Pool
from fleet.core.model.plan import Certificate, Eviction, Placement, Plan, RoomClaim, VictimSearch
from fleet.core.model.reason import Code, Reason
from fleet.core.model.unit import Component, Phase, Unit
from fleet.core.notation import codec
from fleet.core.snapshot import Snapshot
from fleet.rest.clusters import cluster as described
from fleet.rest.decisiondocuments import detail, short
from fleet.rest.decisionmodels import DecisionDetail, DecisionList, Replay
from fleet.rest.membermodels import ClusterList
from fleet.rest.mount import PREFIX
from fleet.rest.queuemodels import QueueList
from tests.controllers.fastloop import eventually
from tests.controllers.world import ALICE, cluster, member, policy, pytorchjob, tree
from tests.rest.rest import Rest, causes, fill, rest


async def queue(hub: Rest, path: str) -> Any:
    found = await hub.get("/queues")
    QueueList.model_validate(found)
    return next(node for node in found["items"] if node["path"] == path)


async def test_a_leaf_shows_what_is_used_who_waits_and_who_is_first_and_the_root_the_sum() -> None:
    async with rest(member("cfa"), objects=[tree(), policy(queue=True), pytorchjob("one")]) as hub:
        await hub.world.running("one")
        for name in ("two", "three"):
            await hub.world.apply(pytorchjob(name))
            await eventually(lambda name=name: hub.world.message(name))
        leaf = await queue(hub, "root/child-2")
        assert (leaf["parent"], leaf["namespaces"], leaf["running"], leaf["waiting"]) == ("root", ["default"], 1, 2)
        assert leaf["max"]["kube-queue/max-jobs"] == "1" and leaf["used"]["kube-queue/max-jobs"] == "1"
        assert (leaf["used"]["nvidia.com/gpu"], leaf["used"]["memory"]) == ("3", "3Gi")
        assert [(head["name"], head["position"]) for head in leaf["heads"]] == [("two", 1), ("three", 2)]
        assert leaf["heads"][0]["reason"]["code"] == "MaxJobsReached"
        assert leaf["name"] == hub.world.queues()["root/child-2"]
        root = await queue(hub, "root")
        assert (root["children"], root["running"], root["waiting"], root["heads"]) == (["root/child-2"], 1, 2, [])
        assert root["used"]["nvidia.com/gpu"] == "3" and root["min"] == root["max"]


async def test_a_queue_shows_its_fair_share_and_whose_min_it_borrows() -> None:
    gpus = {"nvidia.com/gpu": 8}
    lent = tree()
    lent["spec"]["root"]["children"].append({"name": "rich", "namespaces": ["rich"], "min": gpus, "max": gpus})
    async with rest(member("cfa"), objects=[lent, policy(queue=True), pytorchjob("one")]) as hub:
        await hub.world.running("one")
        for _ in range(1200):  # a minute
            leaf = await queue(hub, "root/child-2")
            if leaf["fairShare"].get("nvidia.com/gpu", "0") != "0":
                break
            await asyncio.sleep(0.05)
        assert leaf["fairShare"]["nvidia.com/gpu"] != "0"
        assert (leaf["used"]["nvidia.com/gpu"], leaf["borrowed"]["nvidia.com/gpu"]) == ("3", "3")
        assert {"queue": "root/rich", "resource": "nvidia.com/gpu", "amount": "3"} in leaf["lenders"]
        assert (await queue(hub, "root/rich"))["borrowed"] == {} == (await queue(hub, "root"))["borrowed"]


async def test_a_finished_job_uses_no_quota() -> None:
    async with rest(member("cfa", runtime_s=0.2), objects=[tree(), policy(queue=True), pytorchjob("one")]) as hub:
        job = await hub.until("one", lambda job: job["state"] == "Succeeded")
        assert (job["reason"], job["position"]) == (None, None)
        leaf = await queue(hub, "root/child-2")
        assert (leaf["running"], leaf["waiting"], leaf["used"]["nvidia.com/gpu"]) == (0, 0, "0")


async def test_without_a_tree_there_are_no_queues() -> None:
    async with rest(start=False) as hub:
        assert await hub.get("/queues") == {"items": [], "partial": False}


async def test_only_the_first_three_of_a_long_queue_are_shown() -> None:
    async with rest(start=False, objects=[tree(name="big")]) as hub:
        await fill(hub, 50)
        leaf = await queue(hub, "root/big")
        assert (leaf["waiting"], [head["position"] for head in leaf["heads"]]) == (50, [1, 2, 3])


async def test_a_member_shows_its_room_and_the_jobs_that_are_there() -> None:
    def look(body: Any) -> Any:
        body["status"] = {
            "kubernetesVersion": "v1.36.3",
            "conditions": [{"type": "Ready", "status": "True", "reason": "ClusterReady"}],
            "nodeSummary": {"totalNum": 3, "readyNum": 2},
            "resourceSummary": {
                "allocatable": {"cpu": "96", "memory": "512Gi", "nvidia.com/gpu": "16"},
                "allocated": {"cpu": "1500m", "nvidia.com/gpu": "3"},
            },
        }
        return body

    async with rest(member("cfa"), objects=[policy(), pytorchjob("one")]) as hub:
        await hub.world.running("one")
        await hub.world.apply(cluster("cfb", {"zone": "b"}))
        kind = hub.world.registry.need("cluster.karmada.io", "clusters")
        await hub.world.objects.change(kind, "", "cfa", look, ALICE, subresource="status")
        found = await hub.get("/clusters")
        ClusterList.model_validate(found)
        cfa, cfb = found["items"]
        assert (cfa["name"], cfa["ready"], cfa["message"], cfa["version"]) == ("cfa", True, "", "v1.36.3")
        assert cfa["free"] == {"cpu": "94500m", "memory": "512Gi", "nvidia.com/gpu": "13"}
        assert (cfa["free_gpus"], cfa["nodes"], cfa["jobs"]) == (13, {"total": 3, "ready": 2}, {"Running": 1})
        assert (cfb["ready"], cfb["free_gpus"], cfb["jobs"], cfb["labels"]) == (False, 0, {}, {"zone": "b"})
        assert cfb["message"]


def test_idle_gpus_of_a_node_that_is_not_ready_are_not_free() -> None:
    amounts = {"allocatable": {"cpu": "96", "nvidia.com/gpu": "16"}, "allocated": {"nvidia.com/gpu": "3"}}
    row = {"model": "A100", "allocated": 3, "free": 5, "fragmented": 5, "cordoned": 8}
    shown = described({"metadata": {"name": "cfa"}, "status": {"resourceSummary": amounts, "gpus": [row]}}, {})
    assert (shown["free"], shown["free_gpus"]) == ({"cpu": "96", "nvidia.com/gpu": "5"}, 5)
    amounts["allocatable"]["amd.com/gpu"] = "4"
    shown = described({"metadata": {"name": "cfa"}, "status": {"resourceSummary": amounts, "gpus": [row]}}, {})
    assert (shown["free"]["nvidia.com/gpu"], shown["free_gpus"]) == ("13", 5)


async def test_decisions_are_listed_newest_first_and_each_can_be_replayed() -> None:
    async with rest(member("cfa"), objects=[tree(), policy(queue=True), pytorchjob("one")]) as hub:
        await hub.world.running("one")
        await hub.world.apply(pytorchjob("two"))
        await eventually(lambda: hub.world.message("two"))
        found = await hub.get("/decisions")
        DecisionList.model_validate(found)
        numbers = [decision["id"] for decision in found["items"]]
        assert numbers == sorted(numbers, reverse=True) and numbers
        details = [await hub.get(f"/decisions/{number}") for number in numbers]
        placing = next(detail for detail in details if detail["placements"])
        DecisionDetail.model_validate(placing)
        assert (placing["placements"][0]["job"], placing["placements"][0]["member"]) == ("default/one", "cfa")
        assert (placing["placed"], placing["members"], placing["certificate"]["shipped"]) == (1, 1, "greedy")
        record = await hub.get(f"/decisions/{placing['id']}/record")
        assert codec.replay(record).placements == codec.decode_plan(record["plan"]).placements
        answer = await hub.client().post(f"{PREFIX}/decisions/{placing['id']}/replay")
        Replay.model_validate(answer.json())
        assert (answer.json()["reproduced"], answer.json()["differ"]) == (True, [])


async def test_a_decision_says_what_it_changed_why_others_wait_and_the_gpus_before_and_after() -> None:
    def unit(name: str, gpus: int, **more: Any) -> Unit:
        parts = (Component("main", 1, Amounts.of({"nvidia.com/gpu": gpus})),)
        return Unit(name, f"team/{name}", parts, "root/a", needs_kind="batch/Job", **more)

    runs = unit("old", 4, phase=Phase.PLACED, member="m")
    units = {one.id: one for one in (runs, unit("new", 2), unit("next", 8), unit("last", 8))}
    snapshot = Snapshot(None, units, {"m": Member("m", pools=(Pool(free=((Amounts.of({"nvidia.com/gpu": 8}), 2),)),))})
    claim = RoomClaim("next", "m", Amounts(), 2e9)
    reasons = {"last": Reason(Code.HELD), "next": Reason(Code.HELD)}
    late = Cause(CauseCode.LATE, {"limit_s": 1.5})
    certificate = Certificate("greedy", causes=(late,), victims=(VictimSearch("next", "greedy", late),))
    plan = Plan((Placement("new", "m"),), reasons, certificate, (Eviction("old", "m", "next"),), (claim,))
    async with rest(start=False) as hub:
        store = hub.world.store
        record = await store.history("decision-record", RowPacker().pack(snapshot, plan, 1e9, 1))
        row = listed(snapshot, plan, now=1e9, took_s=0.5)
        number = await store.history("decision", {**row, "record": record})
        await store.history("decision", {"now": 1e9, "placed": 1, "waiting": 0, "shipped": "greedy", "record": ""})
        (short,) = (await hub.get("/decisions", job="team/old"))["items"]
        assert (short["id"], short["claimed"], short["evicted"], short["tookMs"]) == (number, 1, 1, 500.0)
        assert short["named"]["evictions"] == [{"kind": "Job", "job": "team/old", "member": "m", "for": "team/next"}]
        assert (await hub.get("/decisions", job="team/old", change="starts"))["items"] == []
        assert len((await hub.get("/decisions", change="claims"))["items"]) == 1
        assert (await hub.get(f"/decisions/{number}", code="NotItsTurn"))["matching"] == 0
        refused = await hub.refused("GET", f"/decisions/{number}?code=Hold")
        assert causes(refused) == {"code": "Hold is no code of a reason; did you mean Held?"}
        assert list(causes(await hub.refused("GET", "/decisions/first"))) == ["id"]
        found = await hub.get(f"/decisions/{number}", job="last", limit=5)
        DecisionDetail.model_validate(found)
        assert (found["waiting"], found["matching"], found["codes"]) == (2, 1, {"Held": 2})
        assert [one["job"] for one in found["reasons"]] == ["team/last"]
        after = {"before": 4, "starts": 2, "leaves": 4, "after": 2}
        assert found["byMember"] == [{"name": "m", "gpus": 16, **after}]
        assert found["byQueue"] == [{"path": "root/a", "max": None, **after}]
        assert found["evictions"][0]["for"]["job"] == found["claims"][0]["job"] == "team/next"
        text = "the solver was stopped at its deadline of 1.5 s"
        cause = {"code": "Late", "numbers": {"limit_s": 1.5}, "text": text}
        (search,) = found["certificate"]["victims"]
        assert found["causes"] == found["certificate"]["causes"] == [search["cause"]] == [cause]
        assert found["why"] == found["certificate"]["why"] == search["why"] == text


def test_causes_that_an_older_release_wrote_as_texts_have_their_codes() -> None:
    old = {"unit": "a", "shipped": "greedy", "why": "one by one is as good"}
    certificate = {"shipped": "greedy", "why": "greedy is as good; the model has no racks", "victims": [old]}
    record = {
        "seed": 1,
        "snapshot": {"units": [], "members": []},
        "plan": {"placements": [], "reasons": {}, "certificate": certificate},
    }
    row = {"id": 1, "now": 1e9, "placed": 0, "waiting": 0, "shipped": "greedy", "why": "no solver was asked"}
    found = DecisionDetail.model_validate(detail(row, orjson.dumps(record), None, "", ""))
    assert [(one.code, one.numbers, one.text) for one in found.causes] == [("NotAsked", {}, "no solver was asked")]
    assert [one.code for one in found.certificate.causes] == ["AsGood", "LeftOut"]
    assert found.certificate.causes[1].numbers == {"bound": "domain_variables"}
    assert [one.cause.code for one in found.certificate.victims if one.cause is not None] == ["OneByOneAsGood"]
    assert short({**row, "why": None})["causes"] == []


async def test_the_snapshot_is_what_the_next_decision_looks_at() -> None:
    async with rest(member("cfa"), objects=[policy(), pytorchjob("one"), pytorchjob("two", workers=99)]) as hub:
        await hub.world.running("one")
        await eventually(lambda: hub.world.events("two", "ScheduleBindingFailed"))
        document = await hub.seen(one="cfa", two=None)
        snapshot = codec.decode_snapshot(document)
        assert "default/two" in {
            snapshot.units[key].name for key in decide(snapshot, now=document["now"], seed=1, solver=None).reasons
        }


async def test_without_a_look_at_the_fleet_there_is_no_snapshot() -> None:
    async with rest(start=False) as hub:
        assert (await hub.refused("GET", "/snapshot"))["code"] == 404


async def test_decisions_come_in_pages_without_gaps() -> None:
    async with rest(start=False) as hub:
        for number in range(5):
            row = {"now": 1e9 + number, "placed": number, "waiting": 0, "shipped": "cp-sat", "record": ""}
            await hub.world.store.history("decision", row)
        page, seen = await hub.get("/decisions", limit=2), []
        seen += page["items"]
        while page["continue"]:
            page = await hub.get("/decisions", limit=2, **{"continue": page["continue"]})
            seen += page["items"]
        assert [decision["placed"] for decision in seen] == [4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("path", "code", "field"),
    [
        ("/decisions/7", 404, ""),
        ("/decisions/7/record", 404, ""),
        ("/decisions/x", 422, "id"),
        ("/decisions/0", 422, "id"),
        ("/decisions/99999999999999999999", 422, "id"),
        ("/decisions?limit=201", 422, "limit"),
        ("/decisions?continue=x", 422, "continue"),
        ("/nothing", 404, ""),
        ("/jobs/", 404, ""),
    ],
)
async def test_what_is_not_there_is_a_status_too(path: str, code: int, field: str) -> None:
    async with rest(start=False) as hub:
        status = await hub.refused("GET", path)
        assert status["code"] == code
        assert [c["field"] for c in status.get("details", {}).get("causes", ())] == ([field] if field else [])


async def test_a_method_that_a_route_does_not_have_is_a_status_too() -> None:
    async with rest(start=False) as hub:
        status = await hub.refused("PUT", "/jobs")
        assert (status["code"], status["reason"]) == (405, "MethodNotAllowed")


async def test_a_bug_is_answered_once_with_a_status_and_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with rest(start=False) as hub:
        await hub.get("/queues")

        def broken(*_: Any, **__: Any) -> Any:
            raise ZeroDivisionError("secret")

        monkeypatch.setattr(hub.world.store, "scan", broken)
        status = await hub.refused("GET", "/queues")
        assert (status["code"], status["reason"]) == (500, "InternalError") and "secret" not in str(status)


async def test_the_openapi_document_describes_every_route_with_its_answer_and_its_refusal() -> None:
    async with rest(start=False) as hub:
        document = await hub.get("/openapi.json", "bob-token")
        assert document["openapi"].startswith("3.1")
        routes = {(path, method) for path, methods in document["paths"].items() for method in methods}
        assert routes == {
            ("/fleet/v1/jobs", "get"),
            ("/fleet/v1/jobs", "post"),
            ("/fleet/v1/jobs/{namespace}/{kind}/{name}", "get"),
            ("/fleet/v1/jobs/{namespace}/{kind}/{name}", "delete"),
            ("/fleet/v1/jobs/{namespace}/{kind}/{name}/explanation", "get"),
            ("/fleet/v1/queues", "get"),
            ("/fleet/v1/clusters", "get"),
            ("/fleet/v1/decisions", "get"),
            ("/fleet/v1/snapshot", "get"),
            ("/fleet/v1/what-if", "post"),
            ("/fleet/v1/decisions/{id}", "get"),
            ("/fleet/v1/decisions/{id}/record", "get"),
            ("/fleet/v1/decisions/{id}/replay", "post"),
            ("/fleet/v1/status", "get"),
            ("/fleet/v1/faults", "get"),
            ("/fleet/v1/faults/{id}/snapshot", "get"),
            ("/fleet/v1/history", "get"),
            ("/fleet/v1/history/{uid}", "get"),
            ("/fleet/v1/reports/{report}", "get"),
            ("/fleet/v1/history/{namespace}/{kind}/{name}", "get"),
            ("/fleet/v1/history/users/{name}", "delete"),
            ("/fleet/v1/nodes", "get"),
            ("/fleet/v1/topology", "get"),
            ("/fleet/v1/gpus", "get"),
            ("/fleet/v1/reports/series", "get"),
            ("/fleet/v1/reports/changes", "get"),
            ("/fleet/v1/parts", "get"),
            ("/fleet/v1/check", "post"),
            ("/fleet/v1/notifications", "get"),
            ("/fleet/v1/notifications/retry", "post"),
            ("/fleet/v1/tokens", "get"),
            ("/fleet/v1/tokens", "post"),
            ("/fleet/v1/tokens/{id}", "delete"),
        }
        for path, methods in document["paths"].items():
            for operation in methods.values():
                assert operation["summary"] and operation["description"], path
                refusal = operation["responses"]["default"]["content"]["application/json"]["schema"]
                assert refusal == {"$ref": "#/components/schemas/Status"}
                assert "422" not in operation["responses"]
        assert document["security"] == [{"bearer": []}]
        names = {parameter["name"] for parameter in document["paths"]["/fleet/v1/jobs"]["get"]["parameters"]}
        assert names == {
            "namespace",
            "kind",
            "state",
            "queue",
            "member",
            "name",
            "user",
            "labelSelector",
            "since",
            "limit",
            "continue",
            "offset",
        }
        assert set(document["paths"]["/fleet/v1/jobs"]["post"]["requestBody"]["content"]) == {
            "application/json",
            "application/yaml",
        }


async def test_the_documentation_page_loads_nothing_and_names_every_route() -> None:
    async with rest(start=False) as hub:
        answer = await hub.client("bob-token").get(f"{PREFIX}/docs")
        assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert not re.search(r"<script|<link|<img|@import|url\(|https?://", answer.text)
        for path in (await hub.get("/openapi.json"))["paths"]:
            assert path in answer.text
        targets = set(re.findall(r"href='#([^']+)'", answer.text))
        assert "default 500, at most 10000" in answer.text
        assert (await hub.client().get(re.findall(r"href='(/[^']+)'", answer.text)[0])).status_code == 200
        assert targets and targets <= set(re.findall(r"id='([^']+)'", answer.text))


def test_a_hub_that_nobody_asks_does_not_load_the_framework() -> None:
    loaded = "print(sorted({'fastapi', 'pydantic', 'starlette'} & set(sys.modules)))"
    code = f"import sys, api.server.app, fleet.rest.mount; {loaded}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


async def test_a_list_is_filtered_by_the_creator_the_labels_and_the_time_of_creation() -> None:
    async with rest(start=False) as hub:
        for name, stage in (("one", "test"), ("two", "live")):
            body = pytorchjob(name)
            body["metadata"]["labels"] = {**body["metadata"].get("labels", {}), "stage": stage}
            assert (await hub.client().post(f"{PREFIX}/jobs", json=body)).status_code == 201
        made = (await hub.job("one"))["created"]
        assert (await hub.job("one"))["user"] == "admin"
        for params, names in (
            ({"user": "admin"}, ["one", "two"]),
            ({"user": "alice"}, []),
            ({"labelSelector": "stage=test"}, ["one"]),
            ({"labelSelector": "stage in (live, test),stage!=live"}, ["one"]),
            ({"since": made}, ["one", "two"]),
            ({"since": "2199-01-01T00:00:00+01:00"}, []),
        ):
            assert await hub.jobs(**params) == names, params
        wrong = await hub.refused("GET", "/jobs", params={"labelSelector": "stage in ("})
        assert (wrong["code"], wrong["reason"]) == (400, "BadRequest")
