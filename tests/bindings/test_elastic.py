"""A binding at any size within its range: never below the least, never above what its job asks for, charged for what it
has."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from fleet.bindings.components import components_of, wanted_of
from fleet.bindings.elastic import give, least_of, least_text, ranges_of, start_size, take
from fleet.bindings.elastic import with_replicas as at_size
from fleet.bindings.nomination import ReservedPlacement, reserved_placement_of, to_body
from fleet.controllers.decide.shrinking import sizes_of
from fleet.kinds.interpreter import Range
from fleet.values.ports import Body, Key, StoredObject


class Part(NamedTuple):
    """A component that asks for `least + above * step` pods; `least` 0: it has a fixed size, of `above` pods."""

    least: int
    above: int
    step: int


PARTS = st.lists(st.builds(Part, st.integers(0, 4), st.integers(1, 5), st.integers(1, 3)), min_size=1, max_size=3)


def binding(parts: list[Part]) -> Body:
    components = []
    for number, (least, above, step) in enumerate(parts):
        requests = {"resourceRequest": {"cpu": "1"}}
        ranged = {"minReplicas": least * step, "replicaStep": step} if least else {}
        replicas = (least + above) * step if least else above
        components.append({"name": f"c{number}", "replicas": replicas, "replicaRequirements": requests, **ranged})
    return {"metadata": {"name": "b"}, "spec": {"components": components}}


def sizes(body: Body) -> dict[str, int]:
    return {part.name: part.replicas for part in components_of(body)}


@given(PARTS)
def test_every_size_on_the_way_down_is_a_step_smaller_and_the_last_is_the_least(parts: list[Part]) -> None:
    body = binding(parts)
    asked, ranges = sizes(body), ranges_of(body)
    found = [{**asked, **size} for size in sizes_of(components_of(body), ranges)]
    assert found[0] == asked and found[-1] == {**asked, **least_of(body)}
    for before, after in pairwise(found):
        (changed,) = (name for name in asked if before[name] != after[name])
        assert before[changed] - after[changed] == ranges[changed].step
        assert after[changed] >= ranges[changed].least
        later = list(asked)[list(asked).index(changed) + 1 :]
        assert all(before[name] == ranges[name].least for name in later if name in ranges), "the last gives up first"


@given(PARTS, st.data())
def test_a_job_has_what_it_is_given_and_asks_for_all_of_it_on(parts: list[Part], data: st.DataObject) -> None:
    body = binding(parts)
    asked, ranges = sizes(body), ranges_of(body)
    every = sizes_of(components_of(body), ranges)
    for _ in range(4):
        size = data.draw(st.sampled_from(every))
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
