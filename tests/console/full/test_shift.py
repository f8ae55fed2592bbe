"""Nothing jumps while a page loads: the cumulative layout shift of each."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.cli.hub import Up
from tests.console.browser import FIRST, SECOND, logged_in, shown, token

pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.timeout(300)]
JOB = "jobs/default/PyTorchJob"
PAGES = {
    "": "The last hour",
    "queues": "root",
    "jobs": FIRST,
    f"{JOB}/{FIRST}": "Manifest",
    f"{JOB}/{SECOND}": "Manifest",
    "decisions": "Decisions",
    "what-if": "What if",
    "members": "cfb",
    "usage": "Usage",
    "settings": "Settings",
}
CALM_MS = 1000  # after the page's text stands, for what comes late
MOST = 0.05  # half of what web.dev/cls calls good
RECORD = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const one of list.getEntries())
    window.shifts.push([one.value, ...one.sources.map((source) => (source.node?.outerHTML ?? "").slice(0, 80))]);
}).observe({ type: "layout-shift", buffered: true });
"""


@pytest.mark.parametrize("width", [1280, 360])
def test_nothing_jumps_while_a_page_loads(chromium: Browser, up: Up, width: int) -> None:
    page = logged_in(chromium, up, token(up, "shift", "--group", "system:masters"))
    page.set_viewport_size({"width": width, "height": 900})
    page.add_init_script(RECORD)
    jumps = {}
    for path, text in PAGES.items():
        shown(page, up, path, text)
        page.wait_for_timeout(CALM_MS)
        shifts = page.evaluate("window.shifts")
        if sum(shift[0] for shift in shifts) > MOST:
            jumps[path] = shifts
    page.context.close()
    assert not jumps
