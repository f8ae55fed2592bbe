"""The pages of the console in Chromium, on a real hub with simulated members. Each test leaves the hub as it was."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.cli.hub import Up
from tests.console.browser import FIRST, PAGES, SECOND, WITHIN_MS, logged_in, looked_at, shown, token, violations

pytestmark = pytest.mark.xdist_group("console")


def test_the_fleet_shows_the_gpus_of_each_member_and_the_newest_jobs(admin: Page, up: Up) -> None:
    shown(admin, up, "", re.compile("3 of 32 GPUs used"), f"default/{FIRST}", f"default/{SECOND}")
    assert admin.get_by_role("article").count() == 2


def test_a_queue_shows_its_limits_and_the_order_with_reasons(admin: Page, up: Up) -> None:
    shown(admin, up, "queues", "child-2", "1 waiting")
    admin.get_by_text("Order of 1 waiting job").click()
    expect(admin.get_by_text("already runs 1 of at most 1")).to_be_visible(timeout=WITHIN_MS)
    assert admin.get_by_role("img", name="root/child-2: used 3, min 0").count() == 1


def test_a_filter_of_the_jobs_stands_in_the_address(admin: Page, up: Up) -> None:
    shown(admin, up, "jobs", FIRST, SECOND, "2 jobs")
    admin.get_by_label("State").select_option("Queued")
    expect(admin.get_by_role("link", name=FIRST)).to_have_count(0, timeout=WITHIN_MS)
    expect(admin.get_by_role("link", name=SECOND)).to_be_visible(timeout=WITHIN_MS)
    assert admin.url.endswith("?state=Queued")


def test_a_job_says_why_it_waits_and_a_button_holds_and_releases_it(admin: Page, up: Up) -> None:
    shown(admin, up, PAGES[SECOND], "Queued", re.compile("already runs 1 of at most 1"), "What starts it")
    admin.get_by_role("button", name="Hold").click()
    admin.get_by_role("button", name="Release").click(timeout=WITHIN_MS)
    expect(admin.get_by_role("button", name="Hold")).to_be_visible(timeout=WITHIN_MS)
    admin.get_by_role("tab", name="Manifest").click()
    expect(admin.get_by_text('"kind": "PyTorchJob"')).to_be_visible(timeout=WITHIN_MS)
    assert admin.get_by_role("heading", level=1).inner_text().startswith(SECOND)


def test_a_viewer_sees_the_job_without_buttons(chromium: Browser, up: Up) -> None:
    page = logged_in(chromium, up, token(up, "vera"))
    shown(page, up, PAGES[SECOND], "Queued", "Pods")
    expect(page.locator(".buttons[data-asked]")).to_have_count(1, timeout=WITHIN_MS)
    assert page.locator("main").get_by_role("button").count() == 0


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_its_data_and_axe_finds_no_violation(admin: Page, up: Up, name: str) -> None:
    looked_at(admin, up, name)
    assert violations(admin) == []
