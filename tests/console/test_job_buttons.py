"""The buttons of the page of a job: each does what it says on a real hub. The jobs are the tests' own."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser, Page, expect

from tests.cli.hub import Up, until
from tests.console.browser import FIRST, WALKTHROUGH, WITHIN_MS, logged_in, shown, token, violations

pytestmark = pytest.mark.xdist_group("console")

JOBS = "/apis/kubeflow.org/v1/namespaces/{}/pytorchjobs"
POLICIES = "/apis/policy.one.alibabacloud.com/v1alpha1/namespaces/free/propagationpolicies"
MEMBERS = {"cfa", "cfb"}
WAITS, RUNS, LARGE = "waits", "runs", "large"  # the last two are outside quota


def page_of(namespace: str, name: str) -> str:
    return f"jobs/{namespace}/PyTorchJob/{name}"


def told(up: Up, namespace: str, name: str) -> dict[str, Any]:
    found = up.hub.find(f"/fleet/v1/{page_of(namespace, name)}")
    return {} if found is None else dict(found)


def manifest(namespace: str, name: str, workers: int) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load((WALKTHROUGH / "pytorchjob.yaml").read_text().replace("30s", "1h"))
    body["metadata"] |= {"namespace": namespace, "name": name}
    body["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = workers
    return copy.deepcopy(body)


@pytest.fixture(scope="module", autouse=True)
def own(up: Up) -> Iterator[None]:
    """A job that waits for quota, one that runs, one that is larger than each member."""
    policy = yaml.safe_load((WALKTHROUGH / "policy-gang-queue.yaml").read_text())
    del policy["spec"]["suspension"]  # no queue, and no quota
    policy["metadata"] |= {"namespace": "free", "name": "free"}
    up.hub.request(
        "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "free"}}
    )
    up.hub.request("POST", POLICIES, policy)
    for namespace, name, workers in (("default", WAITS, 1), ("free", RUNS, 1), ("free", LARGE, 30)):
        up.hub.request("POST", JOBS.format(namespace), manifest(namespace, name, workers))
    try:
        until("one job runs", lambda: told(up, "free", RUNS).get("state") == "Running")
        until("one job waits", lambda: told(up, "default", WAITS).get("state") == "Queued")
        yield
    finally:
        for namespace in ("default", "free"):
            for one in up.hub.list(JOBS.format(namespace)):
                if not one["metadata"]["name"].startswith("pytorch-"):
                    up.hub.request("DELETE", f"{JOBS.format(namespace)}/{one['metadata']['name']}")
        until("the jobs are gone", lambda: len(up.hub.request("GET", "/fleet/v1/jobs").body["items"]) == 2)
        until("their GPUs are free", lambda: used(up) == 3)
        up.hub.request("DELETE", f"{POLICIES}/free")


def used(up: Up) -> int:
    clusters = up.hub.request("GET", "/fleet/v1/clusters").body["items"]
    return sum(int(one["allocated"].get("nvidia.com/gpu", 0)) for one in clusters)


def test_a_priority_is_set(admin: Page, up: Up) -> None:
    shown(admin, up, page_of("default", WAITS), "Queued")
    admin.get_by_label("New priority").fill("7")
    admin.get_by_role("button", name="Set priority").click()
    until("the priority is set", lambda: told(up, "default", WAITS)["priority"] == 7)
    expect(admin.locator(".figure", has_text="Priority").locator("dd")).to_have_text("7", timeout=WITHIN_MS)


def test_a_clone_has_another_name_and_the_fields_that_were_changed(admin: Page, up: Up) -> None:
    shown(admin, up, page_of("default", WAITS), "Queued")
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
    roles = up.hub.request("GET", f"{JOBS.format('default')}/another").body["spec"]["pytorchReplicaSpecs"]
    limits = roles["Worker"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert (roles["Worker"]["replicas"], str(limits["nvidia.com/gpu"])) == (3, "2")
    assert roles["Master"]["restartPolicy"] == "Never" and roles["Master"]["replicas"] == 1


def test_a_job_is_cancelled_after_a_question(admin: Page, up: Up) -> None:
    shown(admin, up, page_of("default", WAITS), "Queued")
    admin.get_by_role("button", name="Cancel the job").click()
    dialog = admin.get_by_role("dialog")
    dialog.get_by_role("button", name="Keep it").click()
    expect(dialog).to_be_hidden(timeout=WITHIN_MS)
    assert told(up, "default", WAITS)["state"] == "Queued"
    admin.get_by_role("button", name="Cancel the job").click()
    dialog.get_by_role("button", name="Cancel the job").click()
    until("the job is gone", lambda: not told(up, "default", WAITS))


def test_a_job_moves_to_another_member(admin: Page, up: Up) -> None:
    here = told(up, "free", RUNS)["member"]
    [there] = MEMBERS - {here}
    shown(admin, up, page_of("free", RUNS), "Running")
    admin.get_by_role("button", name="Move").click()
    dialog = admin.get_by_role("dialog")
    expect(dialog.get_by_label("To member")).to_have_value(there, timeout=WITHIN_MS)
    expect(dialog).to_contain_text(f"The job stops in {here}")
    expect(dialog.get_by_role("status")).to_have_text(f"{there} has room for it now.", timeout=WITHIN_MS)
    assert violations(admin) == []
    dialog.get_by_role("button", name="Move it").click()
    until("the job runs there", lambda: told(up, "free", RUNS).get("member") == there)
    expect(admin.locator(".figure", has_text="Member").locator("dd")).to_contain_text(there, timeout=WITHIN_MS)


def test_a_job_that_is_too_large_starts_with_fewer_pods(admin: Page, up: Up) -> None:
    shown(admin, up, page_of("free", LARGE), "What starts it")
    line = admin.locator(".starters li", has_text="replicas of worker")
    expect(line.get_by_role("link", name="Try it")).to_be_visible(timeout=WITHIN_MS)
    line.get_by_role("button").first.click()
    expect(admin.get_by_role("dialog")).to_contain_text("it runs with fewer pods")
    admin.get_by_role("dialog").get_by_role("button").last.click()
    until("the job has its member", lambda: told(up, "free", LARGE).get("member") in MEMBERS)


def test_a_user_without_rights_sees_no_buttons(chromium: Browser, up: Up) -> None:
    page = logged_in(chromium, up, token(up, "vera"))
    shown(page, up, page_of("default", "pytorch-second"), "Queued")
    expect(page.get_by_role("link", name="Try it").first).to_be_visible(timeout=WITHIN_MS)
    expect(page.locator(".buttons[data-asked]")).to_have_count(1, timeout=WITHIN_MS)
    assert page.locator("main").get_by_role("button").count() == 0
