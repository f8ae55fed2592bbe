"""A page in a hidden tab asks nothing when something changes, and shows it when it is seen again."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.cli.hub import Up
from tests.console.browser import SECOND, WITHIN_MS, shown

pytestmark = pytest.mark.xdist_group("console")

HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  Object.defineProperty(document, "visibilityState", { configurable: true, get: () => hidden ? "hidden" : "visible" });
  document.dispatchEvent(new Event("visibilitychange"));
  return performance.now();
}"""
# Another stream than the page's own hears of the change: both get their message at once.
CHANGE = """async ([path, value]) => {
  const stream = new EventSource("/fleet/v1/changes");
  await new Promise((done) => { stream.onopen = done; });
  const heard = new Promise((done) => stream.addEventListener("changed", (event) => {
    if (JSON.parse(event.data).kinds.includes("jobs")) done();
  }));
  const body = JSON.stringify({ metadata: { annotations: { "test/seen": value } } });
  const headers = { "content-type": "application/merge-patch+json" };
  const answer = await fetch(path, { method: "PATCH", body, headers });
  await heard;
  stream.close();
  return answer.status;
}"""
ASKED = """(since) => performance.getEntriesByType("resource")
  .filter((one) => one.name.includes("/fleet/v1/jobs?") && one.startTime > since).length"""


def test_a_hidden_page_asks_when_it_is_seen_again(admin: Page, up: Up) -> None:
    path = f"/apis/kubeflow.org/v1/namespaces/default/pytorchjobs/{SECOND}"
    shown(admin, up, "jobs", SECOND)
    try:
        hidden = admin.evaluate(HIDE, True)
        assert admin.evaluate(CHANGE, [path, "yes"]) == 200
        assert admin.evaluate(CHANGE, [path, "again"]) == 200
        assert admin.evaluate(ASKED, hidden) == 0
        with admin.expect_response(lambda answer: "/fleet/v1/jobs?" in answer.url, timeout=WITHIN_MS):
            admin.evaluate(HIDE, False)
        expect(admin.get_by_text(SECOND).first).to_be_visible(timeout=WITHIN_MS)
    finally:
        assert admin.evaluate(CHANGE, [path, None]) == 200
