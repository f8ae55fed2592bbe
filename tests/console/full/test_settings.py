"""The settings in Chromium, on a real hub: the editor of the quota tree, policies, receivers. Each test cleans up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.cli.hub import Up
from tests.console.browser import SECOND, WALKTHROUGH, WITHIN_MS, logged_in, shown, token, violations

pytestmark = pytest.mark.xdist_group("console")

TREE = "/apis/scheduling.sigs.k8s.io/v1beta1/namespaces/kube-system/elasticquotatrees/elasticquotatree"
POLICY = "/apis/policy.one.alibabacloud.com/v1alpha1/namespaces/default/propagationpolicies/example-policy"
PARTS = {
    "quota": "root/child-2",
    "policies": "default/example-policy",
    "tokens": "the administrator's own",
    "notifications": "There are no receivers",
}
WEIGHT = "quota.scheduling.koordinator.sh/shared-weight"
GPUS = "max of nvidia.com/gpu in root/child-2"


def root_of(up: Up) -> Any:
    return up.hub.request("GET", TREE).body["spec"]["root"]


def as_text(page: Page) -> Locator:
    page.get_by_role("button", name="Show as text").click()
    return page.get_by_label("The tree, as YAML or JSON")


@pytest.fixture
def kept(up: Up) -> Iterator[Any]:
    """The root of the tree, put back afterwards."""
    root = root_of(up)
    yield root
    body = up.hub.request("GET", TREE).body
    body["spec"]["root"] = root
    assert up.hub.request("PUT", TREE, body).status == 200


@pytest.fixture
def quota(admin: Page, up: Up) -> Iterator[Page]:
    shown(admin, up, "settings/quota", "root/child-2")
    expect(admin.get_by_text("The draft is the tree of the hub.")).to_be_visible(timeout=WITHIN_MS)
    yield admin
    admin.evaluate("sessionStorage.clear()")


def test_a_limit_that_is_applied_is_on_the_hub(quota: Page, up: Up, kept: Any) -> None:
    quota.get_by_label(GPUS).fill("9999")
    expect(quota.get_by_text("root/child-2: max of nvidia.com/gpu: 10000 → 9999")).to_be_visible(timeout=WITHIN_MS)
    quota.get_by_role("button", name="Apply").click(timeout=WITHIN_MS)
    expect(quota.get_by_text("The hub has the new tree.")).to_be_visible(timeout=WITHIN_MS)
    assert str(root_of(up)["children"][0]["max"]["nvidia.com/gpu"]) == "9999"


def test_a_min_above_its_max_is_refused_beside_the_field(quota: Page, up: Up) -> None:
    before = root_of(up)
    field = quota.get_by_label("min of nvidia.com/gpu in root/child-2")
    field.fill("20000")
    expect(quota.get_by_text("min must not be above max (10000)")).to_be_visible(timeout=WITHIN_MS)
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(quota.get_by_role("button", name="Apply")).to_be_disabled()
    assert root_of(up) == before


def test_the_hub_refuses_a_draft_beside_the_field_that_only_it_can_judge(quota: Page, up: Up) -> None:
    before = root_of(up)
    quota.get_by_label("Weight of root/child-2").fill("none")
    expect(quota.get_by_text("must be a whole number above zero")).to_be_visible(timeout=WITHIN_MS)
    expect(quota.get_by_role("button", name="Apply")).to_be_disabled()
    assert root_of(up) == before


def test_what_would_change_names_the_job_that_would_start(quota: Page, up: Up) -> None:
    before = root_of(up)
    quota.get_by_label("max of kube-queue/max-jobs in root/child-2").fill("2")
    quota.get_by_role("button", name="What would change").click(timeout=WITHIN_MS)
    told = quota.get_by_role("region", name="What would change")
    expect(told.get_by_text("Starts: 1 job")).to_be_visible(timeout=WITHIN_MS)
    expect(told.get_by_role("link", name=f"default/{SECOND}")).to_be_visible()
    assert root_of(up) == before


def test_a_conflict_says_what_has_changed_and_keeps_the_draft(quota: Page, up: Up, kept: Any) -> None:
    quota.get_by_label(GPUS).fill("9998")
    body = up.hub.request("GET", TREE).body
    body["spec"]["root"]["children"][0]["max"]["cpu"] = 9000
    assert up.hub.request("PUT", TREE, body).status == 200
    expect(quota.get_by_text("root/child-2: max of cpu: 10000 → 9000")).to_be_visible(timeout=WITHIN_MS)
    expect(quota.get_by_label(GPUS)).to_have_value("9998")
    expect(quota.get_by_role("button", name="Apply")).to_be_disabled()
    quota.get_by_role("button", name="Put my changes on top").click()
    expect(quota.get_by_label("max of cpu in root/child-2")).to_have_value("9000", timeout=WITHIN_MS)
    quota.get_by_role("button", name="Apply").click(timeout=WITHIN_MS)
    expect(quota.get_by_text("The hub has the new tree.")).to_be_visible(timeout=WITHIN_MS)
    stored = root_of(up)["children"][0]["max"]
    assert (str(stored["nvidia.com/gpu"]), str(stored["cpu"])) == ("9998", "9000")


def test_a_draft_is_there_after_a_reload_as_outline_and_as_text(quota: Page) -> None:
    quota.get_by_label(GPUS).fill("9997")
    quota.reload()
    expect(quota.get_by_label(GPUS)).to_have_value("9997", timeout=WITHIN_MS)
    text = as_text(quota)
    expect(text).to_have_value(re.compile('nvidia.com/gpu: "9997"'))
    text.fill(text.input_value().replace("9997", "9996"))
    quota.get_by_role("button", name="Show as outline").click()
    expect(quota.get_by_label(GPUS)).to_have_value("9996")


def test_a_file_of_an_administrator_is_pasted_as_it_is_and_applied(quota: Page, up: Up, kept: Any) -> None:
    text = as_text(quota)
    text.fill((WALKTHROUGH / "quota-tree.yaml").read_text().replace("nvidia.com/gpu: 10000", "nvidia.com/gpu: 9995"))
    expect(quota.get_by_text("root/child-2: max of nvidia.com/gpu: 10000 → 9995")).to_be_visible(timeout=WITHIN_MS)
    assert violations(quota) == []
    quota.get_by_role("button", name="What would change").click(timeout=WITHIN_MS)
    expect(quota.get_by_text("No job would notice the change.")).to_be_visible(timeout=WITHIN_MS)
    quota.get_by_role("button", name="Apply").click(timeout=WITHIN_MS)
    expect(quota.get_by_text("The hub has the new tree.")).to_be_visible(timeout=WITHIN_MS)
    assert root_of(up)["children"][0]["max"]["nvidia.com/gpu"] == 9995


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("    name: root\n", "    name: root: all\n", "line 8: Nested mappings are not allowed"),
        ("    name: root\n", "    name: root\n    name: root\n", "line 9: Map keys must be unique"),
        ("    name: root\n", "", "line 8: spec.root.name: must be a text"),
        ("kind: ElasticQuotaTree", "kind: Quota", "line 2: kind: must be ElasticQuotaTree"),
        ("name: elasticquotatree", "name: other", "line 4: metadata.name: must be elasticquotatree"),
    ],
    ids=["syntax", "twice", "no-name", "kind", "another-tree"],
)
def test_a_text_that_is_no_tree_is_refused_by_its_line(quota: Page, old: str, new: str, said: str) -> None:
    text = as_text(quota)
    before = text.input_value()
    assert before.count(old) == 1, before
    text.fill(before.replace(old, new))
    expect(quota.get_by_text(f"The draft keeps the last text that could be read. {said}")).to_be_visible()
    expect(quota.get_by_text("The draft is the tree of the hub.")).to_be_visible()
    text.fill(before)
    expect(quota.get_by_text("could be read")).to_be_hidden()


def test_a_refusal_of_the_hub_names_the_line_of_the_text(quota: Page) -> None:
    text = as_text(quota)
    lines = text.input_value().splitlines()
    at = next(number for number, line in enumerate(lines) if "name: child-2" in line)
    indent = lines[at].index("name") * " "
    lines.insert(at + 1, f"{indent}attributes: {{{WEIGHT}: none}}")
    text.fill("\n".join(lines))
    said = f"line {at + 2}: spec.root.children[0].attributes[{WEIGHT}]"
    expect(quota.get_by_text(said)).to_be_visible(timeout=WITHIN_MS)
    expect(quota.get_by_role("button", name="Apply")).to_be_disabled()
    lines[at + 1] = f"{indent}weights: 3"
    text.fill("\n".join(lines))
    expect(quota.get_by_text('unknown field "spec.root.children[0].weights"')).to_be_visible(timeout=WITHIN_MS)
    expect(quota.get_by_text("The hub would refuse the draft.", exact=True)).to_be_visible()


def test_a_user_without_the_right_reads_which_one_is_missing(chromium: Browser, up: Up) -> None:
    page = logged_in(chromium, up, token(up, "vera"))
    shown(page, up, "settings/quota", "list elasticquotatrees in kube-system")
    shown(page, up, "settings/policies?kind=PropagationPolicy&namespace=default&name=example-policy", "cannot edit it")
    assert page.get_by_role("button", name="Apply").count() == 0


def test_a_policy_that_the_hub_refuses_stays_as_it_was(admin: Page, up: Up) -> None:
    before = up.hub.request("GET", POLICY).body
    shown(admin, up, "settings/policies", "waits in the queue", "gang")
    admin.get_by_role("link", name="default/example-policy").click()
    text = admin.get_by_label("The policy, as YAML or JSON")
    text.fill(text.input_value().replace("propagateDeps: true", "propagateDebs: true"))
    admin.get_by_role("button", name="Check").click()
    expect(admin.get_by_text('unknown field "spec.propagateDebs"')).to_be_visible(timeout=WITHIN_MS)
    expect(admin.get_by_role("button", name="Apply")).to_be_disabled()
    text.fill(text.input_value().replace("propagateDebs: true", "propagateDeps: true"))
    admin.get_by_role("button", name="Check").click()
    expect(admin.get_by_role("button", name="Apply")).to_be_enabled(timeout=WITHIN_MS)
    assert up.hub.request("GET", POLICY).body == before


@pytest.mark.parametrize("part", PARTS)
def test_a_part_has_no_violation_and_fits_a_telephone(admin: Page, up: Up, part: str) -> None:
    try:
        for scheme, width in (("light", 360), ("dark", 1280)):
            admin.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            admin.set_viewport_size({"width": width, "height": 740})
            shown(admin, up, f"settings/{part}", PARTS[part])
            assert violations(admin) == []
            assert admin.evaluate("document.documentElement.scrollWidth") <= width
    finally:
        admin.set_viewport_size({"width": 1280, "height": 720})
