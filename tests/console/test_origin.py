"""A session is used by pages of the hub alone: other sites, proxies and scripts in answers get nothing of it."""

from __future__ import annotations

import httpx
import pytest

from tests.console.hub import ORIGIN, World

PODS = "/api/v1/namespaces/default/pods"
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "https://hub.evil.example"},
        {"origin": "http://hub"},
        {"origin": "https://hub:8443"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://hub", "sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "none"},
        {},
    ],
)
async def test_a_write_of_another_site_is_refused(world: World, method: str, headers: dict[str, str]) -> None:
    browser = await world.logged_in("admin-token")
    answer = await browser.request(method, f"{PODS}/a", json={}, headers=headers)
    assert (answer.status_code, answer.json()["reason"]) == (403, "Forbidden")


@pytest.mark.parametrize(
    "headers",
    [
        ORIGIN,
        {"sec-fetch-site": "same-origin"},
        {"origin": "https://outside.example", "sec-fetch-site": "same-origin"},  # through a proxy with another name
    ],
)
async def test_a_write_of_the_hubs_own_page_goes_on(world: World, headers: dict[str, str]) -> None:
    browser = await world.logged_in("admin-token")
    answer = await browser.post(REVIEW, json={"metadata": {}}, headers=headers)
    assert answer.status_code == 201


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_another_site_reads_nothing_with_the_session(world: World, site: str) -> None:
    browser = await world.logged_in("admin-token")
    assert (await browser.get("/api/v1/pods", headers={"sec-fetch-site": site})).status_code == 403
    assert (await browser.get("/api/v1/pods", headers={"sec-fetch-site": "none"})).status_code == 200


@pytest.mark.parametrize("headers", [{"origin": "https://evil.example"}, {}])
async def test_a_websocket_of_another_site_is_refused(world: World, headers: dict[str, str]) -> None:
    browser = await world.logged_in("admin-token")
    asked = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13", **headers}
    answer = await browser.get("/api/v1/pods?watch=1", headers=asked)
    assert (answer.status_code, answer.json()["reason"]) == (403, "Forbidden")


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_another_site_neither_logs_a_browser_in_nor_out(world: World, method: str) -> None:
    browser = await world.logged_in()
    for headers in ({"origin": "https://evil.example"}, {}):
        answer = await browser.request(method, "/console/session", json={"token": "admin-token"}, headers=headers)
        assert answer.status_code == 403
    assert (await browser.get("/console/session")).json()["user"]["name"] == "alice"


async def test_a_token_in_a_header_counts_and_not_the_session(world: World) -> None:
    browser = await world.logged_in("admin-token")
    for token, code in (("alice-token", 403), ("wrong", 401)):
        answer = await browser.get("/api/v1/pods", headers={"authorization": f"Bearer {token}"})
        assert answer.status_code == code
    answer = await browser.post(REVIEW, json={"metadata": {}}, headers={"authorization": "Bearer alice-token"})
    assert answer.json()["status"]["userInfo"]["username"] == "alice"  # a program says no Origin


async def test_a_session_may_act_as_others_where_its_user_may(world: World) -> None:
    as_alice = {**ORIGIN, "impersonate-user": "alice"}
    admin, alice = await world.logged_in("admin-token"), await world.logged_in()
    answer = await admin.post(REVIEW, json={"metadata": {}}, headers=as_alice)
    assert answer.json()["status"]["userInfo"]["username"] == "alice"
    answer = await alice.post(REVIEW, json={"metadata": {}}, headers={**ORIGIN, "impersonate-user": "admin"})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "path", [f"{PODS}/web/proxy/", "/api/v1/nodes/a/proxy/x", "/apis/cluster.karmada.io/v1alpha1/clusters/a/proxy/api"]
)
async def test_a_session_reaches_no_proxy(world: World, path: str) -> None:
    """A page of a pod would run with the session of its reader."""
    browser = await world.logged_in("admin-token")
    answer = await browser.get(path, headers=ORIGIN)
    assert answer.status_code == 403 and "no proxy" in answer.json()["message"]


@pytest.mark.parametrize("path", ["/api/v1/pods", "/fleet/v1/jobs", "/fleet/v1/none"])
async def test_nothing_of_an_answer_runs_in_the_browser(world: World, path: str) -> None:
    browser = await world.logged_in("admin-token")
    answer = await browser.get(path)
    assert answer.headers.get_list("x-content-type-options") == ["nosniff"]
    assert "sandbox" in answer.headers["content-security-policy"]
    program: httpx.Response = await world.browser().get(path, headers={"authorization": "Bearer admin-token"})
    assert "content-security-policy" not in program.headers
