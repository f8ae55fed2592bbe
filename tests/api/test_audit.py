"""What the API says to the audit log: each face, each stage, and never a secret."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.access.auth import StaticTokens
from api.access.rbac import AllowAll
from api.audit.face import Audit
from api.audit.policy import parse
from api.objects.writing import User
from api.store.memory import MemoryStore
from api.wire.protobuf.answers import whole
from fleet.controllers.decide.manifestunits import unit_in
from fleet.hub.face import hub_app
from fleet.rest.mount import PREFIX, RestFace
from fleet.simulate.wall import WallClock
from tests.api.conftest import Hub, open_hub
from tests.api.sink import Kept

EVERYTHING = b"{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: RequestResponse}]}"
MAPS, SECRETS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/secrets"
HUSH = "hush-hush"
DATA = "aHVzaC1odXNo"  # the same in base64


class Audited:
    """A hub whose audit log is a list."""

    def __init__(self, hub: Hub, kept: Kept) -> None:
        self.hub, self.kept = hub, kept

    async def events(self, audit_id: str) -> list[Any]:
        """The events of a request that is over."""
        deadline = asyncio.get_running_loop().time() + 20
        while True:
            events = [json.loads(line) for line in self.kept.lines]
            found = [event for event in events if event["auditID"] == audit_id]
            if found and (found[-1]["stage"] in ("ResponseComplete", "Panic") or not found[-1]["user"]):
                return found
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.01)

    async def asked(self, method: str, path: str, *, token: str = "admin-token", **more: Any) -> tuple[Any, list[Any]]:
        """The answer to a request, and its events."""
        async with self.hub.client(token) as client:
            answer = await client.request(method, path, **more)
        audit_id = dict(answer.headers.raw)[b"audit-id"].decode("latin-1")  # httpx takes it for UTF-8 where it may be
        return answer, await self.events(audit_id)


@pytest.fixture
async def audited(tmp_path: Path) -> AsyncIterator[Audited]:
    kept, clock = Kept(), WallClock()
    async with open_hub(tmp_path, MemoryStore(clock), Audit(parse(EVERYTHING), [kept], clock)) as hub:
        yield Audited(hub, kept)


async def test_every_answer_has_an_id_without_a_policy_too(hub: Hub) -> None:
    async with hub.client() as client:
        first, second = await client.get("/readyz"), await client.get("/nothing")
        own = await client.get("/api", headers={"audit-id": "mine"})
        long = await client.get("/api", headers={"audit-id": "x" * 300})
    ids = [answer.headers["audit-id"] for answer in (first, second, long)]
    assert own.headers["audit-id"] == "mine"
    assert len(set(ids)) == 3 and all(len(one) == 36 for one in ids)


async def test_bodies_in_protobuf_and_yaml_are_logged_as_json(audited: Audited) -> None:
    body = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "m"}, "data": {"a": "1"}}
    binary = "application/vnd.kubernetes.protobuf"
    _, (_, event) = await audited.asked(
        "POST", MAPS, content=whole(body), headers={"content-type": binary, "accept": binary}
    )
    assert event["requestObject"]["data"] == event["responseObject"]["data"] == {"a": "1"}
    yaml = {"content-type": "application/yaml", "accept": "application/yaml"}
    _, (_, event) = await audited.asked(
        "PUT", f"{MAPS}/m", content=b"kind: ConfigMap\nmetadata: {name: m}\ndata: {b: '2'}", headers=yaml
    )
    assert event["requestObject"]["data"] == event["responseObject"]["data"] == {"b": "2"}
    _, (_, event) = await audited.asked("GET", MAPS, headers={"accept": binary})
    assert event["responseObject"]["items"][0]["metadata"]["name"] == "m"


SECRET = {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}, "stringData": {"a": HUSH}}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", SECRETS, SECRET),
        ("POST", MAPS, SECRET),
        ("POST", MAPS, {"kind": "List", "items": [SECRET]}),
        ("PATCH", f"{SECRETS}/kept", {"data": {"b": DATA}}),
        ("PATCH", f"{SECRETS}/kept", {"data": {"b": HUSH}}),
        ("PUT", f"{SECRETS}/kept", {**SECRET, "metadata": {"name": "kept"}}),
        ("POST", SECRETS, {**SECRET, "data": HUSH}),
        ("POST", SECRETS, {**SECRET, "data": {"a": [HUSH]}}),
        ("POST", SECRETS, {**SECRET, HUSH: HUSH}),
        ("GET", f"{SECRETS}/kept", None),
        ("GET", SECRETS, None),
        ("DELETE", f"{SECRETS}/kept", None),
        ("GET", f"{MAPS}?token={HUSH}&access_token={HUSH}", None),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "alice-token"}}),
        ("POST", "/api/v1/namespaces/default/serviceaccounts/robot/token", {}),
    ],
)
async def test_no_event_has_a_secret(audited: Audited, method: str, path: str, body: Any) -> None:
    async with audited.hub.client() as client:
        stored = {**SECRET, "metadata": {"name": "kept"}}
        (await client.post(SECRETS, json=stored)).raise_for_status()
        account = {"metadata": {"name": "robot"}}
        (await client.post("/api/v1/namespaces/default/serviceaccounts", json=account)).raise_for_status()
    media = "application/merge-patch+json" if method == "PATCH" else "application/json"
    content = None if body is None else json.dumps(body)
    answer, events = await audited.asked(method, path, content=content, headers={"content-type": media})
    assert [event["stage"] for event in events] == ["RequestReceived", "ResponseComplete"]
    assert events[-1]["responseStatus"]["code"] == answer.status_code
    logged = b"\n".join(audited.kept.lines).decode()
    assert HUSH not in logged and DATA not in logged and "alice-token" not in logged
    assert not re.search(r"eyJ[A-Za-z0-9_-]{10}", logged), "a token that the hub has signed"
    assert "stringData" not in logged


async def test_refused_credentials_are_one_event_without_them(audited: Audited) -> None:
    answer, (event,) = await audited.asked("GET", MAPS, token=f"{HUSH}-token")
    assert answer.status_code == 401
    assert (event["stage"], event["user"], event["responseStatus"]["code"]) == ("ResponseStarted", {}, 401)
    assert HUSH not in json.dumps(event)


async def test_a_bug_is_the_stage_panic(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError(HUSH)

    monkeypatch.setattr(audited.hub.objects, "create", broken)
    answer, events = await audited.asked("POST", MAPS, json={"metadata": {"name": "m"}})
    assert answer.status_code == 500
    assert [event["stage"] for event in events] == ["RequestReceived", "Panic"]
    assert events[1]["responseStatus"]["reason"] == "InternalError"
    assert HUSH not in json.dumps(events)


async def test_requests_of_the_rest_face_are_logged_without_bodies(hub: Hub) -> None:
    kept, clock = Kept(), WallClock()
    app = hub_app(
        hub.objects,
        hub.store,
        hub.registry,
        clock=clock,
        authorizer=AllowAll(),
        authenticator=StaticTokens({"t": User("ann", ("dev",))}),
        audit=Audit(parse(EVERYTHING), [kept], clock),
        mounts={PREFIX: RestFace(hub.objects, hub.store, hub.registry, partial(unit_in, hub.store))},
    )
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="https://hub") as client:
        headers = {"authorization": "Bearer t"}
        jobs = await client.get(f"{PREFIX}/jobs", headers=headers)
        refused = await client.post(f"{PREFIX}/jobs", json={"secret": HUSH}, headers=headers)
        unknown = await client.get(f"{PREFIX}/jobs")
    assert [answer.status_code for answer in (jobs, unknown)] == [200, 401] and refused.status_code >= 400
    events = [json.loads(line) for line in kept.lines]
    seen = [(event["verb"], event["stage"], event["user"].get("username")) for event in events]
    assert seen == [
        ("get", "RequestReceived", "ann"),
        ("get", "ResponseComplete", "ann"),
        ("post", "RequestReceived", "ann"),
        ("post", "ResponseComplete", "ann"),
        ("get", "ResponseStarted", None),
    ]
    assert [event["responseStatus"]["code"] for event in events[1::2]] == [200, refused.status_code]
    assert [answer.headers["audit-id"] for answer in (jobs, refused)] == [event["auditID"] for event in events[1:4:2]]
    assert HUSH not in json.dumps(events) and "requestObject" not in json.dumps(events)


async def test_a_large_answer_is_left_out_and_said(audited: Audited) -> None:
    async with audited.hub.client() as client:
        for name in ("a", "b"):
            body = {"metadata": {"name": name}, "data": {"x": "x" * 700_000}}
            (await client.post(MAPS, json=body)).raise_for_status()
    answer, (_, event) = await audited.asked("GET", MAPS)
    assert len(answer.json()["items"]) == 2
    assert "responseObject" not in event
    assert event["annotations"]["audit.k8s.io/truncated"] == "true"


async def test_the_credential_of_a_service_account_is_named_where_it_is_made_and_used(audited: Audited) -> None:
    async with audited.hub.client() as client:
        account = {"metadata": {"name": "robot"}}
        (await client.post("/api/v1/namespaces/default/serviceaccounts", json=account)).raise_for_status()
    made, (_, issued) = await audited.asked("POST", "/api/v1/namespaces/default/serviceaccounts/robot/token", json={})
    token = made.json()["status"]["token"]
    _, events = await audited.asked("GET", "/api", token=token)
    (credential,) = events[-1]["user"]["extra"]["authentication.kubernetes.io/credential-id"]
    assert credential.startswith("JTI=") and len(credential) == 40
    assert issued["annotations"]["authentication.kubernetes.io/issued-credential-id"] == credential
    _, other = await audited.asked("GET", "/api", token="bob-token")
    assert "extra" not in other[-1]["user"]


PATHS = [MAPS, SECRETS, "/api/v1/namespaces/x/pods/y/log", "/apis/a/b/c", "/metrics", "/api/v1/watch", "/"]
VISIBLE = st.binary(max_size=12).map(lambda raw: re.sub(rb"[^\x21-\x7e\x80-\xff]", b"", raw))
REQUESTS = st.tuples(
    st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]),
    st.sampled_from(PATHS),
    st.text(st.characters(codec="utf-8"), max_size=12),
    st.binary(max_size=30),
    VISIBLE,
)


@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(REQUESTS, min_size=20, max_size=40))
def test_any_request_is_answered_and_logged_whole(
    tmp_path_factory: pytest.TempPathFactory, requests: list[tuple[str, str, str, bytes, bytes]]
) -> None:
    async def ask() -> None:
        kept, clock = Kept(), WallClock()
        folder = tmp_path_factory.mktemp("any")
        async with open_hub(folder, MemoryStore(clock), Audit(parse(EVERYTHING), [kept], clock)) as hub:
            audited = Audited(hub, kept)
            for number, (method, path, query, body, header) in enumerate(requests):
                headers = {"audit-id": b"%d-%s" % (number, header), "user-agent": header, "x-forwarded-for": header}
                answer, events = await audited.asked(method, f"{path}?x={quote(query)}", content=body, headers=headers)
                assert answer.status_code < 500
                assert events[-1]["responseStatus"]["code"] == answer.status_code

    asyncio.run(ask())
