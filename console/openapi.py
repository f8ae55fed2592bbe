"""Writes the OpenAPI document of /fleet/v1, from which the console takes its types. No hub has to run for it."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path

import httpx

from api.engine.registry import Registry
from api.objects.objects import Objects
from api.store.memory import MemoryStore
from fleet.admission.kindfiles import load_kinds
from fleet.controllers.decide.manifestunits import unit_in
from fleet.rest.application import build
from fleet.rest.mount import PREFIX
from fleet.simulate.wall import RandomIds, WallClock


async def document() -> bytes:
    clock, registry = WallClock(), Registry(load_kinds())
    store = MemoryStore(clock)
    application = build(Objects(store, registry, clock, RandomIds()), store, registry, partial(unit_in, store))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://hub") as client:
        return (await client.get(f"{PREFIX}/openapi.json")).content


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(asyncio.run(document()))
