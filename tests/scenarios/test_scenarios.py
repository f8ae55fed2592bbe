"""Every scenario of this folder, decided by greedy alone and with the solver."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.core.model.unit import Phase
from fleet.core.placement.problem import Solver
from fleet.core.solver.cpsat import CpSat
from tests.scenarios.drive import Document, Moment, Stream, found, scenarios, wanted

SOLVERS: dict[str, Solver | None] = {"greedy": None, "cp-sat": CpSat()}


def cases() -> list[Any]:
    return [
        pytest.param(scenario, name, id=f"{scenario['name']} ({name})") for scenario in scenarios() for name in SOLVERS
    ]


@pytest.mark.parametrize(("scenario", "solver"), cases())
def test_scenario(scenario: Document, solver: str) -> None:
    if "stream" in scenario:
        _runs(scenario, SOLVERS[solver])
        return
    moment = Moment.of(scenario["snapshot"])
    for number, step in enumerate((scenario, *scenario.get("then", ()))):
        moment = moment.then(step) if number else moment
        moment = _as_expected(moment, step, solver)


def test_every_scenario_has_a_name_of_its_own() -> None:
    names = [scenario["name"] for scenario in scenarios()]
    assert len(set(names)) == len(names)


def _as_expected(moment: Moment, step: Document, solver: str) -> Moment:
    """The moment after the plan is carried out, once the plan is what the step expects."""
    expected = {**step, **step.get("solver", {})} if SOLVERS[solver] is not None else step
    plan = moment.decided(SOLVERS[solver])
    assert found(plan, expected) == wanted(expected)
    waiting = {key for key, unit in moment.snapshot.units.items() if unit.phase is Phase.WAITING}
    assert set(plan.reasons) == waiting - {placement.unit for placement in plan.placements}
    assert moment.decided(SOLVERS[solver]) == plan
    after = moment.carried_out(plan)
    if not plan.evictions:
        again = after.decided(SOLVERS[solver]).placements
        assert {placed.unit: placed.member for placed in again} == expected.get("again", {})
    return after


def _runs(scenario: Document, solver: Solver | None) -> None:
    stream = Stream(scenario, solver)
    assert set(scenario.get("runs_to_its_end", ())) <= stream.ended()
    limits = scenario.get("starts_within", {})
    assert {unit: stream.waited_s(unit) for unit in limits if stream.waited_s(unit) > limits[unit]} == {}
