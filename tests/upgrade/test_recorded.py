"""A hub of this release goes on where one of an earlier release was killed: data directory, database, jobs that run.

The earlier hubs are recorded (recorded.py), so this needs no history of the repository. `make upgrade` does the same
with the programs of an earlier release, and with an agent of it.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from fleet.values.release import running
from tests.chaos.client import Client, Refused
from tests.chaos.witness import events
from tests.cli.hub import Up
from tests.upgrade import story
from tests.upgrade.recorded import FOLDER, unpack

RECORDED = sorted(FOLDER.glob("*.tar.gz"))


@pytest.mark.parametrize("packed", RECORDED, ids=lambda packed: packed.name.removesuffix(".tar.gz"))
def test_jobs_history_and_watches_of_an_earlier_release_go_on(
    packed: Path, empty_database_url: str, tmp_path: Path
) -> None:
    before = unpack(packed, tmp_path, empty_database_url)
    since = int(before.pop("revision"))
    up = Up(tmp_path / "data", *story.SHAPE, "--database-url", empty_database_url, *story.KEPT)
    try:
        client = Client(up.folder / "kubeconfig")
        assert client.get("/version")["gitVersion"].endswith(f"-fleet.{running().version}")
        story.go_on(client, before, edge=False)
        assert {name: uid for name, uid in resumed(client, since).items() if name in before["uids"]} == before["uids"]
    finally:
        assert up.stop() == 0, up.errors.read_text()


def resumed(client: Client, since: int) -> dict[str, str]:
    """The jobs by a client that goes on from this revision: by the events since, or by a list where the hub says that
    its log begins later (410), as it does fifteen minutes after. The last event is that of a new job."""
    known = {story.name(body): body["metadata"]["uid"] for body in client.items(story.COPIES)}
    seen: dict[str, str] = {}
    try:
        for _, body in events(client.http, story.COPIES, since, threading.Event()):
            assert int(body["metadata"]["resourceVersion"]) > since
            seen[story.name(body)] = body["metadata"]["uid"]
            if "team/new" in seen:
                break
    except Refused as refused:
        assert refused.code == 410
        return known
    assert seen["team/new"] == known["team/new"]
    return known


def test_there_is_a_recorded_hub() -> None:
    assert RECORDED != []
