"""HorizontalPodAutoscalers in v1 and v2: the hub gives the answers of a real kube-apiserver, step by step."""

from __future__ import annotations

import asyncio
import copy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.store.memory import MemoryStore
from fleet.simulate.wall import WallClock
from tests.api.conftest import open_hub, real_client
from tests.api.likeness import JSON, MERGE, Said, described, differences
from tests.testbed.member import RealMember

pytestmark = pytest.mark.xdist_group("real-apiserver")

PATH = "/apis/autoscaling/{}/namespaces/scaling/horizontalpodautoscalers"
TARGET = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
SELECTOR = {"matchLabels": {"a": "b"}}
METRIC = {"name": "m", "selector": SELECTOR}
ANNOTATION = "autoscaling.alpha.kubernetes.io/"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def body(version: str, name: str, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"annotations": annotations} if annotations else {})}
    spec = {"scaleTargetRef": TARGET, "maxReplicas": 3, **spec}
    return {
        "apiVersion": f"autoscaling/{version}",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata,
        "spec": spec,
    }


def resource(name: str, **target: Any) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": name, "target": target}}


EVERYTHING = [
    resource("cpu", type="Utilization", averageUtilization=40),
    resource("memory", type="AverageValue", averageValue="1Gi"),
    {"type": "Pods", "pods": {"metric": METRIC, "target": {"type": "AverageValue", "averageValue": "100m"}}},
    {
        "type": "Object",
        "object": {"metric": METRIC, "describedObject": TARGET, "target": {"type": "Value", "value": "5"}},
    },
    {
        "type": "Object",
        "object": {
            "metric": METRIC,
            "describedObject": TARGET,
            "target": {"type": "AverageValue", "averageValue": "7"},
        },
    },
    {"type": "External", "external": {"metric": METRIC, "target": {"type": "Value", "value": "5"}}},
    {
        "type": "External",
        "external": {"metric": {"name": "n"}, "target": {"type": "AverageValue", "averageValue": "5"}},
    },
    {
        "type": "ContainerResource",
        "containerResource": {
            "name": "cpu",
            "container": "c",
            "target": {"type": "Utilization", "averageUtilization": 10},
        },
    },
]
BEHAVIOR = {
    "scaleUp": {"selectPolicy": "Min"},
    "scaleDown": {"stabilizationWindowSeconds": 60, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 30}]},
}
STATES = [
    {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 30, "averageValue": "300m"}}},
    {"type": "Pods", "pods": {"metric": METRIC, "current": {"averageValue": "50m"}}},
    {"type": "Object", "object": {"metric": METRIC, "describedObject": TARGET, "current": {"value": "4"}}},
    {"type": "External", "external": {"metric": METRIC, "current": {"value": "4", "averageValue": "2"}}},
]
CONDITION = {"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "Ready"}
STATUS = {"currentReplicas": 2, "desiredReplicas": 3, "currentMetrics": STATES, "conditions": [CONDITION]}
NOTED = {
    f"{ANNOTATION}metrics": '[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"3"}}]',
    f"{ANNOTATION}behavior": '{"ScaleUp":{"SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":30}]}}',  # noqa: E501
    "kept": "yes",
}

# method, version, rest of the path, body, media type of the body, Accept
STEPS: tuple[tuple[str, str, str, Any, str, str], ...] = (
    ("POST", "v2", "", body("v2", "all", metrics=EVERYTHING, behavior=BEHAVIOR, minReplicas=2), JSON, JSON),
    ("GET", "v1", "/all", None, JSON, JSON),
    ("GET", "v2", "/all", None, JSON, JSON),
    ("PATCH", "v2", "/all/status", {"status": STATUS}, MERGE, JSON),
    ("GET", "v1", "/all", None, JSON, JSON),
    ("PATCH", "v1", "/all", {"spec": {"targetCPUUtilizationPercentage": 33}}, MERGE, JSON),
    ("GET", "v2", "/all", None, JSON, JSON),
    ("PATCH", "v1", "/all/status", {"status": {"desiredReplicas": 1}}, MERGE, JSON),
    ("GET", "v2", "/all/status", None, JSON, JSON),
    ("POST", "v1", "", body("v1", "cpu", targetCPUUtilizationPercentage=50), JSON, JSON),
    ("GET", "v2", "/cpu", None, JSON, JSON),
    ("GET", "v1", "/cpu", None, JSON, TABLE),
    ("POST", "v1", "", body("v1", "plain"), JSON, JSON),
    ("GET", "v2", "/plain", None, JSON, JSON),
    ("POST", "v1", "", body("v1", "noted", NOTED), JSON, JSON),
    ("GET", "v2", "/noted", None, JSON, JSON),
    ("PATCH", "v2", "/noted", {"spec": {"maxReplicas": 9}}, MERGE, JSON),
    ("GET", "v1", "/noted", None, JSON, JSON),
    ("POST", "v1", "", body("v1", "wrong", maxReplicas=0), JSON, JSON),
    ("POST", "v1", "", body("v1", "wrong", targetCPUUtilizationPercentage=0), JSON, JSON),
    ("POST", "v1", "", body("v2", "wrong"), JSON, JSON),
    ("GET", "v1", "?limit=2", None, JSON, JSON),
    ("DELETE", "v1", "/plain", None, JSON, JSON),
)
Answers = list[tuple[Said, Said]]


async def _said(
    client: httpx.AsyncClient, method: str, version: str, rest: str, sent: Any, media: str, accept: str
) -> Said:
    path = PATH.format(version) + rest
    headers = {"content-type": media, "accept": accept, "user-agent": "likeness/1"}
    answer = await client.request(method, path, json=copy.deepcopy(sent), headers=headers)
    return Said(answer.status_code, answer.json(), tuple(answer.headers.get_list("warning")))


async def _ask_all(member: RealMember, folder: Path) -> Answers:
    async with (
        open_hub(folder, MemoryStore(WallClock())) as hub,
        hub.client() as ours,
        real_client(member) as real,
    ):
        said: dict[str, list[Said]] = {}
        for name, client in (("real", real), ("ours", ours)):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "scaling"}}
            (await client.post("/api/v1/namespaces", json=namespace)).raise_for_status()
            said[name] = [await _said(client, *step) for step in STEPS]
        await real.delete("/api/v1/namespaces/scaling")
        return list(zip(said["real"], said["ours"], strict=True))


