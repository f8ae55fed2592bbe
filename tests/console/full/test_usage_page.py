"""The page Usage: the reports, and their CSV."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.cli.hub import Up
from tests.console.browser import WITHIN_MS, shown

pytestmark = pytest.mark.xdist_group("console")


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
