"""CEL is checked and run as a real kube-apiserver does: the same rules and objects to both.

The exceptions stand in ACCEPTED with a reason; an entry that has become untrue fails too.
"""

from __future__ import annotations

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.objects.crds import follow_crds
from api.store.memory import MemoryStore
from fleet.simulate.wall import WallClock
from tests.api.cel_table import DEFINITIONS, FIELDS, GROUP, PLACES, RULES, THING, WRITES, crd
from tests.api.conftest import open_hub, real_client
from tests.testbed.member import RealMember

pytestmark = pytest.mark.xdist_group("real-apiserver")

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMESPACES = "/api/v1/namespaces"
THINGS = f"/apis/{GROUP}/v1/namespaces/cel/things"
Said = tuple[int, str, list[tuple[str, str, str]]]

WORDS = "the words for a text that is no CEL are those of the parser; the verdict is the same"
NAME_FIRST = "a name that no object may have is refused before the CRD is looked at"
# what -> why only the verdict is the same
ACCEPTED = {
    json.dumps({"rule": r'"\q" == self.s'}): WORDS,
    "a plural in capitals": NAME_FIRST,
    "a group in capitals": NAME_FIRST,
}


def _asked() -> dict[str, dict[str, Any]]:
    """what -> the CRD that is applied with dryRun"""
    found = {}
    for rule in RULES:
        schema = {"type": "object", "properties": FIELDS, "x-kubernetes-validations": [rule]}
        found[json.dumps(rule)] = crd("Rule", schema)
    return found | {what: crd("Rule", schema) for what, schema in PLACES.items()} | DEFINITIONS


def _said(answer: httpx.Response) -> Said:
    body = answer.json()
    causes = [
        (cause.get("field", ""), cause.get("reason", ""), re.sub(r"selfType\d+", "selfType", cause.get("message", "")))
        for cause in (body.get("details") or {}).get("causes", [])
    ]
    return answer.status_code, body.get("reason", ""), sorted(causes)


async def _write(client: httpx.AsyncClient, number: int, before: dict[str, Any] | None, spec: dict[str, Any]) -> Said:
    thing = {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": f"t{number}"}}
    if before is None:
        return _said(await client.post(THINGS, json={**thing, "spec": spec}))
    stored = await client.post(THINGS, json={**thing, "spec": before})
    stored.raise_for_status()
    return _said(await client.put(f"{THINGS}/t{number}", json={**stored.json(), "spec": spec}))


async def _prepared(client: httpx.AsyncClient) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cel"}}
    (await client.post(NAMESPACES, json=namespace)).raise_for_status()
    (await client.post(CRDS, json=THING)).raise_for_status()
    for _ in range(1200):
        if (await client.get(THINGS)).status_code == 200:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the kind is not served")


async def _ask_all(member: RealMember, folder: Path) -> dict[str, tuple[Said, Said]]:
    async with (
        open_hub(folder, MemoryStore(WallClock())) as hub,
        hub.client() as ours,
        real_client(member) as real,
    ):
        follower = asyncio.create_task(follow_crds(hub.store, hub.registry))
        try:
            answers: dict[str, tuple[Said, Said]] = {}
            for what, body in _asked().items():
                both = [_said(await client.post(f"{CRDS}?dryRun=All", json=body)) for client in (real, ours)]
                answers[what] = both[0], both[1]
            for client in (real, ours):
                await _prepared(client)
            for number, (what, (before, spec)) in enumerate(WRITES.items()):
                both = [await _write(client, number, before, spec) for client in (real, ours)]
                answers[what] = both[0], both[1]
            return answers
        finally:
            follower.cancel()


@pytest.fixture(scope="module")
def answers(real_apiserver: RealMember, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Said, Said]]:
    """The answers to each question, from the real one and from ours."""
    with ThreadPoolExecutor(1) as thread:
        asking = _ask_all(real_apiserver, tmp_path_factory.mktemp("cel"))
        return thread.submit(asyncio.run, asking).result()


@pytest.mark.parametrize("what", [*_asked(), *WRITES])
def test_the_verdict_is_that_of_a_kube_apiserver(answers: dict[str, tuple[Said, Said]], what: str) -> None:
    real, ours = answers[what]
    assert ours[:2] == real[:2]
    assert (ours[2] == real[2]) == (what not in ACCEPTED), f"\nreal {real[2]}\nours {ours[2]}"
