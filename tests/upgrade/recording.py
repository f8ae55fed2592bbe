"""Records a hub of this checkout (`make recording`), for `test_recorded.py` of later releases."""

from __future__ import annotations

from pathlib import Path

from packaging.version import Version

from fleet.values.release import running
from tests.chaos.client import Client
from tests.cli.hub import Up, processes_of, until
from tests.upgrade import recorded, story


def test_a_hub_that_is_killed_is_recorded(empty_database_url: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    up = Up(data, *story.SHAPE, "--database-url", empty_database_url)
    try:
        client = Client(data / "kubeconfig")
        story.begin(client, edge=False)
        seen = story.look(client, edge=False)
        revision = client.get(story.COPIES)["metadata"]["resourceVersion"]
        until("the members have written it down", lambda: story.kept(data, seen))
    finally:
        up.process.kill()
    until("all of the hub is gone", lambda: processes_of(data) == [])
    into = recorded.FOLDER / f"{Version(running().version).base_version}.tar.gz"
    recorded.pack(data, empty_database_url, {**seen, "revision": revision}, into)
    print(f"\n{into}: {into.stat().st_size / 1024:.0f} KiB")
