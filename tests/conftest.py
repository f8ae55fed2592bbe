"""What several suites share: one embedded PostgreSQL a session, and a fresh database for each test that asks.

A run that is told to end (SIGTERM) ends as with Ctrl-C: fixtures put away what they started. One that is killed with
SIGKILL leaves its directories behind, but no database server (api/store/watchdog.py). A run in the background of a
script inherits a SIGINT that is ignored, and what it starts would ignore Ctrl-C as well: its handler is set anew.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
import uuid
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from api.store.embedded import EmbeddedPostgres
from api.store.migrate import migrate
from tests import order, scratch

TEMPLATE = "fleet_template"
# The asserts of modules that tests import say what they saw, as those of tests do.
LOADED = {"conftest", "order", "scratch"}  # by now
HELPERS = {path.stem for path in Path(__file__).parent.iterdir()} - LOADED
pytest.register_assert_rewrite(*(f"tests.{name}" for name in sorted(HELPERS)))


def pytest_configure(config: pytest.Config) -> None:
    scratch.use()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        return
    if config.option.verbose < 1:
        config.pluginmanager.register(_NamedFailures(config))
    if config.option.write_durations:
        config.pluginmanager.register(order.Durations())


class _NamedFailures:
    """Each failure is named when it happens: half an hour is long to wait for the summary, and a run may be killed."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and reporter is not None:
            reporter.write_line(f"\n{report.nodeid} fails ({report.when}, {report.duration:.0f} s)")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-durations", action="store_true", help=f"write {order.DURATIONS.name} anew")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("loadgroup", False):
        order.put_in_order(items, order.stored())


@dataclass(frozen=True)
class Server:
    """The running server. `dsn_of(database)` is the address of one of its databases."""

    embedded: EmbeddedPostgres

    def dsn_of(self, database: str) -> str:
        return self.embedded.dsn_of(database)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A real PostgreSQL for the session. It belongs to no event loop; it ends with the session."""
    directory = Path(tempfile.mkdtemp(prefix="fleet-pg-"))
    embedded = EmbeddedPostgres(directory)
    try:
        run_apart(_start(embedded))
        yield Server(embedded)
    finally:
        run_apart(embedded.stop())
        shutil.rmtree(directory, ignore_errors=True)


async def _start(embedded: EmbeddedPostgres) -> None:
    """Start the server, and migrate a template, so that a fresh database is a copy."""
    await embedded.start()
    await execute(embedded.dsn_of("postgres"), f"CREATE DATABASE {TEMPLATE}")
    await migrate(embedded.dsn_of(TEMPLATE))


@pytest.fixture
def database_url(postgres_server: Server) -> Iterator[str]:
    """A database of its own, with the schema of this release, dropped afterwards."""
    name = f"test_{uuid.uuid4().hex}"
    admin = postgres_server.dsn_of("postgres")
    run_apart(execute(admin, f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}"))
    yield postgres_server.dsn_of(name)
    run_apart(execute(admin, f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture
def empty_database_url(postgres_server: Server) -> Iterator[str]:
    """A database of its own without any schema, dropped afterwards."""
    name = f"empty_{uuid.uuid4().hex}"
    admin = postgres_server.dsn_of("postgres")
    run_apart(execute(admin, f"CREATE DATABASE {name}"))
    yield postgres_server.dsn_of(name)
    run_apart(execute(admin, f"DROP DATABASE {name} WITH (FORCE)"))


async def execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def run_apart(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end in a loop of its own, whether or not a test's loop is running."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()
