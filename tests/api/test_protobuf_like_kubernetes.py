"""Protobuf against a real kube-apiserver: its objects in both forms, and the form that it gives to each request."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from api.objects.crds import follow_crds
from api.store.memory import MemoryStore
from api.wire.protobuf import decode, encode_kind, kind_message
from fleet.simulate.wall import WallClock
from tests.api.conftest import open_hub
from tests.api.protobodies import frames, inside, lost, settled
from tests.api.protobuf_kinds import OBJECTS
from tests.api.realserver import real_server

pytestmark = pytest.mark.xdist_group("real-apiserver")

PROTOBUF = "application/vnd.kubernetes.protobuf"
WIDGETS = "/apis/proto.example.com/v1/namespaces/default/widgets"
MAPS = "/api/v1/namespaces/default/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AS = "g=meta.k8s.io;v=v1"
ACCEPTS = (
    PROTOBUF,
    f"{PROTOBUF},application/json",
    f"application/json,{PROTOBUF}",
    f"{PROTOBUF};q=0.1,application/json;q=0.9",
    f"{PROTOBUF}, */*",
    f"{PROTOBUF};stream=watch",
    f"{PROTOBUF};stream=other",
    f"{PROTOBUF};as=Table;{AS}",
    f"{PROTOBUF};as=Table;{AS},application/json",
    f"application/json;as=Table;{AS},{PROTOBUF}",
    f"{PROTOBUF};as=PartialObjectMetadata;{AS}",
    f"{PROTOBUF};as=PartialObjectMetadataList;{AS}",
    f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v9",
)
PATHS = (
    f"{MAPS}/one-configmaps",
    MAPS,
    f"{MAPS}/missing",
    WIDGETS,
    f"{WIDGETS}/missing",
    "/api",
    "/apis",
    "/api/v1",
    "/apis/batch",
    "/apis/batch/v1",
    f"{MAPS}?watch=1&timeoutSeconds=1",
    f"{WIDGETS}?watch=1&timeoutSeconds=1",
    f"{MAPS}?resourceVersion=word",
)


@dataclass
class Answers:
    """What both servers said. `objects`: the real one's, by kind, in protobuf and in JSON."""

    objects: dict[str, tuple[bytes, Any]] = field(default_factory=dict)
    lists: dict[str, tuple[bytes, Any]] = field(default_factory=dict)
    watch: bytes = b""
    forms: dict[tuple[str, str], tuple[tuple[int, str], tuple[int, str]]] = field(default_factory=dict)


def _request() -> str:
    """A certificate request, as text in base64."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "one")])
    made = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(name)
        .sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    )
    return b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


async def _fill(real: httpx.AsyncClient, answers: Answers) -> None:
    for path, body in OBJECTS:
        if body["kind"] == "CertificateSigningRequest":
            body = {**body, "spec": {**body["spec"], "request": _request()}}
        made = await real.post(path, json=body)
        assert made.status_code == 201, made.text
        one = f"{path}/{body['metadata']['name']}"
        for _ in range(20):  # a controller may write between the two reads
            binary = (await real.get(one, headers={"accept": PROTOBUF})).content
            plain = (await real.get(one)).json()
            if decode(binary)["metadata"]["resourceVersion"] == plain["metadata"]["resourceVersion"]:
                break
        answers.objects[body["kind"]] = binary, plain
    path = f"{MAPS}?resourceVersion=0"
    answers.lists["ConfigMap"] = (
        (await real.get(path, headers={"accept": PROTOBUF})).content,
        (await real.get(path)).json(),
    )
    headers = {"accept": f"{PROTOBUF};stream=watch"}
    answers.watch = (await real.get(f"{MAPS}?watch=1&timeoutSeconds=1", headers=headers)).content


async def _forms(real: httpx.AsyncClient, ours: httpx.AsyncClient, answers: Answers) -> None:
    """Which form each server gives, on objects that both have."""
    wanted = [body for _, body in OBJECTS if body["kind"] in ("ConfigMap", "CustomResourceDefinition")]
    for body in wanted:
        path = MAPS if body["kind"] == "ConfigMap" else CRDS
        assert (await ours.post(path, json=body)).status_code == 201
    for client in (real, ours):
        for _ in range(600):
            if (await client.get(WIDGETS)).status_code == 200:
                break
            await asyncio.sleep(0.05)

    async def one(path: str, accept: str) -> None:
        said = [await client.get(path, headers={"accept": accept}) for client in (real, ours)]
        theirs, mine = ((a.status_code, a.headers.get("content-type", "").partition(";as=")[0]) for a in said)
        answers.forms[path, accept] = theirs, mine

    await asyncio.gather(*(one(path, accept) for path in PATHS for accept in ACCEPTS))


async def _ask(url: str, ca: str, folder: Path) -> Answers:
    answers = Answers()
    trust, headers = ssl.create_default_context(cafile=ca), {"authorization": "Bearer admin-token"}
    async with (
        open_hub(folder, MemoryStore(WallClock())) as hub,
        hub.client() as ours,
        httpx.AsyncClient(base_url=url, headers=headers, verify=trust, timeout=20) as real,
    ):
        follower = asyncio.create_task(follow_crds(hub.store, hub.registry))
        try:
            await _fill(real, answers)
            await _forms(real, ours, answers)
        finally:
            follower.cancel()
    return answers


@pytest.fixture(scope="module")
def answers() -> Iterator[Answers]:
    with real_server("protobuf") as server, ThreadPoolExecutor(1) as thread:
        yield thread.submit(asyncio.run, _ask(server.url, str(server.ca), server.folder)).result()


@pytest.mark.parametrize("kind", [body["kind"] for _, body in OBJECTS])
def test_an_object_is_read_and_written_as_the_real_one_does(answers: Answers, kind: str) -> None:
    binary, plain = answers.objects[kind]
    assert list(lost(decode(binary), plain)) == []
    name = kind_message(plain["apiVersion"], kind)
    assert name is not None
    assert settled(encode_kind(plain), name) == settled(inside(binary), name)


def test_a_list_and_a_watch_are_those_of_the_real_one(answers: Answers) -> None:
    binary, plain = answers.lists["ConfigMap"]
    found = decode(binary)
    assert list(lost(found["items"], plain["items"])) == [] and found["items"]
    mine = encode_kind({**plain, "metadata": found["metadata"]})
    assert settled(mine, "core.v1.ConfigMapList") == settled(inside(binary), "core.v1.ConfigMapList")
    events = list(frames(answers.watch))
    assert [(event, body["kind"]) for event, body in events][:1] == [("ADDED", "ConfigMap")]
    names = [body["metadata"]["name"] for _, body in events]
    assert sorted(names) == sorted(item["metadata"]["name"] for item in plain["items"])


def test_the_form_of_each_answer_is_that_of_the_real_one(answers: Answers) -> None:
    wrong = {key: pair for key, pair in answers.forms.items() if pair[0] != pair[1]}
    assert wrong == {}, "\n".join(map(str, wrong.items()))
    assert len(answers.forms) == len(PATHS) * len(ACCEPTS)
