"""The quota tree and its algebra."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.core.quota.tree import MAX_JOBS, QuotaNode, QuotaTree
from fleet.core.quota.usage import Refusal, Usage, request_of
from tests.builders import GIB, GPU, amounts, tree, unit

DEEP = tree(org={"max": {GPU: 8}}, org__a={"max": {GPU: 6}, "namespaces": ("a", "a2")}, org__b={"namespaces": ("b",)})


def test_a_namespace_finds_its_leaf() -> None:
    assert (DEEP.leaf_of("a2"), DEEP.leaf_of("b"), DEEP.leaf_of("c")) == ("root/org/a", "root/org/b", None)


def test_ancestors_go_from_the_node_to_the_root() -> None:
    assert DEEP.ancestors("root/org/a") == ("root/org/a", "root/org", "root")
    assert DEEP.ancestors("root/nowhere") == ()


def test_a_node_requires_the_queue_for_all_leaves_below_it() -> None:
    below_org = tree(org={"require_queue": True}, org__a={}, b={})
    assert [below_org.queue_required_by(leaf) for leaf in ("root/org/a", "root/b")] == ["root/org", ""]


def test_a_gang_is_charged_at_every_node_of_its_line_and_as_one_job() -> None:
    usage = Usage.of(DEEP, [unit("r").gpus(2, pods=2).queue("root/org/a").runs_in("x").value])
    assert [usage.used(node, GPU) for node in ("root", "root/org", "root/org/a", "root/org/b")] == [4, 4, 4, 0]
    assert usage.used("root", MAX_JOBS) == 1
    assert usage.used("root", "pods") == 0


def test_waiting_units_and_units_outside_quota_are_charged_nowhere() -> None:
    usage = Usage.of(DEEP, [unit("w").queue("root/org/a").value, unit("o").runs_in("x").value])
    assert usage.used("root", GPU) == 0


def test_the_refusal_names_the_lowest_node_that_refuses() -> None:
    usage = Usage(DEEP)
    usage.charge("root/org/b", amounts(gpu=5))
    assert usage.refusal("root/org/a", amounts(gpu=4)) == Refusal("root/org", GPU, 4, 5, 8)
    assert usage.refusal("root/org/a", amounts(gpu=7)) == Refusal("root/org/a", GPU, 7, 0, 6)
    assert usage.refusal("root/org/a", amounts(gpu=3)) is None


def test_work_of_a_removed_leaf_still_counts_above_it() -> None:
    usage = Usage.of(DEEP, [unit("r").gpus(7).queue("root/org/removed").runs_in("x").value])
    assert usage.used("root/org", GPU) == 7
    assert usage.refusal("root/org/a", amounts(gpu=2)) == Refusal("root/org", GPU, 2, 7, 8)


def test_amounts_beyond_64_bits_are_exact() -> None:
    big = tree(ml={"max": {"memory": 1 << 70}})
    usage = Usage(big)
    usage.charge("root/ml", amounts(memory=1), times=1 << 40)
    assert usage.room("root/ml", "memory") == 0
    refusal = usage.refusal("root/ml", amounts(memory=1))
    assert refusal is not None
    assert refusal.short == GIB


def test_a_copy_is_charged_alone() -> None:
    usage = Usage(DEEP)
    usage.copy().charge("root/org/a", amounts(gpu=1))
    assert usage.used("root", GPU) == 0


def test_what_is_charged_after_a_copy_was_made_is_not_in_the_copy() -> None:
    usage = Usage.of(tree(org__a={}), [])
    usage.charge("root/org/a", amounts(gpu=1))
    copies = [usage.copy()]
    usage.charge("root/org/a", amounts(gpu=2))
    copies.append(copies[0].copy())
    copies[0].charge("root/org/a", amounts(gpu=4))
    copies[1].charge("root/org/a", amounts(gpu=8))
    for node in ("root", "root/org", "root/org/a"):
        assert [each.used(node, GPU) for each in (usage, *copies)] == [3, 5, 9]


def test_amounts_below_zero_give_nothing_back() -> None:
    assert request_of(unit("a").gang(1, gpu=-4).value)[GPU] == 0


NODE = QuotaNode("root", "root", None)


@pytest.mark.parametrize(
    ("broken", "field"),
    [
        (QuotaTree("top", {"root": NODE}), "tree.root"),
        (QuotaTree("root", {"root": replace(NODE, path="r")}), "tree.nodes[root].path"),
        (QuotaTree("root", {"root": NODE, "b": QuotaNode("b", "b", None)}), "tree.nodes[b].parent"),
        (QuotaTree("root", {"root": NODE, "b": QuotaNode("b", "b", "c")}), "tree.nodes[b].parent"),
        (
            QuotaTree("root", {"root": NODE, "b": QuotaNode("b", "b", "c"), "c": QuotaNode("c", "c", "b")}),
            "tree.nodes[b].parent",
        ),
        (QuotaTree("root", {"root": replace(NODE, children=("x",))}), "tree.nodes[root].children"),
    ],
)
def test_what_is_no_tree_is_said_with_its_field(broken: QuotaTree, field: str) -> None:
    assert broken.problems()[0][0] == field
    broken.ancestors("b")


def test_a_tree_has_no_problems() -> None:
    assert DEEP.problems() == ()
