"""The flow control objects of a fresh hub beside those of a real kube-apiserver."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from api.fairness.defaults import GROUP, LEVELS, SCHEMAS
from api.fairness.keeper import Keeper
from tests.api.conftest import Hub, real_client
from tests.testbed.member import RealMember

PATIENCE_S = 30.0
pytestmark = pytest.mark.xdist_group("real-apiserver")


def comparable(body: dict[str, Any]) -> dict[str, Any]:
    conditions = body.get("status", {}).get("conditions", [])
    said = [{key: value for key, value in one.items() if key != "lastTransitionTime"} for one in conditions]
    metadata = body["metadata"]
    managers = sorted((one["manager"], one.get("subresource", "")) for one in metadata["managedFields"])
    shown = (metadata["annotations"], metadata["generation"], managers)
    return {"name": metadata["name"], "spec": body["spec"], "conditions": said, "metadata": shown}


async def brought(client: httpx.AsyncClient, path: str) -> list[dict[str, Any]]:
    """The objects that come with a server; other tests may have made more."""
    items = (await client.get(path)).json()["items"]
    return [comparable(body) for body in items if body["metadata"]["name"] in {**SCHEMAS, **LEVELS}]


@pytest.mark.parametrize("resource", ["flowschemas", "prioritylevelconfigurations"])
async def test_a_fresh_hub_has_the_same_objects(resource: str, hub: Hub, real_apiserver: RealMember) -> None:
    await Keeper(hub.objects).keep()
    path = f"/apis/{GROUP}/v1/{resource}"
    async with hub.client() as ours, real_client(real_apiserver) as theirs:
        found = await brought(ours, path)
        wanted = await brought(theirs, path)
        async with asyncio.timeout(PATIENCE_S):
            while found != wanted:  # a server that has just started makes them one after another
                await asyncio.sleep(0.5)
                wanted = await brought(theirs, path)
    assert found == wanted and found
