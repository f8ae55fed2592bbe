"""The first day of a hub in Chromium: a login through an issuer, and the first quota tree."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.api.oidc.issuer import AUDIENCE
from tests.api.oidc.provider import Provider
from tests.api.outgoing.server import serving
from tests.cli.hub import Up
from tests.console.browser import WITHIN_MS, shown, violations
from tests.testbed.pki import Pki, make_pki

pytestmark = pytest.mark.xdist_group("console")

BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
TREES = "/apis/scheduling.sigs.k8s.io/v1beta1/namespaces/kube-system/elasticquotatrees"
OPS = {
    "metadata": {"name": "ops"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "corp:ops"}],
}


@contextmanager
def issuing(provider: Provider, pki: Pki) -> Iterator[None]:
    """In a thread of its own, since the browser's API takes this one."""
    ready, loop = threading.Event(), asyncio.new_event_loop()
    over = asyncio.Event()

    async def serve() -> None:
        async with serving(provider.answer, pki) as port:
            provider.url = f"https://127.0.0.1:{port}"
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(10)
        yield
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(10)
        loop.close()


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Provider, Pki]]:
    pki, now = make_pki(tmp_path_factory.mktemp("issuer") / "pki"), time.time()
    made = Provider(claims={"iat": now, "exp": now + 3600})
    with issuing(made, pki):
        yield made, pki


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory, provider: tuple[Provider, Pki]) -> Iterator[Up]:
    """A hub without a tree and without jobs, whose users come from the issuer. The group ops may do everything."""
    issuer, pki = provider
    hub = Up(
        tmp_path_factory.mktemp("new") / "hub",
        "--members",
        "1",
        "--outgoing-allow",
        "127.0.0.0/8",
        "--oidc-issuer-url",
        issuer.url,
        "--oidc-client-id",
        AUDIENCE,
        "--oidc-ca-file",
        str(pki.ca),
        "--oidc-username-prefix",
        "corp:",
        "--oidc-groups-claim",
        "groups",
        "--oidc-groups-prefix",
        "corp:",
    )
    try:
        hub.hub.request("POST", BINDINGS, OPS)
        yield hub
    finally:
        assert hub.stop() == 0, hub.errors.read_text()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Page]:
    """A browser of its own for each test, without a session."""
    context = chromium.new_context(ignore_https_errors=True, locale="en-GB")
    context.set_default_timeout(WITHIN_MS)
    yield context.new_page()
    context.close()


@pytest.fixture
def ann(browser: Page, new: Up, provider: tuple[Provider, Pki]) -> Page:
    at_the_issuer(browser, new, provider[0], "/jobs?state=Running")
    browser.get_by_role("link", name="Log in as ann").click()
    expect(browser.get_by_role("heading", name="Jobs", level=1)).to_be_visible(timeout=WITHIN_MS)
    return browser


def at_the_issuer(page: Page, up: Up, issuer: Provider, path: str = "") -> None:
    page.goto(f"{up.hub.client.access.server}/console{path}")
    page.get_by_role("link", name=f"Log in with {issuer.url.removeprefix('https://')}").click()
    expect(page).to_have_title("Issuer")


def test_a_login_that_the_person_breaks_off_leads_back_to_the_login(
    browser: Page, new: Up, provider: tuple[Provider, Pki]
) -> None:
    at_the_issuer(browser, new, provider[0])
    browser.get_by_role("link", name="Go back").click()
    expect(browser.get_by_role("alert")).to_contain_text("The issuer does not log you in", timeout=WITHIN_MS)
    assert violations(browser) == []
    at_the_issuer(browser, new, provider[0])
    browser.context.clear_cookies()
    browser.get_by_role("link", name="Log in as ann").click()
    expect(browser.get_by_role("alert")).to_contain_text("began in another browser", timeout=WITHIN_MS)


def test_too_many_logins_lead_back_to_the_login_which_says_when_to_try_again(browser: Page, new: Up) -> None:
    server = new.hub.client.access.server
    browser.goto(f"{server}/console?login=TooManyRequests&after=41")  # as the hub sends it there
    said = re.compile(r"too many logins lately.* Try again after \d\d:\d\d:\d\d\.")
    expect(browser.get_by_role("alert")).to_have_text(said, timeout=WITHIN_MS)
    assert violations(browser) == []


def test_a_login_through_the_issuer_leads_to_the_page_that_was_asked_for(ann: Page) -> None:
    assert ann.url.endswith("/console/jobs?state=Running")
    expect(ann.get_by_text("corp:ann")).to_be_visible()


def test_the_first_tree_is_begun_on_the_page_and_applied(ann: Page, new: Up) -> None:
    shown(ann, new, "settings/quota", "There is no quota tree")
    ann.get_by_role("button", name="Begin a tree").click()
    expect(ann.get_by_role("button", name="Apply")).to_be_disabled(timeout=WITHIN_MS)
    ann.get_by_role("button", name="Add a queue below root").click()
    ann.get_by_label("Name of root/new").fill("vision")
    ann.get_by_role("button", name="Apply").click(timeout=WITHIN_MS)
    expect(ann.get_by_text("The hub has the new tree.")).to_be_visible(timeout=WITHIN_MS)
    (tree,) = new.hub.request("GET", TREES).body["items"]
    assert [child["name"] for child in tree["spec"]["root"]["children"]] == ["vision"]
    shown(ann, new, "queues", "vision")


def test_a_log_out_leads_to_the_login_and_ends_the_session(ann: Page) -> None:
    for leave in (ann.get_by_role("button", name="Log out").click, ann.reload):
        leave()
        expect(ann.get_by_role("link", name="Log in with")).to_be_visible(timeout=WITHIN_MS)
