"""The page What if: a question in the address, the answer of a real hub, and what is wrong with a question."""

from __future__ import annotations

import json
import re
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.cli.hub import Up, until
from tests.console.browser import FIRST, SECOND, WALKTHROUGH, WITHIN_MS, logged_in, shown, token, violations

pytestmark = pytest.mark.xdist_group("console")

JOB = f"jobs/default/PyTorchJob/{SECOND}"
RAISED = {"node": "root/child-2", "limit": "max", "resource": "kube-queue/max-jobs", "amount": 2}


def asking(**edits: object) -> str:
    return "what-if#" + urlencode([("edit", json.dumps({name: fields})) for name, fields in edits.items()])


@pytest.fixture(autouse=True)
def seen(up: Up) -> None:
    """The decider has looked at the job that waits."""

    def waits() -> bool:
        said = up.hub.find(f"/fleet/v1/{JOB}/explanation")
        return said is not None and (said["reason"] or {}).get("code") == "MaxJobsReached"

    until(f"{SECOND} waits for its turn", waits)


def test_a_higher_limit_starts_the_job_that_waits(admin: Page, up: Up) -> None:
    shown(admin, up, "what-if", "No edits yet")
    expect(admin.get_by_role("button", name="Ask")).to_be_disabled()
    expect(admin.get_by_label("Queue").locator("option", has_text="root/child-2")).to_have_count(1, timeout=WITHIN_MS)
    admin.get_by_label("Queue").select_option("root/child-2")
    admin.get_by_label("Resource").select_option("kube-queue/max-jobs")
    admin.get_by_label("Amount").fill("2")
    admin.get_by_role("button", name="Add").click()
    expect(admin.get_by_text("max of kube-queue/max-jobs in root/child-2: 2")).to_be_visible(timeout=WITHIN_MS)
    admin.get_by_role("button", name="Ask").click()
    starts = admin.get_by_role("region", name="Start now")
    expect(starts.get_by_role("link", name=f"default/{SECOND}")).to_be_visible(timeout=WITHIN_MS)
    expect(starts).to_contain_text(re.compile(r"waits → starts in cf[ab]"))
    starts.get_by_role("link").click()
    expect(admin.get_by_role("heading", name=SECOND, level=1)).to_be_visible(timeout=WITHIN_MS)
    admin.go_back()
    expect(starts).to_be_visible(timeout=WITHIN_MS)  # the address has the question, which is asked at once
    admin.get_by_role("button", name="Remove edit 1").click()
    expect(admin.get_by_text("No edits yet")).to_be_visible(timeout=WITHIN_MS)


def test_a_change_that_starts_a_job_leads_to_its_question(admin: Page, up: Up) -> None:
    shown(admin, up, JOB, "What starts it")
    admin.get_by_role("link", name="Try it").first.click()
    expect(admin.get_by_role("heading", name="What if", level=1)).to_be_visible(timeout=WITHIN_MS)
    expect(admin.get_by_role("region", name="Start now")).to_contain_text(SECOND, timeout=WITHIN_MS)


def test_an_edit_without_effect_makes_no_difference(admin: Page, up: Up) -> None:
    shown(admin, up, asking(SetLimit=RAISED | {"resource": "cpu", "amount": 20_000_000}), "No difference.")
    expect(admin.get_by_text("max of cpu in root/child-2: 20,000")).to_be_visible()


def test_a_question_that_is_wrong_names_the_edit_and_the_field(admin: Page, up: Up) -> None:
    shown(admin, up, asking(DrainMember={"member": "cfb"}, SetLimit=RAISED | {"amount": -1}))
    line = admin.get_by_role("list", name="Edits").get_by_role("listitem").nth(1)
    expect(line.get_by_role("alert")).to_contain_text("amount: ", timeout=WITHIN_MS)
    expect(line.get_by_role("alert")).to_contain_text("must not be negative")
    shown(admin, up, "what-if", "No edits yet")
    admin.get_by_label("Amount").fill("lots")
    admin.get_by_role("button", name="Add").click()
    expect(admin.get_by_role("alert")).to_have_text("Amount: lots is no quantity, such as 8, 500m or 64Gi")
    expect(admin.get_by_text("No edits yet")).to_be_visible()


