"""The amount that a reason calls used is in use: by units that hold quota, and by units that start in the plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.core.check.violation import Rule, Violation
from fleet.core.decide import decide
from fleet.core.model.plan import Plan
from fleet.core.model.reason import Code
from fleet.core.model.unit import Claim
from fleet.core.quota.limits import FIRM
from fleet.core.quota.tree import QuotaTree
from fleet.core.quota.usage import Usage, account_of, request_of
from fleet.core.quota.users import account
from fleet.core.snapshot import Snapshot
from tests.builders import GPU, NOW, member, snapshot, tree, unit
from tests.worlds import worlds


def decided(world: Snapshot, refusals: int) -> Plan:
    """The plan, where the checker refuses the first unit of the plan so many times."""
    left = iter(range(refusals))

    def check(snapshot: Snapshot, plan: Plan, *, now: float) -> tuple[Violation, ...]:
        units = [*(placement.unit for placement in plan.placements), *(eviction.unit for eviction in plan.evictions)]
        refused = units and next(left, None) is not None
        return (Violation(next(iter(Rule)), units[0], "refused for this test"),) if refused else ()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fleet.core.decide.check", check)
        return decide(world, now=NOW, seed=1, solver=None)


def told(world: Snapshot, made: QuotaTree, plan: Plan) -> Iterator[tuple[str, int, int]]:
    """(unit, used as its reason says, used) for every reason that says it."""
    usage = Usage.of(made, world.units.values())
    for placement in plan.placements:
        charged = account_of(made, world.units[placement.unit])
        if charged is not None:
            usage.charge(charged, request_of(world.units[placement.unit]))
    for key, reason in plan.reasons.items():
        if "used" in reason.numbers:
            node, resource = str(reason.numbers["node"]), str(reason.numbers["resource"])
            at = account(node, str(reason.numbers["user"])) if "user" in reason.numbers else node
            firm = FIRM if reason.code is Code.MIN_EXHAUSTED else ""
            yield key, int(reason.numbers["used"]), usage.used(at, firm + resource)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(worlds(), st.integers(0, 3))
def test_what_a_reason_tells_as_used_is_used_whatever_the_checker_refuses(world: Snapshot, refusals: int) -> None:
    made = world.tree if world.tree is not None else tree(a={"max": {GPU: 8}}, b={}, org={}, org__c={"max": {GPU: 8}})
    world = replace(world, tree=made)
    for key, said, used in told(world, made, decided(world, refusals)):
        assert said == used, key


def test_a_unit_that_the_checker_keeps_from_its_claimed_room_uses_nothing() -> None:
    made = tree(a={"max": {GPU: 8}})
    takes = unit("takes").gpus(8).queue("root/a").since(99).having(claim=Claim("x", NOW + 600))
    world = snapshot(takes, unit("next").gpus(8).queue("root/a"), member("x").nodes(2), made)
    plan = decided(world, 1)
    assert plan.reasons["next"].numbers["used"] == 0
    assert list(told(world, made, plan)) == [("next", 0, 0)]
