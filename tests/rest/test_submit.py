"""POST /fleet/v1/jobs with several manifests: all are checked before one is stored, and each has its answer."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import yaml

from fleet.rest.models import Submitted
from tests.controllers.world import policy, pytorchjob
from tests.rest.rest import Rest, causes, rest

YAML = {"content-type": "application/yaml"}


async def stream(hub: Rest, *bodies: dict[str, Any], token: str = "admin-token", **params: Any) -> httpx.Response:
    content = yaml.safe_dump_all(bodies)
    return await hub.client(token).post("/fleet/v1/jobs", content=content, headers=YAML, params=params)


async def test_a_stream_and_a_list_are_submitted_whole_with_an_answer_each() -> None:
    async with rest(start=False) as hub:
        answer = await stream(hub, pytorchjob("one"), pytorchjob("two", namespace="team-b"))
        assert answer.status_code == 201, answer.text
        Submitted.model_validate(answer.json())
        jobs = [(item["job"]["namespace"], item["job"]["name"]) for item in answer.json()["items"]]
        assert jobs == [("default", "one"), ("team-b", "two")] and answer.json()["items"][0]["refusal"] is None
        items = [pytorchjob("three"), pytorchjob("four")]
        listed = await hub.client().post("/fleet/v1/jobs", json={"apiVersion": "v1", "kind": "List", "items": items})
        assert listed.status_code == 201, listed.text
        assert await hub.jobs() == ["four", "one", "three", "two"]


async def test_one_that_is_refused_keeps_all_from_being_stored_and_is_named() -> None:
    async with rest(start=False) as hub:
        bad = pytorchjob("bad")
        bad["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = -1
        answer = await stream(hub, pytorchjob("one"), bad)
        assert answer.status_code == 422, answer.text
        assert list(causes(answer.json())) == ["items[1].spec.pytorchReplicaSpecs.Worker.replicas"]
        assert answer.json()["message"].startswith("items[1]: ")
        answer = await stream(hub, pytorchjob("one"), policy())
        assert (answer.status_code, list(causes(answer.json()))) == (422, ["items[1].kind"])
        rule = {"apiGroups": ["kubeflow.org"], "resources": ["pytorchjobs"], "verbs": ["create"]}
        await hub.grant("alice", rule, "default")
        answer = await stream(hub, pytorchjob("one"), pytorchjob("two", namespace="team-b"), token="alice-token")
        assert (answer.status_code, answer.json()["message"][:9]) == (403, "items[1]:")
        assert await hub.jobs() == []


async def test_what_is_refused_after_the_checks_is_said_in_its_place() -> None:
    """Two of one name pass the checks one by one."""
    async with rest(start=False) as hub:
        answer = await stream(hub, pytorchjob("one"), pytorchjob("one"), pytorchjob("two"))
        assert answer.status_code == 207, answer.text
        Submitted.model_validate(answer.json())
        assert [(item["refusal"] or {}).get("reason") for item in answer.json()["items"]] == [
            None,
            "AlreadyExists",
            None,
        ]
        assert await hub.jobs() == ["one", "two"]


async def test_a_dry_run_of_several_stores_nothing() -> None:
    async with rest(start=False) as hub:
        answer = await stream(hub, pytorchjob("one"), pytorchjob("two"), dryRun="true")
        assert [item["job"]["name"] for item in answer.json()["items"]] == ["one", "two"]
        assert await hub.jobs() == []


async def test_a_dump_and_a_generated_name_are_submitted() -> None:
    async with rest(start=False) as hub:
        assert (await stream(hub, pytorchjob("one"))).status_code == 201
        dump = hub.world.see("PyTorchJob", "one")
        assert dump is not None
        dump = {**dump, "metadata": {**dump["metadata"], "name": "two"}}
        assert (await hub.client().post("/fleet/v1/jobs", json=dump)).json()["name"] == "two"
        unnamed = pytorchjob("x")
        unnamed["metadata"] = {"generateName": "train-"}
        assert (await hub.client().post("/fleet/v1/jobs", json=unnamed)).json()["name"].startswith("train-")


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        ({"apiVersion": "v1", "kind": "List", "items": []}, 422, "items: must be a list of 1 to 100 objects"),
        ({"apiVersion": "v1", "kind": "List", "items": [1]}, 422, "items[0]: kind: must be an object"),
        ({"apiVersion": "v1", "kind": "List"}, 422, "items: must be a list"),
    ],
)
async def test_a_list_that_is_none_is_refused(body: dict[str, Any], code: int, says: str) -> None:
    async with rest(start=False) as hub:
        status = await hub.refused("POST", "/jobs", json=body)
        assert status["code"] == code and status["message"].startswith(says), status


async def test_a_stream_of_too_many_documents_is_refused() -> None:
    async with rest(start=False) as hub:
        status = await hub.refused("POST", "/jobs", content="a: 1\n---\n" * 101, headers=YAML)
        assert status["code"] == 400 and "at most 100" in status["message"]
