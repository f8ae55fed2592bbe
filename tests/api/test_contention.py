"""Many clients write one object at once: whoever names no revision is served, and nobody's change is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from api.engine.status import StatusError
from tests.api.conftest import KUBECTL, Hub

MERGE, APPLY, JSON = "application/merge-patch+json", "application/apply-patch+yaml", "application/json-patch+json"
CLIENTS = 50


@pytest.fixture
def hub(any_hub: Hub) -> Hub:
    return any_hub


async def make(hub: Hub, group: str, resource: str, body: dict[str, Any]) -> Any:
    kind = hub.registry.need(group, resource)
    body = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
    await hub.objects.create(kind, "default" if kind.namespaced else "", body, hub.options())
    return kind


async def test_fifty_patches_of_one_object_at_once_all_succeed(hub: Hub) -> None:
    kind = await make(hub, "", "configmaps", {"metadata": {"name": "busy"}, "data": {}})
    patches = [
        hub.objects.patch(kind, "default", "busy", {"data": {f"k{n}": str(n)}}, MERGE, hub.options())
        for n in range(CLIENTS)
    ]
    written = await asyncio.gather(*patches)
    assert len({one.body["metadata"]["resourceVersion"] for one in written}) == CLIENTS
    stored = await hub.objects.get(kind, "default", "busy")
    assert stored["data"] == {f"k{n}": str(n) for n in range(CLIENTS)}


async def test_fifty_patches_of_an_object_whose_rule_looks_at_others_all_succeed(hub: Hub) -> None:
    kind = await make(hub, "scheduling.k8s.io", "priorityclasses", {"metadata": {"name": "high"}, "value": 7})
    patches = [
        hub.objects.patch(kind, "", "high", {"metadata": {"labels": {f"k{n}": "x"}}}, MERGE, hub.options())
        for n in range(CLIENTS)
    ]
    await asyncio.gather(*patches)
    stored = await hub.objects.get(kind, "", "high")
    assert len(stored["metadata"]["labels"]) == CLIENTS


async def test_applies_by_many_managers_at_once_all_succeed(hub: Hub) -> None:
    kind = hub.registry.need("", "configmaps")

    async def apply(number: int) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": {f"k{number}": "x"}}
        options = type(hub.options())(hub.options().user, f"manager-{number}")
        await hub.objects.patch(kind, "default", "shared", body, APPLY, options)

    await asyncio.gather(*(apply(number) for number in range(CLIENTS)))
    stored = await hub.objects.get(kind, "default", "shared")
    assert len(stored["data"]) == CLIENTS
    assert len(stored["metadata"]["managedFields"]) == CLIENTS


async def test_a_rule_is_asked_about_what_is_written_and_not_about_what_was_tried_first(hub: Hub) -> None:
    """Each patch is valid by itself; after `immutable: true` those that change the data are not."""
    kind = await make(hub, "", "configmaps", {"metadata": {"name": "frozen"}, "data": {"a": "0"}})

    async def patch(number: int) -> int:
        body = {"immutable": True} if number == CLIENTS // 2 else {"data": {"a": str(number + 1)}}
        try:
            await hub.objects.patch(kind, "default", "frozen", body, MERGE, hub.options())
        except StatusError as error:
            return error.code
        return 200

    codes = await asyncio.gather(*(patch(number) for number in range(CLIENTS)))
    assert set(codes) <= {200, 422}
    stored = await hub.objects.get(kind, "default", "frozen")
    assert stored["immutable"] is True
    with pytest.raises(StatusError):
        await hub.objects.patch(kind, "default", "frozen", {"data": {"a": "late"}}, MERGE, hub.options())
    succeeded = [number for number, code in enumerate(codes) if code == 200 and number != CLIENTS // 2]
    assert stored["data"]["a"] in {"0", *(str(number + 1) for number in succeeded)}


async def test_of_many_updates_that_name_a_revision_one_wins(hub: Hub) -> None:
    kind = await make(hub, "", "configmaps", {"metadata": {"name": "one"}, "data": {}})
    stored = await hub.objects.get(kind, "default", "one")

    async def update(number: int) -> int:
        try:
            await hub.objects.update(kind, "default", "one", {**stored, "data": {"by": str(number)}}, hub.options())
        except StatusError as error:
            return error.code
        return 200

    codes = await asyncio.gather(*(update(number) for number in range(10)))
    assert sorted(codes) == [200, *[409] * 9]


async def test_a_delete_among_many_writers_takes_the_object(hub: Hub) -> None:
    kind = await make(hub, "", "configmaps", {"metadata": {"name": "going", "finalizers": ["x.io/a"]}, "data": {}})

    async def write(number: int) -> None:
        await hub.objects.patch(kind, "default", "going", {"data": {f"k{number}": "x"}}, MERGE, hub.options())

    writers = [write(number) for number in range(CLIENTS)]
    await asyncio.gather(*writers[:25], hub.objects.delete(kind, "default", "going", hub.options()), *writers[25:])
    stored = await hub.objects.get(kind, "default", "going")
    assert stored["metadata"]["deletionTimestamp"]
    assert len(stored["data"]) == CLIENTS
    free = {"metadata": {"finalizers": None}}
    touches = [
        hub.objects.patch(kind, "default", "going", patch, MERGE, hub.options())
        for patch in ({"data": {"k0": "y"}}, {"data": {"k1": "y"}}, free, {"data": {"k2": "y"}})
    ]
    answers = await asyncio.gather(*touches, return_exceptions=True)
    assert await hub.objects.find(kind, "default", "going") is None
    assert not isinstance(answers[2], BaseException) and answers[2].deleted
    assert all(not isinstance(a, BaseException) or (isinstance(a, StatusError) and a.code == 404) for a in answers)


@pytest.mark.parametrize("way", ["create", "apply"])
async def test_of_many_quota_trees_made_at_once_one_is_made(hub: Hub, way: str) -> None:
    kind = hub.registry.need("scheduling.sigs.k8s.io", "elasticquotatrees")
    root = {"name": "root", "min": {"cpu": 1}, "max": {"cpu": 1}}

    async def one(number: int) -> int:
        name = f"tree-{number}"
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {"root": root},
        }
        try:
            if way == "create":
                await hub.objects.create(kind, "kube-system", body, hub.options())
            else:
                await hub.objects.patch(kind, "kube-system", name, body, APPLY, hub.options())
        except StatusError as error:
            return error.code
        return 200

    codes = await asyncio.gather(*(one(number) for number in range(10)))
    assert sorted(codes) == [200, *[409] * 9]
    trees = await hub.objects.list(kind)
    assert len(trees) == 1
    await hub.objects.delete(kind, "kube-system", trees[0]["metadata"]["name"], hub.options())
    assert await one(11) == 200


async def test_a_collection_goes_with_one_request_whatever_else_happens_to_it(hub: Hub) -> None:
    kind = hub.registry.need("", "configmaps")
    for number in range(120):
        labels = {"labels": {"odd": "yes"}} if number % 2 else {}
        await make(hub, "", "configmaps", {"metadata": {"name": f"m{number:03}", **labels}})
    await make(
        hub, "", "configmaps", {"metadata": {"name": "held", "labels": {"odd": "yes"}, "finalizers": ["x.io/a"]}}
    )
    path = "/api/v1/namespaces/default/configmaps"
    async with hub.client() as client:
        alone = hub.objects.delete(kind, "default", "m001", hub.options())
        answer, _ = await asyncio.gather(
            client.delete(path, params={"labelSelector": "odd=yes"}), alone, return_exceptions=True
        )
        assert not isinstance(answer, BaseException)
        assert answer.status_code == 200 and answer.json()["kind"] == "ConfigMapList"
        names = [item["metadata"]["name"] for item in answer.json()["items"]]
        assert len(names) >= 60 and "held" in names and not any(name in names for name in ("m000", "m118"))
        left = {body["metadata"]["name"]: body for body in await hub.objects.list(kind, "default")}
        assert set(left) == {f"m{number:03}" for number in range(0, 120, 2)} | {"held"}
        assert left["held"]["metadata"]["deletionTimestamp"]
        dry = await client.delete(path, params={"dryRun": "All"})
        assert len(dry.json()["items"]) == 61 and len(await hub.objects.list(kind, "default")) == 61


async def test_kubectl_deletes_all_and_by_label(hub: Hub) -> None:
    kind = hub.registry.need("", "configmaps")
    for number in range(6):
        await make(hub, "", "configmaps", {"metadata": {"name": f"m{number}", "labels": {"n": str(number % 2)}}})
    _, out, _ = await hub.kubectl(KUBECTL, "delete", "configmaps", "-l", "n=1")
    assert out.splitlines() == [f'configmap "m{number}" deleted from default namespace' for number in (1, 3, 5)]
    assert [body["metadata"]["name"] for body in await hub.objects.list(kind, "default")] == ["m0", "m2", "m4"]
    await hub.kubectl(KUBECTL, "delete", "configmaps", "--all")
    assert await hub.objects.list(kind, "default") == []