def test_a_part_of_the_address_that_is_no_edit_is_left_out(admin: Page, up: Up) -> None:
    shown(admin, up, "what-if#edit=rubbish&edit=3&edit=%7B%7D", "3 parts of the address cannot be read", "No edits yet")


@pytest.mark.parametrize(
    ("kind", "fields", "line", "group"),
    [
        ("remove", {"Job": "default/pytorch-test"}, "job default/pytorch-test removed", "Start now"),
        ("submit", {"Name": "next"}, "a new PyTorchJob default/next", "Wait"),
        ("add", {}, "a new member new with 1 node", None),
        ("drain", {}, "member cfa drained", None),
        ("lose", {}, "member cfa lost; the jobs whose policy has failover.cluster start elsewhere", None),
    ],
)
def test_each_kind_of_edit_has_its_fields(
    admin: Page, up: Up, kind: str, fields: dict[str, str], line: str, group: str | None
) -> None:
    shown(admin, up, "what-if", "No edits yet")
    expect(admin.get_by_label("What changes").locator("option")).to_have_count(14, timeout=WITHIN_MS)
    admin.get_by_label("What changes").select_option(kind)
    for label, value in fields.items():
        admin.get_by_role("textbox", name=label, exact=True).or_(
            admin.get_by_role("combobox", name=f"{label} (namespace/name)")
        ).fill(value)
    if kind in ("drain", "lose"):
        admin.get_by_label("Member").select_option("cfa")
    admin.get_by_role("button", name="Add").click()
    expect(admin.get_by_text(line)).to_be_visible(timeout=WITHIN_MS)
    admin.get_by_role("button", name="Ask").click()
    expect(admin.get_by_role("heading", name="Answer")).to_be_visible(timeout=WITHIN_MS)
    if group is not None:
        expect(admin.get_by_role("region", name=group, exact=True)).to_be_visible()


def test_a_lost_member_keeps_its_jobs_or_all_of_them_start_elsewhere(admin: Page, up: Up) -> None:
    runs_in = up.hub.request("GET", f"/fleet/v1/jobs/default/PyTorchJob/{FIRST}").body["member"]
    other = {"cfa": "cfb", "cfb": "cfa"}[runs_in]
    shown(admin, up, "members", f"Drain {runs_in}")
    card = admin.get_by_role("article", name=f"Member {runs_in}")
    card.get_by_role("link", name="lost").click()
    expect(admin.get_by_role("region", name="Cannot be reached")).to_contain_text(FIRST, timeout=WITHIN_MS)
    admin.get_by_role("button", name="Remove edit 1").click()
    admin.get_by_label("What changes").select_option("lose")
    admin.get_by_label("Member").select_option(runs_in)
    admin.get_by_label("Jobs that start elsewhere").select_option("all")
    admin.get_by_role("button", name="Add").click()
    admin.get_by_role("button", name="Ask").click()
    moved = admin.get_by_role("region", name="Go to another member")
    expect(moved).to_contain_text(f"runs in {runs_in} → starts in {other}", timeout=WITHIN_MS)
    expect(moved.get_by_role("link", name=f"default/{FIRST}")).to_be_visible()


def test_a_new_job_starts_where_its_limit_is_raised_and_a_wrong_one_names_the_field(admin: Page, up: Up) -> None:
    shown(admin, up, asking(SetLimit=RAISED | {"amount": 3}), "Answer")
    admin.get_by_label("What changes").select_option("submit")
    admin.get_by_role("textbox", name="Name", exact=True).fill("next")
    admin.get_by_label("Pods").fill("2")
    admin.get_by_label("CPU of each").fill("lots")
    admin.get_by_role("button", name="Add").click()
    admin.get_by_role("button", name="Ask").click()
    alert = admin.get_by_role("list", name="Edits").get_by_role("alert").first
    expect(alert).to_contain_text("cpu", timeout=WITHIN_MS)
    admin.get_by_role("button", name="Remove edit 2").click()
    admin.get_by_label("CPU of each").fill("2")
    admin.get_by_role("button", name="Add").click()
    admin.get_by_role("button", name="Ask").click()
    starts = admin.get_by_role("region", name="Start now")
    expect(starts).to_contain_text("default/next", timeout=WITHIN_MS)
    expect(starts).to_contain_text(SECOND)
    assert starts.get_by_role("link", name="default/next").count() == 0  # it has no page


