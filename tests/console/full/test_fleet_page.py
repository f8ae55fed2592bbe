"""The map, the chart, the fair shares and the changes, in Chromium on a real hub."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.cli.hub import Up
from tests.console.browser import FIRST, WITHIN_MS, logged_in, shown, token, violations

pytestmark = pytest.mark.xdist_group("console")
TREES = "/apis/scheduling.sigs.k8s.io/v1beta1/namespaces/kube-system/elasticquotatrees"
MINUTES_MS = 150_000  # the hub records the use once a minute


def test_the_map_shows_each_gpu_and_names_the_jobs_of_a_node(admin: Page, up: Up) -> None:
    shown(admin, up, "", re.compile("Nodes of"))
    busy = admin.locator(".nodes button", has=admin.locator("[class*=shade-]"))
    expect(busy.first).to_be_visible(timeout=WITHIN_MS)
    expect(admin.locator(".nodes [class*=shade-]")).to_have_count(3, timeout=WITHIN_MS)
    expect(admin.locator(".nodes .slot")).to_have_count(64, timeout=WITHIN_MS)
    expect(busy.first).to_have_attribute("aria-label", re.compile(rf"default/{FIRST} \d \(root/child-2\)"))
    busy.first.focus()
    link = admin.get_by_role("status").get_by_role("link", name=f"default/{FIRST}")
    expect(link).to_have_attribute("href", f"/console/jobs/default/PyTorchJob/{FIRST}", timeout=WITHIN_MS)


def test_the_last_hour_shows_the_job_that_started(admin: Page, up: Up) -> None:
    shown(admin, up, "")
    changes = admin.get_by_role("region", name="The last hour")
    expect(changes.get_by_role("link", name=f"default/{FIRST}").first).to_be_visible(timeout=WITHIN_MS)
    expect(changes.get_by_text("Started", exact=True).first).to_be_visible(timeout=WITHIN_MS)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_use_over_time_is_a_chart_and_a_table_and_fits_a_phone(admin: Page, up: Up, scheme: str) -> None:
    admin.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    admin.set_viewport_size({"width": 360, "height": 800})
    refused: list[str] = []
    admin.on("console", lambda message: refused.append(message.text) if "Content Security" in message.text else None)
    try:
        for path in ("", "usage?report=usage", "queues", "members"):
            shown(admin, up, path)
            if path in ("", "usage?report=usage"):
                expect(admin.locator(".chart canvas")).to_be_visible(timeout=MINUTES_MS)
                admin.get_by_text("The numbers as a table").click()
                expect(admin.locator(".chart th", has_text="root/child-2")).to_be_visible(timeout=WITHIN_MS)
            if path == "members":
                admin.get_by_text("GPUs by job").first.click()
            expect(admin.locator(".mantine-Skeleton-root")).to_have_count(0, timeout=WITHIN_MS)
            assert admin.evaluate("document.documentElement.scrollWidth") <= 360, path
            assert violations(admin) == [], path
        assert refused == []
    finally:
        admin.set_viewport_size({"width": 1280, "height": 720})
        admin.emulate_media(color_scheme="light")


def test_a_queue_has_one_colour_and_letter_wherever_it_shows(admin: Page, up: Up) -> None:
    """Also beside a queue that only one of the pages shows."""
    (tree,) = up.hub.request("GET", TREES).body["items"]
    path, root = f"{TREES}/{tree['metadata']['name']}", tree["spec"]["root"]
    more = {**root, "children": [{"name": "child-1", "namespaces": ["one"]}, *root["children"]]}
    merge = "application/merge-patch+json"
    up.hub.request("PATCH", path, {"spec": {"root": more}}, content_type=merge)
    try:
        shown(admin, up, "queues", "child-1")
        lines = admin.locator(".queue-line")
        wanted, other = mark(lines.filter(has_text="child-2")), mark(lines.filter(has_text="child-1"))
        assert {wanted[0], other[0]} <= {f"slot shade-{number}" for number in range(1, 8)}
        assert wanted[0] != other[0] and wanted[1] != other[1]
        shown(admin, up, "")
        legends = admin.get_by_role("region", name="Nodes").get_by_role("list", name="Meaning of the squares")
        assert mark(legends.get_by_role("listitem").filter(has_text="root/child-2")) == wanted
        areas = admin.locator(".chart .legend li", has_text="root/child-2")
        expect(areas).to_be_visible(timeout=MINUTES_MS)
        assert mark(areas) == wanted
        shown(admin, up, "usage?report=waits&by=queue", "root/child-2")
        assert mark(admin.get_by_role("rowheader", name="root/child-2")) == wanted
    finally:
        up.hub.request("PATCH", path, {"spec": {"root": root}}, content_type=merge)


def mark(where: Locator) -> tuple[str, str]:
    """Colour and letter of the queue that is named there."""
    square = where.locator("[class*=shade-]")
    expect(square).to_have_attribute("data-sign", re.compile("[A-Z]"), timeout=WITHIN_MS)
    return square.get_attribute("class") or "", square.get_attribute("data-sign") or ""


def test_a_queue_shows_its_fair_share(admin: Page, up: Up) -> None:
    shown(admin, up, "queues", "child-2")
    expect(admin.get_by_role("img", name=re.compile("child-2: .*fair share"))).to_be_visible(timeout=WITHIN_MS)


def test_a_member_shows_when_it_was_heard_and_the_gpus_of_its_jobs(admin: Page, up: Up) -> None:
    shown(admin, up, "members", re.compile(r"\d+ s ago"))
    for summary in admin.get_by_text("GPUs by job").all():
        summary.click()
    expect(admin.get_by_role("link", name=f"default/{FIRST}").first).to_be_visible(timeout=WITHIN_MS)


def test_without_the_right_to_see_the_fleet_the_page_says_who_can_help(chromium: Browser, up: Up) -> None:
    page = logged_in(chromium, up, token(up, "nora"))
    shown(page, up, "usage", "You may not see the use over time")
    page.context.close()
