"""A release starts on the database of an earlier one, and refuses that of a later one.

A hub of the commit before the history's second migration made `recorded_0001.jsonl`: two jobs that succeeded, one that
failed and was deleted, one that waits. The first line is what that hub answered; each other line is a row of its
database. Objects that a hub makes by itself, Secrets and the older part of the log are left out.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from api import schemas
from api.store import migrate
from fleet.accounts import partitions, schema
from fleet.accounts.models import SCHEMA
from fleet.accounts.schema import engine_of
from fleet.hub.starting import place_of
from fleet.values.release import running
from tests.cli.hub import Up, fleet
from tests.conftest import Server, run_apart

RECORDED = Path(__file__).with_name("recorded_0001.jsonl")
NOVEMBER = "from=2026-11-01T00:00:00Z&to=2026-12-01T00:00:00Z"
GROWS = ("reasons", "waiting")  # of a job that still waits
# The recorded jobs are over for a time that only grows.
KEPT = ("--finished-job-ttl-seconds", "0", "--history-days", "0", "--usage-days", "0")


@pytest.fixture(scope="module")
def recorded() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    first, *rows = RECORDED.read_text().splitlines()
    return json.loads(first), [json.loads(row) for row in rows]


@pytest.fixture(scope="module")
def database(postgres_server: Server, recorded: Any) -> Iterator[str]:
    """The database of the earlier release."""
    name = f"earlier_{uuid.uuid4().hex}"
    admin = postgres_server.dsn_of("postgres")
    run_apart(execute(admin, f"CREATE DATABASE {name}"))
    run_apart(fill(postgres_server.dsn_of(name), *recorded))
    yield postgres_server.dsn_of(name)
    run_apart(execute(admin, f"DROP DATABASE {name} WITH (FORCE)"))


async def execute(dsn: str, statement: str, *values: object) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement, *values)
    finally:
        await connection.close()


async def fill(dsn: str, made_by: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Migrate an empty database as far as the earlier release did, and write its rows."""
    await execute(dsn, f"CREATE SCHEMA {SCHEMA}")
    engine = engine_of(dsn)
    for name in ("store", "accounts"):
        await schemas.upgrade(name, engine, made_by[name])
    async with engine.begin() as connection:
        await partitions.ensure(connection, date(2026, 11, 1))
        await connection.exec_driver_sql("DELETE FROM log_state")
    await engine.dispose()
    target = await asyncpg.connect(dsn)
    for line in rows:
        table, row = line["table"], line["row"]
        for column in {"body", "previous"} & row.keys():
            row[column] = None if row[column] is None else f"\\x{json.dumps(row[column]).encode().hex()}"
        statement = f"INSERT INTO {table} SELECT * FROM json_populate_record(NULL::{table}, $1)"
        await target.execute(statement, json.dumps(row))
    await target.close()


@pytest.fixture(scope="module")
def up(database: str, recorded: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A hub of this release on it, with the earlier one's identity."""
    folder = tmp_path_factory.mktemp("upgrade") / "hub"
    folder.mkdir()
    (folder / "hub-id").write_text(recorded[0]["hub"])
    (folder / "hub-id").chmod(0o600)
    running = Up(folder, "--database-url", database, *KEPT)
    try:
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()


def answer(up: Up, *words: str) -> Any:
    done = fleet(*words, "-o", "json", "--data-dir", str(up.folder))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_jobs_of_the_earlier_release_are_there(up: Up, recorded: Any) -> None:
    def said(jobs: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
        return sorted((job["name"], job["kind"], job["state"]) for job in jobs)

    assert said(answer(up, "jobs", "-A")) == said(recorded[0]["jobs"]) != []


def test_its_history_is_as_it_was(up: Up, recorded: Any) -> None:
    def over(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted((job for job in jobs if job["ended"]), key=lambda job: str(job["uid"]))

    then, now = recorded[0]["history"], answer(up, "history", "-A", "--since", "2026-11-01")
    fields = then[0].keys()  # a later release may say more
    assert [{key: job[key] for key in fields} for job in over(now)] == over(then)
    assert len(over(then)) == 3 < len(then)


def test_its_reports_are_equal(up: Up, recorded: Any) -> None:
    def figures(report: dict[str, Any]) -> list[dict[str, Any]]:
        rows = [{key: value for key, value in row.items() if key not in GROWS} for row in report["rows"]]
        total = {key: value for key, value in report["total"].items() if key not in GROWS}
        exact = json.dumps([report["recordedSince"], *rows, total], sort_keys=True)
        return list(json.loads(exact, parse_float=lambda digits: round(float(digits), 9)))

    for asked, then in recorded[0]["reports"].items():
        report, by = asked.split()
        now = up.hub.request("GET", f"/fleet/v1/reports/{report}?by={by}&{NOVEMBER}").body
        assert figures(now) == figures(then), asked


def test_both_schemas_are_those_of_this_release(up: Up, database: str) -> None:
    async def versions() -> tuple[str | None, str | None]:
        connection = await asyncpg.connect(database)
        try:
            return await migrate.version_of(connection), await schema.version_of(connection)
        finally:
            await connection.close()

    assert up.process.poll() is None and asyncio.run(versions()) == (migrate.HEAD, schema.HEAD)


def test_no_process_starts_on_the_database_of_a_later_release(database_url: str, tmp_path: Path) -> None:
    run_apart(execute(database_url, "UPDATE alembic_version SET version_num = '9999_post'"))
    run_apart(execute(database_url, "COMMENT ON TABLE alembic_version IS '9.8.7'"))
    where = ("--data-dir", str(tmp_path / "hub"), "--database-url", database_url)
    for process in (("api", "--listen", "127.0.0.1:0"), ("controllers",), ("up", "--listen", "127.0.0.1:0")):
        done = fleet(*process, *where)
        first, *between, last = map(json.loads, done.stderr.splitlines())
        assert not any("starting it again" in line["event"] for line in between)
        assert first["event"] == f"fleet {process[0]} starts" and first["database"] == place_of(database_url)
        assert (first["version"], first["commit"], first["data"]) == (*running(), str(tmp_path / "hub"))
        assert done.returncode == 78 and last["event"] == (
            "fleet: the database has the schema 9999_post of the release 9.8.7, and this release,"
            f" {running().version}, knows {migrate.HEAD}: run that release, or restore a backup from before the upgrade"
            " (fleet restore)"
        )
