"""The place of a gang, as its binding has it."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.bindings.binding import attempt, charged, enqueued, enqueued_at, member_of, outcome_of, priority_of
from fleet.bindings.components import components_of, to_body
from fleet.values.ports import Body
from fleet.wellknown import ANNOTATION_ENQUEUED, ATTEMPT

HERE, LEAVES = [{"name": "cfa"}], [{"fromCluster": "cfb", "reason": "Preempted"}]
CREATED, ENQUEUED = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00.500000Z"


def binding(**spec: Any) -> Body:
    return {"metadata": {"name": "b", "creationTimestamp": CREATED}, "spec": spec, "status": {}}


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({}, None),
        ({"clusters": HERE}, "cfa"),
        ({"clusters": [], "gracefulEvictionTasks": LEAVES}, "cfb"),
        ({"clusters": HERE, "gracefulEvictionTasks": LEAVES}, "cfb"),
        ({"clusters": "cfa", "gracefulEvictionTasks": [None]}, None),
    ],
)
def test_a_gang_is_in_the_member_that_it_leaves_else_where_it_is_placed(spec: Body, where: str | None) -> None:
    assert member_of(binding(**spec)) == where
    assert charged(binding(**spec), []) == (where is not None)


def test_a_status_that_is_not_there_never_counts_as_over() -> None:
    body = binding(clusters=HERE)
    body["status"]["aggregatedStatus"] = []
    assert charged(body, []) and outcome_of(body) == ""
    body["status"]["conditions"] = [{"type": "Finished", "status": "True", "reason": "Succeeded"}]
    assert not charged(body, []) and outcome_of(body) == "Succeeded"


@pytest.mark.parametrize("said", ["", "soon", ENQUEUED])
def test_a_gang_waits_since_it_was_enqueued_else_since_it_was_made(said: str) -> None:
    body = binding()
    body["metadata"]["annotations"] = {ANNOTATION_ENQUEUED: said}
    assert enqueued(body) == (ENQUEUED if said == ENQUEUED else CREATED)
    assert enqueued_at(body) == (1767312000.5 if said == ENQUEUED else 1767225600.0)


@pytest.mark.parametrize(("said", "number"), [("3", 3), ("", 0), ("x", 0), ("9" * 30, 0)])
def test_an_attempt_that_is_no_number_is_none(said: str, number: int) -> None:
    body = binding()
    body["metadata"]["annotations"] = {ATTEMPT: said}
    assert attempt(body) == number


def test_a_priority_that_is_no_number_is_refused() -> None:
    assert [priority_of(binding()), priority_of(binding(schedulePriority={"priority": -3}))] == [0, -3]
    with pytest.raises(ValueError, match="high is no whole number"):
        priority_of(binding(schedulePriority={"priority": "high"}))


def test_components_are_read_as_they_are_written() -> None:
    asks = {"cpu": "1500m", "nvidia.com/gpu": "8"}
    stored = {"name": "worker", "replicas": 2, "replicaRequirements": {"resourceRequest": asks}}
    (component,) = components_of(binding(components=[stored]))
    assert (component.name, component.replicas, component.requests["nvidia.com/gpu"]) == ("worker", 2, 8)
    assert to_body(component) == stored
