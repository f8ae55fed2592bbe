"""Worlds in which greedy does worse than CP-SAT."""

from __future__ import annotations

from fleet.core.check import check
from fleet.core.decide import decide
from fleet.core.model.plan import Plan
from fleet.core.placement.problem import Solver
from fleet.core.quota.users import USER_MAX
from fleet.core.snapshot import Snapshot
from tests.builders import GPU, NOW, NodeClaim, member, snapshot, tree, unit

TRAPS = {
    "an old gang that keeps a larger one out of the quota": (
        snapshot(
            unit("a").gpus(5).queue("root/ml").since(99),
            unit("b").gpus(8).queue("root/ml"),
            member("x").nodes(9),
            tree(ml={"jobs": 1}),
        ),
        {"b": "x"},
    ),
    "a gang that could go anywhere sits where another must": (
        snapshot(
            unit("a").gpus(8).since(99),
            unit("b").gpus(8).only_in("cheap"),
            member("cheap").nodes(1),
            member("dear").nodes(1).having(price=5),
        ),
        {"a": "dear", "b": "cheap"},
    ),
    "many small gangs in place of one of odd size": (
        snapshot(
            unit("odd").gpus(5).since(99),
            unit("b").gpus(4),
            unit("c").gpus(4),
            member("x").nodes(1),
        ),
        {"b": "x", "c": "x"},
    ),
    "a part that may use two pools leaves one to the gang that needs it": (
        snapshot(
            unit("a").gpus(8, pods=2).since(99),
            unit("b").gang(2, gpu=8, claim=NodeClaim(node_selector=(("model", "A"),))),
            member("x").nodes(2, labels={"model": "A"}).nodes(2, labels={"model": "B"}),
        ),
        {"a": "x", "b": "x"},
    ),
    "a Block queue moves on only as a whole": (
        snapshot(
            unit("other").gpus(8).queue("root/o").since(99),
            unit("a").gpus(1).queue("root/ml").since(50),
            unit("b").gpus(8).queue("root/ml").since(40),
            unit("c").gpus(8).queue("root/ml").since(30),
            member("x").nodes(2).nodes(1, free_gpu=1),
            tree(ml={"policy": "Block"}, o={}, all={}),
        ),
        {"a", "other", "b"},
    ),
    "an Intelligent queue lets nobody pass one of high priority": (
        snapshot(
            unit("other").gpus(8).queue("root/o").priority(9).since(99),
            unit("a").gpus(8, pods=3).queue("root/ml").priority(5),
            unit("b").gpus(1).queue("root/ml"),
            unit("c").gpus(4).queue("root/free"),
            member("x").nodes(3),
            tree(ml={"policy": "Intelligent"}, o={"max": {GPU: 8}}, free={}),
        ),
        {"other", "c"},
    ),
    "users are limited beside their leaf": (
        snapshot(
            unit("a1").gpus(3).queue("root/ml").having(user="ann").since(99),
            unit("a2").gpus(4, pods=2).queue("root/ml").having(user="ann"),
            unit("b").gpus(8).queue("root/ml").having(user="bob"),
            member("x").nodes(3),
            tree(ml={"max": {GPU: 16}, "attributes": {USER_MAX: '{"nvidia.com/gpu": 8}'}}),
        ),
        {"a2", "b"},
    ),
}


def better(world: Snapshot, solver: Solver) -> Plan:
    plan = decide(world, now=NOW, seed=1, solver=solver)
    assert check(world, plan, now=NOW) == ()
    return plan


TRAP = TRAPS["an old gang that keeps a larger one out of the quota"][0]
