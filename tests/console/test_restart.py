"""An open page while the hub's API process is killed and comes back."""

from __future__ import annotations

import psutil
import pytest
from playwright.sync_api import Browser, expect

from fleet.cli.failure import Failure
from tests.cli.hub import Up, fleet, until
from tests.console.browser import FIRST, WITHIN_MS, logged_in, shown, token

pytestmark = pytest.mark.xdist_group("console")

AFTER = "after-the-restart"
JOB = f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: {AFTER}, namespace: default}}
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: main, image: "example/none", resources: {{requests: {{cpu: "1"}}}}}}]
"""


def test_a_page_follows_the_hub_again_after_a_restart_and_the_login_holds(
    chromium: Browser, up: Up, tmp_path_factory: pytest.TempPathFactory
) -> None:
    page = logged_in(chromium, up, token(up, "rita", "--group", "system:masters"))
    shown(page, up, "jobs", FIRST)
    page.evaluate("window.opened = true")  # a page that is loaded anew forgets that
    killed = up.child("api")
    killed.kill()
    until("the old process is gone", lambda: not psutil.pid_exists(killed.pid))
    until("the hub answers again", lambda: _answers(up))
    manifest = tmp_path_factory.mktemp("restart") / "job.yaml"
    manifest.write_text(JOB)
    assert fleet("submit", str(manifest), "--data-dir", str(up.folder)).returncode == 0
    try:
        expect(page.get_by_role("link", name=AFTER)).to_be_visible(timeout=WITHIN_MS)
        expect(page.get_by_role("status")).to_have_text("")
        assert page.evaluate("window.opened") is True
    finally:
        assert fleet("delete", f"job/{AFTER}", "-n", "default", "--data-dir", str(up.folder)).returncode == 0
        page.context.close()


def _answers(up: Up) -> bool:
    try:
        return up.hub.request("GET", "/readyz").status == 200
    except Failure:
        return False
