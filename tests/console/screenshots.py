"""Every page of the console with the data of a busy fleet: its content, its width, its layout, and its picture.

`make screenshots` runs it, and names the folder of the pictures by FLEET_SCREENSHOTS. Without, they go into a temporary
one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from urllib.parse import urlencode

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.cli.hub import Up
from tests.console.browser import WITHIN_MS, logged_in, token, violations
from tests.console.scene import RUNS, WAITS, stage

pytestmark = pytest.mark.xdist_group("console")

DESK, PHONE = ViewportSize(width=1280, height=800), ViewportSize(width=360, height=800)
SHIFT_MOST = 0.1  # what the web counts as good
SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) if (!one.hadRecentInput) window.shifts.push(one.value);
}).observe({type: "layout-shift", buffered: true});
"""


def at(job: str) -> str:
    namespace, _, name = job.partition("/")
    return f"jobs/{namespace}/PyTorchJob/{name}"


# name of the picture -> address, a text that the page shows once its data is there
PAGES: dict[str, tuple[str, str | re.Pattern[str]]] = {
    "queues": ("queues", "production"),
    "jobs": ("jobs", "ranker"),
    "job-running": (at(RUNS[0]), "Pods"),
    "job-waiting": (at(WAITS), "What starts it"),
    "decisions": ("decisions", "ranker"),
    "members": ("members", re.compile("90 %, ")),
    "usage": ("usage?report=usage&by=queue", "root/production"),
    "what-if": ("what-if#" + urlencode({"edit": json.dumps({"Remove": {"unit": RUNS[0]}})}), "Start now"),
    "settings-quota": ("settings/quota", "What would change"),
    "settings-policies": ("settings/policies", "training"),
    "settings-tokens": ("settings/tokens", "New token"),
    "settings-notifications": ("settings/notifications", "There are no receivers"),
    "fleet": ("", "GPUs used"),
}


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("scene")
    hub = Up(folder / "hub", "--members", "3", "--protection-seconds", "0")
    try:
        stage(hub, folder)
        yield hub
    finally:
        assert hub.stop() == 0, hub.errors.read_text()


@pytest.fixture(scope="module")
def desk(chromium: Browser, busy: Up) -> Page:
    page = logged_in(chromium, busy, token(busy, "ada", "--group", "system:masters"))
    page.add_init_script(SHIFTS)
    return page


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    told = os.environ.get("FLEET_SCREENSHOTS")
    folder = Path(told) if told else tmp_path_factory.mktemp("pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def take(page: Page, picture: Path) -> None:
    """The window as a PNG of 128 colours: a quarter of the size, and no difference that is seen."""
    page.mouse.move(0, 0)
    with Image.open(BytesIO(page.screenshot(animations="disabled", caret="hide"))) as shot:
        shot.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(picture, optimize=True)


def opened(page: Page, up: Up, path: str, text: str | re.Pattern[str]) -> None:
    page.goto(f"{up.hub.client.access.server}/console/{path}")
    main = page.locator("main")
    expect(main.get_by_text(text).locator("visible=true").first).to_be_visible(timeout=WITHIN_MS)
    expect(page.locator(".mantine-Skeleton-root")).to_have_count(0, timeout=WITHIN_MS)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_its_data_keeps_its_layout_and_fits(desk: Page, busy: Up, pictures: Path, name: str) -> None:
    path, text = PAGES[name]
    try:
        for scheme in ("light", "dark"):
            desk.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            desk.set_viewport_size(DESK)
            opened(desk, busy, path, text)
            take(desk, pictures / f"{name}-{scheme}.png")
            assert desk.locator("[role=alert]").count() == 0, desk.locator("[role=alert]").all_inner_texts()
            assert desk.evaluate("document.documentElement.scrollWidth") <= 1280
            assert violations(desk) == [], scheme
        assert sum(desk.evaluate("window.shifts")) < SHIFT_MOST, desk.evaluate("window.shifts")
        desk.set_viewport_size(PHONE)
        assert desk.evaluate("document.documentElement.scrollWidth") <= 360
    finally:
        desk.set_viewport_size(DESK)
        desk.emulate_media(color_scheme="light")
