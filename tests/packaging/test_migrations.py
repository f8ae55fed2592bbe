"""The migrations at the top of the tree: for Alembic's own command, from a checkout and from the wheel; and for a hub
that is installed from the wheel in an environment without a checkout.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from api import schemas
from api.store import migrate
from fleet.accounts import schema
from fleet.values.release import running
from tests.checkout import ROOT
from tests.conftest import execute, run_apart
from tests.packaging.conftest import site_of

HEADS = {"store": migrate.HEAD, "accounts": schema.HEAD}
# Of databases that were made while the migrations lay in packages of fleet.
RELEASED = {"store": "0001_pre", "accounts": "0003_pre"}
TABLES = ("public.alembic_version", "accounts.alembic_version")
NEW_DATABASE = """
import asyncio, sys
from pathlib import Path
import asyncpg, fleet
from fleet.accounts.schema import prepare
from api.store.embedded import EmbeddedPostgres
from api.store.migrate import migrate

async def main():
    async with EmbeddedPostgres(Path(sys.argv[1])) as server:
        print(fleet.__file__, await migrate(server.dsn), await prepare(server.dsn), await migrate(server.dsn))

asyncio.run(main())
"""


def alembic(python: Path, folder: Path, name: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("FLEET_")}
    return subprocess.run(
        [str(python), "-m", "alembic", "-c", str(folder / "alembic.ini"), "-n", name, *words],
        cwd="/",
        env={**clean, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("place", ["checkout", pytest.param("wheel", marks=pytest.mark.xdist_group("tests/packaging"))])
def test_alembic_migrates_a_database_as_a_hub_does(
    place: str, name: str, empty_database_url: str, request: pytest.FixtureRequest
) -> None:
    python, folder = Path(sys.executable), ROOT / "migrations"
    if place == "wheel":
        whole = request.getfixturevalue("whole")
        python, folder = whole / "bin" / "python", site_of(whole) / "fleet" / "migrations"
    for words in (("upgrade", "head"), ("check",), ("current",)):
        done = alembic(python, folder, name, *words, FLEET_DATABASE_URL=empty_database_url)
        assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [HEADS[name], "(head)"]

    async def again() -> None:
        assert not await {"store": migrate.migrate, "accounts": schema.prepare}[name](empty_database_url)

    run_apart(again())


@pytest.mark.parametrize(
    ("name", "words", "told"),
    [
        ("store", ("current",), "no database: set FLEET_DATABASE_URL to postgresql://USER:PASSWORD@HOST/DATABASE"),
        ("accounts", ("current",), "no database: set FLEET_HISTORY_DATABASE_URL or FLEET_DATABASE_URL to postgresql:"),
        ("store", ("upgrade", "head", "--sql"), "the migrations read the database that they change: leave out --sql"),
    ],
)
def test_what_alembic_cannot_do_is_one_sentence(name: str, words: tuple[str, ...], told: str) -> None:
    done = alembic(Path(sys.executable), schemas.MIGRATIONS, name, *words)
    assert done.returncode != 0 and told in done.stderr + done.stdout and "Traceback" not in done.stderr


def test_a_hub_from_the_wheel_migrates_a_new_database(whole: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(whole / "bin" / "python"), "-c", NEW_DATABASE, str(tmp_path / "pg")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    file, *migrated = done.stdout.split()
    assert Path(file).is_relative_to(whole) and migrated == ["True", "True", "False"]


async def test_released_revisions_keep_their_names_and_tables(empty_database_url: str) -> None:
    await execute(empty_database_url, "CREATE SCHEMA accounts")
    engine = schema.engine_of(empty_database_url)
    for (name, revision), table in zip(RELEASED.items(), TABLES, strict=True):
        await schemas.upgrade(name, engine, revision)
        async with engine.connect() as connection:
            assert (await connection.exec_driver_sql(f"SELECT version_num FROM {table}")).scalars().all() == [revision]
            comment = f"SELECT obj_description('{table}'::regclass)"
            assert (await connection.exec_driver_sql(comment)).scalars().all() == [running().version]
    await engine.dispose()
    await migrate.migrate(empty_database_url)
    await schema.prepare(empty_database_url)
