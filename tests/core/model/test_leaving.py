"""The room that units leave behind in their member: on their nodes where seats are known, else as places of a pod."""

from __future__ import annotations

import pytest

from fleet.core.model.leaving import left_behind, vacated
from fleet.core.model.unit import Seat
from tests.builders import GPU, NOW, NodeClaim, UnitBuilder, amounts, member, unit

MEMBER = member("x").nodes(1, free_gpu=2).nodes(1, free_gpu=0, labels={"model": "A"}).value
ONE = amounts(gpu=4)
FREE = amounts(gpu=2, cpu=96, memory=768, pods=110)
RUNS = unit("r").gang(2, gpu=4).runs_in("x")


@pytest.mark.parametrize(
    ("leaving", "places"),
    [
        pytest.param(RUNS, [(0, 2)], id="a place for each pod, in the first pool that takes it"),
        pytest.param(RUNS.having(visible=(("worker", 1),)), [(0, 1)], id="for pods that the inventory shows"),
        pytest.param(RUNS.having(visible=()), [], id="nothing where no pod is shown"),
        pytest.param(
            unit("a").gang(1, gpu=4, claim=NodeClaim(node_selector=(("model", "A"),))).runs_in("x"),
            [(1, 1)],
            id="in a pool that its node selector names",
        ),
        pytest.param(
            unit("b").gang(1, gpu=4, claim=NodeClaim(node_selector=(("model", "B"),))).runs_in("x"),
            [],
            id="nothing where no pool takes it any more",
        ),
        pytest.param(RUNS.having(seats=(Seat("n", 0, FREE, ONE),)), [], id="nothing where its seats are known"),
    ],
)
def test_pods_without_known_seats_leave_places_of_their_own_size(
    leaving: UnitBuilder, places: list[tuple[int, int]]
) -> None:
    found = left_behind(leaving.value, MEMBER)
    assert [(home, count) for home, _, count in found] == places
    assert all(vector[GPU] == 4 for _, vector, _ in found)
    free = vacated(MEMBER, [leaving.value]).pools[0].free
    assert places or leaving.value.seats or free == MEMBER.pools[0].free


def test_units_on_one_node_leave_it_together_and_a_node_that_changed_gives_what_they_held() -> None:
    here = (Seat("n", 0, FREE, amounts(gpu=2)),)
    units = [unit(name).gpus(2).runs_in("x").having(placed_at=NOW, seats=here).value for name in "ab"]
    assert dict(vacated(MEMBER, units).pools[0].free) == {FREE.plus(amounts(gpu=4)): 1}
    moved = member("x").nodes(1, free_gpu=1).value
    free = dict(vacated(moved, units).pools[0].free)
    assert free == {moved.pools[0].free[0][0]: 1, amounts(gpu=4): 1}
