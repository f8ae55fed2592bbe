"""The buttons beside the changes that start a job: each makes its change on a real hub, and the job runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.cli.hub import Up, until
from tests.console.browser import WITHIN_MS, shown, violations
from tests.console.scene import job, policy, state

pytestmark = pytest.mark.xdist_group("console")

TREE = "/apis/scheduling.sigs.k8s.io/v1beta1/namespaces/kube-system/elasticquotatrees/elasticquotatree"
POLICIES = "/apis/policy.one.alibabacloud.com/v1alpha1/namespaces/lab/propagationpolicies"
JOBS = "/apis/kubeflow.org/v1/namespaces/lab/pytorchjobs"
UNITS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/lab/queueunits"
QUEUES = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/kube-queue/queues"


@pytest.fixture(scope="module", autouse=True)
def lab(up: Up) -> Iterator[None]:
    """A leaf of 18 GPUs in strict order, whose first job wants 24. The held job comes before it, the small one behind.

    So each waits for a change of another kind, and there is room for all three after these changes, in any order."""
    before = up.hub.request("GET", TREE).body
    tree: dict[str, Any] = up.hub.request("GET", TREE).body
    leaf = {"name": "lab", "namespaces": ["lab"], "max": {"nvidia.com/gpu": 18}}
    tree["spec"]["root"]["children"].append(leaf)
    up.hub.request("POST", "/api/v1/namespaces", {"metadata": {"name": "lab"}})
    try:
        assert up.hub.request("PUT", TREE, tree).status == 200
        up.hub.request("POST", POLICIES, policy("lab"))
        block(up)
        held = job("lab/held", 1, 1)
        held["metadata"]["annotations"] = {"fleet.io/hold": "true"}
        for body, wanted in ((held, "Held"), (job("lab/wide", 3), "Queued"), (job("lab/small", 1, 1), "Queued")):
            up.hub.request("POST", JOBS, body)
            until(f"a job is {wanted}", lambda body=body, wanted=wanted: state_of(up, body) == wanted)
        yield
    finally:
        for one in up.hub.list(JOBS):
            up.hub.request("DELETE", f"{JOBS}/{one['metadata']['name']}")
        until("the jobs and their units are gone", lambda: not up.hub.list(JOBS) and not up.hub.list(UNITS))
        up.hub.request("DELETE", f"{POLICIES}/training")
        tree = up.hub.request("GET", TREE).body
        assert up.hub.request("PUT", TREE, {**tree, "spec": before["spec"]}).status == 200
        up.hub.request("DELETE", "/api/v1/namespaces/lab")


def state_of(up: Up, body: dict[str, Any]) -> str:
    return state(up, f"lab/{body['metadata']['name']}")


def block(up: Up) -> None:
    def queue() -> dict[str, Any] | None:
        return next((one for one in up.hub.list(QUEUES) if one["metadata"]["name"].startswith("root-lab-")), None)

    until("the leaf has its queue", lambda: queue() is not None)
    found = queue()
    assert found is not None
    found["spec"]["queuePolicy"] = "Block"
    assert up.hub.request("PUT", f"{QUEUES}/{found['metadata']['name']}", found).status == 200


@pytest.mark.parametrize(
    ("name", "button"),
    [("held", "Release it"), ("small", "Give it priority 1"), ("wide", "Use 2 × worker")],
)
def test_a_change_that_is_ones_own_to_make_starts_the_job(admin: Page, up: Up, name: str, button: str) -> None:
    shown(admin, up, f"jobs/lab/PyTorchJob/{name}", "Each of these changes starts it now")
    section = admin.get_by_role("region", name="What starts it")
    section.get_by_role("button", name=button).click()
    dialog = admin.get_by_role("dialog", name=f"{button}?")
    expect(dialog).to_be_visible()
    assert violations(admin) == []
    dialog.get_by_role("button", name=button).click()
    until(f"{name} runs", lambda: state(up, f"lab/{name}") == "Running")
    expect(section).to_be_hidden(timeout=WITHIN_MS)
    expect(admin.locator(".state", has_text="Running").first).to_be_visible(timeout=WITHIN_MS)
