"""The buttons of the page of a job: each does what it says on a real hub. The jobs are the tests' own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser, Page, expect

from fleet.wellknown import ANNOTATION_MOVE
from tests.cli.hub import Up, until
from tests.console.browser import FIRST, WALKTHROUGH, WITHIN_MS, logged_in, shown, token, violations

pytestmark = pytest.mark.xdist_group("console")

JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
WAITS = "waits"


def page_of(name: str) -> str:
    return f"jobs/default/PyTorchJob/{name}"


def told(up: Up, name: str) -> dict[str, Any]:
    found = up.hub.find(f"/fleet/v1/{page_of(name)}")
    return {} if found is None else dict(found)


def manifest(name: str) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load((WALKTHROUGH / "pytorchjob.yaml").read_text().replace("30s", "1h"))
    body["metadata"]["name"] = name
    return body


@pytest.fixture(scope="module", autouse=True)
def own(up: Up) -> Iterator[None]:
    """A job that waits for quota."""
    up.hub.request("POST", JOBS, manifest(WAITS))
    try:
        until("the job waits", lambda: told(up, WAITS).get("state") == "Queued")
        yield
    finally:
        for one in up.hub.list(JOBS):
            if not one["metadata"]["name"].startswith("pytorch-"):
                up.hub.request("DELETE", f"{JOBS}/{one['metadata']['name']}")
        until("the jobs are gone", lambda: len(up.hub.request("GET", "/fleet/v1/jobs").body["items"]) == 2)


def test_a_priority_is_set(admin: Page, up: Up) -> None:
    shown(admin, up, page_of(WAITS), "Queued")
    admin.get_by_label("New priority").fill("7")
    admin.get_by_role("button", name="Set priority").click()
    until("the priority is set", lambda: told(up, WAITS)["priority"] == 7)
    expect(admin.locator(".figure", has_text="Priority").locator("dd")).to_have_text("7", timeout=WITHIN_MS)


def test_a_clone_has_another_name_and_the_fields_that_were_changed(admin: Page, up: Up) -> None:
    shown(admin, up, page_of(WAITS), "Queued")
    admin.get_by_role("button", name="Clone").click()
    dialog = admin.get_by_role("dialog")
    expect(dialog.get_by_label("Name")).to_have_value(f"{WAITS}-2", timeout=WITHIN_MS)
    assert violations(admin) == []
    dialog.get_by_label("Name").fill(FIRST)
    dialog.get_by_role("button", name="Submit").click()
    expect(dialog.get_by_role("alert")).to_contain_text("already exists", timeout=WITHIN_MS)
    dialog.get_by_label("Name").fill("another")
    dialog.get_by_label("Worker replicas").fill("3")
    dialog.get_by_label("GPUs of each Worker").fill("2")
    dialog.get_by_label("Other changes").fill("spec.pytorchReplicaSpecs.Master.restartPolicy=Never")
    dialog.get_by_role("button", name="Submit").click()
    expect(admin.get_by_role("heading", name="another", level=1)).to_be_visible(timeout=WITHIN_MS)
    roles = up.hub.request("GET", f"{JOBS}/another").body["spec"]["pytorchReplicaSpecs"]
    limits = roles["Worker"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert (roles["Worker"]["replicas"], str(limits["nvidia.com/gpu"])) == (3, "2")
    assert roles["Master"]["restartPolicy"] == "Never" and roles["Master"]["replicas"] == 1


def test_a_move_names_the_next_member(admin: Page, up: Up) -> None:
    """The job waits, so it moves at its first start."""
    shown(admin, up, page_of(WAITS), "Queued")
    admin.get_by_role("button", name="Move", exact=True).click()
    dialog = admin.get_by_role("dialog")
    dialog.get_by_label("To member").select_option("cfb")
    expect(dialog.get_by_text("The job starts in cfb and nowhere else")).to_be_visible(timeout=WITHIN_MS)
    expect(dialog.get_by_text("cfb has room for it now")).to_be_visible(timeout=WITHIN_MS)
    dialog.get_by_role("button", name="Move it").click()
    expect(dialog).to_be_hidden(timeout=WITHIN_MS)
    assert up.hub.request("GET", f"{JOBS}/{WAITS}").body["metadata"]["annotations"][ANNOTATION_MOVE] == "cfb"


def test_a_job_is_cancelled_after_a_question(admin: Page, up: Up) -> None:
    shown(admin, up, page_of(WAITS), "Queued")
    admin.get_by_role("button", name="Cancel the job").click()
    dialog = admin.get_by_role("dialog")
    dialog.get_by_role("button", name="Keep it").click()
    expect(dialog).to_be_hidden(timeout=WITHIN_MS)
    assert told(up, WAITS)["state"] == "Queued"
    admin.get_by_role("button", name="Cancel the job").click()
    dialog.get_by_role("button", name="Cancel the job").click()
    until("the job is gone", lambda: not told(up, WAITS))


def test_a_user_without_rights_sees_no_buttons(chromium: Browser, up: Up) -> None:
    page = logged_in(chromium, up, token(up, "vera"))
    shown(page, up, page_of("pytorch-second"), "Queued")
    expect(page.get_by_role("link", name="Try it").first).to_be_visible(timeout=WITHIN_MS)
    expect(page.locator(".buttons[data-asked]")).to_have_count(1, timeout=WITHIN_MS)
    assert page.locator("main").get_by_role("button").count() == 0
