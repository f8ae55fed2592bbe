"""CRDs of several versions, at a real kube-apiserver and at ours: the same answers to the same requests.

An accepted difference that has become untrue fails too.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from api.objects.converting import Conversions
from api.objects.crds import follow_crds
from api.outgoing import AllowList, OutgoingClient
from api.store.memory import MemoryStore
from fleet.simulate.wall import RandomIds, WallClock
from tests.api.conftest import open_hub
from tests.api.converters import GROUP, RESPONSES, Body, Converters, converter_server, hooked_crd
from tests.api.likeness import MERGE, Ask, Asker, Said, described, differences
from tests.api.realserver import RealServer, real_server
from tests.api.version_cases import AGED, CONVERSIONS, CRDS, MANAGED, MOVED, SEVERAL, Until
from tests.testbed.pki import make_pki

pytestmark = pytest.mark.xdist_group("real-apiserver")

TRIES = 600
BROKEN = ("garbage", "absent", "another-group", "broken")
HOOKED = [*RESPONSES, *BROKEN]
# The text has nothing in it that the webhook sent, and is not that of Go's JSON reader.
OWN_WORDS = ("other-answer", "garbage", "another-group", "broken")
Answers = dict[str, list[tuple[Ask, Said, Said]]]


def _hooked(converters: Converters, path: str) -> list[Ask | Until]:
    """The requests to objects that the webhook at the path converts. They are stored in v1."""
    plural = path.replace("-", "") + "s"
    one, two = (f"/apis/{GROUP}/{version}/{plural}" for version in ("v1", "v2"))
    metadata = {"name": "a", "labels": {"a": "b"}}
    return [
        Ask("the CRD", "POST", CRDS, hooked_crd(converters, path)),
        *(Until(Ask("", "GET", f"{collection}/none"), 404, '"name":"none"') for collection in (one, two)),
        Ask(
            "create in v1",
            "POST",
            one,
            {
                "kind": plural[:-1].capitalize(),
                "apiVersion": f"{GROUP}/v1",
                "metadata": metadata,
                "spec": {"host": "h"},
            },
        ),
        Ask("read in v1", "GET", f"{one}/a"),
        Ask("read in v2", "GET", f"{two}/a"),
        Ask(
            "create in v2",
            "POST",
            two,
            {
                "kind": plural[:-1].capitalize(),
                "apiVersion": f"{GROUP}/v2",
                "metadata": {"name": "b"},
                "spec": {"address": "g:1"},
            },
        ),
        Ask("change in v2", "PATCH", f"{two}/a", {"spec": {"address": "i:2"}}, MERGE),
        Ask("read in v1 again", "GET", f"{one}/a"),
        Ask("delete in v2", "DELETE", f"{two}/a"),
    ]


def _comparable(said: Said) -> Said:
    """Without what differs for reasons that other tests name: a CRD's own managedFields, finalizers and conditions,
    the order of discovery, an empty token of the next page, and the body for a version that is not served. A
    kube-apiserver drops all managedFields where a version lacks a field of another one."""
    body = said.body
    if isinstance(body, str):
        return Said(said.code, "", said.warnings)
    if isinstance(body, list):
        return Said(said.code, [{**event, "object": _without_managers(event["object"])} for event in body])
    match body.get("kind"):
        case "CustomResourceDefinition":
            body = {"spec": body["spec"]}
        case "APIResourceList":
            body = {**body, "resources": sorted(body["resources"], key=lambda found: str(found["name"]))}
            body["resources"] = [{**found, "verbs": sorted(found["verbs"])} for found in body["resources"]]
        case "Status" if said.code == 404 and not body.get("details"):
            body = ""
        case "Table":
            rows = [{**row, "object": _without_managers(row["object"])} for row in body["rows"]]
            body = {**body, "rows": rows, "metadata": {}}
        case _ if "items" in body:
            metadata = {key: value for key, value in body["metadata"].items() if key != "continue"}
            body = {**body, "metadata": metadata, "items": [_without_managers(item) for item in body["items"]]}
        case _:
            body = _without_managers(body)
    return Said(said.code, body, said.warnings)


def _without_managers(body: Body) -> Body:
    metadata = {key: value for key, value in (body.get("metadata") or {}).items() if key != "managedFields"}
    return {**body, "metadata": metadata}


async def _until(asker: Asker, until: Until) -> None:
    text = ""
    for _ in range(TRIES):
        said = await asker.ask(until.ask)
        text = httpx.Response(200, json=said.body).text if not isinstance(said.body, str) else said.body
        if said.code == until.code and until.text in text and not (until.absent and until.absent in text):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{until}: {text}")


async def _asked(askers: Sequence[Asker], asks: Sequence[Ask | Until]) -> list[tuple[Ask, Said, Said]]:
    answers = []
    for ask in asks:
        if isinstance(ask, Until):
            await asyncio.gather(*(_until(asker, ask) for asker in askers))
        else:
            real, ours = await asyncio.gather(*(asker.ask(ask) for asker in askers))
            answers.append((ask, real, ours))
    return answers


async def _ask_all(server: RealServer) -> Answers:
    trust = ssl.create_default_context(cafile=str(server.ca))
    headers = {"authorization": f"Bearer {server.token}"}
    async with (
        converter_server(make_pki(server.folder / "hooks")) as converters,
        open_hub(server.folder, MemoryStore(WallClock())) as hub,
        OutgoingClient(AllowList.parse([f"127.0.0.1:{converters.port}"])) as outgoing,
        hub.client() as ours,
        httpx.AsyncClient(base_url=server.url, headers=headers, verify=trust, timeout=60) as real,
    ):
        hub.objects.versions.converter = Conversions(outgoing, hub.store, RandomIds())
        following = asyncio.create_task(follow_crds(hub.store, hub.registry))
        try:
            askers = Asker(real), Asker(ours)
            cases = {"several": [*SEVERAL, *MOVED], "aged": AGED, "managed": MANAGED, "conversions": CONVERSIONS}
            cases |= {path: _hooked(converters, path) for path in HOOKED}
            answers = await asyncio.gather(*(_asked(askers, asks) for asks in cases.values()))
            return dict(zip(cases, answers, strict=True))
        finally:
            following.cancel()


@pytest.fixture(scope="module")
def answers() -> Iterator[Answers]:
    with real_server("versions") as server, ThreadPoolExecutor(1) as thread:
        yield thread.submit(asyncio.run, _ask_all(server)).result()


@pytest.mark.parametrize("case", ["several", "aged", "managed", "conversions", *HOOKED])
def test_versions_are_served_as_by_a_kube_apiserver(answers: Answers, case: str) -> None:
    found, accepted = set[str](), {"message"} if case in OWN_WORDS else set[str]()
    for ask, *both in answers[case]:
        pair = both if case == "managed" and ask.method == "PATCH" else [_comparable(said) for said in both]
        different = differences(*pair)
        assert different.keys() <= accepted, f"{ask.what}:\n{described(different)}"
        found |= different.keys()
    assert found == accepted, "what is accepted as a difference is none any more"
