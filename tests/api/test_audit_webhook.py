"""The receiver of audit events: batches, further tries, a bounded buffer, and its kubeconfig."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from prometheus_client import generate_latest
from structlog.testing import capture_logs

from api.audit.metrics import AuditMetrics
from api.audit.webhook import AuditWebhook, Receiver, read_receiver
from api.outgoing import AllowList, OutgoingClient
from fleet.simulate.wall import WallClock
from fleet.values.kubeconfig.document import BadKubeconfig, write
from tests.api.outgoing.server import serving
from tests.testbed.pki import Pki, make_pki


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pki]:
    yield make_pki(tmp_path_factory.mktemp("pki") / "pki")


class Taken:
    """A receiver. `answers`: the codes of its first answers."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.batches: list[dict[str, Any]] = []
        self.tokens: list[str | None] = []

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.json()
        code = self.answers.pop(0) if self.answers else 200
        self.tokens.append(request.headers.get("authorization"))
        if code == 200:
            self.batches.append(body)
        return web.Response(status=code)

    def items(self) -> list[Any]:
        return [item["number"] for batch in self.batches for item in batch["items"]]


class Counted:
    def __init__(self) -> None:
        self.metrics = AuditMetrics()

    def __call__(self, outcome: str) -> int:
        wanted = f'fleet_api_audit_events_total{{outcome="{outcome}",to="webhook"}} '
        lines = generate_latest(self.metrics.registry).decode().splitlines()
        return int(next(float(line.removeprefix(wanted)) for line in lines if line.startswith(wanted)))

    async def until(self, outcome: str, count: int) -> None:
        deadline = time.monotonic() + 20
        while self(outcome) != count:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)


@asynccontextmanager
async def sending(pki: Pki, taken: Taken, **options: Any) -> AsyncIterator[tuple[AuditWebhook, Counted]]:
    counted = Counted()
    async with serving(taken.handle, pki) as port, OutgoingClient(AllowList.parse(["127.0.0.0/8"])) as outgoing:
        receiver = Receiver(f"https://127.0.0.1:{port}/audit", {"authorization": "Bearer t"}, pki.ca.read_text())
        given = {"wait_s": 0.02, "pause_s": 0.01, **options}
        webhook = AuditWebhook(outgoing, receiver, counted.metrics.of("webhook"), WallClock(), **given)
        webhook.start()
        yield webhook, counted
        await webhook.stop()


def put(webhook: AuditWebhook, *numbers: int) -> None:
    for number in numbers:
        webhook.put(b'{"number":%d}' % number)


async def test_events_come_in_batches_in_their_order(pki: Pki) -> None:
    taken = Taken()
    async with sending(pki, taken) as (webhook, counted):
        put(webhook, *range(1000))
        await counted.until("Written", 1000)
    assert taken.items() == list(range(1000))
    assert [len(batch["items"]) for batch in taken.batches] == [400, 400, 200]
    assert {(batch["kind"], batch["apiVersion"]) for batch in taken.batches} == {("EventList", "audit.k8s.io/v1")}
    assert set(taken.tokens) == {"Bearer t"}


async def test_a_receiver_that_fails_is_asked_again(pki: Pki) -> None:
    taken = Taken(500, 429)
    async with sending(pki, taken) as (webhook, counted):
        put(webhook, 1)
        await counted.until("Written", 1)
    assert taken.items() == [1]
    assert len(taken.tokens) == 3


async def test_events_that_are_not_taken_are_lost_by_name(pki: Pki) -> None:
    taken = Taken(*[503] * 5, 400)
    with capture_logs() as said:
        async with sending(pki, taken) as (webhook, counted):
            put(webhook, 1)
            await counted.until("Unwritable", 1)
            put(webhook, 2)
            await counted.until("Unwritable", 2)
            put(webhook, 3)
            await counted.until("Written", 1)
    assert taken.items() == [3]
    assert [(entry["outcome"], entry["why"]) for entry in said] == [("Unwritable", "HTTP 503")]


async def test_a_full_buffer_loses_what_comes_next(pki: Pki) -> None:
    taken = Taken()
    async with sending(pki, taken, buffer_events=10) as (webhook, counted):
        put(webhook, *range(15))  # the loop has had no turn
        assert counted("Overflow") == 5
        await counted.until("Written", 10)
    assert taken.items() == list(range(10))


async def test_what_waits_is_sent_at_the_end(pki: Pki) -> None:
    taken = Taken()
    async with sending(pki, taken, wait_s=600.0) as (webhook, counted):
        put(webhook, 1, 2)
        await webhook.stop()
        assert (taken.items(), counted("Written")) == ([1, 2], 2)


async def test_a_receiver_that_is_away_at_the_end_holds_nobody(pki: Pki) -> None:
    taken = Taken(*[500] * 50)
    async with sending(pki, taken, pause_s=600.0) as (webhook, counted):
        put(webhook, 1)
        began = time.monotonic()
        await webhook.stop()
        assert time.monotonic() - began < 20
        assert counted("Unwritable") == 1


def kubeconfig(**cluster: Any) -> dict[str, Any]:
    text = write("https://audit.example/k", name="audit", user="hub", token="abc")
    document = yaml.safe_load(text)
    document["clusters"][0]["cluster"].update(cluster)
    return dict(document)


def test_a_kubeconfig_names_the_receiver(pki: Pki, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(pki.ca.read_bytes())
    (tmp_path / "token").write_text("from-file\n")
    document = kubeconfig(**{"certificate-authority": "ca.crt", "tls-server-name": "inside"})
    found = read_receiver(yaml.safe_dump(document), tmp_path)
    assert (found.url, found.server_name, found.ca) == ("https://audit.example/k", "inside", pki.ca.read_text())
    assert found.headers == {"content-type": "application/json", "authorization": "Bearer abc"}
    document["users"][0]["user"] = {"tokenFile": "token"}
    assert read_receiver(yaml.safe_dump(document), tmp_path).headers["authorization"] == "Bearer from-file"
    document["users"][0]["user"] = {"username": "a", "password": "b"}
    assert read_receiver(yaml.safe_dump(document), tmp_path).headers["authorization"] == (
        f"Basic {base64.b64encode(b'a:b').decode()}"
    )


@pytest.mark.parametrize(
    ("cluster", "user", "field"),
    [
        ({"server": "http://audit.example"}, {}, "clusters[0].cluster.server"),
        ({"insecure-skip-tls-verify": True}, {}, "clusters[0].cluster.insecure-skip-tls-verify"),
        ({"certificate-authority": "none.crt"}, {}, "clusters[0].cluster.certificate-authority"),
        ({"certificate-authority-data": "eA=="}, {}, "clusters[0].cluster.certificate-authority"),
        ({"tls-server-name": 5}, {}, "clusters[0].cluster.tls-server-name"),
        ({}, {"client-certificate-data": "eA=="}, "users[0].user.client-certificate-data"),
        ({}, {"token": 5}, "users[0].user.token"),
        ({}, {"token": "a\nb"}, "users[0].user.token"),
        ({}, {"tokenFile": "none"}, "users[0].user.tokenFile"),
        ({}, {"tokenFile": "\x00"}, "users[0].user.tokenFile"),
        ({}, {"exec": {"command": "x"}}, "users[0].user.exec"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_names_its_field(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], field: str
) -> None:
    document = kubeconfig(**cluster)
    document["users"][0]["user"] = user
    with pytest.raises(BadKubeconfig) as bad:
        read_receiver(json.dumps(document), tmp_path)
    assert bad.value.field == field
