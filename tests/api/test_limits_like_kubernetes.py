"""Requests at the limits of a kube-apiserver: status, reason and message of the hub's answers beside the real ones; and
dry runs, which store nothing."""

from __future__ import annotations

import httpx
import pytest

from tests.api.conftest import Hub, real_client
from tests.api.requests import APPLY, JSON, KEPT, MAPS, MERGE, PATCH, SPACE, STRATEGIC, Case, ask, config, made, said
from tests.testbed.member import RealMember

pytestmark = pytest.mark.xdist_group("real-apiserver")

ADD = {"op": "add", "path": "/data/a", "value": "1"}


LIMITS: list[Case] = [
    ("body_of_three_mebibytes", "POST", MAPS, JSON, b" " * (3 * 1024 * 1024 + 1)),
    ("data_of_a_mebibyte", "POST", MAPS, JSON, config(data={"a": "x" * (1024 * 1024 + 1)})),
    ("annotations", "POST", MAPS, JSON, config(annotations={"a": "x" * (256 * 1024)})),
    ("name_of_253", "POST", f"{MAPS}?dryRun=All", JSON, config("x" * 253)),
    ("name_of_254", "POST", MAPS, JSON, config("x" * 254)),
    ("namespace_of_64", "POST", "/api/v1/namespaces", JSON, {"metadata": {"name": "x" * 64}}),
    ("label_of_64", "POST", MAPS, JSON, config(labels={"a": "x" * 64})),
    ("label_name_of_64", "POST", MAPS, JSON, config(labels={"x" * 64: "a"})),
    ("key_of_254", "POST", MAPS, JSON, config(data={"x" * 254: "a"})),
    ("patch_of_1000", "PATCH", f"{MAPS}/kept?dryRun=All", PATCH, [ADD] * 1_000),
    ("dry_run_unknown", "POST", f"{MAPS}?dryRun=Some", JSON, config()),
    ("dry_run_empty", "POST", f"{MAPS}?dryRun=", JSON, config("empty")),
    ("dry_run_twice", "POST", f"{MAPS}?dryRun=All&dryRun=All", JSON, config("twice")),
    ("dry_run_unknown_patch", "PATCH", f"{MAPS}/kept?dryRun=x", MERGE, {"data": {"a": "c"}}),
    ("dry_run_unknown_update", "PUT", f"{MAPS}/kept?dryRun=x", JSON, config("kept")),
    ("dry_run_unknown_delete", "DELETE", f"{MAPS}/kept?dryRun=x", JSON, b""),
    (
        "dry_run_unknown_body",
        "DELETE",
        f"{MAPS}/kept",
        JSON,
        {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["Some"]},
    ),
]
DRY: list[Case] = [
    ("create", "POST", MAPS, JSON, config()),
    ("create_generated", "POST", MAPS, JSON, {"metadata": {"generateName": "made-"}}),
    ("create_that_exists", "POST", MAPS, JSON, config("kept")),
    ("update", "PUT", f"{MAPS}/kept", JSON, config("kept", {"a": "c"})),
    ("update_of_none", "PUT", f"{MAPS}/none", JSON, config("none")),
    ("merge_patch", "PATCH", f"{MAPS}/kept", MERGE, {"data": {"a": "c"}}),
    ("strategic_patch", "PATCH", f"{MAPS}/kept", STRATEGIC, {"data": {"a": "c"}}),
    ("json_patch", "PATCH", f"{MAPS}/kept", PATCH, [ADD]),
    ("apply", "PATCH", f"{MAPS}/kept?fieldManager=f&force=true", APPLY, config("kept", {"a": "c"})),
    ("apply_that_creates", "PATCH", f"{MAPS}/applied?fieldManager=f", APPLY, config("applied")),
    ("delete", "DELETE", f"{MAPS}/kept", JSON, b""),
    ("delete_of_none", "DELETE", f"{MAPS}/none", JSON, b""),
    ("deletecollection", "DELETE", MAPS, JSON, b""),
    ("namespace", "DELETE", f"/api/v1/namespaces/{SPACE}", JSON, b""),
    ("token", "POST", f"/api/v1/namespaces/{SPACE}/serviceaccounts/kept/token", JSON, {"spec": {}}),
    (
        "binding",
        "POST",
        f"/api/v1/namespaces/{SPACE}/pods/kept/binding",
        JSON,
        {"metadata": {"name": "kept"}, "target": {"kind": "Node", "name": "n"}},
    ),
    (
        "eviction",
        "POST",
        f"/api/v1/namespaces/{SPACE}/pods/kept/eviction",
        JSON,
        {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "kept"}},
    ),
    ("pod_status", "PATCH", f"/api/v1/namespaces/{SPACE}/pods/kept/status", MERGE, {"status": {"message": "m"}}),
    ("scale", "PATCH", f"/apis/apps/v1/namespaces/{SPACE}/deployments/kept/scale", MERGE, {"spec": {"replicas": 5}}),
]


async def state(client: httpx.AsyncClient) -> list[tuple[str, str]]:
    """Each object of the test with its resourceVersion."""
    found = []
    for path in sorted({path for path, _ in KEPT[1:]} | {f"/api/v1/namespaces/{SPACE}"}):
        body = (await client.get(path)).json()
        for one in body.get("items", [body]):
            if one["metadata"]["name"] in ("kept", SPACE, "one", "applied") or "generateName" in one["metadata"]:
                found.append((f"{path} {one['metadata']['name']}", one["metadata"]["resourceVersion"]))
    return found


@pytest.mark.parametrize("case", LIMITS, ids=lambda case: case[0])
async def test_limits(case: Case, hub: Hub, real_apiserver: RealMember) -> None:
    async with hub.client() as ours, real_client(real_apiserver) as theirs:
        await made(ours)
        await made(theirs)
        mine, real = said(await ask(ours, case)), said(await ask(theirs, case))
        assert mine == real


async def test_dry_runs_answer_alike_and_store_nothing(hub: Hub, real_apiserver: RealMember) -> None:
    async with hub.client() as ours, real_client(real_apiserver) as theirs:
        answers = []
        for client in (ours, theirs):
            await made(client)
            before = await state(client)
            answers.append({case[0]: said(await ask(client, case, "dryRun=All")) for case in DRY})
            assert await state(client) == before
        assert answers[0] == answers[1]