@pytest.fixture(scope="module")
def answers(real_apiserver: RealMember, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """The answers to each step, from the real one and from ours."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _ask_all(real_apiserver, tmp_path_factory.mktemp("scaling"))).result()


def _settled(said: Said) -> Said:
    """Without who wrote it, the age of a row and the place of a page."""
    shown = copy.deepcopy(said.body)
    for one in (shown, *shown.get("items", ()), *(row["object"] for row in shown.get("rows", ()))):
        one.get("metadata", {}).pop("managedFields", None)
        status = one.get("status")
        if isinstance(status, dict) and status.get("currentMetrics", "") is None:
            del status["currentMetrics"]  # Go writes a list that is not there as null
    for row in shown.get("rows", ()):
        row["cells"] = row["cells"][:-1]
    shown.get("metadata", {}).pop("continue", None)
    return Said(said.code, shown, said.warnings)


@pytest.mark.parametrize("index", range(len(STEPS)), ids=[" ".join(step[:3]) for step in STEPS])
def test_the_answer_is_that_of_a_kube_apiserver(answers: Answers, index: int) -> None:
    real, ours = answers[index]
    found = differences(_settled(real), _settled(ours))
    assert found == {}, described(found)


def test_the_steps_are_what_they_seem(answers: Answers) -> None:
    codes = [real.code for real, _ in answers]
    assert (codes.count(201), codes.count(422), codes.count(400)) == (4, 2, 1)
