"""The bundles of a gang's rules, and rules that contradict themselves."""

from __future__ import annotations

import pytest

from fleet.core.model.amounts import NOTHING
from fleet.core.model.nesting import Bundle, bundle_of, flaws
from fleet.core.model.rule import PlacementRule, Rules
from fleet.core.model.unit import Component

GANG = (Component("leader", 2, NOTHING), Component("worker", 16, NOTHING))
RACKS = PlacementRule("rack", ("worker",), size=8)


def written(bundle: Bundle) -> str:
    """A bundle as "2 rack(worker 4, 2 host(leader 1))"."""
    items = [f"{GANG[at].name} {pods}" for at, pods in bundle.pods] + [written(inner) for inner in bundle.inner]
    name = "" if bundle.rule is None else f"{bundle.count} {bundle.rule.level}"
    return f"{name}({', '.join(items)})"


@pytest.mark.parametrize(
    ("rules", "bundles"),
    [
        ((), "(leader 2, worker 16)"),
        ((PlacementRule("rack"),), "(1 rack(leader 2, worker 16))"),
        # The leaders stand anywhere, the workers in two racks of eight.
        ((RACKS,), "(leader 2, 2 rack(worker 8))"),
        # Larger parts hold smaller ones, in whatever order the rules come.
        (
            (PlacementRule("host", ("worker",), size=2), RACKS, PlacementRule("block")),
            "(1 block(leader 2, 2 rack(4 host(worker 2))))",
        ),
        # A part has of each component its share: a leader with its eight workers, as a LeaderWorkerSet has them.
        ((PlacementRule("rack", size=9),), "(2 rack(leader 1, worker 8))"),
        (
            (PlacementRule("rack", ("leader",)), PlacementRule("rack", ("worker",))),
            "(1 rack(leader 2), 1 rack(worker 16))",
        ),
        # A cap alone: parts of one pod each.
        ((PlacementRule("rack", ("worker",), size=1, most=6),), "(leader 2, 16 rack(worker 1))"),
        # A cap over several components: single pods of each, counted together.
        ((PlacementRule("rack", size=1, most=6),), "(2 rack(leader 1), 16 rack(worker 1))"),
        # Rules of the same pods lie within each other in their order.
        ((PlacementRule("zone"), PlacementRule("rack")), "(1 zone(1 rack(leader 2, worker 16)))"),
    ],
)
def test_each_rule_bundles_its_pods_and_smaller_parts_lie_within_larger_ones(rules: Rules, bundles: str) -> None:
    assert written(bundle_of(GANG, rules)) == bundles


@pytest.mark.parametrize(
    ("rules", "flaw"),
    [
        ((PlacementRule(""),), "rules[0].level is empty: it names a level of a place tree, or a node label"),
        ((PlacementRule("rack", ("ps",)),), "rules[0].of 'ps' is no component of the gang"),
        ((PlacementRule("rack", size=-1),), "rules[0].size -1 is below 0"),
        ((PlacementRule("rack", size=2, most=-2),), "rules[0].most -2 is below 0"),
        ((PlacementRule("rack", most=4),), "rules[0].size is missing: most and even are for pods in parts"),
        ((PlacementRule("rack", even=True),), "rules[0].size is missing: most and even are for pods in parts"),
        ((PlacementRule("rack", size=1, hard=False),), "rules[0].hard is false: pods in parts need a hard rule"),
        (
            (RACKS, PlacementRule("host", ("worker",), 2, even=True)),
            "rules[1].even goes with no other rule that has these pods in parts, as rule 0 has",
        ),
        ((PlacementRule("rack", ("worker",), 8, most=4),), "rules[0].most 4 is less than one part of 8"),
        ((PlacementRule("rack", ("worker",), 5),), "rules[0].size 5 does not divide 16 pods into parts alike"),
        (
            (PlacementRule("rack", size=1, even=True),),
            "rules[0].even is for the pods of one component: name it in of",
        ),
        ((PlacementRule("rack", size=6),), "rules[0].size 6 does not divide 2 + 16 pods into parts alike"),
    ],
)
def test_a_rule_that_contradicts_itself_or_another_is_named(rules: Rules, flaw: str) -> None:
    assert [f"rules[{at}].{field} {problem}" for at, field, problem in flaws(rules, GANG)] == [flaw]


def test_parts_that_lie_within_no_part_of_the_other_rule_are_refused() -> None:
    twelve = (Component("worker", 12, NOTHING),)
    rules = (PlacementRule("rack", size=6), PlacementRule("host", size=4))
    assert list(flaws(rules, twelve)) == [
        (1, "of", "has pods of rule 0, and no part of one lies within a part of the other")
    ]
