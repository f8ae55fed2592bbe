"""From the log of the store to a receiver: real controllers, a real database, a real HTTPS server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
import pytest
import sqlalchemy as sa
from aiohttp import web
from sqlalchemy.exc import SQLAlchemyError

from api.engine.registry import Registry
from fleet.accounts.models import NotificationRecord
from fleet.accounts.recorder import Recorder
from fleet.accounts.schema import engine_of, prepare
from fleet.admission.kindfiles import load_kinds
from fleet.controllers.notify.loop import NotifyLoop
from fleet.controllers.runtime.hub import ControllerConfig
from fleet.simulate.wall import WallClock
from fleet.values.ports import Body
from tests.accounts.stories import lived
from tests.api.outgoing.server import serving
from tests.controllers.fastloop import settle
from tests.controllers.world import World, member, policy, pytorchjob, tree
from tests.testbed.pki import Pki


def told(name: str, notify: str = "", **labels: str) -> Body:
    body = pytorchjob(name, gpus=1)
    body["metadata"]["labels"] = labels
    body["metadata"]["annotations"] = {"fleet.io/notify": notify} if notify else {}
    return body


def receiver(name: str, **spec: Any) -> Body:
    return {
        "apiVersion": "config.fleet.io/v1alpha1",
        "kind": "NotificationReceiver",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


async def four_jobs(world: World) -> None:
    """`one` runs and ends; `two` waits behind it, and runs; the others wait; no receiver has the team of `three`."""
    way = {"url": "https://localhost/hook"}
    await world.apply(
        receiver("team", webhook=way, selector={"matchLabels": {"team": "a"}}, waitsLongerThan="1m"),
        receiver("mine", webhook=way),
        tree(),
        policy(queue=True),
        told("one", team="a"),
    )
    await world.running("one")
    await world.apply(told("two", "mine=Started", team="a"))
    await settle(2)
    await world.apply(told("three", team="b"), told("four", team="a"))
    await settle(100)
    world.members.finish("one", "Succeeded")
    await world.running("two")
    await settle(10)


async def recorded(dsn: str, world: World, loop: NotifyLoop) -> None:
    """The whole log, from its first event on."""
    engine = engine_of(dsn)
    recorder = Recorder(world.store, Registry(load_kinds()), engine, WallClock(), tell=loop.enter)
    await recorder.begin()
    async with engine.begin() as connection:
        for name in ("jobs", "attempts", "waits"):
            await connection.execute(sa.text(f"DELETE FROM accounts.{name}"))
        await connection.execute(sa.text("UPDATE accounts.cursor SET revision = 1, state = '{}'"))
    await recorder.begin()
    while await recorder.step():
        pass
    await engine.dispose()


FULL = (  # as a disk without room refuses the writes of one table
    "CREATE FUNCTION pg_temp.refused() RETURNS trigger LANGUAGE plpgsql AS"
    " $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'disk_full', MESSAGE = 'disk full'; END $$",
    "CREATE TRIGGER full_disk BEFORE UPDATE ON accounts.notifications EXECUTE FUNCTION pg_temp.refused()",
)


def _leading(way: Body, body: Body) -> None:
    body["spec"]["webhook"] = way


async def looked_up(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


def test_receivers_are_told_once_of_what_they_and_the_jobs_ask_for(database_url: str, pki: Pki) -> None:
    world = lived(four_jobs, member("cfa"))
    got: list[tuple[Mapping[str, str], Any]] = []
    refusing = [True]

    async def handler(request: web.Request) -> web.Response:
        got.append((dict(request.headers), orjson.loads(await request.read())))
        return web.Response(status=503 if refusing[0] else 204)

    async def look() -> list[Any]:
        await prepare(database_url)
        async with serving(handler, pki) as port:
            for stored in world.store.scan("config.fleet.io", "notificationreceivers"):
                way = {"url": f"https://localhost:{port}/hook", "caBundle": pki.ca.read_text()}
                await world.edit("NotificationReceiver", stored.key.name, partial(_leading, way))
            hub = replace(world.hub, config=ControllerConfig(outgoing_allow=("127.0.0.0/8",)), clock=WallClock())
            loop = NotifyLoop(hub, database_url, resolver=looked_up)
            await recorded(database_url, world, loop)
            await recorded(database_url, world, loop)  # as after a kill: the same happenings once more
            engine = engine_of(database_url)
            try:
                await loop.step(engine)
                said = (world.see("NotificationReceiver", "team") or {})["status"]["conditions"][0]
                assert (said["status"], said["message"]) == ("False", "it answers HTTP 503")
                refusing[0] = False
                async with engine.begin() as connection:
                    await connection.execute(sa.update(NotificationRecord).values(next_at=sa.func.now()))
                    for line in FULL:
                        await connection.execute(sa.text(line))
                for _ in range(3):  # delivered once, and the record waits for the database
                    with pytest.raises(SQLAlchemyError, match="disk full"):
                        await loop.step(engine)
                async with engine.begin() as connection:
                    await connection.execute(sa.text("DROP TRIGGER full_disk ON accounts.notifications"))
                await loop.step(engine)
                async with engine.connect() as connection:
                    return list(
                        await connection.execute(sa.select(NotificationRecord.outcome, NotificationRecord.tries))
                    )
            finally:
                await engine.dispose()

    rows = asyncio.run(look())
    assert [tuple(row) for row in rows] == 3 * [("Delivered", 2)]
    events = sorted((body["data"]["name"], body["data"]["event"]) for _, body in got)
    assert events == sorted(2 * [("one", "Succeeded"), ("two", "Started"), ("four", "WaitsLong")])
    assert len({headers["webhook-id"] for headers, _ in got}) == 3
    said = (world.see("NotificationReceiver", "mine") or {})["status"]
    assert (said["conditions"][0]["status"], "lastDelivered" in said) == ("True", True)
