"""Rows of slots of slots: no set of gangs that can be packed breaks one, and they are tight where they should be."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ortools.sat.python import cp_model

from fleet.core.model.bounds import BOUNDS
from fleet.core.model.rule import PlacementRule
from fleet.core.model.unit import Component, NodeClaim
from fleet.core.placement.linked.domainrows import domain_rows
from fleet.core.placement.packing.room import MemberRoom
from fleet.core.placement.packing.space import Space
from fleet.core.placement.problem import GangKind, Lane, LimitRow
from tests.builders import MemberBuilder, amounts, member

H = NodeClaim(node_selector=(("model", "h"),))
A = NodeClaim(node_selector=(("model", "a"),))


@dataclass(frozen=True)
class Node:
    gpu: int
    cpu: int
    labels: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Gang:
    """`parts`: (pods, devices, cores, claim); `levels`: labels with one value for all pods."""

    parts: tuple[tuple[int, int, int, NodeClaim], ...]
    levels: tuple[str, ...] = ("rack",)
    cap: int = 3

    @property
    def components(self) -> tuple[Component, ...]:
        return tuple(
            Component(f"c{number}", pods, amounts(gpu=gpu, cpu=cpu), claim)
            for number, (pods, gpu, cpu, claim) in enumerate(self.parts)
        )


def rows_of(nodes: list[Node], gangs: list[Gang]) -> list[LimitRow]:
    return rows_and_bounds(nodes, gangs)[0]


def rows_and_bounds(nodes: list[Node], gangs: list[Gang]) -> tuple[list[LimitRow], frozenset[str]]:
    x: MemberBuilder = member("x")
    for node in nodes:
        x = x.nodes(1, free_gpu=node.gpu, free_cpu=node.cpu, labels=dict(node.labels))
    rules = [tuple(PlacementRule(level) for level in gang.levels) for gang in gangs]
    space = Space([gang.components for gang in gangs], rules)
    numbers = [space.number(gang.components, its) for gang, its in zip(gangs, rules, strict=True)]
    lanes = [Lane(GangKind(shape, n), "x", gangs[n].cap, 0) for n, shape in enumerate(numbers)]
    return domain_rows(MemberRoom.of(x.value, space), enumerate(lanes), space)


def most(row: LimitRow, nodes: list[Node], gangs: list[Gang]) -> int:
    """The largest sum of a row over all sets of gangs that can be packed, each pod on a node and each gang in one
    domain: exact, and written apart from the planner."""
    model = cp_model.CpModel()
    used: list[list[tuple[cp_model.LinearExprT, int, int]]] = [[] for _ in nodes]
    total = []
    for lane, amount in row.lanes:
        gang = gangs[lane]
        where = [tuple(dict(node.labels).get(level, "") for level in gang.levels) for node in nodes]
        placed = []
        for domain in sorted({values for values in where if all(values)}):
            count = model.new_int_var(0, gang.cap, "")
            placed.append(count)
            for pods, gpu, cpu, claim in gang.parts:
                here = []
                for number, node in enumerate(nodes):
                    if where[number] == domain and set(claim.node_selector) <= set(node.labels):
                        here.append(model.new_int_var(0, pods * gang.cap, ""))
                        used[number].append((here[-1], gpu, cpu))
                model.add(sum(here) == pods * count)
        model.add(sum(placed) <= gang.cap)
        total.append(amount * sum(placed))
    for node, pods_there in zip(nodes, used, strict=True):
        model.add(sum(gpu * pods for pods, gpu, _ in pods_there) <= node.gpu)
        model.add(sum(cpu * pods for pods, _, cpu in pods_there) <= node.cpu)
    model.maximize(sum(total))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return round(solver.objective_value)


labels = st.tuples(st.sampled_from(("", "r1", "r2", "r3")), st.sampled_from(("", "b1", "b2")), st.sampled_from("ha"))


@st.composite
def nodes_of(draw: st.DrawFn) -> list[Node]:
    """Racks that lie in blocks, in one case of two; else rack and block are independent."""
    nested = draw(st.booleans())
    nodes: list[Node] = []
    for _ in range(draw(st.integers(2, 7))):
        rack, block, model = draw(labels)
        block = {"r1": "b1", "r2": "b1", "r3": "b2"}.get(rack, "") if nested else block
        names = {"rack": rack, "block": block, "model": model}
        node = Node(draw(st.integers(0, 8)), draw(st.integers(0, 12)), tuple((k, v) for k, v in names.items() if v))
        nodes.append(node)
    return nodes


parts = st.tuples(
    st.integers(1, 4), st.sampled_from((0, 1, 2, 3, 4)), st.integers(0, 6), st.sampled_from((NodeClaim(), H, A))
)
gangs_of = st.lists(
    st.builds(
        Gang,
        st.lists(parts, min_size=1, max_size=2).map(tuple),
        st.sampled_from((("rack",), ("block",), ("rack", "block"))),
    ),
    min_size=1,
    max_size=4,
)


@given(nodes_of(), gangs_of)
@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_no_set_of_gangs_that_can_be_packed_breaks_a_row(nodes: list[Node], gangs: list[Gang]) -> None:
    for row in rows_of(nodes, gangs):
        assert most(row, nodes, gangs) <= row.room, row


def racks(*free: tuple[str, int, int], model: str = "h") -> list[Node]:
    """(rack, nodes, devices of one)."""
    return [Node(gpu, 96, (("rack", rack), ("model", model))) for rack, count, gpu in free for _ in range(count)]


ONE_NODE = Gang(((1, 8, 0, NodeClaim()),), (), 8)


@pytest.mark.parametrize(
    "nodes,gang,room",
    [
        (racks(("r1", 3, 8), ("r2", 3, 8)), Gang(((2, 8, 0, NodeClaim()),)), 2),  # six nodes, and not three gangs
        (racks(("r1", 2, 3), ("r2", 2, 3)), Gang(((3, 2, 0, NodeClaim()),)), 0),  # a pod a node, of three
        (racks(("r1", 5, 8), ("r2", 5, 8)), Gang(((3, 8, 0, NodeClaim()),)), 2),  # a size that is no power of two
        (
            [*racks(("r1", 3, 8)), *racks(("r1", 1, 8), model="a")],
            Gang(((2, 8, 0, H),)),
            1,  # four nodes, and three of the model
        ),
        ([*racks(("r1", 2, 8)), *racks(("", 4, 8))], Gang(((2, 8, 0, NodeClaim()),)), 1),  # four nodes in no rack
        (racks(("r1", 1, 0), ("r2", 3, 0)), Gang(((2, 0, 60, NodeClaim()),)), 1),  # pods without devices
    ],
)
def test_a_row_says_how_many_gangs_the_racks_take(nodes: list[Node], gang: Gang, room: int) -> None:
    assert min(row.room // row.lanes[0][1] for row in rows_of(nodes, [gang])) == room


def test_gangs_that_no_rule_confines_are_in_no_row() -> None:
    rows = rows_of(racks(("r1", 2, 8), ("r2", 2, 8)), [ONE_NODE, Gang(((2, 8, 0, NodeClaim()),))])
    assert rows and {lane for row in rows for lane, _ in row.lanes} == {1}


def test_gangs_of_racks_count_in_the_rows_of_blocks_where_each_rack_lies_in_one() -> None:
    inner, outer = Gang(((2, 8, 0, NodeClaim()),)), Gang(((4, 8, 0, NodeClaim()),), ("block",))

    def with_blocks(*blocks: str) -> list[Node]:
        nodes = racks(("r1", 2, 8), ("r2", 2, 8), ("r3", 2, 8))
        return [replace(n, labels=(*n.labels, ("block", b))) for n, b in zip(nodes, blocks, strict=True)]

    together = [{0, 1} == {lane for lane, _ in row.lanes} for row in rows_of(with_blocks(*"aaaabb"), [inner, outer])]
    across = [{0, 1} == {lane for lane, _ in row.lanes} for row in rows_of(with_blocks(*"aaabbb"), [inner, outer])]
    assert any(together) and not any(across)


def test_sizes_beyond_the_bound_have_no_rows_and_the_bound_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, gangs = racks(("r1", 9, 8)), [Gang(((pods, 8, 0, NodeClaim()),)) for pods in range(1, 9)]
    before, _ = rows_and_bounds(nodes, gangs)
    monkeypatch.setattr("fleet.core.placement.linked.domainrows.BOUNDS", replace(BOUNDS, slot_sizes=5))
    rows, bounds = rows_and_bounds(nodes, gangs)
    assert len(rows) < len(before) and bounds == {"slot_sizes"}


def test_claims_beyond_the_bound_have_no_rows_of_their_own() -> None:
    nodes = [Node(8, 96, (("rack", f"r{number % 4}"), ("host", f"h{number}"), ("model", "h"))) for number in range(40)]
    claims = [NodeClaim(node_selector=(("host", f"h{number}"),)) for number in range(40)]
    gangs = [Gang(((2, 8, 0, claim),)) for claim in claims] + [Gang(((6, 8, 0, H),), cap=9)]
    rows, bounds = rows_and_bounds(nodes, gangs)
    assert bounds == {"slot_sizes"} and len(rows) <= BOUNDS.slot_sizes**2
    assert min(row.room // dict(row.lanes)[40] for row in rows if dict(row.lanes).get(40)) == 4
