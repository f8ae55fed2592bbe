"""The page Members: its buttons write what `fleet cordon` and `fleet drain` write."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.cli.hub import Up
from tests.console.browser import WITHIN_MS, shown

pytestmark = pytest.mark.xdist_group("console")


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
