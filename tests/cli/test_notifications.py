"""The whole way of notifications: jobs of a real hub, a webhook that fails and comes back, and a mail server."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from tests.api.outgoing.server import serving
from tests.cli.hub import Up, refusal, until
from tests.cli.hub import fleet as in_a_process
from tests.cli.manifests import QUOTA, job, policy
from tests.cli.runner import Told
from tests.notify import mailserver
from tests.testbed.pki import Pki, make_pki

RECEIVERS = "/apis/config.fleet.io/v1alpha1/namespaces/default/notificationreceivers"
SECRETS, POLICIES = "/api/v1/namespaces/default/secrets", "/apis/policy.one.alibabacloud.com/v1alpha1"
TREES = "/apis/scheduling.sigs.k8s.io/v1beta1/namespaces/kube-system/elasticquotatrees"
EVENTS = {("good", "Started"), ("good", "Succeeded"), ("bad", "Started"), ("bad", "Failed")}
STARTED = {("good", "Started"), ("bad", "Started")}
PODS = "/apis/cluster.karmada.io/v1alpha1/clusters/cfa/proxy/api/v1/namespaces/default/pods"
UNKNOWN = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    running = Up(tmp_path / "hub", "--members", "1", "--nodes", "2", "--outgoing-allow", "127.0.0.0/8")
    try:
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()


def waiting(name: str) -> dict[str, Any]:
    """A job that runs until `finish`; when its pod fails, it has failed."""
    body = job(name)
    body["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] = "Never"
    return body


def finish(up: Up, name: str, code: int) -> None:
    """The pods of the job end in their member."""
    body = {"metadata": {"annotations": {"testbed/run-for": "0s", "testbed/exit-code": str(code)}}}
    labelled = f"{PODS}?labelSelector=training.kubeflow.org/job-name%3D{name}"
    [pod] = up.hub.request("GET", labelled).body["items"]
    up.hub.request("PATCH", f"{PODS}/{pod['metadata']['name']}", body, content_type="application/merge-patch+json")


def put(up: Up, pki: Pki, web_port: int, mail_port: int) -> None:
    """The receivers `chat` and `mail` of all jobs, with their Secrets, and a queue."""
    hub, ca = up.hub, pki.ca.read_text()
    for name, data in (("key", {"key": b"shared"}), ("login", {"username": b"fleet", "password": b"secret"})):
        encoded = {key: b64encode(value).decode() for key, value in data.items()}
        hub.put_object(SECRETS, {"metadata": {"name": name}, "type": "fleet.io/notification", "data": encoded})
    smtp = {
        "host": "127.0.0.1",
        "port": mail_port,
        "from": "fleet@example.com",
        "to": ["ada@example.com"],
        "login": {"name": "login"},
        "caBundle": ca,
    }
    hook = {"url": f"https://127.0.0.1:{web_port}/", "caBundle": ca, "signingKey": {"name": "key", "key": "key"}}
    told = {"selector": {}, "events": ["Started", "Succeeded", "Failed"]}
    for name, spec in (("chat", {**told, "webhook": hook}), ("mail", {"selector": {}, "smtp": smtp})):
        body = {"apiVersion": "config.fleet.io/v1alpha1", "kind": "NotificationReceiver", "metadata": {"name": name}}
        hub.put_object(RECEIVERS, {**body, "spec": spec})
    hub.put_object(TREES, QUOTA)
    hub.put_object(f"{POLICIES}/namespaces/default/propagationpolicies", policy())
    for body in (waiting("good"), waiting("bad")):
        hub.put_object("/apis/kubeflow.org/v1/namespaces/default/pytorchjobs", body)


async def test_jobs_are_told_of_though_a_receiver_fails_for_a_while(up: Up, tmp_path: Path) -> None:
    pki, fleet = make_pki(tmp_path / "pki"), Told(up.folder)
    got: list[tuple[dict[str, str], bytes]] = []
    refusing = [True]

    async def handler(request: web.Request) -> web.Response:
        got.append(({name.lower(): value for name, value in request.headers.items()}, await request.read()))
        return web.Response(status=503 if refusing[0] else 204)

    def listed(*words: str) -> list[Any]:
        found: list[Any] = json.loads(fleet("notifications", "-o", "json", *words).stdout)
        return found

    def findings() -> list[str]:
        return [
            one["name"] for one in json.loads(fleet("doctor", "-o", "json").stdout) if one["check"] == "notifications"
        ]

    def fails() -> None:
        until("both run", lambda: {_of(one) for one in listed("--receiver", "chat")} == STARTED)
        finish(up, "good", 0)
        finish(up, "bad", 1)
        until("all are entered", lambda: {_of(one) for one in listed("--receiver", "chat", "--failed")} == EVENTS)
        refused = {("Retrying", "it answers HTTP 503")}
        until("their errors", lambda: {(one["state"], one["error"]) for one in listed("--failed")} == refused)
        until("doctor knows", lambda: findings() == ["chat"])
        table = fleet("notifications", "--failed", "-A").stdout.splitlines()
        assert table[0].split()[:4] == ["NAMESPACE", "RECEIVER", "JOB", "EVENT"]
        assert len(table) == 5 and all("it answers HTTP 503" in line for line in table[1:])
        until("mails", lambda: {_of(one) for one in listed("--state", "delivered")} == EVENTS - STARTED)

    def comes_back() -> None:
        said = fleet("notifications", "retry", "--receiver", "chat").stdout  # some may have had their turn by now
        assert re.fullmatch(r"(\d notifications? tried again|no notification has failed)\n", said)
        until("all are delivered", lambda: {one["state"] for one in listed()} == {"Delivered"})
        until("doctor knows", lambda: findings() == [])
        assert fleet("notifications", "--failed").stderr == "No such notifications in default namespace\n"
        assert fleet("notifications", "retry").stdout == "no notification has failed\n"

    async with serving(handler, pki) as port, mailserver.serving(pki) as mailbox:
        await asyncio.to_thread(put, up, pki, port, mailbox.port)
        await asyncio.to_thread(fails)
        refusing[0] = False
        before = len(got)
        await asyncio.to_thread(comes_back)
    assert {message["Subject"] for message in mailbox.got} == {
        "[Fleet] default/good has succeeded",
        "[Fleet] default/bad has failed",
    }
    assert {
        (said["name"], said["event"]) for said in (orjson.loads(body)["data"] for _, body in got[before:])
    } == EVENTS
    assert len({headers["webhook-id"] for headers, _ in got}) == 4, "each try has the id of the first"
    for headers, body in got:
        over = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        version, _, signature = headers["webhook-signature"].partition(",")
        assert (version, b64decode(signature)) == ("v1", hmac.digest(b"shared", over, "sha256"))
    wrong = in_a_process("notifications", "retry", UNKNOWN, "--data-dir", str(up.folder))
    assert "0 of 1 tried again: no failed notification of namespace default has another ID" in refusal(wrong)


def _of(one: dict[str, Any]) -> tuple[str, str]:
    return one["job"]["name"], one["event"]
