"""A gang whose place takes a long search costs its own turn, and not the turns of others."""

from __future__ import annotations

from fleet.controllers.decide.decider import ASIDE_S, Decider
from fleet.core.decide import decide
from fleet.core.model.bounds import BOUNDS
from fleet.core.model.reason import Code
from fleet.core.model.unit import Component, Unit
from fleet.core.snapshot import Snapshot
from tests.builders import NOW, UnitBuilder, amounts, member, unit


def puzzle(name: str) -> UnitBuilder:
    """A gang of 52 pods of eight kinds. 50 nodes have room for all in sum, and each for one."""
    sizes = [amounts(gpu=1, cpu=33 + kind, memory=1 + kind, pods=1) for kind in range(8)]
    parts = (Component(f"k{kind}", 3 + kind, size) for kind, size in enumerate(sizes))
    return unit(name).having(components=tuple(parts))


def world(*waiting: Unit) -> Snapshot:
    return Snapshot.of(waiting, [member(f"m{number:02}").nodes(50, cpu=64).value for number in range(12)])


SMALL = unit("a").gpus(8).value


def test_a_gang_that_takes_too_many_steps_is_named_and_the_rest_is_decided() -> None:
    plan = decide(world(puzzle("p").value, SMALL), now=NOW, seed=1, solver=None)
    assert [placement.unit for placement in plan.placements] == ["a"]
    reason = plan.reasons["p"]
    assert reason.code is Code.TOO_COSTLY
    assert (reason.numbers["kinds"], reason.numbers["most"]) == (8, BOUNDS.gang_steps)
    assert "gang_steps" in plan.certificate.bounds
    assert decide(world(puzzle("p").value, SMALL), now=NOW, seed=1, solver=None) == plan


def test_later_decisions_are_made_without_it_until_it_changes_or_its_time_is_over() -> None:
    decider, before = Decider(lambda: 0.0), world(puzzle("p").value, SMALL)
    decided = decider.decide(before, now=NOW, solver=None, mark=lambda part: None)
    assert decided.plan is not None and decided.fault is None
    assert decider.aside["p"].reason == decided.plan.reasons["p"]
    assert decider.without_aside(before, NOW + 1).units.keys() == {"a"}
    changed = world(puzzle("p").having(priority=5).value, SMALL)
    assert decider.without_aside(changed, NOW + 1).units.keys() == {"a", "p"}
    decider.decide(before, now=NOW, solver=None, mark=lambda part: None)
    assert decider.without_aside(before, NOW + ASIDE_S).units.keys() == {"a", "p"}
