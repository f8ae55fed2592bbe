"""Properties of a decision as a whole. (Starts and reasons: tests/scenarios.)"""

from __future__ import annotations

from fleet.core.check import check
from fleet.core.decide import decide
from fleet.core.model.plan import Plan
from fleet.core.model.reason import Code, Reason
from fleet.core.snapshot import Snapshot
from tests.builders import GPU, NOW, member, snapshot, tree, unit


def plan_of(world: Snapshot) -> Plan:
    plan = decide(world, now=NOW, seed=1, solver=None)
    assert check(world, plan, now=NOW) == ()
    return plan


def starts(world: Snapshot) -> dict[str, str]:
    return {placement.unit: placement.member for placement in plan_of(world).placements}


def test_a_round_queue_is_a_priority_queue() -> None:
    round_ = tree(ml={"max": {GPU: 4}, "policy": "Round"})
    first, second = unit("a").gpus(8).queue("root/ml").priority(9), unit("b").queue("root/ml")
    assert starts(snapshot(first, second, member("x").nodes(9), round_)) == {"b": "x"}


def test_an_empty_fleet_decides_nothing() -> None:
    assert plan_of(Snapshot()).placements == ()


def test_the_plan_does_not_depend_on_the_order_in_which_the_snapshot_was_filled() -> None:
    parts = [unit(f"u{i}").gpus(1 + i % 4) for i in range(12)] + [member(name).nodes(1) for name in "abc"]
    assert plan_of(snapshot(*parts)) == plan_of(snapshot(*reversed(parts)))


def test_a_job_that_starts_after_others_waits_by_a_code_of_its_own() -> None:
    behind = {"held": True, "after": True, "held_why": "first has succeeded"}
    world = snapshot(
        member("x").nodes(1),
        unit("waits").having(**behind, waits_turn=True),
        unit("never").having(**behind, release_helps=False),
    )
    assert plan_of(world).reasons == {
        "waits": Reason(Code.AFTER, {"jobs": "first has succeeded"}),
        "never": Reason(Code.NEVER_AFTER, {"why": "first has succeeded"}),
    }


def test_a_start_says_whether_its_member_has_to_add_nodes() -> None:
    world = snapshot(
        member("x").nodes(2).could_add(2),
        *(unit(name).gpus(8, pods=2).since(100 - at) for at, name in enumerate(("first", "second"))),
    )
    plan = decide(world, now=NOW, seed=0, solver=None)
    assert [(one.unit, one.grows) for one in plan.placements] == [("first", False), ("second", True)]
