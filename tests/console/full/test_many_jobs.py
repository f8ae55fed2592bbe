"""The page Jobs with more jobs than it asks for at once. `make bench PARTS=scroll` measures it with 100,000."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.bench.scroll import BOX, FEW, TOKEN
from tests.console.browser import WITHIN_MS

pytestmark = pytest.mark.xdist_group("console")

JOBS = 2_500  # the first page has 100, each other page 1,000
LAST = f"job-{JOBS - 1:05}"
QUEUED = JOBS - FEW  # the last few have a place
LAST_QUEUED = f"job-{QUEUED - 1:05}"
END = f"{BOX}.scrollTop = {BOX}.scrollHeight"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a hub without controllers, on which so many jobs wait."""
    folder = tmp_path_factory.mktemp("many")
    command = [sys.executable, "-m", "tests.bench.scroll", str(folder), str(JOBS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as hub:
        assert hub.stdout is not None
        yield hub.stdout.readline().strip()
        hub.terminate()


@pytest.fixture
def jobs(chromium: Browser, server: str) -> Iterator[Page]:
    context = chromium.new_context(ignore_https_errors=True, locale="en-GB")
    page = context.new_page()
    page.goto(f"{server}/console/jobs")
    page.get_by_role("textbox", name="Token").fill(TOKEN)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text(f"{JOBS:,} jobs")).to_be_visible(timeout=WITHIN_MS)
    yield page
    context.close()


def test_a_jump_to_the_end_asks_for_the_last_page_alone(jobs: Page) -> None:
    asked: list[str] = []
    jobs.on("request", lambda request: asked.append(request.url) if "/fleet/v1/jobs" in request.url else None)
    jobs.evaluate(END)
    expect(jobs.get_by_role("link", name=LAST)).to_be_visible(timeout=WITHIN_MS)
    assert [re.findall("offset=([0-9]+)", url) for url in asked if "limit=1000" in url] == [["2100"]]
    jobs.evaluate(f"{BOX}.scrollTop = 1000 * 44")
    expect(jobs.get_by_role("link", name="job-01000")).to_be_visible(timeout=WITHIN_MS)


def test_a_list_that_the_hub_does_not_count_grows_page_by_page_to_its_end(jobs: Page) -> None:
    jobs.get_by_label("State").select_option("Queued")
    for said in ("more than 100 jobs", "more than 1,100 jobs", "more than 2,100 jobs"):
        expect(jobs.get_by_text(said)).to_be_visible(timeout=WITHIN_MS)
        jobs.evaluate(END)
    expect(jobs.get_by_text(re.compile(f"^{QUEUED:,} jobs"))).to_be_visible(timeout=WITHIN_MS)
    jobs.evaluate(END)
    expect(jobs.get_by_role("link", name=LAST_QUEUED)).to_be_visible(timeout=WITHIN_MS)
