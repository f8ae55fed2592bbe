"""Policies and receivers that are made, changed and deleted on the page of settings, on a real hub."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.cli.hub import Up
from tests.console.browser import WITHIN_MS, shown, violations

pytestmark = pytest.mark.xdist_group("console")

POLICIES = "/apis/policy.one.alibabacloud.com/v1alpha1/namespaces/default/propagationpolicies"
RECEIVERS = "/apis/config.fleet.io/v1alpha1/namespaces/default/notificationreceivers"


SECRETS = "/api/v1/namespaces/default/secrets"


def names(up: Up, path: str) -> list[str]:
    return [item["metadata"]["name"] for item in up.hub.request("GET", path).body["items"]]


def test_a_policy_is_made_changed_and_deleted_on_the_page(admin: Page, up: Up) -> None:
    shown(admin, up, "settings/policies", "default/example-policy")
    admin.get_by_role("button", name="New policy").click(timeout=WITHIN_MS)
    text = admin.get_by_label("The policy, as YAML or JSON")
    text.fill(text.input_value().replace("name: train", "name: made-here").replace("PyTorchJob", "TFJob"))
    create = admin.get_by_role("button", name="Create", exact=True)
    expect(create).to_be_disabled()
    admin.get_by_role("button", name="Check").click()
    expect(admin.get_by_text("The hub would take the policy.")).to_be_visible(timeout=WITHIN_MS)
    assert "made-here" not in names(up, POLICIES)
    assert violations(admin) == []
    create.click()
    admin.get_by_role("link", name="default/made-here").click(timeout=WITHIN_MS)
    text = admin.get_by_label("The policy, as YAML or JSON")
    text.fill(text.input_value().replace("propagateDeps: true", "propagateDeps: false"))
    admin.get_by_role("button", name="Check").click()
    admin.get_by_role("button", name="Apply").click(timeout=WITHIN_MS)
    # A policy that was stored is read again: there is nothing to apply then.
    expect(admin.get_by_role("button", name="Apply")).to_be_disabled(timeout=WITHIN_MS)
    assert up.hub.request("GET", f"{POLICIES}/made-here").body["spec"]["propagateDeps"] is False
    admin.get_by_role("button", name="Delete the policy").click(timeout=WITHIN_MS)
    admin.get_by_role("button", name="Delete it").click(timeout=WITHIN_MS)
    expect(admin.get_by_role("link", name="default/example-policy")).to_be_visible(timeout=WITHIN_MS)
    expect(admin.get_by_role("link", name="default/made-here")).to_be_hidden(timeout=WITHIN_MS)
    assert "made-here" not in names(up, POLICIES)


def test_a_receiver_is_made_and_a_wrong_one_is_refused_by_field(admin: Page, up: Up) -> None:
    shown(admin, up, "settings/notifications", "There are no receivers")
    admin.get_by_role("button", name="New receiver").click(timeout=WITHIN_MS)
    text = admin.get_by_label("The receiver, as YAML or JSON")
    right = text.input_value()
    text.fill(right.replace("waitsLongerThan: 2h", "waitsLongerThan: soon"))
    admin.get_by_role("button", name="Check").click()
    expect(admin.get_by_text("spec.waitsLongerThan")).to_be_visible(timeout=WITHIN_MS)
    expect(admin.get_by_role("button", name="Create", exact=True)).to_be_disabled()
    text.fill(right)
    admin.get_by_role("button", name="Check").click()
    try:
        admin.get_by_role("button", name="Create", exact=True).click(timeout=WITHIN_MS)
        card = admin.get_by_role("article", name="Receiver default/chat")
        expect(card.get_by_text("webhook, Slack")).to_be_visible(timeout=WITHIN_MS)
        expect(card.get_by_text("nothing sent yet")).to_be_visible(timeout=WITHIN_MS)
        assert violations(admin) == []
    finally:
        up.hub.request("DELETE", f"{RECEIVERS}/chat")
    shown(admin, up, "settings/notifications", "There are no receivers")


def test_a_receiver_that_cannot_be_reached_is_shown_as_failing_and_is_tried_again(admin: Page, up: Up) -> None:
    """The hub sends to public addresses alone, and the second job waits long enough to tell of it."""
    hook = {
        "metadata": {"name": "hook"},
        "type": "fleet.io/notification",
        "stringData": {"url": "https://127.0.0.1:9/"},
    }
    webhook = {"urlFrom": {"name": "hook", "key": "url"}}
    spec = {"selector": {}, "events": ["Failed"], "waitsLongerThan": "1s", "webhook": webhook}
    up.hub.request("POST", SECRETS, hook)
    try:
        up.hub.request("POST", RECEIVERS, {"metadata": {"name": "lost"}, "spec": spec})
        shown(admin, up, "settings/notifications", "default/lost")
        card = admin.get_by_role("article", name="Receiver default/lost")
        expect(card.get_by_text("fails", exact=True)).to_be_visible(timeout=2 * WITHIN_MS)
        expect(card.get_by_text("its address is not public")).to_be_visible()
        sent = admin.get_by_role("listitem").filter(has_text="default/lost")
        expect(sent.first).to_contain_text("Retrying", timeout=WITHIN_MS)
        expect(sent.first).to_contain_text("its address is not public")
        assert violations(admin) == []
        card.get_by_role("button", name="Try failed ones again").click()
        expect(card.get_by_text("notification tried again")).to_be_visible(timeout=WITHIN_MS)
    finally:
        up.hub.request("DELETE", f"{RECEIVERS}/lost")
        up.hub.request("DELETE", f"{SECRETS}/hook")
