"""Packing one gang into one member: what fits is a true packing, and what does not was tried in every way.

The verifier and the exhaustive packer know nothing of the planner's: plain lists of nodes and pods.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.core.check.packer import Gang, first_unpackable
from fleet.core.check.rules import read_rules
from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Member, Pool
from fleet.core.model.refine import Home, RefineOutcome, refine
from fleet.core.model.rule import PlacementRule, Rules
from fleet.core.model.unit import Component, NodeClaim
from fleet.core.placement.packing.draft import Fit
from fleet.core.placement.packing.pool import PoolRoom
from fleet.core.placement.packing.room import MemberRoom
from fleet.core.placement.packing.space import Space, Vector
from tests.builders import GPU, amounts
from tests.core.placement.packing.verifier import packs

RACK = "rack"
RULES = {name: tuple(PlacementRule(level) for level in name.split()) for name in ("", RACK, "model", "rack model")}
H800 = NodeClaim(node_selector=(("model", "H800"),))


def pool(*free: int, rack: str = "", model: str = "") -> Pool:
    """One node for each number of free GPUs."""
    labels = tuple(sorted({"model": model, RACK: rack}.items())) if rack else (("model", model),)
    return Pool(labels, (), "", tuple((amounts(gpu=gpus, pods=9), 1) for gpus in free), amounts(gpu=8, pods=9))


def gang(*parts: tuple[int, int] | tuple[int, int, NodeClaim]) -> tuple[Component, ...]:
    """(pods, GPUs of one, claim) each."""
    return tuple(
        Component(f"c{number}", part[0], amounts(gpu=part[1], pods=1), part[2] if len(part) > 2 else NodeClaim())
        for number, part in enumerate(parts)
    )


def fitted(
    member: Member, components: tuple[Component, ...], rules: Rules = (), *, potential: bool = False
) -> tuple[Fit | None, MemberRoom]:
    space = Space([components], [rules])
    room = MemberRoom.of(member, space)
    return room.fit(space.shape(components, rules), space.devices, potential=potential), room


def total(room: tuple[Any, ...]) -> int:
    return sum(vector[0] * nodes for p in room for vector, nodes in p.counts.items())


SIZES = st.sampled_from((1, 2, 3, 5, 6, 7))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Member, tuple[Component, ...]]:
    """A few nodes in two models and two racks, and a gang of at most nine pods in up to three parts."""
    pools = tuple(
        Pool(
            (("model", model), (RACK, rack)),
            free=tuple((amounts(gpu=g, cpu=c, pods=p), n) for g, c, p, n in draw(FREE)),
        )
        for model, rack in (("A", "r1"), ("H800", "r1"), ("H800", "r2"))
    )
    parts = draw(
        st.lists(st.tuples(st.integers(1, 3), SIZES, st.integers(0, 5), st.booleans()), min_size=1, max_size=3)
    )
    components = tuple(
        Component(f"c{number}", pods, amounts(gpu=gpu, cpu=cpu, pods=1), H800 if picky else NodeClaim())
        for number, (pods, gpu, cpu, picky) in enumerate(parts)
    )
    return Member("x", pools=pools), components


FREE = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(1, 4), st.integers(0, 2)), max_size=2, unique=True
)


def exhaustive(member: Member, components: tuple[Component, ...], rules: Rules) -> bool:
    """Whether there is any packing at all."""
    for first in member.pools:
        alike = [(rule.level, dict(first.labels)[rule.level]) for rule in rules]
        pools = [p for p in member.pools if all(label in p.labels for label in alike)]
        nodes = [(vector, p) for p in pools for vector, count in p.free for _ in range(count)]
        free = tuple(tuple(vector[name] for name in (GPU, "cpu", "pods")) for vector, _ in nodes)
        pods = tuple(
            (
                tuple(c.requests[name] for name in (GPU, "cpu", "pods")),
                tuple(not c.claim.node_selector or dict(p.labels)["model"] == "H800" for _, p in nodes),
            )
            for c in components
            for _ in range(c.replicas)
        )
        if packs(free, pods):
            return True
    return False


@settings(max_examples=250, deadline=None)
@given(worlds(), st.sampled_from(list(RULES.values())))
def test_a_small_gang_fits_exactly_when_some_packing_exists(
    world: tuple[Member, tuple[Component, ...]], rules: Rules
) -> None:
    member, components = world
    fit, before = fitted(member, components, rules)
    assert (fit is not None) == exhaustive(member, components, rules)
    if fit is not None:
        asked = sum(c.requests[GPU] * c.replicas for c in components)
        assert total(before.pools) - total(fit.pools) == asked
        changed = [now for was, now in zip(before.pools, fit.pools, strict=True) if was.counts != now.counts]
        assert not rules or len({p.domains for p in changed}) == 1
        for was, now in zip(before.pools, fit.pools, strict=True):
            assert sum(was.counts.values()) == sum(now.counts.values())
            assert now.keys == sorted(now.counts)
            assert all(amount >= 0 for vector in now.counts for amount in vector)


@settings(max_examples=250, deadline=None)
@given(worlds(), st.sampled_from(list(RULES.values())))
def test_the_checkers_packer_agrees_with_trying_everything(
    world: tuple[Member, tuple[Component, ...]], rules: Rules
) -> None:
    member, components = world
    gang_ = Gang(
        "g",
        tuple((c.replicas, c.requests, c.claim) for c in components),
        read_rules(rules, [(c.name, c.replicas) for c in components]),
    )
    assert (not first_unpackable(member, [], [gang_])) == exhaustive(member, components, rules)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(1, 8), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 8)), min_size=2, max_size=5),
)
def test_gangs_that_the_checker_accepts_together_do_fit_together(free: list[int], gangs: list[tuple[int, int]]) -> None:
    wanted = [Gang(str(i), ((pods, amounts(gpu=gpus, pods=1), NodeClaim()),)) for i, (pods, gpus) in enumerate(gangs)]
    refused = set(first_unpackable(Member("x", pools=(pool(*free),)), [], wanted))
    pods = [
        ((gpus,), (True,) * len(free))
        for i, (count, gpus) in enumerate(gangs)
        if str(i) not in refused
        for _ in range(count)
    ]
    assert packs(tuple((gpus,) for gpus in free), tuple(sorted(pods, reverse=True)))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from((1, 2, 4, 8))), min_size=1, max_size=3),
)
def test_sizes_that_divide_each_other_are_never_missed(free: list[int], parts: list[tuple[int, int]]) -> None:
    nodes = tuple((Amounts.of({GPU: gpus}), 1) for gpus in free)
    components = tuple(Component(f"c{i}", pods, Amounts.of({GPU: gpus})) for i, (pods, gpus) in enumerate(parts))
    fit, _ = fitted(Member("x", pools=(Pool(free=nodes),)), components)
    slots = {g: sum(have // g for have in free) for g in (1, 2, 4, 8)}
    asked = {g: sum(pods * (size // g) for pods, size in parts) for g in slots}
    assert (fit is not None) == all(asked[g] <= slots[g] for g in slots)


@pytest.mark.parametrize(
    ("free", "parts"),
    [
        ((6, 8), ((1, 5), (3, 3))),
        ((7, 8), ((2, 5), (1, 2), (1, 3))),
        ((8, 7, 6), ((2, 5), (1, 6), (1, 3))),
        ((5, 7), ((1, 4), (1, 3), (1, 5))),
    ],
)
def test_odd_sizes_find_the_one_packing_that_there_is(
    free: tuple[int, ...], parts: tuple[tuple[int, int], ...]
) -> None:
    fit, _ = fitted(Member("x", pools=(pool(*free),)), gang(*parts))
    assert fit is not None


def test_a_picky_part_gets_the_nodes_that_only_it_must_have() -> None:
    member = Member("x", pools=(pool(8, model="A"), pool(8, model="H800")))
    fit, _ = fitted(member, gang((1, 8), (1, 8, H800)))
    assert fit is not None


def test_the_search_for_a_packing_is_bounded_and_says_so() -> None:
    parts = [(((0, size),), 40) for size in (7, 5, 3)]
    homes = [Home((free,), 90, (True, True, True)) for free in range(3, 9)]
    assert refine(parts, homes, most_steps=50).outcome is RefineOutcome.GAVE_UP
    assert refine(parts, [Home((2,), 90, (True, True, True))]).outcome is RefineOutcome.IMPOSSIBLE


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(0, 4), max_size=12), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 4)), max_size=12)
)
def test_a_pool_changed_at_once_is_the_pool_after_single_moves(free: list[int], moves: list[tuple[int, int]]) -> None:
    nodes = [(gpus, 9) for gpus in free]
    before = PoolRoom((True,), dict(Counter(nodes)), domains=("r1",), potential=True)
    kept, moved, more = before.copy(), before.copy(), Counter[Vector]()
    for at, gpus in moves:
        if at < len(nodes):
            moved.move(nodes[at], (gpus, 9), 1)
            more.subtract([nodes[at]])
            more.update([(gpus, 9)])
            nodes[at] = (gpus, 9)
    changed = before.changed(more)
    assert (changed.counts, changed.keys, list(changed.total)) == (moved.counts, moved.keys, list(moved.total))
    assert (changed.takes, changed.domains, changed.potential) == ((True,), ("r1",), True)
    assert (before.counts, before.keys) == (kept.counts, kept.keys)
