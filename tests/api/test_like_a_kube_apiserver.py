"""Ours answers as a real kube-apiserver does: the same requests to both, compared but for uids, times and revisions.

Accepted differences stand in ACCEPTED with a reason; an entry that has become untrue fails too.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from api.objects.crds import follow_crds
from api.store.memory import MemoryStore
from fleet.simulate.wall import WallClock
from tests.api.conftest import open_hub, real_client
from tests.api.likeness import Asker, Said, described, differences
from tests.api.likeness_table import CRD, CRDS, NS, TABLE_OF_ASKS, WIDGETS
from tests.testbed.member import RealMember

pytestmark = pytest.mark.xdist_group("real-apiserver")

PARSER = "the text is the JSON parser's own"
GO_SCHEME = "the text speaks of Go's type conversions"
PLAIN_404 = "every refusal of ours is a Status; the real one answers a path of no API in plain text"
EMPTY_LIST = "an empty list stays one; a Go type drops it"

NO_500 = "the client's mistake is a 400 here, not a 500"
NOT_OURS = {"code", "reason"}

# what -> (the aspects that may differ, why)
ACCEPTED: dict[str, tuple[set[str], str]] = {
    "create of another kind": ({"message"}, GO_SCHEME),
    "create of another version": ({"message"}, GO_SCHEME),
    "create from broken JSON": ({"message"}, PARSER),
    "create from a list": ({"message"}, PARSER),
    "create from nothing": ({"message"}, PARSER),
    "list with a bad continue": ({"message"}, "the text names the byte where base64 ends"),
    "update it with another uid": ({"message"}, "the text names the key in etcd"),
    "watch a bad revision": ({"code", "reason", "message"}, NO_500),
    "create with a resourceVersion": (NOT_OURS, NO_500),
    "strategic patch with a wrong directive": (NOT_OURS, NO_500),
    "apply a wrong type": (NOT_OURS, NO_500),
    "apply an unknown field": (NOT_OURS, NO_500),
    "apply with parts twice": (NOT_OURS, NO_500),
    "apply a wrong type, custom": (NOT_OURS, NO_500),
    "apply a map for text, custom": (NOT_OURS, NO_500),
    "apply a list for a map, custom": (NOT_OURS, NO_500),
    "apply text for a list, custom": (NOT_OURS, NO_500),
    "update it with a bad revision, custom": (
        {"code", "reason", "message", "details"},
        "no revision of ours is a conflict (409), not a 500",
    ),
    "an unknown group": ({"body"}, PLAIN_404),
    "an unknown path": ({"body"}, PLAIN_404),
    "create one of another version": ({"warnings"}, "the real one looks for unknown fields in a version it refuses"),
    "create a Role with text for rules": ({"message"}, "Go's type names are not known here"),
    "update it without a revision, role": ({"body"}, EMPTY_LIST),
    "get the CRD's names": ({"body"}, "who wrote a CRD's status and finalizer is told apart only by the real one"),
    "ask who may": ({"body"}, "reviews are not stored, so nobody owns their fields here"),
}


async def _ask_all(member: RealMember, folder: Path) -> dict[str, tuple[Said, Said]]:
    async with (
        open_hub(folder, MemoryStore(WallClock())) as hub,
        hub.client() as ours,
        real_client(member) as real,
    ):
        follower = asyncio.create_task(follow_crds(hub.store, hub.registry))
        try:
            for client in (real, ours):
                namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "like"}}
                (await client.post(NS, json=namespace)).raise_for_status()
                (await client.post(CRDS, json=CRD)).raise_for_status()
            for client in (real, ours):
                await _until_served(client)
            askers = Asker(real), Asker(ours)
            answers = {}
            for ask in TABLE_OF_ASKS:
                await _early_in_a_second()
                answers[ask.what] = await askers[0].ask(ask), await askers[1].ask(ask)
            return answers
        finally:
            follower.cancel()


async def _early_in_a_second() -> None:
    """Both write in one second of the clock: the order of managedFields follows the seconds of their writes."""
    passed = time.time() % 1
    if passed > 0.6:
        await asyncio.sleep(1.001 - passed)


async def _until_served(client: httpx.AsyncClient) -> None:
    for _ in range(400):
        if (await client.get(WIDGETS)).status_code == 200:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the custom kind is not served")


@pytest.fixture(scope="module")
def answers(real_apiserver: RealMember, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Said, Said]]:
    """The answers to each request, from the real one and from ours."""
    with ThreadPoolExecutor(1) as thread:
        asking = _ask_all(real_apiserver, tmp_path_factory.mktemp("like"))
        return thread.submit(asyncio.run, asking).result()


@pytest.mark.parametrize("what", [ask.what for ask in TABLE_OF_ASKS])
def test_the_answer_is_that_of_a_kube_apiserver(answers: dict[str, tuple[Said, Said]], what: str) -> None:
    found = differences(*answers[what])
    allowed, _ = ACCEPTED.get(what, (set(), ""))
    assert found.keys() <= allowed, described(found)
    assert found.keys() == allowed, "what is accepted as a difference is none any more"


def test_no_two_requests_have_one_name_and_what_is_accepted_is_asked() -> None:
    names = [ask.what for ask in TABLE_OF_ASKS]
    assert len(names) == len(set(names)) and set(ACCEPTED) <= set(names)
