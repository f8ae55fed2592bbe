"""A database knows which hub it is of: another data directory beside it starts nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.store.embedded import EmbeddedPostgres
from fleet.admission.seed import hub_of_database
from tests.admission.conftest import Hub
from tests.cli.hub import Up, fleet


async def test_the_first_id_is_recorded_and_stays(hub: Hub) -> None:
    assert await hub_of_database(hub.objects, "one", record=False) == "one"
    assert await hub_of_database(hub.objects, "two", record=False) == "two", "nothing is recorded by looking"
    assert await hub_of_database(hub.objects, "one") == "one"
    assert await hub_of_database(hub.objects, "two") == "one"


@pytest.mark.timeout(300)
async def test_a_blank_data_directory_beside_a_known_database_is_refused(tmp_path: Path) -> None:
    async with EmbeddedPostgres(tmp_path / "pg") as server:
        first = Up(tmp_path / "first", "--database-url", server.dsn)
        assert first.stop() == 0
        known = (tmp_path / "first" / "hub-id").read_text().strip()
        where = ("--data-dir", str(tmp_path / "second"), "--listen", "127.0.0.1:0")
        again = fleet("up", *where, "--database-url", server.dsn)
        assert again.returncode == 1, again.stderr
        assert f"the database is of hub {known}" in again.stderr.strip().splitlines()[-1]
        (tmp_path / "second" / "hub-id").write_text(known + "\n")
        second = Up(tmp_path / "second", "--database-url", server.dsn)
        assert second.stop() == 0
