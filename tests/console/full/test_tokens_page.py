"""The tokens of users on the page of settings, in Chromium on a real hub."""

from __future__ import annotations

import time
from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.cli.hub import Up
from tests.console.browser import WITHIN_MS, shown, violations

pytestmark = pytest.mark.xdist_group("console")


def within(condition: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.2)


def status(up: Up, secret: str) -> int:
    """What the hub answers somebody with this token."""
    headers = {"authorization": f"Bearer {secret}"}
    return httpx.get(f"{up.hub.client.access.server}/apis", headers=headers, verify=False).status_code


def test_a_token_that_is_made_on_the_page_works_until_it_is_revoked_there(admin: Page, up: Up) -> None:
    shown(admin, up, "settings/tokens", "the administrator's own")
    admin.get_by_role("textbox", name="User", exact=True).fill("new-ann")
    admin.get_by_label("Groups, with commas between them").fill("team-a, team-b")
    admin.get_by_role("button", name="Make the token").click(timeout=WITHIN_MS)
    secret = admin.locator("code.secret").inner_text(timeout=WITHIN_MS)
    within(lambda: status(up, secret) == 200, "the token works")
    row = admin.get_by_role("row", name="new-ann")
    expect(row.get_by_text("team-a, team-b")).to_be_visible(timeout=WITHIN_MS)
    assert violations(admin) == []
    row.get_by_role("button", name="Revoke").click(timeout=WITHIN_MS)
    admin.get_by_role("dialog").get_by_role("button", name="Revoke").click(timeout=WITHIN_MS)
    expect(row).to_be_hidden(timeout=WITHIN_MS)
    within(lambda: status(up, secret) == 401, "the token is refused")


def test_a_name_that_no_token_can_have_is_refused_beside_its_field(admin: Page, up: Up) -> None:
    shown(admin, up, "settings/tokens", "New token")
    admin.get_by_role("textbox", name="User", exact=True).fill('a"b')
    admin.get_by_role("button", name="Make the token").click(timeout=WITHIN_MS)
    expect(admin.get_by_text("a name is printable text without commas")).to_be_visible(timeout=WITHIN_MS)
    expect(admin.get_by_role("textbox", name="User", exact=True)).to_have_attribute("aria-invalid", "true")
