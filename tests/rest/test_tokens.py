"""Tokens under /fleet/v1: made, listed without secrets, ended; and nobody rises by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from api.access.storedtokens import GROUP, TOKENS, StoredTokens
from api.audit.policy import AuditedRequest
from api.audit.secrets import is_secret
from fleet.cli.datadir import DataDir
from fleet.hub.firststart import create_root, prepare
from tests.rest.rest import Rest, causes, rest

URL = "/fleet/v1/tokens"
MAY = {"nonResourceURLs": [URL, f"{URL}/*"], "verbs": ["get", "post", "delete"]}


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    data = DataDir(tmp_path / "hub")
    create_root(data)
    prepare(data, "127.0.0.1")
    return data


def impersonate(resource: str, *names: str) -> dict[str, Any]:
    return {"apiGroups": [""], "resources": [resource], "verbs": ["impersonate"], "resourceNames": list(names)}


def known(hub: Rest) -> set[str]:
    return {stored.key.name for stored in hub.world.store.scan(GROUP, TOKENS)}


async def test_a_token_is_made_works_is_listed_without_its_secret_and_ends(data: DataDir) -> None:
    async with rest(start=False, tokens=data.tokens) as hub:
        users = StoredTokens(hub.world.store, hub.world.clock)
        made = await hub.client().post(URL, json={"user": "ann", "groups": ["team-a"], "ttlSeconds": 3600})
        assert (made.status_code, made.headers["cache-control"]) == (201, "no-store")
        secret = made.json()["token"]
        user = await users.user(secret)
        assert user is not None and (user.name, "team-a" in user.groups) == ("ann", True)
        listed = await hub.client().get(URL)
        assert secret not in listed.text
        first, ours = listed.json()["items"]
        assert (first["user"], first["own"], first["expires"]) == ("admin", True, None)
        assert (ours["user"], ours["groups"], ours["own"], ours["expired"]) == ("ann", ["team-a"], False, False)
        gone = await hub.client().delete(f"{URL}/{ours['id']}")
        assert gone.status_code == 200 and gone.json()["id"] == ours["id"]
        assert await users.user(secret) is None
        again = await hub.refused("DELETE", f"/tokens/{ours['id']}")
        assert (again["code"], again["message"]) == (404, f'no token has the id "{ours["id"]}"')


async def test_a_token_without_an_end_is_asked_for_by_name(data: DataDir) -> None:
    async with rest(start=False, tokens=data.tokens) as hub:
        usual = (await hub.client().post(URL, json={"user": "ann"})).json()
        endless = (await hub.client().post(URL, json={"user": "ann", "ttlSeconds": None})).json()
        assert usual["expires"] is not None and endless["expires"] is None


async def test_the_administrators_own_token_stays(data: DataDir) -> None:
    async with rest(start=False, tokens=data.tokens) as hub:
        own = (await hub.get("/tokens"))["items"][0]["id"]
        before = data.tokens.read_bytes()
        assert (await hub.refused("DELETE", f"/tokens/{own}"))["code"] == 409
        assert data.tokens.read_bytes() == before


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        pytest.param({}, "user", id="no user"),
        pytest.param({"user": "a,b"}, "user", id="a comma in the user"),
        pytest.param({"user": "a\nadmin,admin"}, "user", id="a line of its own"),
        pytest.param({"user": "ann", "groups": ["a", 'b"']}, "groups[1]", id="a quote in a group"),
        pytest.param({"user": "ann", "ttlSeconds": 0}, "ttlSeconds", id="too short"),
        pytest.param({"user": "ann", "ttlSeconds": 10**10}, "ttlSeconds", id="too long"),
        pytest.param({"user": "ann", "ttl": "5h"}, "ttl", id="no such field"),
    ],
)
async def test_a_wrong_field_is_named_and_nothing_is_made(data: DataDir, sent: Any, field: str) -> None:
    async with rest(start=False, tokens=data.tokens) as hub:
        refused = await hub.refused("POST", "/tokens", json=sent)
        assert (refused["code"], list(causes(refused))) == (422, [field])
        assert not known(hub)


async def test_without_the_right_on_the_path_nothing_is_seen_or_done(data: DataDir) -> None:
    async with rest(start=False, tokens=data.tokens) as hub:
        for method, path in (("GET", "/tokens"), ("POST", "/tokens"), ("DELETE", "/tokens/abc")):
            assert (await hub.refused(method, path, "alice-token", json={"user": "alice"}))["code"] == 403
        assert not known(hub)


async def test_nobody_makes_a_token_for_a_user_or_group_that_she_may_not_act_as(data: DataDir) -> None:
    async with rest(start=False, tokens=data.tokens) as hub:
        for rule in (MAY, impersonate("users", "ann"), impersonate("groups", "team-a")):
            await hub.grant("bob", rule)
        for user, groups in (
            ("admin", []),
            ("ann", ["system:masters"]),
            ("ann", ["team-a", "team-b"]),
            ("system:serviceaccount:default:robot", []),
        ):
            refused = await hub.refused("POST", "/tokens", "bob-token", json={"user": user, "groups": groups})
            assert refused["code"] == 403 and "impersonate" in refused["message"]
        assert not known(hub)
        made = await hub.client("bob-token").post(URL, json={"user": "ann", "groups": ["team-a"]})
        assert made.status_code == 201, made.text


async def test_a_process_without_tokens_says_so() -> None:
    async with rest(start=False) as hub:
        assert (await hub.refused("GET", "/tokens"))["message"] == "this process keeps no tokens"


async def test_a_file_that_cannot_be_read_is_named(data: DataDir) -> None:
    async with rest(start=False, tokens=data.root / "none.csv") as hub:
        refused = await hub.refused("GET", "/tokens")
        assert (refused["code"], refused["message"]) == (500, "the file of tokens: No such file or directory")


def test_no_audit_log_has_the_body_of_a_new_token() -> None:
    assert is_secret(AuditedRequest("ann", None, "post", path=URL))
    assert not is_secret(AuditedRequest("ann", None, "post", path="/fleet/v1/what-if"))
