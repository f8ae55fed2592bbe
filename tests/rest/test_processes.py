"""Two API processes on one PostgreSQL: what one has acknowledged, the other shows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx

from api.access.auth import StaticTokens
from api.access.rbac import Rbac
from api.engine.registry import Registry
from api.objects.objects import Objects
from api.store.postgres import PostgresStore
from fleet.admission import rules
from fleet.admission.filling import filled
from fleet.admission.kindfiles import load_kinds
from fleet.controllers.decide.manifestunits import unit_in
from fleet.hub.face import hub_app
from fleet.rest.mount import PREFIX, RestFace
from fleet.simulate.wall import RandomIds, WallClock
from tests.controllers.world import pytorchjob
from tests.rest.rest import ADMIN, TOKENS


@asynccontextmanager
async def process(dsn: str, keys: Path) -> AsyncIterator[tuple[httpx.AsyncClient, PostgresStore, Objects]]:
    """The parts of an API process, and a client of it."""
    clock, registry = WallClock(), Registry(load_kinds())
    store = PostgresStore(dsn, clock, secret_key_file=keys)
    objects = Objects(store, registry, clock, RandomIds(), rules=rules(), fill=filled)
    app = hub_app(
        objects,
        store,
        registry,
        clock=clock,
        authenticator=StaticTokens(TOKENS),
        authorizer=Rbac(store),
        mounts={PREFIX: RestFace(objects, store, registry, partial(unit_in, store))},
    )
    await store.start()
    try:
        await app.start()
        transport = httpx.ASGITransport(app)
        headers = {"authorization": "Bearer admin-token"}
        async with httpx.AsyncClient(base_url=f"https://hub{PREFIX}", headers=headers, transport=transport) as client:
            yield client, store, objects
        await app.stop()
    finally:
        await store.stop()


async def test_a_job_submitted_to_one_process_is_at_once_in_the_list_of_another(
    database_url: str, tmp_path: Path
) -> None:
    keys = tmp_path / "keys.json"
    async with process(database_url, keys) as (one, _, objects), process(database_url, keys) as (two, _, _):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
        await objects.create(objects.registry.need("", "namespaces"), "", namespace, ADMIN)
        for number in range(5):
            name = f"job-{number}"
            assert (await one.post("/jobs", json=pytorchjob(name))).status_code == 201
            listed = (await two.get("/jobs")).json()["items"]
            assert [job["name"] for job in listed] == [f"job-{n}" for n in range(number + 1)]
            shown = (await two.get(f"/jobs/default/PyTorchJob/{name}")).json()
            assert (shown["state"], shown["gpus"]) == ("Unclaimed", 3)
        assert (await two.delete("/jobs/default/PyTorchJob/job-0")).json()["state"] == "Deleted"
        assert len((await one.get("/jobs")).json()["items"]) == 4


async def test_decisions_recorded_by_one_process_are_read_by_another(database_url: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    async with process(database_url, keys) as (_, store, _), process(database_url, keys) as (two, _, _):
        for number in range(3):
            row = {"now": 1e9 + number, "placed": number, "waiting": 0, "shipped": "cp-sat", "record": ""}
            await store.history("decision", row)
        first = (await two.get("/decisions", params={"limit": 2})).json()
        rest = (await two.get("/decisions", params={"continue": first["continue"]})).json()
        assert [decision["placed"] for decision in first["items"] + rest["items"]] == [2, 1, 0]
        assert first["items"][0]["at"] == "2001-09-09T01:46:42Z" and rest["continue"] is None
