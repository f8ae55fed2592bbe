"""One real hub with a simulated member for all tests here, asked by both clients through one face."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.cli.failure import Failure
from fleet.client import AsyncFleet, Fleet
from tests.cli.hub import Up
from tests.cli.manifests import QUOTA, job, policy

BOTH = pytest.mark.parametrize("which", ["blocking", "awaiting"])


@pytest.fixture(scope="package")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Room for four jobs of 8 GPUs. `running` runs, and `long` asks for more than there is."""
    started = Up(tmp_path_factory.mktemp("client") / "hub", "--members", "1", "--nodes", "4")
    try:
        with Fleet(data_dir=started.folder) as fleet:
            fleet.apply([QUOTA, policy()])
            fleet.submit([job("running"), job("long", gpus=40)])
            fleet.wait("running", until="started", timeout=90)
        yield started
    finally:
        assert started.stop() == 0, started.errors.read_text()


class Face:
    """The operations of either client, awaited."""

    def __init__(self, client: Fleet | AsyncFleet) -> None:
        self.client = client

    async def call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        method = getattr(self.client, name)
        if isinstance(self.client, AsyncFleet):
            return await method(*args, **kwargs)
        return await asyncio.to_thread(method, *args, **kwargs)

    async def all(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        """The items of an operation that yields some."""
        found = getattr(self.client, name)(*args, **kwargs)
        if isinstance(self.client, AsyncFleet):
            return [item async for item in found]
        return await asyncio.to_thread(list, found)


@pytest.fixture(params=["blocking", "awaiting"])
async def face(request: pytest.FixtureRequest, up: Up) -> AsyncIterator[Face]:
    async for made in faces(request.param, data_dir=up.folder):
        yield made


async def faces(which: str, **where: Any) -> AsyncIterator[Face]:
    """One face, whose client is closed afterwards."""
    if which == "blocking":
        with Fleet(**where) as fleet:
            yield Face(fleet)
    else:
        async with AsyncFleet(**where) as asynchronous:
            yield Face(asynchronous)


def kubeconfig_of(up: Up) -> Path:
    return up.folder / "kubeconfig"


def is_ready(up: Up) -> bool:
    try:
        return bool(up.hub.request("GET", "/readyz").ok)
    except Failure:
        return False
