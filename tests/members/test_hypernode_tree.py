"""Places of nodes from HyperNodes: the eight nodes of Volcano's walk-through, nesting, overlaps, and what is left
out."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from fleet.members.hypernodes import HyperNode
from tests.members.hypernodes import TreeOfNodes, exact, inner, labelled, of, regex

NODES = [f"te{number}" for number in range(1, 9)]


WALK_THROUGH = [
    of("s0", 1, exact("te1", "te2")),
    of("s1", 1, regex("^te[34]$")),
    of("s2", 1, labelled(rack="s2")),
    of("s3", 1, exact("te7", "te8")),
    inner("s4", 2, "s0", "s1"),
    of("s5", 2, regex("^s[23]$"), "HyperNode"),
    inner("s6", 3, "s4", "s5"),
]
LABELS = {"te5": {"rack": "s2"}, "te6": {"rack": "s2"}}


def tree_of(hypernodes: list[HyperNode], nodes: list[str] = NODES, **more: Any) -> TreeOfNodes:
    tree = TreeOfNodes()
    for node in nodes:
        tree.come(node, LABELS.get(node, {}))
    arranged(tree, hypernodes, **more)
    return tree


def arranged(tree: TreeOfNodes, hypernodes: list[HyperNode], **more: Any) -> None:
    for _ in tree.arranging(hypernodes, **more):
        pass
    tree.settle()


def paths(tree: TreeOfNodes, nodes: list[str] = NODES) -> dict[str, str]:
    """The path of the finest domain of each node."""
    return {node: places[-1][1] if (places := tree.places(node)) else "" for node in nodes}


def test_the_walk_through_has_racks_of_two_switches_of_two_racks_and_one_core() -> None:
    tree = tree_of(WALK_THROUGH)
    racks = ["/s6/s4/s0", "/s6/s4/s1", "/s6/s5/s2", "/s6/s5/s3"]
    assert list(paths(tree).values()) == [rack for rack in racks for _ in range(2)]
    assert tree.places("te3") == (("tier-3", "/s6"), ("tier-2", "/s6/s4"), ("tier-1", "/s6/s4/s1"))
    assert tree.places("te3") is tree.places("te4")
    assert (tree.levels(), tree.faults()) == (("tier-3", "tier-2", "tier-1"), ())


def test_nodes_that_come_before_or_after_the_hypernodes_have_the_same_places() -> None:
    before = tree_of(WALK_THROUGH)
    after = tree_of(WALK_THROUGH, [])
    for node in reversed(NODES):
        after.come(node, LABELS.get(node, {}))
    after.settle()
    assert paths(before) == paths(after)


@pytest.mark.parametrize(
    ("hypernodes", "expected", "faults"),
    [
        pytest.param(
            [of("r", 1, exact("te1"), tierName="rack"), inner("b", 2, "r", tierName="block")],
            {"te1": (("block", "/b"), ("rack", "/b/r"))},
            [],
            id="the name of a tier is the name of its level",
        ),
        pytest.param(
            [of("r", 1, regex("^te[12]$")), of("b", 2, regex("^te[1-4]$"))],
            {"te1": (("tier-2", "/b"), ("tier-1", "/b/r")), "te3": (("tier-2", "/b"),)},
            [],
            id="two that both list nodes nest where one has all nodes of the other",
        ),
        pytest.param(
            [of("a", 1, exact("te1", "te2", "te3")), of("b", 1, exact("te3", "te4"))],
            {"te1": (), "te2": (), "te3": (("tier-1", "/b"),), "te4": (("tier-1", "/b"),)},
            ["HyperNode a of 3 nodes overlaps b of 2: it is left out"],
            id="of two that overlap the smaller one stays",
        ),
        pytest.param(
            [of("a", 1, exact("te1", "te2")), of("b", 1, exact("te2", "te3")), of("c", 1, exact("te3", "te4"))],
            {"te1": (("tier-1", "/a"),), "te4": (("tier-1", "/c"),)},
            ["HyperNode b of 2 nodes overlaps a of 2: it is left out"],
            id="one that overlaps what is left out itself stays",
        ),
        pytest.param(
            [of("r", 1, exact("te1")), inner("b", 2, "r"), of("c", 2, exact("te1", "te2"))],
            {"te1": (("tier-2", "/b"), ("tier-1", "/b/r")), "te2": ()},
            ["HyperNode c of 2 nodes overlaps b of 1: it is left out"],
            id="a rack under two blocks is in the smaller one",
        ),
        pytest.param(
            [of("r", 1, exact("te1"), tierName="rack"), inner("b", 2, "r", tierName="rack")],
            {"te1": (("rack", "/r"),)},
            ["HyperNode b of 1 nodes overlaps r of 1: it is left out"],
            id="two of one level do not nest",
        ),
        pytest.param(
            [inner("a", 2, "b"), inner("b", 2, "a")],
            {},
            [
                "HyperNode a of tier 2 has the member b of tier 2: members are of lower tiers",
                "HyperNode b of tier 2 has the member a of tier 2: members are of lower tiers",
            ],
            id="a circle is cut",
        ),
        pytest.param(
            [inner("a", 2, "a", "r9")],
            {},
            [
                "HyperNode a of tier 2 has the member a of tier 2: members are of lower tiers",
                "HyperNode a has the member r9, which does not exist",
            ],
            id="a member that does not exist is named",
        ),
        pytest.param(
            [of("h", 1, exact("te1")), of("g", 1, exact("te5")), inner("leaf", 2, "h"), inner("nvl", 2, "g")],
            {"te1": (("tier-2", "/leaf"), ("tier-1", "/leaf/h")), "te5": (("tier-2", "/nvl"), ("tier-1", "/nvl/g"))},
            [],
            id="there may be several roots",
        ),
        pytest.param(
            [of("all", 4, [{"labelMatch": {}}]), of("some", 1, regex("1"))],
            {"te1": (("tier-4", "/all"), ("tier-1", "/all/some")), "te2": (("tier-4", "/all"),)},
            [],
            id="a pattern is found anywhere in the name, and no labels are the labels of all",
        ),
    ],
)
def test_the_tree_of_hypernodes(hypernodes: list[HyperNode], expected: dict[str, Any], faults: list[str]) -> None:
    for order in permutations(hypernodes):
        tree = tree_of(list(order))
        assert {node: tree.places(node) for node in expected} == expected
        assert sorted(tree.faults()) == sorted(faults)


def test_each_change_of_a_source_or_of_a_node_leads_to_the_tree_that_a_fresh_look_has() -> None:
    tree = tree_of(WALK_THROUGH)
    steps: list[tuple[list[HyperNode], list[str]]] = [
        (WALK_THROUGH[1:], NODES),
        ([*WALK_THROUGH, of("wide", 1, regex("te"))], NODES),
        ([of("s0", 2, exact("te8")), *WALK_THROUGH[1:]], NODES[2:]),
        ([], NODES),
        (WALK_THROUGH, NODES[:5]),
    ]
    for hypernodes, nodes in steps:
        arranged(tree, hypernodes)
        for node in NODES:
            if node in nodes:
                tree.come(node, LABELS.get(node, {}))
            else:
                tree.go(node)
        tree.settle()
        fresh = tree_of(hypernodes, nodes)
        assert (paths(tree), tree.faults(), tree.absent()) == (paths(fresh), fresh.faults(), fresh.absent())


def test_a_node_that_comes_can_make_two_overlap_and_go_again() -> None:
    tree = tree_of([of("a", 1, regex("[1-4]$")), of("b", 1, regex("[4-5]$"))], ["te1", "te5"])
    assert paths(tree, ["te1", "te5"]) == {"te1": "/a", "te5": "/b"}
    tree.come("te4", {})
    assert tree.settle() and tree.faults() == ("HyperNode b of 2 nodes overlaps a of 2: it is left out",)
    assert paths(tree, ["te1", "te4", "te5"]) == {"te1": "/a", "te4": "/a", "te5": ""}
    tree.go("te4")
    assert tree.settle() and not tree.faults()


def test_hypernodes_beside_those_of_the_member_are_not_missing() -> None:
    tree = tree_of([inner("b", 2, "r1", "r2")], beside=frozenset({"r1"}))
    assert tree.faults() == ("HyperNode b has the member r2, which does not exist",)


def test_patterns_beyond_the_most_are_named() -> None:
    many = [of(f"r{number}", 1, regex(f"^n{number}$")) for number in range(1001)]
    tree = tree_of(many, ["n0", "n1000"])
    assert (paths(tree, ["n0", "n1000"])) == {"n0": "/r0", "n1000": ""}
    assert tree.faults() == ("HyperNode r1000: there are more than 1000 patterns: ^n1000$",)
    arranged(tree, many[1:])
    assert (paths(tree, ["n0", "n1000"]), tree.faults()) == ({"n0": "", "n1000": "/r1000"}, ())


def test_an_arranging_that_is_not_ended_leaves_no_tree_and_the_next_one_makes_it_whole() -> None:
    tree = tree_of(WALK_THROUGH[1:])
    pieces = tree.arranging(WALK_THROUGH)
    next(pieces)
    tree.come("te9", {})
    assert not tree.settle()
    pieces.close()
    assert set(paths(tree).values()) == {""}
    arranged(tree, WALK_THROUGH)
    assert paths(tree) == paths(tree_of(WALK_THROUGH))
