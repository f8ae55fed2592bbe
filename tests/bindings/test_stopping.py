"""Queues that start nothing, by their own stopPolicy or by that of a queue above them."""

from __future__ import annotations

import pytest

from fleet.bindings.stopping import drained_by, held_by, in_force, stops_of
from fleet.wellknown import ANNOTATION_QUOTA_FULLNAME


@pytest.mark.parametrize(
    ("stops", "path", "held", "drained", "policy"),
    [
        ({}, "root/a", "", "", "None"),
        ({"root/a": "Hold"}, "root/a", "root/a", "", "Hold"),
        ({"root": "Hold"}, "root/a/b", "root", "", "Hold"),
        ({"root/a": "Hold"}, "root/ab", "", "", "None"),
        ({"root/a": "Hold"}, "root", "", "", "None"),
        ({"root": "HoldAndDrain", "root/a": "Hold"}, "root/a", "root/a", "root", "HoldAndDrain"),
    ],
)
def test_the_nearest_queue_that_stops_another(
    stops: dict[str, str], path: str, held: str, drained: str, policy: str
) -> None:
    assert (held_by(stops, path), drained_by(stops, path), in_force(stops, path)) == (held, drained, policy)


@pytest.mark.parametrize("spec", [{"stopPolicy": "None"}, {"stopPolicy": 3}, {}, None, "text"])
def test_a_queue_that_says_nothing_of_it_is_not_stopped(spec: object) -> None:
    assert stops_of([{"metadata": {"annotations": {ANNOTATION_QUOTA_FULLNAME: "root"}}, "spec": spec}]) == {}
