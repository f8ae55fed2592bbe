"""What the tests of the console's pages share: the hub's world, a user who is logged in, a page with its data."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.cli.hub import Up, fleet

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "console" / "node_modules" / "axe-core" / "axe.min.js"
WALKTHROUGH = ROOT / "examples" / "walkthrough"
WITHIN_MS = 30_000
FIRST, SECOND = "pytorch-test", "pytorch-second"  # a job that runs, and one that waits
# The first heading of each page, and its address.
PAGES = {
    "Fleet": "",
    "Queues": "queues",
    "Jobs": "jobs",
    SECOND: f"jobs/default/PyTorchJob/{SECOND}",
    "Members": "members",
    "Decisions": "decisions",
    "Usage": "usage?report=waits",
    "What if": "what-if",
    "Settings": "settings",
}
HAS_DATA = re.compile(r"child-2|GPUs used|pytorch|4 of 4 ready|No edits yet")
VIEWER = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: viewers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: vera}]
"""


def token(up: Up, name: str, *arguments: str) -> str:
    done = fleet("token", "create", name, *arguments, "--data-dir", str(up.folder))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def logged_in(chromium: Browser, up: Up, secret: str) -> Page:
    page = chromium.new_context(ignore_https_errors=True, locale="en-GB").new_page()
    page.set_default_timeout(WITHIN_MS)
    page.goto(f"{up.hub.client.access.server}/console")
    page.get_by_label("Token", exact=False).first.fill(secret)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Fleet", level=1)).to_be_visible(timeout=WITHIN_MS)
    expect(page.get_by_role("button", name="Log out")).to_be_visible(timeout=WITHIN_MS)
    return page


def shown(page: Page, up: Up, path: str, *texts: str | re.Pattern[str]) -> None:
    page.goto(f"{up.hub.client.access.server}/console/{path}")
    for text in texts:
        expect(page.get_by_text(text).first).to_be_visible(timeout=WITHIN_MS)


def looked_at(page: Page, up: Up, name: str) -> None:
    """One of PAGES is open, and has its data."""
    shown(page, up, PAGES[name])
    expect(page.get_by_role("heading", name=name, level=1)).to_be_visible(timeout=WITHIN_MS)
    expect(page.locator("main").get_by_text(HAS_DATA).first).to_be_visible(timeout=WITHIN_MS)


def violations(page: Page) -> list[tuple[str, list[str]]]:
    """What axe finds wrong with the page as it is shown: rule, elements."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run()")
    return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found["violations"]]
