"""Sessions of browsers: how they begin, what they are worth, and what ends them."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from api.access.rbac import Rbac
from api.audit.face import Audit
from api.audit.policy import parse
from api.engine.registry import Registry
from api.objects.objects import Objects
from fleet.admission.filling import filled
from fleet.admission.kindfiles import load_kinds
from fleet.console.attempts import GOOD_MAX
from fleet.console.face import Console
from fleet.console.sessions import COOKIE, OF_USER_MAX, Sessions
from fleet.hub.face import hub_app
from fleet.simulate.wall import RandomIds, WallClock
from tests.api.sink import Kept
from tests.console.hub import ORIGIN, TOKENS, World, console_hub

WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def user(browser: httpx.AsyncClient) -> str | int:
    """The name of the user whom the hub's API takes the browser for; the code of a refusal."""
    answer = await browser.post(WHOAMI, json={"metadata": {}}, headers=ORIGIN)
    return answer.json()["status"]["userInfo"]["username"] if answer.status_code == 201 else answer.status_code


async def test_a_login_by_token_makes_the_browser_its_user(world: World) -> None:
    browser = await world.logged_in()
    answer = await browser.get("/console/session")
    assert answer.json() == {
        "user": {"name": "alice", "groups": ["dev", "system:authenticated"]},
        "expires": "2027-01-15T16:00:00Z",
        "idleExpires": "2027-01-15T08:30:00Z",
        "methods": ["token"],
    }
    assert answer.headers["cache-control"] == "no-store"
    assert await user(browser) == "alice"
    assert (await browser.get("/api/v1/pods")).status_code == 403  # and no more than alice
    assert (await (await world.logged_in("admin-token")).get("/api/v1/pods")).status_code == 200


async def test_the_cookie_is_for_this_hub_alone_and_no_script_reads_it(world: World) -> None:
    answer = await world.browser().post("/console/session", json={"token": "alice-token"}, headers=ORIGIN)
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert cookie.startswith("__Host-fleet=") and len(cookie.partition("=")[2]) == 43
    assert attributes == ["Path=/", "Max-Age=28800", "Secure", "HttpOnly", "SameSite=Lax"]


async def test_the_store_has_neither_the_id_nor_the_token(world: World) -> None:
    browser = await world.logged_in()
    (body,) = world.stored()
    text = json.dumps(body)
    assert browser.cookies["__Host-fleet"] not in text
    assert "alice-token" not in text and body["user"] == "alice"


@pytest.mark.parametrize("path", ["/apis/console.fleet.io/v1/sessions", "/apis/console.fleet.io"])
async def test_no_path_of_the_api_leads_to_sessions(world: World, path: str) -> None:
    await world.logged_in()
    answer = await world.browser().get(path, headers={"authorization": "Bearer admin-token"})
    assert answer.status_code == 404


@pytest.mark.parametrize("token", ["", "wrong", "x" * 17_000, "é\u0000"])
async def test_a_token_that_is_not_good_opens_nothing(world: World, token: str) -> None:
    answer = await world.browser().post("/console/session", json={"token": token}, headers=ORIGIN)
    assert (answer.status_code, answer.json()["kind"], answer.json()["reason"]) == (401, "Status", "Unauthorized")
    assert "set-cookie" not in answer.headers and not world.stored()


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b"null", b'{"token": 1}', b'{"token": null}', b'{"token": ["a"]}', b"{", b"\xff"]
)
async def test_a_body_of_a_wrong_type_is_refused(world: World, body: bytes) -> None:
    headers = {**ORIGIN, "content-type": "application/json"}
    answer = await world.browser().post("/console/session", content=body, headers=headers)
    assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")


async def test_a_body_that_is_too_large_or_no_json_by_its_type_is_refused(world: World) -> None:
    browser = world.browser()
    large = await browser.post("/console/session", json={"token": "x" * 20_000}, headers=ORIGIN)
    form = await browser.post("/console/session", data={"token": "alice-token"}, headers=ORIGIN)
    assert (large.status_code, form.status_code) == (413, 415)


async def test_without_a_session_there_is_nobody(world: World) -> None:
    browser = world.browser()
    answer = await browser.get("/console/session")
    assert (answer.status_code, answer.json()["kind"]) == (401, "Status")
    assert (await browser.get("/console/methods")).json() == {"methods": ["token"]}
    browser.cookies.set("__Host-fleet", "A" * 43)
    assert await user(browser) == 401
    browser.cookies.set("__Host-fleet", "no id at all")
    assert await user(browser) == 401


async def test_the_id_is_always_a_new_one(world: World) -> None:
    """An id that an attacker has put into the browser never becomes a session."""
    browser = world.browser()
    browser.cookies.set("__Host-fleet", "A" * 43, domain="hub")
    answer = await browser.post("/console/session", json={"token": "alice-token"}, headers=ORIGIN)
    given = answer.headers["set-cookie"].partition(";")[0].partition("=")[2]
    assert given != "A" * 43
    planted = world.browser()
    planted.cookies.set("__Host-fleet", "A" * 43)
    assert await user(planted) == 401


async def test_a_second_login_ends_the_first_session_of_the_browser(world: World) -> None:
    browser = await world.logged_in()
    first = browser.cookies["__Host-fleet"]
    await browser.post("/console/session", json={"token": "admin-token"}, headers=ORIGIN)
    assert await user(browser) == "admin"
    other = world.browser()
    other.cookies.set("__Host-fleet", first)
    assert await user(other) == 401
    assert [body["user"] for body in world.stored()] == ["admin"]


