"""Lives of jobs for the history: the controllers run in virtual time, and leave a store whose log is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa

from api.engine.registry import Registry
from fleet.accounts.models import AttemptRecord, Base, JobRecord, WaitRecord
from fleet.accounts.recorder import Models, Recorder, nothing_known
from fleet.accounts.schema import engine_of, prepare
from fleet.admission.kindfiles import load_kinds
from fleet.simulate import virtual
from fleet.simulate.wall import WallClock
from fleet.values.ports import Body, Store
from tests.controllers.fakemember import FakeMember
from tests.controllers.world import World, hub, pytorchjob

T = TypeVar("T")


def lived(story: Callable[[World], Awaitable[None]], *members: FakeMember) -> World:
    """The hub as the story leaves it."""

    async def told() -> World:
        async with hub(*members) as world:
            await story(world)
            return world

    return virtual.run(told())


def job(name: str, user: str = "alice", **spec: Any) -> Body:
    body = pytorchjob(name, **spec)
    body["metadata"]["annotations"] = {"fleet.io/creator": user}
    return body


class Kept:
    """The history of a store, in the database `dsn`. `record` writes up to the end of the log."""

    def __init__(self, dsn: str, store: Store, models: Models = nothing_known) -> None:
        self.engine = engine_of(dsn)
        self.recorder = Recorder(store, Registry(load_kinds()), self.engine, WallClock(), models)

    async def record(self, *, begin: bool = True) -> None:
        if begin:
            await self.recorder.begin()
        while await self.recorder.step():
            pass

    async def all(self, model: type[Base]) -> Sequence[Any]:
        async with self.engine.connect() as connection:
            return (await connection.execute(sa.select(model.__table__).order_by(*model.__table__.primary_key))).all()

    async def job(self, name: str) -> Any:
        return next(row for row in await self.all(JobRecord) if row.name == name)

    async def attempts(self, name: str) -> list[Any]:
        uid = (await self.job(name)).uid
        return [row for row in await self.all(AttemptRecord) if row.job == uid]

    async def waits(self, name: str) -> dict[str, float]:
        uid = (await self.job(name)).uid
        return {row.reason: row.seconds for row in await self.all(WaitRecord) if row.job == uid}


def kept(dsn: str, store: Store, look: Callable[[Kept], Coroutine[Any, Any, T]], models: Models = nothing_known) -> T:
    """What `look` finds, in a loop of real time."""

    async def looking() -> T:
        await prepare(dsn)
        history = Kept(dsn, store, models)
        try:
            return await look(history)
        finally:
            await history.engine.dispose()

    return asyncio.run(looking())


async def from_the_first(history: Kept) -> None:
    """As a recorder that has followed the log from its first event on."""
    await history.recorder.begin()
    async with history.engine.begin() as connection:
        for name in ("jobs", "attempts", "waits"):
            await connection.execute(sa.text(f"DELETE FROM accounts.{name}"))
        await connection.execute(sa.text("UPDATE accounts.cursor SET revision = 1, state = '{}'"))
    await history.record()
