from __future__ import annotations

from fleet.core.quota.lending import LENDERS_MOST, Lenders, borrowed
from fleet.core.quota.tree import MAX_JOBS, QuotaNode, QuotaTree

GPU = "nvidia.com/gpu"


def tree_of(mins: dict[str, int]) -> QuotaTree:
    """A tree of these paths, whose nodes are promised so many GPUs."""
    nodes = {}
    for path, least in mins.items():
        parent = path.rpartition("/")[0] or None
        children = tuple(one for one in mins if one.rpartition("/")[0] == path)
        nodes[path] = QuotaNode(path, path.rpartition("/")[2], parent, {GPU: least}, children=children)
    return QuotaTree("root", nodes)


def used(**gpus: int) -> dict[str, dict[str, int]]:
    return {path.replace("_", "/"): {GPU: number, MAX_JOBS: 1} for path, number in gpus.items()}


def test_a_queue_borrows_what_it_uses_beyond_its_min_and_the_root_borrows_nothing() -> None:
    tree = tree_of({"root": 4, "root/a": 3, "root/b": 1})
    sums = used(root=9, root_a=9)
    assert borrowed(tree, "root/a", sums) == {GPU: 6}
    assert borrowed(tree, "root/b", sums) == {} == borrowed(tree, "root", sums)


def test_the_nearest_queues_with_unused_min_lend_first_each_up_to_what_it_does_not_use() -> None:
    tree = tree_of({"root": 20, "root/x": 8, "root/x/a": 0, "root/x/b": 4, "root/x/c": 2, "root/y": 10})
    sums = used(root=10, root_x=9, root_x_a=9, root_x_b=1, root_y=1)
    assert Lenders(tree, sums).of("root/x/a", GPU, 9) == [("root/x/b", 3), ("root/x/c", 2), ("root/y", 4)]
    assert Lenders(tree, sums).of("root/x/a", GPU, 2) == [("root/x/b", 2)]


def test_what_nobody_is_promised_has_no_lender_and_no_more_than_some_are_named() -> None:
    many = {f"root/q{number}": 1 for number in range(9)}
    tree = tree_of({"root": 9, "root/a": 0} | many)
    assert len(Lenders(tree, used(root=9, root_a=9)).of("root/a", GPU, 9)) == LENDERS_MOST
    full = {path: {GPU: 1} for path in many} | used(root_a=2)
    assert Lenders(tree, full).of("root/a", GPU, 2) == []
