"""The page Jobs of the console with 100,000 jobs: how soon its rows are there when a reader scrolls, filters and jumps,
and for how long the browser is busy at a stretch. All jobs wait in one queue but a few.

    make bench PARTS=scroll

The hub is one process on the memory store, which runs as `python -m tests.bench.scroll FOLDER COUNT`.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from playwright.async_api import Page

from api.access.auth import Authenticator
from api.access.rbac import Rbac
from api.store.memory import MemoryStore
from fleet.console.face import Console
from fleet.console.sessions import Sessions
from fleet.controllers.decide.manifestunits import unit_in
from fleet.hub.collecting import collect_seldom
from fleet.rest.changes import PATH, ChangeStreams
from fleet.rest.mount import PREFIX, RestFace
from fleet.simulate.wall import WallClock
from fleet.values.ports import Key, Put, Write
from fleet.wellknown import ANNOTATION_QUOTA_FULLNAME, QUEUE, QUEUE_NAMESPACE
from tests.api.conftest import open_hub
from tests.bench.browsing import chromium, until, with_session
from tests.bench.report import Figure, Report, say
from tests.rest.rest import waiting_jobs

JOBS = 100_000
FEW, FEW_QUEUE, FEW_MEMBER = 50, "root/few", "east"
STEPS, STEP_PX = 60, 1_500  # turns of the wheel: 2,000 rows
TOKEN = "admin-token"  # of open_hub
BUSY = """
window.busy = [];
new PerformanceObserver((list) => window.busy.push(...list.getEntries().map((one) => one.duration)))
  .observe({ type: "longtask", buffered: true });
