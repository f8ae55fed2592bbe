"""The pages of decisions in Chromium, on a real hub whose decisions started one job, and one more beside a held one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.cli.hub import Up, fleet, until
from tests.console.browser import FIRST, SECOND, WALKTHROUGH, WITHIN_MS, logged_in, shown, token, violations

pytestmark = pytest.mark.xdist_group("console")

THIRD = "pytorch-third"
TREE = "/apis/scheduling.sigs.k8s.io/v1beta1/namespaces/kube-system/elasticquotatrees/elasticquotatree"


def decisions(up: Up, job: str) -> list[Any]:
    found: list[Any] = up.hub.request("GET", f"/fleet/v1/decisions?job=default/{job}").body["items"]
    return found


def run(up: Up, *arguments: str) -> None:
    done = fleet(*arguments, "--data-dir", str(up.folder))
    assert done.returncode == 0, done.stderr


def most_jobs(up: Up, number: int) -> None:
    tree = up.hub.request("GET", TREE).body
    tree["spec"]["root"]["children"][0]["max"]["kube-queue/max-jobs"] = number
    up.hub.request("PUT", TREE, tree)


@pytest.fixture(scope="module")
def first(up: Up) -> int:
    """The decision that started the first job."""
    until("the decision is recorded", lambda: bool(decisions(up, FIRST)))
    return int(decisions(up, FIRST)[-1]["id"])


@pytest.fixture(scope="module")
def beside(up: Up, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A decision that started a third job while the second one was held."""
    manifest = tmp_path_factory.mktemp("decisions") / "third.yaml"
    text = (WALKTHROUGH / "pytorchjob-second.yaml").read_text().replace(SECOND, THIRD)
    manifest.write_text(text.replace("testbed/run-for: 30s", "testbed/run-for: 1h"))
    second = f"/fleet/v1/jobs/default/PyTorchJob/{SECOND}"
    run(up, "hold", SECOND)
    try:
        until("the second job is held", lambda: up.hub.request("GET", second).body["state"] == "Held")
        most_jobs(up, 2)
        run(up, "submit", str(manifest))
        until("the decision is recorded", lambda: bool(decisions(up, THIRD)))
        yield int(decisions(up, THIRD)[-1]["id"])
    finally:
        run(up, "cancel", THIRD)
        third = f"/fleet/v1/jobs/default/PyTorchJob/{THIRD}"
        until("the third job is gone", lambda: up.hub.request("GET", third, missing=True).status == 404)
        most_jobs(up, 1)
        until("one job runs", lambda: [one["running"] for one in queues(up)] == [1, 1])
        until("its GPUs are free", lambda: used(up) == 3)
        run(up, "release", SECOND)
        until("the second job waits", lambda: up.hub.request("GET", second).body["state"] == "Queued")


def queues(up: Up) -> list[Any]:
    found: list[Any] = up.hub.request("GET", "/fleet/v1/queues").body["items"]
    return found


def used(up: Up) -> int:
    members = up.hub.request("GET", "/fleet/v1/clusters").body["items"]
    return sum(int(one["allocated"].get("nvidia.com/gpu", 0)) for one in members)


def test_the_list_names_the_started_job_and_leads_to_its_decision(admin: Page, up: Up, first: int) -> None:
    shown(admin, up, f"decisions?job=default/{FIRST}")
    row = admin.get_by_role("row").filter(has=admin.get_by_role("link", name=f"default/{FIRST}"))
    expect(row).to_have_count(1, timeout=WITHIN_MS)
    expect(row.get_by_text("Started 1")).to_be_visible()
    expect(row.get_by_text(re.compile("^(backfill|the solver)$"))).to_be_visible()
    row.get_by_role("rowheader").get_by_role("link").click()
    expect(admin.get_by_role("heading", name=f"Decision {first}", level=1)).to_be_visible(timeout=WITHIN_MS)
    started = admin.get_by_role("region", name="Jobs that the decision started")
    expect(started.get_by_role("link", name=re.compile("^cf[ab]$"))).to_be_visible(timeout=WITHIN_MS)
    expect(admin.get_by_text("Proven best.")).to_be_visible()
    changed = admin.get_by_role("region", name="GPUs by member").get_by_role("row").last
    assert re.fullmatch(r"cf[ab]\s+0\s+3\s+0\s+3\s+32", changed.inner_text())
    started.get_by_role("link", name=f"default/{FIRST}").click()
    expect(admin.get_by_role("heading", name=FIRST, level=1)).to_be_visible(timeout=WITHIN_MS)


