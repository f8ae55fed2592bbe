"""The same Go program on the hub and on a kube-apiserver: what it sees of the two is the same."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.chaos.parts import hit
from tests.clients.program import telling, told


def database_of(data: Path) -> str:
    """The address of a hub's own PostgreSQL, from what its postmaster writes down."""
    lines = (data / "postgres" / "data" / "postmaster.pid").read_text().splitlines()
    return f"postgresql://fleet@/fleet?host={lines[4]}"


async def compact(data: Path) -> None:
    """Forget the whole log, as the hub does it with what is old."""
    connection = await asyncpg.connect(database_of(data))
    try:
        await connection.execute("UPDATE log_state SET compacted = revision")
        await connection.execute("DELETE FROM events")
    finally:
        await connection.close()


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("typed", "protobuf"), id="typed clients with protobuf"),
        pytest.param(("typed", "json"), id="typed clients with JSON"),
        pytest.param(("resync", "resync"), id="an informer that resyncs"),
        pytest.param(("manager", "managed"), id="a controller-runtime manager"),
        pytest.param(("apply", "applied"), id="Flux applies"),
    ],
)
def test_a_client_sees_of_the_hub_what_it_sees_of_a_kube_apiserver(
    hub: Path, real: Path, words: tuple[str, ...]
) -> None:
    seen = told(real, *words)
    assert seen
    assert told(hub, *words) == seen


def informer(kubeconfig: Path, watch_list: bool, *, restart: Path | None = None, forget: Path | None = None) -> Any:
    """The steps of the informer's story. `restart`, `forget`: data directories of hubs, to do it to."""
    space = f"informer-{watch_list}-{forget is not None}".lower()
    switch = {"KUBE_FEATURE_WatchListClient": str(watch_list).lower()}
    with telling(kubeconfig, "informer", space, **switch) as story:
        story.until("away")
        if forget is not None:
            asyncio.run(compact(forget))
        story.go_on()
        story.until("ready for a restart")
        if restart is not None:
            hit(restart, "api")
        story.go_on()
        return story.finish()


@pytest.mark.parametrize("watch_list", [True, False], ids=["a watch alone", "a list and a watch"])
def test_an_informer_goes_on_where_it_was_cut_off_and_after_a_restart(hub: Path, real: Path, watch_list: bool) -> None:
    seen = informer(real, watch_list)
    assert dict(seen)["back"] == [
        "update item-000 1",
        "update item-000 2",
        "update item-000 3",
        "delete item-001",
        "add new 0",
    ]
    assert informer(hub, watch_list, restart=hub.parent) == seen


@pytest.mark.parametrize("watch_list", [True, False], ids=["a watch alone", "a list and a watch"])
def test_an_informer_lists_again_when_the_log_has_gone_on_without_it(hub: Path, watch_list: bool) -> None:
    seen = dict(informer(hub, watch_list, forget=hub.parent))
    back = seen["back"]
    assert {
        "update item-000 3",
        "add new 0",
        f"missed the end of informer-{str(watch_list).lower()}-true/item-001",
    } <= set(back)
    assert "update item-000 1" not in back
    assert seen["after the restart"] == ["add after-0 0", "add after-1 0", "add after-2 0"]


@pytest.mark.parametrize("server", ["hub", "real"])
def test_when_a_leader_is_killed_the_other_candidate_leads(request: pytest.FixtureRequest, server: str) -> None:
    kubeconfig: Path = request.getfixturevalue(server)
    with telling(kubeconfig, "election", "default", "one") as one:
        assert one.until("leads") == {"holder": "one", "transitions": 0, "seconds": 6}
        with telling(kubeconfig, "election", "default", "two") as two:
            assert two.until("follows") == "one"
            one.kill()
            assert two.until("leads") == {"holder": "two", "transitions": 1, "seconds": 6}
