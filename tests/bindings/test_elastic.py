"""A binding at any size within its range: never below the least, never above what its job asks for, charged for what it
has."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st

from fleet.bindings.components import components_of, wanted_of
from fleet.bindings.elastic import give, least_of, least_text, ranges_of, start_size, take
from fleet.bindings.elastic import with_replicas as at_size
from fleet.bindings.nomination import ReservedPlacement, reserved_placement_of, to_body
from fleet.kinds.interpreter import Range
from fleet.values.ports import Body, Key, StoredObject
from tests.bindings.elasticparts import PARTS, Part, binding


def sizes(body: Body) -> dict[str, int]:
    return {part.name: part.replicas for part in components_of(body)}


@given(PARTS, st.data())
def test_a_job_has_what_it_is_given_and_asks_for_all_of_it_on(parts: list[Part], data: st.DataObject) -> None:
    body = binding(parts)
    asked, ranges = sizes(body), ranges_of(body)
    for _ in range(4):
        size = {
            name: data.draw(st.sampled_from(range(found.least, asked[name] + 1, found.step)))
            for name, found in ranges.items()
        }
        if data.draw(st.booleans()):
            give(body, size)
            assert sizes(body) == {**asked, **size}
        else:
            before = sizes(body)
            take(body, size)
            assert sizes(body) == {name: min(before[name], size.get(name, before[name])) for name in asked}
        assert all(ranges[name].least <= count <= asked[name] for name, count in sizes(body).items() if name in ranges)
        assert {part.name: part.replicas for part in wanted_of(body)} in ({}, asked)
        assert ranges_of(body) == ranges, "its range stays known"
    give(body, {})
    assert sizes(body) == asked and "wantedComponents" not in body["spec"]


@given(PARTS)
def test_a_job_that_is_to_start_at_its_smallest_is_nominated_and_placed_so(parts: list[Part]) -> None:
    body = binding(parts)
    before, least = copy.deepcopy(body), least_of(body)
    stored = StoredObject(Key("", "", "", "b"), "uid", 1, b"", body)
    smaller = at_size(stored, least)
    assert body == before and start_size(body) == () and (least or smaller is stored)
    nomination = ReservedPlacement("cfa", 1.0, 2.0, 3, "q", replicas=start_size(smaller.body))
    unit = {"status": {"phase": "Reserved", "nomination": to_body(nomination)}}
    read = reserved_placement_of(unit)
    assert read == nomination and at_size(stored, dict(read.replicas)).body == smaller.body


def test_the_least_is_told_with_what_the_job_asks_for() -> None:
    body = binding([Part(0, 1, 1), Part(2, 3, 2), Part(1, 1, 1)])
    assert least_text(body) == "4 of 10 c1, 1 of 2 c2"
    take(body, least_of(body))
    assert least_text(body) == "4 of 10 c1, 1 of 2 c2"
    assert ranges_of(body) == {"c1": Range(4, 2), "c2": Range(1)}
