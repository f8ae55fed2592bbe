from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.cli.hub import Up, fleet
from tests.console.browser import VIEWER, WALKTHROUGH, logged_in, token
from tests.console.hub import World, console_hub


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with console_hub(tmp_path) as made:
        yield made


@pytest.fixture(scope="package")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A hub on which one job runs and one waits."""
    folder = tmp_path_factory.mktemp("console")
    hub = Up(folder / "hub", "--members", "2")
    try:
        for name in ("quota-tree", "policy-gang-queue", "pytorchjob", "pytorchjob-second"):
            manifest = folder / f"{name}.yaml"
            text = (WALKTHROUGH / f"{name}.yaml").read_text()
            manifest.write_text(text.replace("testbed/run-for: 30s", "testbed/run-for: 1h"))
            assert fleet("submit", str(manifest), "--data-dir", str(hub.folder)).returncode == 0
        viewer = folder / "viewer.yaml"
        viewer.write_text(VIEWER)
        assert fleet("submit", str(viewer), "--data-dir", str(hub.folder)).returncode == 0
        yield hub
    finally:
        assert hub.stop() == 0, hub.errors.read_text()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    # Of each module: its event loop would be in the way of the asynchronous tests after them.
    program = shutil.which("chromium")
    assert program, "the tests of the console need Chromium: make chromium"
    print(subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60).stdout.strip())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def admin(chromium: Browser, up: Up) -> Page:
    return logged_in(chromium, up, token(up, "ada", "--group", "system:masters"))
