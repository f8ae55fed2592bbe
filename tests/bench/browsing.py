"""A real Chromium with a session of the console."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator

from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from tests.bench.pages import cookie_of

WITHIN_MS = 60_000
# The pages' policy lets no text become a function later, so Page.wait_for_function is refused.
UNTIL = """new Promise((done) => {
  const look = () => (CONDITION ? done(true) : requestAnimationFrame(look));
  look();
})"""


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    program = shutil.which("chromium")
    assert program, "the figures of the console need Chromium: make chromium"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()


async def with_session(browser: Browser, server: str, token: str) -> BrowserContext:
    """An empty browser with a session."""
    context = await browser.new_context(ignore_https_errors=True, locale="en-GB")
    for name, value in (await cookie_of(server, token)).items():
        cookie = {"name": name, "value": value, "url": server, "secure": True, "httpOnly": True}
        await context.add_cookies([cookie])  # type: ignore[list-item]
    return context


async def until(page: Page, condition: str) -> None:
    """A condition in JavaScript holds in a frame of the page."""
    async with asyncio.timeout(WITHIN_MS / 1000):
        await page.evaluate(UNTIL.replace("CONDITION", condition))
