"""The figures of the console: a real Chromium before a hub over TLS with 50 members and 10,000 jobs.

    make bench PARTS=console

How soon a page shows its numbers, how soon it shows a change in a member, what 200 open pages cost the API, and how
many bytes a browser fetches. `python -m tests.bench.console` takes the sizes as flags.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import os
import tempfile
import time
from pathlib import Path

from playwright.async_api import Browser, Page

from fleet.console.files import FOLDER
from tests.bench.browsing import WITHIN_MS, chromium, until, with_session
from tests.bench.client import items, post
from tests.bench.consolehub import Size, World, ending, fill, started_world
from tests.bench.crowd import running_pod
from tests.bench.family import cpu_seconds
from tests.bench.pages import fleet_page, open_pages
from tests.bench.report import Figure, Report, say
from tests.chaos.parts import process_of

PAGES = 200
SECONDS = 60.0
RATES = (0.0, 0.1, 1.0)  # jobs that end in a second, and as many start
CHANGES = 10
# What a page shows when its numbers are there.
SHOWS = {
    "Fleet": ("", "dl.figures dd"),
    "Jobs": ("jobs", ".jobs .scroll .row a"),
    "Queues": ("queues", ".tree .bar"),
}
# Notes when the element is first drawn: milliseconds from the navigation's start.
NOTE = """
(() => {
  const look = () => {
    if (window.shownAt === undefined && document.querySelector(SELECTOR))
      window.shownAt = new Promise((done) => requestAnimationFrame(() => done(performance.now())));
  };
  new MutationObserver(look).observe(document, { childList: true, subtree: true });
})();
"""
USED = """(() => {
  const found = [...document.querySelectorAll(".figure")].find((one) => one.querySelector("dt").textContent === "Used");
  return found ? Number(found.querySelector("dd").textContent.replace(/[^0-9]/g, "")) : -1;
})()"""


def measure(
    report: Report,
    folder: Path,
    rounds: int,
    size: Size | None = None,
    pages: int = PAGES,
    seconds: float = SECONDS,
    rates: tuple[float, ...] = RATES,
    changes: int = CHANGES,
) -> None:
    measure_bundle(report)
    with started_world(folder, size or Size()) as world:
        asyncio.run(_measure(report, world, rounds, pages, seconds, rates, changes))


async def _measure(
    report: Report, world: World, rounds: int, pages: int, seconds: float, rates: tuple[float, ...], changes: int
) -> None:
    await fill(world)
    async with chromium() as browser:
        for name, (path, selector) in SHOWS.items():
            say(f"console: {name}, load {os.getloadavg()[0]:.1f}")
            cold, warm, often, fetched = await _opened(browser, world, path, selector, rounds)
            report.add(Figure(f"{name}, cold", "ms", tuple(cold), "< 1000"))
            report.add(Figure(f"{name}, warm", "ms", tuple(warm), "< 200"))
            report.add(Figure(f"{name}, a third time", "ms", tuple(often), "< 200"))
            if not path:
                report.add(Figure("fetched for it, cold", "KB", (fetched / 1000,), beside="console"))
        await _measure_lag(report, browser, world, changes)
        for rate in rates:
            for count in (0, pages):
                await _measure_pages(report, world, browser, count, seconds, rate)


# -- the browser ------------------------------------------------------------------------------------------------------


async def _opened(
    browser: Browser, world: World, path: str, selector: str, rounds: int
) -> tuple[list[float], list[float], list[float], float]:
    """Milliseconds until the page is shown: in an empty browser, once more in it, and a third time, for which Chromium
    has the scripts compiled; bytes fetched in the first."""
    cold, warm, often, fetched = list[float](), list[float](), list[float](), 0.0
    for _ in range(rounds):
        context = await with_session(browser, world.server, world.token)
        page = await context.new_page()
        await page.add_init_script(NOTE.replace("SELECTOR", repr(selector)))
        cold.append(await _shown(page, f"{world.server}/console/{path}"))
        sizes = "performance.getEntriesByType('resource').filter((one) => one.name.includes('/assets/'))"
        fetched = await page.evaluate(f"{sizes}.reduce((sum, one) => sum + one.encodedBodySize, 0)")
        warm.append(await _shown(page, f"{world.server}/console/{path}"))
        often.append(await _shown(page, f"{world.server}/console/{path}"))
        await context.close()
    return cold, warm, often, fetched


async def _shown(page: Page, url: str) -> float:
    await page.goto(url, wait_until="commit")
    await until(page, "window.shownAt !== undefined")
    took: float = await page.evaluate("window.shownAt")
    await page.wait_for_load_state("load")
    return took


# -- lag --------------------------------------------------------------------------------------------------------------


async def _measure_lag(report: Report, browser: Browser, world: World, changes: int) -> None:
    """From the request to a member until an open page shows what it changed."""
    say(f"console: {changes} pods in members, {changes} jobs that end there, load {os.getloadavg()[0]:.1f}")
    context = await with_session(browser, world.server, world.token)
    page = await context.new_page()
    pods, ends = list[float](), list[float]()
    await page.goto(f"{world.server}/console/")
    for number in range(changes):
        await until(page, f"{USED} >= 0")
        before = await page.evaluate(USED)
        async with world.in_member(number) as member:
            await items(member, "/api/v1/namespaces")  # connected before the clock starts
            body = running_pod(f"late-{number}", "node-1")
            began = time.monotonic()
            await post(member, "/api/v1/namespaces/default/pods", body)
            await until(page, f"{USED} > {before}")
            pods.append(time.monotonic() - began)
    async with world.client() as client:
        for job in await world.running(client, changes):
            await page.goto(f"{world.server}/console/jobs?namespace={job['namespace']}&name={job['name']}")
            state = page.locator(".jobs .scroll .row .state")
            await state.get_by_text("Running").wait_for(timeout=WITHIN_MS)
            began = await world.end(job)
            await state.get_by_text("Succeeded").wait_for(timeout=WITHIN_MS)
            ends.append(time.monotonic() - began)
    await context.close()
    report.add(Figure("a pod in a member → the page Fleet", "s", tuple(pods), "≤ 1"))
    report.add(Figure("a job's pod ends in a member → the page Jobs", "s", tuple(ends), "≤ 1"))


# -- many pages -------------------------------------------------------------------------------------------------------


async def _measure_pages(
    report: Report, world: World, browser: Browser, count: int, seconds: float, rate: float
) -> None:
    process = process_of(world.hub.folder, "api")
    assert process is not None, world.hub.log()
    async with contextlib.AsyncExitStack() as stack:
        told = await stack.enter_async_context(open_pages(world.server, world.token, count, fleet_page(world.members)))
        if count:
            context = await with_session(browser, world.server, world.token)
            stack.push_async_callback(context.close)
            real = await context.new_page()
            await real.goto(f"{world.server}/console/")
            await until(real, f"{USED} >= 0")
        ends = await stack.enter_async_context(ending(world, rate))
        await asyncio.sleep(3.0)
        told.reset()
        before, began, first = cpu_seconds([process]), time.monotonic(), ends[0]
        await asyncio.sleep(seconds)
        took = time.monotonic() - began
        share = 100 * (cpu_seconds([process]) - before) / took
        assert not told.failures, f"{told.failures} answers were refusals"
        say(
            f"console: {count} pages, {(ends[0] - first) / took:.2f} jobs/s: {share:.1f} % of a core; "
            f"{told.events / took:.0f} events/s, {told.answers / took:.0f} answers/s, "
            f"{told.bytes / took / 1e6:.1f} MB/s, slowest {told.slowest_s:.2f} s, load {os.getloadavg()[0]:.1f}"
        )
    goal = "< 20" if count else ""
    report.add(Figure(f"API with {count} pages, {rate:g} jobs/s end", "% core", (share,), goal))


# -- bytes ------------------------------------------------------------------------------------------------------------


def measure_bundle(report: Report) -> None:
    """The built files, as gzip packs them."""
    files = [path for path in FOLDER.rglob("*") if path.suffix in (".js", ".css", ".html")]
    assert files, "the console is not built: make console"
    packed = sum(len(gzip.compress(path.read_bytes(), 9)) for path in files)
    report.add(Figure("bundle of all pages, compressed", "KB", (packed / 1000,), "< 500"))
    report.add(Figure("as it is", "KB", (sum(path.stat().st_size for path in files) / 1000,), beside="console"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--members", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--running", type=int, default=500)
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--rates", type=float, nargs="*", default=RATES)
    parser.add_argument("--changes", type=int, default=CHANGES)
    asked = parser.parse_args()
    report = Report()
    try:
        with tempfile.TemporaryDirectory(prefix="fleet-bench-") as folder:
            size = Size(members=asked.members, jobs=asked.jobs, running=asked.running)
            measure(
                report,
                Path(folder) / "console",
                asked.rounds,
                size,
                asked.pages,
                asked.seconds,
                tuple(asked.rates),
                asked.changes,
            )
    finally:
        report.show()


if __name__ == "__main__":
    main()
