"""The values of a QueueUnit, whatever its body has."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.bindings.nomination import NOMINATION, ReservedPlacement, reserved_placement_of, to_body
from fleet.bindings.unit import (
    active,
    charged_of,
    in_queue,
    limit_of,
    owned_by,
    phase_of,
    priority_of,
    queue_of,
    requeue_at,
    unit_key,
    unit_of,
    walltime_of,
)
from fleet.values.ports import Body, Key, StoredObject
from fleet.wellknown import ANNOTATION_WALLTIME, QUEUE, WORK

BINDING: Body = {"metadata": {}, "spec": {"schedulePriority": {"priority": 3}}}
PHASES = ("", "Enqueued", "TimeoutBackoff", "Reserved", "Dequeued", "Running", "Succeed", "Failed")


def unit(spec: Any = None, **status: Any) -> Body:
    return {"metadata": {"name": "u"}, "spec": spec or {}, "status": status}


def test_a_unit_is_in_its_queue_until_it_has_its_room() -> None:
    assert [phase for phase in PHASES if in_queue(unit(phase=phase))] == ["", "Enqueued", "TimeoutBackoff"]


@pytest.mark.parametrize("body", [None, {}, {"spec": None, "status": 5}, {"spec": "x", "status": []}, unit()])
def test_a_unit_that_says_nothing_is_active_and_asks_for_nothing(body: Body | None) -> None:
    assert (phase_of(body), queue_of(body), active(body), walltime_of(body)) == ("", "", True, None)
    assert (requeue_at(body), charged_of(body), reserved_placement_of(body)) == (None, {}, None)
    assert priority_of(body, BINDING) == 3


def test_a_person_changes_priority_limit_and_whether_it_may_start() -> None:
    body = unit({"priority": 0, "maximumExecutionTimeSeconds": 60, "active": False})
    assert (priority_of(body, BINDING), walltime_of(body), active(body)) == (0, 60, False)
    for spec in ({"priority": "high"}, {"maximumExecutionTimeSeconds": "long"}):
        with pytest.raises(ValueError, match="is no whole number"):
            _ = priority_of(unit(spec), BINDING), walltime_of(unit(spec))


def test_the_smaller_of_the_limits_of_unit_and_job_counts() -> None:
    own = {"metadata": {"annotations": {ANNOTATION_WALLTIME: "90"}}}
    limited = unit({"maximumExecutionTimeSeconds": 60})
    assert [limit_of(limited, BINDING), limit_of(limited, own), limit_of(None, own)] == [60, 60, 90]
    assert limit_of(unit(), BINDING) is None
    assert limit_of(None, {"metadata": {"annotations": {ANNOTATION_WALLTIME: "0"}}}) is None


def test_a_unit_is_charged_what_its_member_runs_where_that_is_more() -> None:
    assert charged_of(unit({"resource": {"cpu": "1"}})) == {"cpu": "1"}
    assert charged_of(unit({"resource": {"cpu": "1"}}, charged={"cpu": "2"})) == {"cpu": "2"}


@pytest.mark.parametrize("domain", ["", "rack-1"])
def test_a_nomination_is_read_as_it_was_written_while_the_unit_is_reserved(domain: str) -> None:
    said = ReservedPlacement("cfa", 1000.0, 2000.0, 4, "root-a", domain)
    assert reserved_placement_of(unit(phase="Reserved", **{NOMINATION: to_body(said)})) == said
    assert reserved_placement_of(unit(phase="Enqueued", **{NOMINATION: to_body(said)})) is None
    assert reserved_placement_of(unit(phase="Reserved", **{NOMINATION: {**to_body(said), "since": "soon"}})) is None


def test_the_unit_that_an_earlier_binding_of_the_name_has_left_is_not_the_unit_of_this_one() -> None:
    binding = Key(WORK, "resourcebindings", "lab", "a-pytorchjob")
    of_it = Key(QUEUE, "queueunits", "lab", "a-pytorchjob-rb-qu")
    body = {"metadata": {"name": "u", "ownerReferences": [{"uid": "other"}, {"uid": "earlier"}]}}
    left = StoredObject(of_it, "u1", 7, b"", body)
    assert unit_key(binding) == of_it
    assert unit_of({of_it: left}.get, binding, "earlier") is left
    assert unit_of({of_it: left}.get, binding, "this") is None
    nothing: dict[Key, StoredObject] = {}
    assert unit_of(nothing.get, binding, "this") is None
    assert not owned_by(unit(), "this")
