"""Places of nodes from labels in order, beside HyperNodes, and the level of single hosts."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.members.placetrees import HOSTNAME, PlaceTrees, label_trees, topology_faults
from tests.members.hypernodes import BareNode, exact, of

LABELS = {"block": "b1", "rack": "r1", "clique": "c7", HOSTNAME: "host-1"}


def planted(*trees: tuple[str, ...], hypernodes: bool = False) -> PlaceTrees:
    found = PlaceTrees({"n1": BareNode(LABELS)})
    found.plant(trees)
    for _ in found.hypernodes.arranging([of("s0", 1, exact("n1"), tierName="rack")] if hypernodes else []):
        pass
    return found


@pytest.mark.parametrize(
    ("trees", "labels", "expected"),
    [
        ([("block", "rack")], LABELS, [("block", "/b1"), ("rack", "/b1/r1")]),
        ([("block", "rack")], {"rack": "r1"}, [("rack", "//r1")]),
        ([("block", "rack"), ("clique",)], LABELS, [("block", "/b1"), ("rack", "/b1/r1"), ("clique", "/c7")]),
        ([("rack",), ("block", "rack")], LABELS, [("rack", "/r1"), ("block", "/b1")]),
        ([("block", "rack", HOSTNAME)], LABELS, [("block", "/b1"), ("rack", "/b1/r1")]),
        ([("host",)], LABELS, []),
        ([("zone",)], LABELS, []),
        ([], LABELS, []),
    ],
)
def test_places_of_labels_in_order(trees: list[tuple[str, ...]], labels: dict[str, str], expected: Any) -> None:
    found = planted(*trees)
    assert found.places("n1", labels) == tuple(expected)
    assert found.places("n2", dict(labels)) is found.places("n1", labels)


def test_a_level_that_two_trees_have_is_that_of_the_first() -> None:
    assert planted(("block", "rack"), hypernodes=True).places("n1", LABELS)[-1] == ("rack", "/b1/r1")
    assert planted(("block",), hypernodes=True).places("n1", LABELS) == (("block", "/b1"), ("rack", "/s0"))
    assert planted(("block", "rack", HOSTNAME), hypernodes=True).levels() == (("block", "rack"), ("rack",))


@pytest.mark.parametrize(
    ("trees", "labels", "expected"),
    [
        ([], LABELS, [("host", "/host-1")]),
        ([("block", HOSTNAME)], LABELS, [("host", "/b1/host-1"), (HOSTNAME, "/b1/host-1")]),
        ([("block", "rack", "host")], LABELS, [("host", "/b1/r1/host-1"), (HOSTNAME, "/b1/r1/host-1")]),
        ([("block", "host")], {}, [("host", "//n1"), (HOSTNAME, "//n1")]),
        ([("host",)], {"host": "vm-7"}, [(HOSTNAME, "/n1")]),
    ],
)
def test_a_host_is_a_domain_by_two_names(trees: list[tuple[str, ...]], labels: dict[str, str], expected: Any) -> None:
    assert planted(*trees).host_places("n1", labels) == tuple(expected)


@pytest.mark.parametrize(
    ("trees", "path", "says"),
    [
        ([[]], "[0]", "1 to 8 node labels"),
        ([["a"], ["a", "b", "a"]], "[1][2]", "listed twice"),
        ([["a b"]], "[0][0]", "name part"),
        ([["host", "rack"]], "[0][0]", "must be the finest level"),
        ([["a"]] * 9, "", "at most 8 trees"),
        ([[f"l{number}" for number in range(9)]], "[0]", "1 to 8 node labels"),
    ],
)
def test_a_tree_that_is_none_is_named_and_not_read(trees: list[list[str]], path: str, says: str) -> None:
    found = list(topology_faults(trees))
    assert [where for where, _, _ in found] == [path] and says in found[0][2]
    assert len(label_trees([*trees, ["rack"]])) <= 8


def test_what_is_no_list_of_lists_is_no_tree() -> None:
    assert label_trees("rack") == label_trees(None) == label_trees([["rack", "rack"]]) == ()
    assert label_trees([["block", "rack"], ["bad key!"]]) == (("block", "rack"),)
