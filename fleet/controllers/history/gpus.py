"""GPUs by model, as labels of nodes name it: those of a job's pods, and those of a member. Limits of the queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from fleet.accounts.usage import QueueLimits
from fleet.bindings import binding as b
from fleet.bindings.trees import read_tree, tree_object
from fleet.controllers.runtime.gpus import model_of
from fleet.core.model.amounts import GPU, gpus_in
from fleet.core.model.member import Member
from fleet.members.members import Members
from fleet.values.ports import Body, Store


def of_member(member: Member) -> Mapping[str, float]:
    """GPUs of its schedulable nodes, by model."""
    found: Counter[str] = Counter()
    for pool in member.pools:
        found[model_of(pool.labels)] += gpus_in(pool.allocatable) * sum(nodes for _, nodes in pool.free)
    return {model: float(count) for model, count in found.items() if count}


def of_binding(members: Members, binding: Body) -> Mapping[str, int]:
    """GPUs of its pods by model, where it is placed. Without a look at its pods: the one model of the member, if all
    its nodes have the same."""
    name, number, uid = b.clusters_of(binding)[0], b.attempt(binding), binding["metadata"]["uid"]
    member = members.model(name)
    if member is None:
        return {}
    there = {model for pool in member.pools if (model := model_of(pool.labels)) and gpus_in(pool.allocatable)}
    if len(there) <= 1:
        return dict.fromkeys(there, 0)
    pods = [p for p in members.pods_of(uid) if (p.member, p.attempt, p.placeholder) == (name, number, False)]
    found: Counter[str] = Counter()
    for seat in members.seats(name, pods):
        if 0 <= seat.pool < len(member.pools):
            found[model_of(member.pools[seat.pool].labels)] += gpus_in(seat.holds)
    return {model: count for model, count in found.items() if count and model}


def of_queues(store: Store, queues: Sequence[Body]) -> Mapping[str, QueueLimits]:
    """The limits of the leaves of the quota tree, by path."""
    tree = read_tree(tree_object(store), queues)
    if tree is None:
        return {}
    leaves = (node for node in tree.nodes.values() if not node.children)
    return {node.path: QueueLimits(_gpus(node.min) or 0.0, _gpus(node.max)) for node in leaves}


def _gpus(limits: Mapping[str, int]) -> float | None:
    """None where no resource of GPUs is named."""
    named = [float(amount) for name, amount in limits.items() if name.endswith(GPU)]
    return sum(named) if named else None
