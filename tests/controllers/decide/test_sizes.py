"""The surplus of a unit: the steps from its size down to its least, with the pods that go at each."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given

from fleet.bindings.components import components_of
from fleet.bindings.elastic import SHRUNK_AT, least_of, ranges_of, take
from fleet.controllers.decide.sizes import placed_sizes, waiting_sizes, with_surplus
from fleet.core.model.amounts import Amounts
from fleet.core.model.pod import PodView
from fleet.core.model.unit import Phase, Seat, Unit
from fleet.core.snapshot.surplus import smaller
from fleet.values.ports import Body
from tests.bindings.elasticparts import PARTS, Part, binding

CPU = Amounts.of({"cpu": 1000, "pods": 1})


def placed(body: Body) -> Unit:
    """The unit of the binding, all of whose pods lie on one node."""
    parts = tuple(components_of(body))
    pods = [pod(part.name, number) for part in parts for number in range(part.replicas)]
    seat = Seat("n", 0, Amounts.of({"cpu": 0}), CPU.times(len(pods)))
    visible = tuple((part.name, part.replicas) for part in parts)
    unit = Unit("u", "u", parts, phase=Phase.PLACED, member="m", visible=visible, seats=(seat,))
    return with_surplus(placed_sizes(unit, body), body, pods)


def pod(component: str, number: int) -> PodView:
    return PodView("m", "n", f"{component}-{number}", "", "n", "Running", True, False, "u", component, 1, CPU)


def sizes(unit: Unit) -> dict[str, int]:
    return {part.name: part.replicas for part in unit.components}


@given(PARTS)
def test_each_step_is_one_step_smaller_and_the_last_is_the_least(parts: list[Part]) -> None:
    body = binding(parts)
    unit, ranges = placed(body), ranges_of(body)
    if not ranges:
        assert unit.sizes is None
        return
    assert unit.sizes is not None and unit.sizes.leaving == 0
    down = [smaller(unit, steps) for steps in range(len(unit.sizes.surplus) + 1)]
    assert sizes(down[-1]) == {**sizes(unit), **least_of(body)}
    for before, after in pairwise(down):
        (changed,) = (name for name in sizes(unit) if sizes(before)[name] != sizes(after)[name])
        fewer = sizes(before)[changed] - sizes(after)[changed]
        assert fewer == ranges[changed].step and sizes(after)[changed] >= ranges[changed].least
        assert before.seats[0].holds == after.seats[0].holds.plus(CPU, fewer), "their room is free"
        later = list(sizes(unit))[list(sizes(unit)).index(changed) + 1 :]
        assert all(sizes(before)[name] == ranges[name].least for name in later if name in ranges), "the last goes first"


def test_the_pods_that_go_are_those_with_the_highest_numbers_and_what_was_given_up_is_leaving() -> None:
    body = binding([Part(1, 3, 1)])
    take(body, {"c0": 2})
    body["status"] = {SHRUNK_AT: "2026-01-01T00:00:00Z"}
    unit = placed(body)
    four = Unit("u", "u", placed(binding([Part(1, 3, 1)])).components, phase=Phase.PLACED, seats=unit.seats)
    unit = with_surplus(placed_sizes(four, body), body, [pod("c0", number) for number in range(4)])
    assert unit.sizes is not None
    assert (len(unit.sizes.surplus), unit.sizes.leaving, unit.sizes.shrunk_at) == (3, 2, 1767225600.0)


def test_a_waiting_unit_stands_at_its_least_and_asks_for_all() -> None:
    body = binding([Part(2, 3, 1), Part(0, 4, 1)])
    unit = waiting_sizes(Unit("u", "u", tuple(components_of(body))), body)
    assert sizes(unit) == {"c0": 2, "c1": 4} and unit.sizes is not None
    assert {part.name: part.replicas for part in unit.sizes.whole} == {"c0": 5, "c1": 4}
    assert unit.sizes.steps == (("c0", 1),)