async def test_a_logout_ends_the_session_and_takes_the_cookie_away(world: World) -> None:
    browser = await world.logged_in()
    kept = browser.cookies["__Host-fleet"]
    answer = await browser.delete("/console/session", headers=ORIGIN)
    assert (answer.status_code, answer.content) == (204, b"")
    assert "__Host-fleet" not in browser.cookies and not world.stored()
    browser.cookies.set("__Host-fleet", kept)
    assert await user(browser) == 401


async def test_a_session_ends_after_eight_hours_of_use(world: World) -> None:
    browser = await world.logged_in()
    for _ in range(19):  # 25 minutes each
        world.clock.at += 1500
        assert await user(browser) == "alice"
    world.clock.at += 299
    assert await user(browser) == "alice"
    world.clock.at += 1
    assert await user(browser) == 401


async def test_a_session_ends_after_half_an_hour_without_use(world: World) -> None:
    browser = await world.logged_in()
    world.clock.at += 1799
    assert await user(browser) == "alice"
    world.clock.at += 1800
    assert await user(browser) == 401


async def test_a_session_ends_with_its_token(world: World) -> None:
    browser = await world.logged_in()
    world.tokens.write_text(TOKENS.replace("alice-token", "another-token"))
    assert await user(browser) == 401
    assert not world.stored()
    world.tokens.write_text(TOKENS)
    assert await user(browser) == 401  # what is over stays over


async def test_a_session_has_the_groups_that_its_token_has_now(world: World) -> None:
    browser = await world.logged_in()
    world.tokens.write_text("alice-token,alice,2,system:masters\n")
    assert (await browser.get("/api/v1/pods")).status_code == 200


async def test_a_session_outlives_the_api_process_and_others_know_it(world: World, tmp_path: Path) -> None:
    browser = await world.logged_in()
    again = Sessions(world.store, world.clock, world.sessions._authenticator)
    registry = Registry(load_kinds())
    app = hub_app(
        Objects(world.store, registry, world.clock, RandomIds(), fill=filled),
        world.store,
        registry,
        clock=world.clock,
        authenticator=world.sessions._authenticator,
        authorizer=Rbac(world.store),
        console=Console(again, world.clock),
    )
    await app.start()
    try:
        other = world.browser(app=app)
        other.cookies.set("__Host-fleet", browser.cookies["__Host-fleet"])
        assert await user(other) == "alice"
        await other.delete("/console/session", headers=ORIGIN)
        assert await user(browser) == 401
    finally:
        await app.stop()


async def test_a_user_has_so_many_sessions_and_those_that_are_over_are_swept(world: World) -> None:
    first = await world.logged_in()
    for _ in range(OF_USER_MAX):
        world.clock.at += 0.01
        await world.sessions.open("alice-token")
    assert len(world.stored()) == OF_USER_MAX
    assert await user(first) == 401
    world.clock.at += 8 * 3600
    await world.sessions.open("admin-token")
    assert [body["user"] for body in world.stored()] == ["admin"]


async def test_failed_logins_of_an_address_are_bounded(world: World) -> None:
    browser = world.browser("10.0.0.9")
    for _ in range(30):
        answer = await browser.post("/console/session", json={"token": "guess"}, headers=ORIGIN)
        assert answer.status_code == 401
    answer = await browser.post("/console/session", json={"token": "alice-token"}, headers=ORIGIN)
    assert (answer.status_code, answer.json()["reason"]) == (429, "TooManyRequests")
    assert 0 < int(answer.headers["retry-after"]) <= 61
    await world.logged_in()  # from another address
    world.clock.at += 61
    answer = await browser.post("/console/session", json={"token": "alice-token"}, headers=ORIGIN)
    assert answer.status_code == 200


async def test_failed_logins_of_a_subscriber_of_ipv6_count_together(world: World) -> None:
    codes = []
    for number in range(31):
        browser = world.browser(f"2001:db8:0:1::{number}")
        codes.append((await browser.post("/console/session", json={"token": "guess"}, headers=ORIGIN)).status_code)
    assert codes == [401] * 30 + [429]
    browser = world.browser("2001:db8:0:2::1")
    assert (await browser.post("/console/session", json={"token": "alice-token"}, headers=ORIGIN)).status_code == 200


async def test_nobodys_logins_keep_another_user_out(world: World) -> None:
    """600 logins, good or not, from wherever, kept everybody out for the rest of the minute."""
    for number in range(601):
        browser = world.browser(f"10.1.{number // 250}.{number % 250}")
        assert (await browser.post("/console/session", json={"token": "guess"}, headers=ORIGIN)).status_code == 401
    browser = world.browser("10.0.0.9")
    codes = []
    for _ in range(GOOD_MAX + 1):
        codes.append(
            (await browser.post("/console/session", json={"token": "alice-token"}, headers=ORIGIN)).status_code
        )
    assert codes == [200] * GOOD_MAX + [429]
    assert (await browser.post("/console/session", json={"token": "admin-token"}, headers=ORIGIN)).status_code == 200


async def test_the_audit_log_names_the_user_of_a_session(tmp_path: Path) -> None:
    kept = Kept()
    policy = parse(b"{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}")
    async with console_hub(tmp_path, audit=Audit(policy, [kept], WallClock())) as world:
        browser = await world.logged_in()
        answers = [await browser.get(path) for path in ("/api/v1/namespaces/default/pods", "/fleet/v1/jobs")]
    events = {event["auditID"]: event for event in map(json.loads, kept.lines)}  # the last stage of each
    for answer in answers:
        assert events[answer.headers["audit-id"]]["user"]["username"] == "alice"
        assert events[answer.headers["audit-id"]]["responseStatus"]["code"] == answer.status_code
    assert browser.cookies[COOKIE] not in b"".join(kept.lines).decode()