def test_the_list_has_filters_in_its_address(admin: Page, up: Up, first: int) -> None:
    shown(admin, up, "decisions", f"default/{FIRST}")
    admin.get_by_label("Change", exact=True).select_option("evictions")
    expect(admin.get_by_text("No decision matches")).to_be_visible(timeout=WITHIN_MS)
    assert admin.url.endswith("?change=evictions")
    admin.get_by_role("button", name="Clear").click()
    expect(admin.get_by_role("link", name=f"default/{FIRST}").first).to_be_visible(timeout=WITHIN_MS)


def test_a_decision_says_why_a_job_waits_and_finds_it(admin: Page, up: Up, beside: int) -> None:
    shown(admin, up, f"decisions/{beside}", "Left waiting", f"default/{THIRD}")
    waiting = admin.get_by_role("region", name="Jobs left waiting, with their reasons")
    expect(waiting.get_by_text("held by a person")).to_be_visible(timeout=WITHIN_MS)
    expect(waiting.get_by_role("link", name=f"default/{SECOND}")).to_be_visible()
    admin.get_by_role("textbox", name="Job").fill("no-such-job")
    expect(admin.get_by_text("No job matches")).to_be_visible(timeout=WITHIN_MS)
    admin.get_by_role("textbox", name="Job").fill(SECOND)
    expect(waiting.get_by_role("link", name=f"default/{SECOND}")).to_be_visible(timeout=WITHIN_MS)
    queue = admin.get_by_role("region", name="GPUs by queue").get_by_role("row").last
    assert re.fullmatch(r"root/child-2\s+3\s+3\s+0\s+6\s+10,000", queue.inner_text())


def test_a_record_is_saved_and_replayed_in_the_page_and_in_a_terminal(
    admin: Page, up: Up, beside: int, tmp_path: Path
) -> None:
    shown(admin, up, f"decisions/{beside}", f"fleet decide decision-{beside}.json")
    with admin.expect_download(timeout=WITHIN_MS) as saved:
        admin.get_by_role("link", name="Save the record").click()
    assert saved.value.suggested_filename == f"decision-{beside}.json"
    saved.value.save_as(tmp_path / "decision.json")
    done = fleet("decide", str(tmp_path / "decision.json"))
    assert (done.returncode, "the recorded plan is reproduced" in done.stderr) == (0, True), done.stderr
    assert re.search(rf"default/{THIRD}\s+cf[ab]", done.stdout)
    admin.get_by_role("button", name="Replay").click()
    expect(admin.get_by_text("The replay gives the same plan")).to_be_visible(timeout=WITHIN_MS)


def test_an_unknown_decision_leads_back_to_the_list(admin: Page, up: Up, first: int) -> None:
    shown(admin, up, "decisions/999999999", "This decision is not kept")
    admin.get_by_role("link", name="The list").click()
    expect(admin.get_by_role("link", name=f"default/{FIRST}").first).to_be_visible(timeout=WITHIN_MS)


def test_a_user_without_the_right_learns_which_one(chromium: Browser, up: Up, first: int) -> None:
    page = logged_in(chromium, up, token(up, "vera"))
    for path in ("decisions", f"decisions/{first}"):
        shown(page, up, path, "You may not see decisions", "fleet-operator", re.compile("kubectl create clusterrole"))
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert violations(page) == []


@pytest.mark.parametrize("page", ["list", "one"])
def test_the_pages_have_no_violations_and_fit_a_telephone(admin: Page, up: Up, beside: int, page: str) -> None:
    path = "decisions" if page == "list" else f"decisions/{beside}"
    shown(admin, up, path, f"default/{THIRD}")
    try:
        for scheme in ("light", "dark"):
            admin.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            assert violations(admin) == []
        admin.set_viewport_size({"width": 360, "height": 740})
        assert admin.evaluate("document.documentElement.scrollWidth") <= 360
        assert violations(admin) == []
    finally:
        admin.emulate_media(color_scheme="light")
        admin.set_viewport_size({"width": 1280, "height": 720})
