"""What people with few rights see on the pages: a reader nothing to press, a user nothing of other namespaces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.cli.hub import Up
from tests.console.browser import FIRST, SECOND, WITHIN_MS, logged_in, shown, token

pytestmark = pytest.mark.xdist_group("console")

RBAC = "/apis/rbac.authorization.k8s.io/v1"
WRITES = re.compile(
    r"^(Cordon|Drain|Uncordon|Hold|Release|Cancel|Suspend|Priority|Move|New|Edit|Save|Delete|Revoke|Apply)"
)
SHOWN = {  # what each page has when its data are there, and whether an administrator has something to press
    "members": ("4 of 4 ready", True),
    "jobs/default/PyTorchJob/" + SECOND: ("Queued", True),
    "settings/quota": ("child-2", True),
    "settings/policies": ("example-policy", True),
    "settings/notifications": ("Notifications", True),
    "queues": ("1 waiting", False),
}
LISTS = ["", "jobs", "queues", "members", "decisions", "usage?report=usage&by=user", "usage?report=waits&by=queue"]


def settled(page: Page) -> Page:
    """No part of the page waits for an answer any more."""
    expect(page.locator("h1")).to_be_visible(timeout=WITHIN_MS)
    expect(page.locator(".mantine-Skeleton-root")).to_have_count(0, timeout=WITHIN_MS)
    return page


def binding(user: str, role: str) -> dict[str, Any]:
    group = "rbac.authorization.k8s.io"
    return {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }


@pytest.fixture(scope="module")
def tom(chromium: Browser, up: Up) -> Iterator[Page]:
    """A user who may edit in namespace team-c, where nothing is."""
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-c"}}
    up.hub.request("POST", "/api/v1/namespaces", space)
    up.hub.request("POST", f"{RBAC}/namespaces/team-c/rolebindings", binding("tom", "edit"))
    yield logged_in(chromium, up, token(up, "tom"))
    up.hub.request("DELETE", "/api/v1/namespaces/team-c")


@pytest.fixture(scope="module")
def olga(chromium: Browser, up: Up) -> Iterator[Page]:
    """An operator, who reads the whole hub."""
    up.hub.request("POST", f"{RBAC}/clusterrolebindings", binding("olga", "fleet-operator"))
    yield logged_in(chromium, up, token(up, "olga"))
    up.hub.request("DELETE", f"{RBAC}/clusterrolebindings/olga")


@pytest.mark.parametrize("path", SHOWN)
def test_a_reader_of_the_whole_hub_finds_nothing_to_press_that_would_change_it(
    admin: Page, olga: Page, up: Up, path: str
) -> None:
    text, pressed = SHOWN[path]
    for page in (admin, olga):
        shown(page, up, path, text)
        settled(page)
    if pressed:
        expect(admin.locator("main").get_by_role("button", name=WRITES).first).to_be_visible(timeout=WITHIN_MS)
    assert [one.inner_text() for one in olga.locator("main").get_by_role("button", name=WRITES).all()] == []


@pytest.mark.parametrize("path", LISTS)
def test_a_user_finds_nothing_of_other_namespaces(tom: Page, up: Up, path: str) -> None:
    shown(tom, up, path)
    text = settled(tom).inner_text("body")
    assert not re.search(f"{FIRST}|{SECOND}|default/", text), text
    assert tom.get_by_role("heading", level=1).inner_text() in text


def test_the_job_of_another_namespace_is_not_there_for_a_user(tom: Page, up: Up) -> None:
    shown(tom, up, f"jobs/default/PyTorchJob/{SECOND}", re.compile("forbidden"))
    assert "already runs" not in settled(tom).inner_text("body")