"""
BOX = "document.querySelector('.jobs .scroll')"
# The line above the rows counts the jobs so. (A locator of Playwright looks every half second at last.)
TOLD = "(document.querySelector('main .note')?.textContent ?? '').startsWith('COUNT')"
# Each row that is drawn has its job.
WHOLE = f"[...{BOX}.querySelectorAll('.row')].every((row) => row.querySelector('a'))"


def measure(report: Report, folder: Path, rounds: int, jobs: int = JOBS) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    say(f"scroll: a hub with {jobs:,} jobs starts")
    serving = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.scroll", str(folder), str(jobs)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert serving.stdout is not None
        server = serving.stdout.readline().strip()
        assert server, "the hub does not start"
        asyncio.run(_measure(report, server, rounds, jobs))
    finally:
        serving.terminate()
        serving.wait(60)


async def _measure(report: Report, server: str, rounds: int, jobs: int) -> None:
    took: dict[str, list[float]] = {}
    busy: dict[str, list[float]] = {}
    async with chromium() as browser:
        for number in range(rounds):
            context = await with_session(browser, server, TOKEN)
            page = await context.new_page()
            await page.add_init_script(BUSY)
            for what, act in (
                ("opened", _opened),
                ("scrolled", _scrolled),
                ("filtered by name", _filtered),
                ("filtered by state", partial(_chosen, "State", "Placed")),
                ("filter taken away", _cleared),
                ("filtered by queue", partial(_chosen, "Queue", FEW_QUEUE)),
                ("filter taken away", _cleared),
                ("filtered by member", partial(_chosen, "Member", FEW_MEMBER)),
                ("filter taken away", _cleared),
                ("filtered by the state of nearly all", partial(_most, "Queued")),
                ("filter taken away", _cleared),
                ("jumped to the end", _jumped),
                ("scrolled at the end", _back),
            ):
                began = time.perf_counter()
                await act(page, server, jobs)
                took.setdefault(what, []).append(1000 * (time.perf_counter() - began))
                busy.setdefault(what, []).append(max(await page.evaluate("window.busy.splice(0)"), default=0.0))
                say(f"scroll: round {number + 1}, {what}: {took[what][-1]:.0f} ms, busy for {busy[what][-1]:.0f} ms")
            await context.close()
    for what, values in took.items():
        report.add(Figure(f"{jobs:,} jobs, {what}", "ms", tuple(values)))
        report.add(Figure("its longest task", "ms", tuple(busy[what]), "< 200", beside="scroll"))


async def _opened(page: Page, server: str, jobs: int) -> None:
    await page.goto(f"{server}/console/jobs")
    await _told(page, f"{jobs:,} jobs")


async def _scrolled(page: Page, server: str, jobs: int) -> None:
    await page.locator(".jobs .scroll").hover()
    for _ in range(STEPS):
        await page.mouse.wheel(0, STEP_PX)
        await page.evaluate("new Promise((done) => requestAnimationFrame(done))")
    await until(page, WHOLE)


async def _filtered(page: Page, server: str, jobs: int) -> None:
    """And all jobs again."""
    name = f"job-{jobs // 2:05}"
    await page.get_by_label("Name", exact=True).fill(name)
    await _told(page, "1 job")
    await page.get_by_role("link", name=name).wait_for()
    await _cleared(page, server, jobs)


async def _chosen(label: str, value: str, page: Page, server: str, jobs: int) -> None:
    """The few jobs show, which are the last that a look at each job finds."""
    field = page.get_by_label(label, exact=True)
    await (field.select_option(value) if label == "State" else field.fill(value))
    await _told(page, f"{FEW} jobs")
    await page.get_by_role("link", name=f"job-{jobs - FEW:05}").wait_for()


async def _most(state: str, page: Page, server: str, jobs: int) -> None:
    await page.get_by_label("State", exact=True).select_option(state)
    await _told(page, "more than 100 jobs")


async def _cleared(page: Page, server: str, jobs: int) -> None:
    await page.get_by_role("button", name="Clear").click()
    await _told(page, f"{jobs:,} jobs")


async def _told(page: Page, count: str) -> None:
    """The page counts the jobs so, and each row in view has its job."""
    await until(page, TOLD.replace("COUNT", count))
    await until(page, WHOLE)


async def _jumped(page: Page, server: str, jobs: int) -> None:
    await page.evaluate(f"{BOX}.scrollTop = {BOX}.scrollHeight")
    await page.get_by_role("link", name=f"job-{jobs - 1:05}").wait_for(timeout=120_000)


async def _back(page: Page, server: str, jobs: int) -> None:
    await page.locator(".jobs .scroll").hover()
    for _ in range(STEPS):
        await page.mouse.wheel(0, -STEP_PX)
        await page.evaluate("new Promise((done) => requestAnimationFrame(done))")
    await until(page, WHOLE)


def _with_few(writes: list[Write]) -> list[Write]:
    """The last FEW jobs lie in a queue and in a member of their own."""
    queue = Key(QUEUE, "queues", QUEUE_NAMESPACE, FEW_QUEUE.replace("/", "-"))
    annotations = {ANNOTATION_QUOTA_FULLNAME: FEW_QUEUE}
    for write in writes[-3 * FEW :]:  # job, binding and unit of each
        assert isinstance(write, Put)
        if write.key.resource == "resourcebindings":
            write.body["spec"]["clusters"] = [{"name": FEW_MEMBER}]
        elif write.key.resource == "queueunits":
            write.body["spec"]["queue"] = queue.name
    return [Put(queue, {"metadata": {"name": queue.name, "annotations": annotations}}), *writes]


async def serve(folder: Path, count: int) -> None:
    """A hub with a console and `count` waiting jobs, until it is killed; prints its address."""
    collect_seldom()  # as the hub's processes do
    clock = WallClock()
    store = MemoryStore(clock)

    def console(users: Authenticator) -> Console:
        return Console(Sessions(store, clock, users), clock)

    async with open_hub(
        folder,
        store,
        console=console,
        mounts=lambda o: {
            PATH: ChangeStreams(store, o.registry, Rbac(store), clock),
            PREFIX: RestFace(o, o.store, o.registry, partial(unit_in, store)),
        },
    ) as hub:
        await store.commit(_with_few(waiting_jobs(count, clock.now())))
        async with hub.client() as client:  # the hub works out the places in the queues once
            await client.get(f"{PREFIX}/jobs", params={"limit": 1}, timeout=None)
        print(hub.server.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
