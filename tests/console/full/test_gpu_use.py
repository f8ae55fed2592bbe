"""What jobs and members use of their GPUs, on the pages: from simulated exporters in a member to Chromium."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.cli.hub import Up, fleet
from tests.console.browser import WALKTHROUGH, WITHIN_MS, logged_in, shown, token, violations
from tests.console.scene import EXPORTERS, name_gpu_source

pytestmark = pytest.mark.xdist_group("console-gpus")

CLUSTER = "/apis/cluster.karmada.io/v1alpha1/clusters/cfa"
BUSY = "default/pytorch-test"
MINUTE_MS = 150_000  # the controllers ask a source every 48 to 72 s


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """The job of the walk-through runs in member cfa on three GPUs, which it uses by 1 %."""
    folder = tmp_path_factory.mktemp("gpus")
    running = Up(folder / "hub", "--members", "1")
    try:
        for name in ("quota-tree", "policy-gang-queue", "pytorchjob"):
            manifest = folder / f"{name}.yaml"
            text = (WALKTHROUGH / f"{name}.yaml").read_text()
            lines = r'\1testbed/run-for: 1h\n\1testbed/gpu-utilization: "1"'
            manifest.write_text(re.sub(r"( +)testbed/run-for: 30s", lines, text))
            assert fleet("submit", str(manifest), "--data-dir", str(running.folder)).returncode == 0
        done = fleet("wait", "pytorch-test", "--for", "started", "--timeout", "90", "--data-dir", str(running.folder))
        assert done.returncode == 0, done.stderr
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()


@pytest.fixture
def page(chromium: Browser, hub: Up) -> Page:
    return logged_in(chromium, hub, token(hub, "ada", "--group", "system:masters"))


def test_figures_are_shown_of_pods_of_members_and_of_idle_jobs_once_a_source_is_named(page: Page, hub: Up) -> None:
    shown(page, hub, "members", "no source of figures")
    name_gpu_source(hub, "cfa")
    shown(page, hub, "jobs/default/PyTorchJob/pytorch-test", "Uses")
    pods = page.locator("tbody tr")
    expect(pods).to_have_count(3, timeout=WITHIN_MS)
    expect(page.get_by_text("GPU 1 %, 40 GiB of 80 GiB, 350 W, 1 GPU idle")).to_have_count(3, timeout=WITHIN_MS)
    assert violations(page) == []
    shown(page, hub, "members", "GPU use")
    card = page.get_by_role("article", name="Member cfa")
    expect(
        card.get_by_text(re.compile("1 %, 120 GiB of 240 GiB, .*3 GPUs idle; .*its exporter tells no GPU"))
    ).to_be_visible(timeout=MINUTE_MS)
    idle = page.get_by_role("region", name="Jobs that use less than 5 % of their GPUs")
    expect(idle.get_by_text(re.compile(r"1 % of 3 GPUs in cfa since"))).to_be_visible(timeout=WITHIN_MS)
    expect(idle.get_by_role("link", name=BUSY)).to_be_visible()
    assert violations(page) == []


def test_a_source_that_is_silent_says_why_on_both_pages(page: Page, hub: Up) -> None:
    metrics = {"spec": {"metrics": {"dcgm": {"namespace": "nowhere", "labels": EXPORTERS}}}}
    hub.hub.request("PATCH", CLUSTER, metrics, content_type="application/merge-patch+json")
    shown(page, hub, "jobs/default/PyTorchJob/pytorch-test", re.compile("cfa .*no pod with the labels"))
    shown(page, hub, "members", "GPU use")
    told = page.get_by_role("article", name="Member cfa").get_by_text(re.compile("no pod with the labels"))
    expect(told).to_be_visible(timeout=MINUTE_MS)
