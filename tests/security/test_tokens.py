"""Which tokens are credentials, for whom and for how long; and what the token file says whatever stands in it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from structlog.testing import capture_logs

from api.access.auth import AUTHENTICATED, ISSUER, LEEWAY_S, UNKNOWN_S, ServiceAccountTokens, TokenFile
from api.server.reviews import MAX_AUDIENCE_CHARS, MAX_AUDIENCES
from api.store.memory import MemoryStore
from fleet.cli.datadir import DataDir
from fleet.hub.firststart import add_token
from fleet.simulate.wall import WallClock
from fleet.values.ports import Key, Put
from tests.api.conftest import Hub, key_pem, open_hub
from tests.api.rbac import get, grant, post

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
NOW = 1_800_000_000.0


class At(WallClock):
    """A clock that is set by hand."""

    def __init__(self, now: float) -> None:
        super().__init__()
        self.at = now

    def now(self) -> float:
        return self.at


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Hub]:
    async with open_hub(tmp_path, MemoryStore(WallClock())) as opened:
        yield opened


@pytest.fixture
async def tokens() -> AsyncIterator[ServiceAccountTokens]:
    """Over a store with the account default/robot, at NOW."""
    store = MemoryStore(WallClock())
    await store.start()
    metadata = {"name": "robot", "namespace": "default", "uid": "u-1"}
    await store.commit([Put(Key("", "serviceaccounts", "default", "robot"), {"metadata": metadata})])
    yield ServiceAccountTokens(key_pem(), store, At(NOW))
    await store.stop()


def signed(tokens: ServiceAccountTokens, **claims: Any) -> str:
    """A token of default/robot with other claims; one of None is left out."""
    whole = {
        "iss": ISSUER,
        "sub": "system:serviceaccount:default:robot",
        "aud": [ISSUER],
        "exp": NOW + 600,
        "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "robot", "uid": "u-1"}},
        **claims,
    }
    kept = {key: value for key, value in whole.items() if value is not None}
    return jwt.encode(kept, tokens._key, algorithm=tokens._algorithm)


_ROBOT = {"name": "robot", "uid": "u-1"}


@pytest.mark.parametrize(
    ("claims", "good"),
    [
        ({}, True),
        ({"nbf": NOW - 1, "iat": NOW - 1}, True),
        ({"nbf": NOW + LEEWAY_S - 1}, True),
        ({"nbf": NOW + LEEWAY_S + 1}, False),
        ({"iat": NOW + LEEWAY_S + 1}, False),
        ({"nbf": "soon"}, False),
        ({"nbf": True}, False),
        ({"iat": [1]}, False),
        ({"exp": NOW}, False),
        ({"exp": None}, False),
        ({"exp": "never"}, False),
        ({"exp": {"at": 1}}, False),
        ({"aud": ISSUER}, True),
        ({"aud": ["other", ISSUER]}, True),
        ({"aud": ["other"]}, False),
        ({"aud": []}, False),
        ({"aud": None}, False),
        ({"aud": [5, ISSUER]}, False),
        ({"aud": 5}, False),
        ({"iss": "https://other"}, False),
        ({"sub": "system:serviceaccount:default:other"}, False),
        ({"kubernetes.io": None}, False),
        ({"kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "robot", "uid": "u-2"}}}, False),
        ({"kubernetes.io": {"namespace": ["default"], "serviceaccount": _ROBOT}}, False),
        ({"kubernetes.io": {"namespace": "other", "serviceaccount": _ROBOT}}, False),
        ({"kubernetes.io": "x"}, False),
    ],
    ids=str,
)
async def test_every_claim_of_a_token_counts(tokens: ServiceAccountTokens, claims: dict[str, Any], good: bool) -> None:
    token = signed(tokens, **claims)
    for _ in range(2):  # and when it is remembered
        assert (await tokens.user(token) is not None) is good


async def test_a_token_begins_and_ends_while_it_is_remembered(tokens: ServiceAccountTokens) -> None:
    token = signed(tokens, nbf=NOW + 200, exp=NOW + 600)
    clock: Any = tokens._clock
    for at, good in ((NOW, False), (NOW + 200, True), (NOW + 599, True), (NOW + 600, False), (NOW, False)):
        clock.at = at
        assert (await tokens.user(token) is not None) is good, at


@pytest.mark.parametrize("other", ["HS256", "none", "another key"])
async def test_a_token_of_another_signature_is_none(tokens: ServiceAccountTokens, other: str) -> None:
    claims = jwt.decode(signed(tokens), options={"verify_signature": False})
    if other == "another key":
        forged = signed(ServiceAccountTokens(key_pem(), tokens._store, At(NOW)))
    else:
        forged = jwt.encode(claims, "secret" * 8 if other == "HS256" else "", algorithm=other)
    assert await tokens.user(forged) is None


async def test_an_account_that_is_going_or_came_back_has_none_of_its_tokens(tokens: ServiceAccountTokens) -> None:
    token, key = signed(tokens), Key("", "serviceaccounts", "default", "robot")
    assert await tokens.user(token) is not None
    metadata = {"name": "robot", "namespace": "default", "uid": "u-1"}
    gone = {"metadata": {**metadata, "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}}
    for body in (gone, {"metadata": {**metadata, "uid": "u-9"}}):
        await tokens._store.commit([Put(key, body)])
        assert await tokens.user(token) is None


async def test_a_token_for_others_is_no_credential_here_but_can_be_reviewed(served: Hub) -> None:
    await post(served, ACCOUNTS, {"kind": "ServiceAccount", "metadata": {"name": "robot"}})
    asked = {"kind": "TokenRequest", "spec": {"audiences": ["vault"]}}
    token = (await post(served, f"{ACCOUNTS}/robot/token", asked)).json()["status"]["token"]
    assert (await get(served, "/api", token)).status_code == 401

    async def review(token: str, *audiences: str) -> dict[str, Any]:
        body = {"spec": {"token": token, **({"audiences": audiences} if audiences else {})}}
        answer = await post(served, "/apis/authentication.k8s.io/v1/tokenreviews", body)
        assert answer.status_code == 201, answer.text
        status: dict[str, Any] = answer.json()["status"]
        return status

    assert (await review(token, "vault", "x"))["audiences"] == ["vault"]
    for status in (
        await review(token),
        await review(token, "x"),
        await review("alice-token", "vault"),
        await review("x"),
    ):
        assert status["authenticated"] is False and status["error"] and "audiences" not in status
    status = await review("alice-token")
    assert status["audiences"] == [ISSUER] and status["user"]["username"] == "alice"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"audiences": ["a"] * (MAX_AUDIENCES + 1)}, "spec.audiences"),
        ({"audiences": ["a", "b" * (MAX_AUDIENCE_CHARS + 1)]}, "spec.audiences[1]"),
        ({"expirationSeconds": 0}, "spec.expirationSeconds"),
        ({"expirationSeconds": -1}, "spec.expirationSeconds"),
        ({"expirationSeconds": 2**33}, "spec.expirationSeconds"),
        ({"boundObjectRef": {"kind": "Pod", "name": "p"}}, "spec.boundObjectRef"),
    ],
)
async def test_a_request_for_a_token_has_bounds(served: Hub, spec: dict[str, Any], field: str) -> None:
    await post(served, ACCOUNTS, {"kind": "ServiceAccount", "metadata": {"name": "robot"}})
    answer = await post(served, f"{ACCOUNTS}/robot/token", {"kind": "TokenRequest", "spec": spec})
    assert answer.status_code == 422, answer.text
    assert [cause["field"] for cause in answer.json()["details"]["causes"]] == [field]


@pytest.mark.parametrize(
    "spec", ["x", 5, [], {"audiences": "a"}, {"audiences": [1]}, {"expirationSeconds": "1h"}, {"boundObjectRef": []}]
)
async def test_a_request_for_a_token_of_wrong_types_is_the_clients_mistake(served: Hub, spec: Any) -> None:
    await post(served, ACCOUNTS, {"kind": "ServiceAccount", "metadata": {"name": "robot"}})
    answer = await post(served, f"{ACCOUNTS}/robot/token", {"kind": "TokenRequest", "spec": spec})
    assert answer.status_code == 400, answer.text


async def test_nulls_that_clients_write_for_nothing_are_nothing(served: Hub) -> None:
    await post(served, ACCOUNTS, {"kind": "ServiceAccount", "metadata": {"name": "robot"}})
    spec = {"audiences": None, "expirationSeconds": None, "boundObjectRef": None}
    body = {
        "kind": "TokenRequest",
        "metadata": {"creationTimestamp": None, "labels": None},
        "spec": spec,
        "status": None,
    }
    assert (await post(served, f"{ACCOUNTS}/robot/token", body)).status_code == 201
    attributes = {"verb": "get", "resource": "pods", "namespace": None, "name": None}
    review = {"metadata": {"creationTimestamp": None}, "spec": {"resourceAttributes": attributes}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert (await post(served, path, review, "alice-token")).json()["status"] == {"allowed": False}


# -- the token file


def token_file(path: Path, text: str | bytes, clock: WallClock | None = None) -> TokenFile:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return TokenFile(path, clock or WallClock(), check_every_s=0)


async def test_a_broken_line_costs_only_its_own_token(tmp_path: Path) -> None:
    lines = [
        b'one,alice,1,"dev,ops"',
        b'broken,"bob,2',
        b"two,bob,2",
        b"short,carol",
        b",dave,4",
        b"nobody,,5",
        b"\x00nul,x,6",
        b"\xff\xfe,x,7",
        b"# comment,x,8",
        b"",
        b' three , carol , 3 , " a , b " ',
        b"two,mallory,9",
        b'q"uote,x,1',
        b"x" * 200_000 + b",long,1",
        "vier,jané\u2028,1".encode(),
        b"five,eve,5",
    ]
    tokens = token_file(tmp_path / "tokens.csv", b"\r\n".join(lines))
    with capture_logs() as logs:
        found = {
            token: await tokens.user(token) for token in ("one", "two", "three", "five", "broken", "nobody", "short")
        }
    names = {token: user.name for token, user in found.items() if user is not None}
    assert names == {"one": "alice", "two": "bob", "three": "carol", "five": "eve"}
    assert found["three"] is not None and found["three"].groups == ("a", "b", AUTHENTICATED)
    assert await tokens.user("") is None
    assert logs[0]["lines"][:2] == [2, 4] and 12 in logs[0]["lines"]
    assert "bob" not in str(logs) and "mallory" not in str(logs)


async def test_a_token_ends_when_its_line_does_even_if_the_file_looks_the_same(tmp_path: Path) -> None:
    path = tmp_path / "tokens.csv"
    tokens = token_file(path, "aaa,alice,1\n")
    assert await tokens.user("aaa") is not None
    stat = path.stat()
    path.write_text("bbb,alice,1\n")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert await tokens.user("aaa") is None and await tokens.user("bbb") is not None


async def test_a_new_token_works_at_once_although_the_file_was_read_a_moment_ago(tmp_path: Path) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text("aaa,alice,1\n")
    tokens = TokenFile(path, WallClock(), check_every_s=3600)
    assert await tokens.user("aaa") is not None
    path.write_text("aaa,alice,1\nbbb,bob,2\n")
    await asyncio.sleep(2 * UNKNOWN_S)
    assert await tokens.user("bbb") is not None


async def test_without_the_file_no_token_works_and_with_it_again_they_do(tmp_path: Path) -> None:
    path = tmp_path / "tokens.csv"
    tokens = token_file(path, "aaa,alice,1\n")
    assert await tokens.user("aaa") is not None
    path.unlink()
    assert await tokens.user("aaa") is None
    path.mkdir()
    assert await tokens.user("aaa") is None
    path.rmdir()
    path.write_text("aaa,alice,1\n")
    assert await tokens.user("aaa") is not None


async def test_a_new_token_does_not_run_into_a_line_without_an_end(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    data.tokens.write_text('aaa,admin,1,"system:masters"')
    new = add_token(data, "bob", ())
    tokens = TokenFile(data.tokens, WallClock(), check_every_s=0)
    assert [user.name for user in (await tokens.user("aaa"), await tokens.user(new)) if user is not None] == [
        "admin",
        "bob",
    ]


async def test_acting_as_a_group_of_masters_takes_the_right_to_it(served: Hub) -> None:
    await grant(served, "bob", ["get"], ["pods"])
    rules = [{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}]
    await post(
        served,
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        {"kind": "ClusterRole", "metadata": {"name": "act"}, "rules": rules},
    )
    body = {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "act"},
        "roleRef": {"kind": "ClusterRole", "name": "act"},
        "subjects": [{"kind": "User", "name": "alice"}],
    }
    await post(served, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", body)
    async with served.client("alice-token") as client:
        for headers, code in (
            ({"impersonate-user": "bob"}, 404),
            ({"impersonate-user": "bob", "impersonate-group": "system:masters"}, 403),
            ({"impersonate-user": "bob", "impersonate-uid": "1"}, 403),
            ({"impersonate-user": "bob", "impersonate-extra-a": "b"}, 403),
            ({"impersonate-group": "system:masters"}, 400),
            ({"impersonate-user": "system:serviceaccount:kube-system:default"}, 403),
        ):
            answer = await client.get("/api/v1/namespaces/default/pods/p", headers=headers)
            assert answer.status_code == code, (headers, answer.text)
