"""`fleet queues`: what a line says of a node of the quota tree."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.cli.failure import Failure
from fleet.cli.output import Table
from fleet.cli.queues import LIST, below, record


def node(**more: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "path": "root/a",
        "name": "root-a-xyz12",
        "parent": "root",
        "children": [],
        "namespaces": ["a", "b"],
        "policy": "Block",
        "stop": "None",
        "held_by": None,
        "min": {},
        "max": {},
        "used": {},
        "waiting": 2,
        "running": 1,
        "heads": [],
    }
    return known | more


def test_a_line_says_what_is_used_of_what_is_promised_and_allowed() -> None:
    gpu = "nvidia.com/gpu"
    limits = {"min": {gpu: "16"}, "max": {gpu: "32", "kube-queue/max-jobs": "10"}, "fairShare": {gpu: "20"}}
    line = record(node(**limits, used={gpu: "24", "cpu": "96"}))
    assert [line[column] for column in LIST.wide] == [
        "root/a",
        "None",
        2,
        1,
        "10",
        "24",
        "16",
        "20",
        "32",
        "root-a-xyz12",
        "a,b",
    ]
    assert (line["policy"], line["used"]) == ("Block", {gpu: "24", "cpu": "96"})


def test_what_the_tree_does_not_name_is_promised_to_nobody_and_unlimited() -> None:
    line = record(node())
    assert (line["gpus_used"], line["min_gpus"], line["max_gpus"], line["max_jobs"]) == (
        "0",
        "0",
        "unlimited",
        "unlimited",
    )


def test_paths_of_some_length_fit_eighty_columns() -> None:
    gpu = "nvidia.com/gpu"
    line = record(
        node(path="root/research/language", min={gpu: "4096"}, used={gpu: "4000"}, waiting=2000, held_by="root")
    )
    assert [len(said) for said in Table(LIST.columns).lines([LIST.row_of(line)]) if len(said) > 80] == []


@pytest.mark.parametrize(("by", "shown"), [(None, 2), ("root", "2 (held)")])
def test_the_waiting_jobs_of_a_held_queue_are_marked_in_tables_alone(by: str | None, shown: object) -> None:
    line = record(node(stop="Hold" if by else "None", held_by=by))
    assert (LIST.row_of(line)["waiting"], line["waiting"], line["held_by"]) == (shown, 2, by)


def test_a_queue_has_those_below_it_and_a_wrong_one_names_the_nearest() -> None:
    records = [record(node(path=path)) for path in ("root", "root/vision", "root/vision/a", "root/visionary")]
    assert [line["queue"] for line in below(records, "root/vision/")] == ["root/vision", "root/vision/a"]
    with pytest.raises(Failure, match='no queue "root/Vison"; did you mean root/vision or '):
        below(records, "root/Vison")
