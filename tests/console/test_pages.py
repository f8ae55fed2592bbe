"""The pages of the console in Chromium, on a real hub with simulated members. Each test leaves the hub as it was."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.cli.hub import Up
from tests.console.browser import FIRST, SECOND, WITHIN_MS, logged_in, shown, token, violations

pytestmark = pytest.mark.xdist_group("console")

SHOWN = re.compile(r"child-2|GPUs used|pytorch|4 of 4 ready")  # a page has its data
PAGES = {
    "Fleet": "", "Queues": "queues", "Jobs": "jobs", SECOND: f"jobs/default/PyTorchJob/{SECOND}", "Members": "members",
    "Usage": "usage?report=waits",
}  # fmt: skip


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_no_violation(admin: Page, up: Up, name: str, scheme: str) -> None:
    admin.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    shown(admin, up, PAGES[name])
    expect(admin.get_by_role("heading", name=name, level=1)).to_be_visible(timeout=WITHIN_MS)
    expect(admin.get_by_text(SHOWN).first).to_be_visible(timeout=WITHIN_MS)
    assert violations(admin) == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_telephone(admin: Page, up: Up, name: str) -> None:
    admin.set_viewport_size({"width": 360, "height": 740})
    try:
        shown(admin, up, PAGES[name])
        expect(admin.get_by_text(SHOWN).first).to_be_visible(timeout=WITHIN_MS)
        assert admin.evaluate("document.documentElement.scrollWidth") <= 360
    finally:
        admin.set_viewport_size({"width": 1280, "height": 720})


def test_a_member_is_cordoned_and_drained_on_its_page(admin: Page, up: Up) -> None:
    shown(admin, up, "members", "4 of 4 ready")
    card = admin.get_by_role("article", name="Member cfb")
    card.get_by_role("button", name="Cordon cfb").click()
    expect(card.get_by_text("cordoned", exact=True)).to_be_visible(timeout=WITHIN_MS)
    cluster = "/apis/cluster.karmada.io/v1alpha1/clusters/cfb"
    cordoned = up.hub.request("GET", cluster).body["spec"]["taints"]
    assert [(one["key"], one["effect"]) for one in cordoned] == [("cluster.karmada.io/unschedulable", "NoSchedule")]
    card.get_by_role("button", name="Drain cfb").click()
    card.get_by_role("button", name="Drain it").click()
    expect(card.get_by_text("drains", exact=True)).to_be_visible(timeout=WITHIN_MS)
    told = {one["key"]: one.get("value") for one in up.hub.request("GET", cluster).body["spec"]["taints"]}
    assert told["fleet.io/drain"] == "60-per-minute"
    card.get_by_role("button", name="Uncordon cfb").click()
    expect(card.get_by_role("button", name="Cordon cfb", exact=True)).to_be_visible(timeout=WITHIN_MS)
    assert up.hub.request("GET", cluster).body["spec"].get("taints", []) == []


def test_usage_is_shown_by_queue_and_saved_as_csv(admin: Page, up: Up) -> None:
    shown(admin, up, "usage?report=waits&by=queue", "root/child-2", "Half waited at most")
    assert admin.get_by_role("img", name="root/child-2: ").count() == 1
    with admin.expect_download(timeout=WITHIN_MS) as saved:
        admin.get_by_role("button", name="Save as CSV").click()
    head, *rows = Path(saved.value.path()).read_text().splitlines()
    assert head == "queue,meanS,p50S,p90S,submitted,started,waiting"
    assert len([row for row in rows if row.startswith('"root/child-2",')]) == 1
    admin.get_by_label("Report", exact=True).select_option("usage")
    expect(admin.get_by_text("GPU-hours").first).to_be_visible(timeout=WITHIN_MS)
    assert admin.url.endswith("?report=usage&by=queue&days=7")
