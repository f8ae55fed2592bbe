"""A hub with webhooks, for tests of admission through the API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.access.rbac import answering
from api.admission.dynamic import DynamicAdmission
from api.outgoing import AllowList, OutgoingClient
from api.store.memory import MemoryStore
from fleet.simulate.wall import RandomIds, WallClock
from tests.api.conftest import Hub, open_hub
from tests.api.hooks import Body, Hooks, configuration, hook_server
from tests.testbed.pki import Pki, make_pki

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return make_pki(tmp_path_factory.mktemp("hooks") / "pki")


@dataclass
class World:
    hub: Hub
    api: httpx.AsyncClient
    hooks: Hooks

    async def register(self, kind: str, *hooks: Body, name: str = "test") -> httpx.Response:
        plural = f"{kind.lower()}webhookconfigurations"
        answer = await self.api.post(f"{ADMISSION}/{plural}", json=configuration(kind, name, *hooks))
        assert answer.status_code == 201, answer.text
        return answer

    async def create(self, name: str = "made", *, query: str = "", **more: Any) -> httpx.Response:
        body = {"metadata": {"name": name, "labels": {"case": "test"}}, **more}
        return await self.api.post(MAPS + query, json=body)


@pytest.fixture
async def world(tmp_path: Path, pki: Pki) -> AsyncIterator[World]:
    async with (
        open_hub(tmp_path, MemoryStore(WallClock())) as hub,
        hook_server(pki) as hooks,
        OutgoingClient(AllowList.parse([f"127.0.0.1:{hooks.port}", f"localhost:{hooks.port}"])) as outgoing,
        hub.client() as api,
    ):
        hub.objects.hooks = DynamicAdmission(
            hub.store, hub.registry, RandomIds(), outgoing, answering(hub.app.authorizer)
        )
        yield World(hub, api, hooks)