def test_another_tree_begins_with_that_of_the_hub_and_starts_the_job_that_waits(admin: Page, up: Up) -> None:
    shown(admin, up, "what-if", "No edits yet")
    admin.get_by_label("What changes").select_option("tree")
    text = admin.get_by_role("textbox", name="Quota tree (YAML or JSON)")
    expect(text).to_have_value(re.compile("kube-queue/max-jobs: 1\n"), timeout=WITHIN_MS)
    assert violations(admin) == []
    # Longer than a path with a query may be at the hub.
    more = "".join(f"      - {{name: team-{number}, namespaces: [team-{number}]}}\n" for number in range(300))
    text.fill(text.input_value().replace("max-jobs: 1\n", "max-jobs: 2\n") + more)
    admin.get_by_role("button", name="Add").click()
    expect(admin.get_by_text("another quota tree, of 302 queues")).to_be_visible()
    admin.get_by_role("button", name="Ask").click()
    starts = admin.get_by_role("region", name="Start now")
    expect(starts).to_contain_text(SECOND, timeout=WITHIN_MS)
    admin.reload()  # the address has the whole question
    expect(starts).to_contain_text(SECOND, timeout=WITHIN_MS)


def test_a_manifest_of_ones_own_is_asked_about_and_a_wrong_one_names_its_line(admin: Page, up: Up) -> None:
    shown(admin, up, asking(Remove={"unit": f"default/{SECOND}"}, SetLimit=RAISED), "Answer")
    admin.get_by_label("What changes").select_option("manifest")
    text = admin.get_by_role("textbox", name="Manifest (YAML or JSON)")
    manifest = (WALKTHROUGH / "pytorchjob-second.yaml").read_text().replace(SECOND, "mine")
    text.fill(manifest.replace("kind: PyTorchJob", "kind: PyTorchJob\nkind: TFJob"))
    admin.get_by_role("button", name="Add").click()
    expect(admin.get_by_role("alert")).to_contain_text(re.compile(r"Manifest: line \d+: Map keys must be unique"))
    text.fill(manifest)
    admin.get_by_role("button", name="Add").click()
    expect(admin.get_by_text("a new PyTorchJob default/mine")).to_be_visible()
    admin.get_by_role("button", name="Ask").click()
    expect(admin.get_by_role("region", name="Start now")).to_contain_text("default/mine", timeout=WITHIN_MS)


def test_a_viewer_is_offered_no_members(chromium: Browser, up: Up) -> None:
    page = logged_in(chromium, up, token(up, "vera"))
    shown(page, up, asking(Remove={"unit": f"default/{FIRST}"}), "Members are left out")
    expect(page.get_by_label("What changes").locator("option", has_text="member")).to_have_count(0)
    expect(page.get_by_role("region", name="Start now")).to_contain_text(SECOND, timeout=WITHIN_MS)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_and_the_answer_fits_a_telephone(admin: Page, up: Up, scheme: str) -> None:
    admin.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    admin.set_viewport_size({"width": 360, "height": 740})
    try:
        shown(admin, up, asking(SetLimit=RAISED, DrainMember={"member": "cfa"}), "Answer")
        expect(admin.get_by_role("region", name="Start now")).to_be_visible(timeout=WITHIN_MS)
        assert violations(admin) == []
        assert admin.evaluate("document.documentElement.scrollWidth") <= 360
    finally:
        admin.set_viewport_size({"width": 1280, "height": 720})
