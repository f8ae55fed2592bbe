"""A taint on a simulated member: who moves, and where people see it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fleet.amc.get import CLUSTERS
from fleet.cli.clusters import record
from tests.cli.hub import Up, fleet, until
from tests.cli.manifests import TREE, job, policy, written

TAINT = {"key": "maintenance", "value": "disk", "effect": "NoExecute"}
MERGE = "application/merge-patch+json"


def test_a_line_of_a_member_shows_its_taints() -> None:
    body: dict[str, Any] = {
        "metadata": {"name": "cfa"},
        "spec": {"taints": [TAINT, {"key": "a", "effect": "NoSchedule"}]},
    }
    assert record(body)["taints"] == "maintenance=disk:NoExecute,a:NoSchedule"
    assert record({"metadata": {"name": "cfa"}})["taints"] == ""


def test_a_job_leaves_a_tainted_member_and_the_taint_shows_everywhere(tmp_path: Path) -> None:
    up = Up(tmp_path / "hub", "--members", "2", "--nodes", "1")
    where = ("--data-dir", str(up.folder))

    def shown() -> tuple[str, str]:
        (line,) = json.loads(fleet("jobs", *where, "-o", "json").stdout)
        return line["state"], line["member"]

    try:
        done = fleet("submit", written(tmp_path / "jobs.yaml", TREE, policy(), job("one")), *where)
        assert done.returncode == 0, done.stderr
        until("it runs", lambda: shown()[0] == "Running")
        first = shown()[1]
        (other,) = {"cfa", "cfb"} - {first}
        up.hub.request("PATCH", f"{CLUSTERS}/{first}", {"spec": {"taints": [TAINT]}}, content_type=MERGE)
        until("it runs in the other member", lambda: shown() == ("Running", other))
        (row,) = [m for m in up.hub.request("GET", "/fleet/v1/clusters").body["items"] if m["name"] == first]
        assert {k: v for k, v in row["taints"][0].items() if k != "added"} == TAINT and row["taints"][0]["added"]
        lines = {line.split()[0]: line for line in fleet("clusters", *where).stdout.splitlines()}
        assert "maintenance=disk:NoExecute" in lines[first] and "maintenance" not in lines[other]
    finally:
        assert up.stop() == 0, up.errors.read_text()
