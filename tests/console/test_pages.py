"""The pages of the console in Chromium, on a real hub with simulated members."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.cli.hub import Up, fleet

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.xdist_group("console")

AXE = ROOT / "console" / "node_modules" / "axe-core" / "axe.min.js"
WALKTHROUGH = ROOT / "examples" / "walkthrough"
WITHIN_MS = 30_000
SHOWN = re.compile(r"child-2|GPUs used|pytorch|4 of 4 ready")  # a page has its data
FIRST, SECOND = "pytorch-test", "pytorch-second"
PAGES = {
    "Fleet": "", "Queues": "queues", "Jobs": "jobs", SECOND: f"jobs/default/PyTorchJob/{SECOND}", "Members": "members",
    "Usage": "usage?report=waits",
}  # fmt: skip
VIEWER = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: viewers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: vera}]
"""


@pytest.fixture(scope="module")
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
    program = shutil.which("chromium")
    assert program, "the tests of the console need Chromium: make chromium"
    print(subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60).stdout.strip())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


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


@pytest.fixture(scope="module")
def admin(chromium: Browser, up: Up) -> Page:
    return logged_in(chromium, up, token(up, "ada", "--group", "system:masters"))


def shown(page: Page, up: Up, path: str, *texts: str | re.Pattern[str]) -> None:
    page.goto(f"{up.hub.client.access.server}/console/{path}")
    for text in texts:
        expect(page.get_by_text(text).first).to_be_visible(timeout=WITHIN_MS)


def test_the_fleet_shows_the_gpus_of_each_member_and_the_newest_jobs(admin: Page, up: Up) -> None:
    shown(admin, up, "", re.compile("3 of 32 GPUs used"), f"default/{FIRST}", f"default/{SECOND}")
    assert admin.get_by_role("article").count() == 2


def test_a_queue_shows_its_limits_and_the_order_with_reasons(admin: Page, up: Up) -> None:
    shown(admin, up, "queues", "child-2", "1 waiting")
    admin.get_by_text("Order of 1 waiting job").click()
    expect(admin.get_by_text("already runs 1 of at most 1")).to_be_visible(timeout=WITHIN_MS)
    assert admin.get_by_role("img", name="root/child-2: used 3, min 0").count() == 1


def test_a_filter_of_the_jobs_stands_in_the_address(admin: Page, up: Up) -> None:
    shown(admin, up, "jobs", FIRST, SECOND, "2 jobs")
    admin.get_by_label("State").select_option("Queued")
    expect(admin.get_by_role("link", name=FIRST)).to_have_count(0, timeout=WITHIN_MS)
    expect(admin.get_by_role("link", name=SECOND)).to_be_visible(timeout=WITHIN_MS)
    assert admin.url.endswith("?state=Queued")


def test_a_job_says_why_it_waits_and_a_button_holds_and_releases_it(admin: Page, up: Up) -> None:
    shown(admin, up, PAGES[SECOND], "Queued", re.compile("already runs 1 of at most 1"), "What starts it")
    admin.get_by_role("button", name="Hold").click()
    admin.get_by_role("button", name="Release").click(timeout=WITHIN_MS)
    expect(admin.get_by_role("button", name="Hold")).to_be_visible(timeout=WITHIN_MS)
    admin.get_by_role("tab", name="Manifest").click()
    expect(admin.get_by_text('"kind": "PyTorchJob"')).to_be_visible(timeout=WITHIN_MS)
    assert admin.get_by_role("heading", level=1).inner_text().startswith(SECOND)


def test_a_viewer_sees_the_job_without_buttons(chromium: Browser, up: Up) -> None:
    page = logged_in(chromium, up, token(up, "vera"))
    shown(page, up, PAGES[SECOND], "Queued", "Pods")
    expect(page.locator(".buttons[data-asked]")).to_have_count(1, timeout=WITHIN_MS)
    assert page.locator("main").get_by_role("button").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_no_violation(admin: Page, up: Up, name: str, scheme: str) -> None:
    admin.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    shown(admin, up, PAGES[name])
    expect(admin.get_by_role("heading", name=name, level=1)).to_be_visible(timeout=WITHIN_MS)
    expect(admin.get_by_text(SHOWN).first).to_be_visible(timeout=WITHIN_MS)
    admin.evaluate(Path(AXE).read_text())
    found = admin.evaluate("axe.run()")
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found["violations"]] == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_telephone(admin: Page, up: Up, name: str) -> None:
    admin.set_viewport_size({"width": 360, "height": 740})
    try:
        shown(admin, up, PAGES[name])
        expect(admin.get_by_text(SHOWN).first).to_be_visible(timeout=WITHIN_MS)
        assert admin.evaluate("document.documentElement.scrollWidth") <= 360
    finally:
        admin.set_viewport_size({"width": 1280, "height": 720})


def test_a_member_is_cordoned_and_drained_on_its_page(admin: Page, up: Up) -> None:
    shown(admin, up, "members", "4 of 4 ready")
    card = admin.get_by_role("article", name="Member cfb")
    card.get_by_role("button", name="Cordon cfb").click()
    expect(card.get_by_text("cordoned", exact=True)).to_be_visible(timeout=WITHIN_MS)
    cluster = "/apis/cluster.karmada.io/v1alpha1/clusters/cfb"
    cordoned = up.hub.request("GET", cluster).body["spec"]["taints"]
    assert [(one["key"], one["effect"]) for one in cordoned] == [("cluster.karmada.io/unschedulable", "NoSchedule")]
    card.get_by_role("button", name="Drain cfb").click()
    card.get_by_role("button", name="Drain it").click()
    expect(card.get_by_text("drains", exact=True)).to_be_visible(timeout=WITHIN_MS)
    told = {one["key"]: one.get("value") for one in up.hub.request("GET", cluster).body["spec"]["taints"]}
    assert told["fleet.io/drain"] == "60-per-minute"
    card.get_by_role("button", name="Uncordon cfb").click()
    expect(card.get_by_role("button", name="Cordon cfb", exact=True)).to_be_visible(timeout=WITHIN_MS)
    assert up.hub.request("GET", cluster).body["spec"].get("taints", []) == []


def test_usage_is_shown_by_queue_and_saved_as_csv(admin: Page, up: Up) -> None:
    shown(admin, up, "usage?report=waits&by=queue", "root/child-2", "Half waited at most")
    assert admin.get_by_role("img", name="root/child-2: ").count() == 1
    with admin.expect_download(timeout=WITHIN_MS) as saved:
        admin.get_by_role("button", name="Save as CSV").click()
    head, row = Path(saved.value.path()).read_text().splitlines()
    assert head == "queue,meanS,p50S,p90S,submitted,started,waiting" and row.startswith('"root/child-2",')
    admin.get_by_label("Report").select_option("usage")
    expect(admin.get_by_text("GPU-hours").first).to_be_visible(timeout=WITHIN_MS)
    assert admin.url.endswith("?report=usage&by=queue&days=7")
