"""Deliveries to a real HTTPS server and a real mail server, and what is said of each that fails."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from aiohttp import web

from api.outgoing import AllowList, OutgoingClient
from fleet.core.model.notificationevent import NotificationEvent
from fleet.notify.happening import Happening
from fleet.notify.receiver import receiver_of
from fleet.notify.sender import DeliveryFailure, Sender
from tests.api.outgoing.server import serving
from tests.notify import mailserver
from tests.testbed.pki import Pki

FAILED = Happening(
    NotificationEvent.FAILED,
    1000.0,
    "5e1",
    "vision",
    "train",
    "PyTorchJob",
    number=2,
    user="ada",
    queue="root/vision",
    gpus=8,
    submitted=100.0,
    member="cfa",
    why="JobFailed",
    message="exit <code> 1",
)
SECRETS: Mapping[tuple[str, str], Mapping[str, bytes]] = {
    ("vision", "hook"): {
        "url": b"https://localhost:PORT/secret-path\n",
        "key": b"whsec_" + b64encode(b"shared"),
        "bad": b"whsec_?",
    },
    ("vision", "mail"): {"username": b"fleet", "password": b"secret"},
    ("vision", "wrong"): {"username": b"fleet", "password": b"guess"},
}


def sender(outgoing: OutgoingClient, port: int) -> Sender:
    def secrets(namespace: str, name: str) -> Mapping[str, bytes] | None:
        found = SECRETS.get((namespace, name))
        return found and {key: value.replace(b"PORT", str(port).encode()) for key, value in found.items()}

    return Sender(outgoing, secrets)


def receiver(**spec: Any) -> Any:
    return receiver_of({"metadata": {"namespace": "vision", "name": "chat"}, "spec": spec})


async def test_a_webhook_gets_signed_json_under_the_same_id_each_time(outgoing: OutgoingClient, pki: Pki) -> None:
    got: list[tuple[str, Mapping[str, str], bytes]] = []

    async def handler(request: web.Request) -> web.Response:
        got.append((request.path, dict(request.headers), await request.read()))
        return web.Response()

    async with serving(handler, pki) as port:
        to = receiver(
            webhook={
                "urlFrom": {"name": "hook", "key": "url"},
                "signingKey": {"name": "hook", "key": "key"},
                "caBundle": pki.ca.read_text(),
            }
        )
        for now in (1001.0, 1002.0):
            await sender(outgoing, port).send(to, "n1", FAILED, now)
    (path, headers, body), (_, again, same) = got
    assert path == "/secret-path"
    assert (headers["webhook-id"], headers["webhook-timestamp"], again["webhook-id"]) == ("n1", "1001", "n1")
    assert body == same
    version, _, signature = headers["webhook-signature"].partition(",")
    assert (version, b64decode(signature)) == ("v1", hmac.digest(b"shared", b"n1.1001." + body, "sha256"))
    said = orjson.loads(body)
    assert (said["type"], said["timestamp"]) == ("job.failed", "1970-01-01T00:16:40Z")
    assert said["data"]["text"] == "PyTorchJob vision/train (8 GPUs) has failed in cfa: exit <code> 1"
    assert (said["data"]["event"], said["data"]["attempt"], said["data"]["reason"]) == ("Failed", 2, "JobFailed")


async def test_slack_gets_a_text_without_markup_of_others(outgoing: OutgoingClient, pki: Pki) -> None:
    got: list[bytes] = []

    async def handler(request: web.Request) -> web.Response:
        got.append(await request.read())
        return web.Response()

    async with serving(handler, pki) as port:
        web_ = {"url": f"https://localhost:{port}/", "format": "Slack", "caBundle": pki.ca.read_text()}
        await sender(outgoing, port).send(receiver(webhook=web_), "n1", FAILED, 1001.0)
    assert orjson.loads(got[0]) == {"text": "PyTorchJob vision/train (8 GPUs) has failed in cfa: exit &lt;code&gt; 1"}


@pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")  # of the mail server; all is TLS there
@pytest.mark.parametrize("implicit", [False, True], ids=["StartTLS", "Implicit"])
async def test_a_mail_server_gets_a_mail_over_tls(outgoing: OutgoingClient, pki: Pki, implicit: bool) -> None:
    async with mailserver.serving(pki, implicit=implicit) as mailbox:
        to = receiver(
            smtp={
                "host": "localhost",
                "port": mailbox.port,
                "from": "fleet@example.com",
                "to": ["ada@example.com", "b@c.d"],
                "login": {"name": "mail"},
                "caBundle": pki.ca.read_text(),
                "tls": "Implicit" if implicit else "StartTLS",
            }
        )
        await sender(outgoing, 0).send(to, "n1", FAILED, 1001.0)
    (mail,) = mailbox.got
    assert (mail["subject"], mail["to"]) == ("[Fleet] vision/train has failed", "ada@example.com, b@c.d")
    assert mail["message-id"] == "<n1@fleet>"
    assert "PyTorchJob vision/train (8 GPUs) has failed in cfa: exit <code> 1" in mail.get_content()


async def answered(request: web.Request) -> web.Response:
    return web.Response(status=503, text="a text that is not ours to show")


@pytest.mark.parametrize(
    ("webhook", "why"),
    [
        ({"url": "https://localhost:PORT/"}, "it answers HTTP 503"),
        ({"urlFrom": {"name": "none", "key": "url"}}, "there is no Secret vision/none of type fleet.io/notification"),
        ({"urlFrom": {"name": "hook", "key": "none"}}, "the Secret vision/hook has no key none"),
        (
            {"url": "https://localhost:PORT/", "signingKey": {"name": "hook", "key": "bad"}},
            "the signing key is no base64 after whsec_",
        ),
        ({"url": "https://localhost:1/"}, "it takes no connection"),
        ({"url": "https://localhost:PORT/", "caBundle": None}, "its certificate is not trusted"),
    ],
)
async def test_a_webhook_that_does_not_take_it(
    outgoing: OutgoingClient, pki: Pki, webhook: dict[str, Any], why: str
) -> None:
    async with serving(answered, pki) as port:
        given = {"caBundle": pki.ca.read_text(), **webhook}
        if "url" in given:
            given["url"] = given["url"].replace("PORT", str(port))
        with pytest.raises(DeliveryFailure) as refused:
            await sender(outgoing, port).send(receiver(webhook=given), "n1", FAILED, 1001.0)
    assert str(refused.value) == why


@pytest.mark.parametrize(
    ("login", "tls", "trusted", "why"),
    [
        ("wrong", True, True, "the mail server refuses the login"),
        ("mail", False, True, "the mail server closes the connection, or offers no TLS"),
        ("mail", True, False, "its certificate is not trusted"),
    ],
)
async def test_a_mail_server_that_does_not_take_it(
    outgoing: OutgoingClient, pki: Pki, login: str, tls: bool, trusted: bool, why: str
) -> None:
    async with mailserver.serving(pki, tls=tls) as mailbox:
        to = receiver(
            smtp={
                "host": "localhost",
                "port": mailbox.port,
                "from": "fleet@example.com",
                "to": ["ada@example.com"],
                "login": {"name": login},
                **({"caBundle": pki.ca.read_text()} if trusted else {}),
            }
        )
        with pytest.raises(DeliveryFailure) as refused:
            await sender(outgoing, 0).send(to, "n1", FAILED, 1001.0)
    assert (str(refused.value), mailbox.got) == (why, [])


async def test_no_connection_goes_to_an_address_that_is_not_public(pki: Pki) -> None:
    async with mailserver.serving(pki) as mailbox, OutgoingClient(AllowList.parse([])) as closed:
        to = receiver(smtp={"host": "127.0.0.1", "port": mailbox.port, "from": "a@b.c", "to": ["a@b.c"]})
        with pytest.raises(DeliveryFailure, match="is not public"):
            await sender(closed, 0).send(to, "n1", FAILED, 1001.0)
