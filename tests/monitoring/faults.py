"""Faults of a running hub, forced from outside: each lasts as long as its block."""

from __future__ import annotations

import asyncio
import itertools
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import asyncpg
import psutil

from api.store.embedded import DATABASE, USER
from fleet.amc.client import NoAnswer
from fleet.cli.hub import connect
from tests.chaos.parts import process_of
from tests.cli.hub import Up
from tests.monitoring.scene import CONFIGMAPS, configmap
from tests.testbed.processes import wait_for


@contextmanager
def frozen(process: psutil.Process) -> Iterator[None]:
    process.suspend()
    try:
        yield
    finally:
        process.resume()


def dsn_of(up: Up) -> str:
    """The address of the hub's own database."""
    told = up.folder / "postgres" / "data" / "postmaster.pid"  # PostgreSQL rewrites it now and then
    socket = wait_for("the folder of the socket", lambda: told.read_text().splitlines()[4])
    return f"postgresql://{USER}@/{DATABASE}?host={socket}"


@contextmanager
def locked(up: Up, table: str) -> Iterator[None]:
    """Somebody has a lock on the table, which nobody else can read."""
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(dsn_of(up)))
        runner.run(connection.execute(f"BEGIN; LOCK TABLE {table}"))
        try:
            yield
        finally:
            runner.run(connection.close())


@contextmanager
def trigger(up: Up, when: str, body: str) -> Iterator[None]:
    """The database does this at each write into the log of changes."""
    make = (
        f"CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$;"
        f" CREATE TRIGGER fault {when} EXECUTE FUNCTION fault()"
    )
    asyncio.run(_execute(up, make))
    try:
        yield
    finally:
        asyncio.run(_execute(up, "DROP FUNCTION fault CASCADE"))


async def _execute(up: Up, statements: str) -> None:
    connection = await asyncpg.connect(dsn_of(up))
    try:
        await connection.execute(statements)
    finally:
        await connection.close()


@contextmanager
def away(up: Up) -> Iterator[None]:
    """PostgreSQL takes no connection, and those that were open end."""
    postmaster = process_of(up.folder, "postgres")
    assert postmaster is not None
    with frozen(postmaster):
        for backend in postmaster.children():
            with suppress(psutil.Error):
                if re.search(r"fleet|postgres: \S+ \S+ ", " ".join(backend.cmdline())):
                    backend.send_signal(signal.SIGTERM)
        yield


@contextmanager
def writing(up: Up, name: str, users: int = 4) -> Iterator[None]:
    """Users write one object after the other, whatever the hub answers."""
    over, numbers = threading.Event(), itertools.count()
    client = connect(up.folder / "kubeconfig").client

    def write() -> None:
        while not over.is_set():
            body: Any = configmap(f"{name}-{next(numbers)}")
            with suppress(NoAnswer):
                client.request("POST", CONFIGMAPS, body)
            over.wait(0.05)

    threads = [threading.Thread(target=write) for _ in range(users)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
