"""Built-in kinds are filled in, checked and refused as by a real kube-apiserver, which is asked at test time.

Each object is created with dryRun, so that the cases know nothing of each other. Accepted differences stand in ACCEPTED
with a reason; an entry that has become untrue fails too.
"""

from __future__ import annotations

import asyncio
import copy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.store.memory import MemoryStore
from fleet.simulate.wall import WallClock
from tests.api.checks_table import FROZEN, OF_A_CLUSTER, REWRITTEN, WRONG, named
from tests.api.conftest import open_hub, real_client
from tests.api.likeness import JSON, MERGE, Said, described, differences
from tests.api.sound_table import SOUND, Body
from tests.testbed.member import RealMember

pytestmark = pytest.mark.xdist_group("real-apiserver")

READS_TOO = "the real one repeats the warning of a deprecated kind for refusals and reads"
STRUCT = "the real one quotes a Go struct, whose fields are not those of the API"
HIDES = "the real one warns of an entry that hides an earlier one"

NEEDED = (
    ("/api/v1/namespaces", "Namespace", "checks"),
    ("/api/v1/namespaces/checks/serviceaccounts", "ServiceAccount", "default"),
)
DIFF = "the real one appends the difference of two Go structs"

# what -> (the aspects that may differ, why)
ACCEPTED: dict[str, tuple[set[str], str]] = {
    "budget spec.maxUnavailable=1": ({"message", "details"}, STRUCT),
    "pod spec.containers.0.env=[{'name': 'A'}, {'name': 'A'}]": ({"warnings"}, HIDES),
    "job {'spec': {'template': {'spec': {'restartPolicy': 'OnFailure'}}}}": ({"message", "details"}, STRUCT),
    "pod {'spec': {'hostname': 'a'}}": ({"message", "details"}, DIFF),
    "claim {'spec': {'accessModes': ['ReadOnlyMany']}}": ({"message", "details"}, DIFF),
    **{what: ({"warnings"}, READS_TOO) for what, _ in named([case for case in WRONG if case[0] == "endpoints"])},
}
CREATED: dict[str, tuple[str, str, Body]] = {
    **{f"sound {name}": (name, *case) for name, case in SOUND.items()},
    **{
        what: (case[0], *asked)
        for cases in (WRONG, REWRITTEN)
        for case, (what, asked) in zip(cases, named(cases), strict=True)
    },
}
CHANGED = {f"{name} {change}": (name, change) for name, change in FROZEN}
Answers = dict[str, tuple[str, Said, Said]]


def _ours_alone(warning: str) -> bool:
    """What the hub adds for its users: nothing runs its pods, members have what they name, nothing acts on it."""
    return "no policy takes" in warning or "on the hub" in warning


async def _said(client: httpx.AsyncClient, method: str, path: str, body: Body, media: str = JSON) -> Said:
    answer = await client.request(
        method, f"{path}?dryRun=All", json=body, headers={"content-type": media, "user-agent": "likeness/1"}
    )
    warnings = (value.split('"', 1)[1].rstrip('"') for value in answer.headers.get_list("warning"))
    return Said(answer.status_code, answer.json(), tuple(w for w in warnings if not _ours_alone(w)))


def _settled(name: str, said: Said) -> Said:
    """Without what a cluster fills in, and who wrote it."""
    if said.code >= 300:
        return said
    body = copy.deepcopy(said.body)
    for path in ("metadata.managedFields", *OF_A_CLUSTER.get(name, ())):
        *way, last = path.split(".")
        target: Any = body
        for step in way:
            target = target[int(step)] if step.isdigit() else target.get(step, {})
        target.pop(last, None)
    return Said(said.code, body, said.warnings)


async def _ask_all(member: RealMember, folder: Path) -> Answers:
    async with (
        open_hub(folder, MemoryStore(WallClock())) as hub,
        hub.client() as ours,
        real_client(member) as real,
    ):
        for client in (real, ours):
            for path, kind, name in NEEDED:
                body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
                (await client.post(path, json=body)).raise_for_status()
        answers: Answers = {}
        for what, (name, path, body) in CREATED.items():
            answers[what] = name, await _said(real, "POST", path, body), await _said(ours, "POST", path, body)
        for name in dict(FROZEN):
            for client in (real, ours):
                (await client.post(SOUND[name][0], json=SOUND[name][1])).raise_for_status()
        for what, (name, change) in CHANGED.items():
            path = f"{SOUND[name][0]}/one"
            answers[what] = (
                name,
                await _said(real, "PATCH", path, change, MERGE),
                await _said(ours, "PATCH", path, change, MERGE),
            )
        for name in dict(FROZEN):
            await real.delete(f"{SOUND[name][0]}/one")
        return answers


@pytest.fixture(scope="module")
def answers(real_apiserver: RealMember, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """The answers to each case, from the real one and from ours."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _ask_all(real_apiserver, tmp_path_factory.mktemp("checks"))).result()


@pytest.mark.parametrize("what", [*CREATED, *CHANGED])
def test_the_answer_is_that_of_a_kube_apiserver(answers: Answers, what: str) -> None:
    name, real, ours = answers[what]
    found = differences(_settled(name, real), _settled(name, ours))
    allowed, _ = ACCEPTED.get(what, (set(), ""))
    assert found.keys() <= allowed, described(found)
    assert found.keys() == allowed, "what is accepted as a difference is none any more"


def test_what_is_wrong_is_refused_and_what_is_sound_is_not(answers: Answers) -> None:
    refused = {what for what, (_, real, _) in answers.items() if real.code == 422}
    assert {f"sound {name}" for name in SOUND}.isdisjoint(refused) and len(refused) > 180


def test_what_is_accepted_is_asked() -> None:
    assert set(ACCEPTED) <= {*CREATED, *CHANGED}
