"""`fleet queues`: what a line says of a node of the quota tree."""

from __future__ import annotations

from typing import Any

from fleet.cli.queues import COLUMNS, record


def node(**more: Any) -> dict[str, Any]:
    known = {
        "path": "root/a", "name": "root-a-xyz12", "parent": "root", "children": [], "namespaces": ["a", "b"],
        "policy": "Block", "min": {}, "max": {}, "used": {}, "waiting": 2, "running": 1, "heads": [],
    }  # fmt: skip
    return known | more


def test_a_line_says_what_is_used_of_what_is_promised_and_allowed() -> None:
    gpu = "nvidia.com/gpu"
    line = record(node(min={gpu: "16"}, max={gpu: "32", "kube-queue/max-jobs": "10"}, used={gpu: "24", "cpu": "96"}))
    assert [line[column] for column in COLUMNS] == ["root/a", "a,b", 2, 1, "10", "24", "16", "32", "root-a-xyz12"]
    assert (line["policy"], line["used"]) == ("Block", {gpu: "24", "cpu": "96"})


def test_what_the_tree_does_not_name_is_promised_to_nobody_and_unlimited() -> None:
    line = record(node())
    assert (line["gpus_used"], line["min_gpus"], line["max_gpus"], line["max_jobs"]) == (
        "0",
        "0",
        "unlimited",
        "unlimited",
    )
