"""Pools have the places of their nodes: racks and blocks make pools, a host makes one only where a gang asks."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from fleet.core.decide import decide
from fleet.core.model.amounts import Amounts
from fleet.core.model.matching import domain_of
from fleet.core.model.member import Member
from fleet.core.model.rule import PlacementRule
from fleet.core.model.unit import Component, Unit
from fleet.core.snapshot import Snapshot
from fleet.kinds.requests import amounts
from fleet.members.hypernodes import HyperNode, HyperNodeMember
from fleet.members.nodes import ANY_VALUE, MemberNodes, read_node
from fleet.members.placetrees import HOST, HOSTNAME, LabelTree
from fleet.members.potential import potential_pools, read_groups
from tests.members.builders import node
from tests.members.hypernodes import exact, inner, of

WALK_THROUGH = [
    *(of(f"s{rack}", 1, exact(f"te{2 * rack + 1}", f"te{2 * rack + 2}")) for rack in range(4)),
    inner("s4", 2, "s0", "s1"),
    inner("s5", 2, "s2", "s3"),
    inner("s6", 3, "s4", "s5"),
]


def eight() -> MemberNodes:
    nodes = MemberNodes()
    for number in range(1, 9):
        nodes.put(read_node(node(f"te{number}", labels={"block": f"b{(number - 1) // 4}"})))
    return nodes


def plant(nodes: MemberNodes, hypernodes: Iterable[HyperNode] = (), trees: Iterable[LabelTree] = ()) -> None:
    for _ in nodes.planting(trees, hypernodes, frozenset()):
        pass


def domains(nodes: MemberNodes, level: str) -> dict[str, int]:
    """Nodes by their domain of a level."""
    counts: dict[str, int] = {}
    for pool in nodes.pools():
        domain = domain_of(pool, level)
        counts[domain] = counts.get(domain, 0) + sum(count for _, count in pool.free)
    return counts


def test_the_walk_through_makes_a_pool_of_each_rack() -> None:
    nodes = eight()
    assert len(nodes.pools()) == 2
    plant(nodes, WALK_THROUGH)
    assert len(nodes.pools()) == 4
    assert domains(nodes, "tier-1") == {"/s6/s4/s0": 2, "/s6/s4/s1": 2, "/s6/s5/s2": 2, "/s6/s5/s3": 2}
    assert (domains(nodes, "tier-2"), domains(nodes, "tier-3")) == ({"/s6/s4": 4, "/s6/s5": 4}, {"/s6": 8})
    assert domains(nodes, "block") == {"b0": 4, "b1": 4}, "a label is a level without a tree, too"
    plant(nodes)
    assert len(nodes.pools()) == 2 and domains(nodes, "tier-1") == {"": 8}


@pytest.mark.parametrize("asked", [HOST, HOSTNAME])
def test_a_host_is_a_pool_only_where_a_gang_asks_for_hosts(asked: str) -> None:
    nodes = eight()
    plant(nodes, WALK_THROUGH, [("block", HOSTNAME)])
    assert len(nodes.pools()) == 4
    assert nodes.tell_apart(frozenset({(asked, ANY_VALUE)}))
    assert domains(nodes, asked) == {f"/b{(number - 1) // 4}/te{number}": 1 for number in range(1, 9)}
    assert domains(nodes, "tier-2") == {"/s6/s4": 4, "/s6/s5": 4}
    plant(nodes, WALK_THROUGH)
    slash = "/" if asked == "host" else ""  # without a tree the label is a bare one
    assert domains(nodes, asked) == {f"{slash}te{number}": 1 for number in range(1, 9)}
    assert nodes.tell_apart(frozenset()) and len(nodes.pools()) == 4


def test_room_and_seats_follow_a_node_to_its_places() -> None:
    nodes = eight()
    used = Amounts.of(amounts({"nvidia.com/gpu": "3"}))
    nodes.use("te3", used, 1)
    plant(nodes, WALK_THROUGH)
    nodes.put(read_node(node("te4", gpus=4, labels={"block": "b1"})))
    [seat] = nodes.seats({"te3": used})
    assert domain_of(nodes.pools()[seat.pool], "tier-1") == "/s6/s4/s1"
    nodes.use("te3", used, -1)
    nodes.remove("te3")
    nodes.put(read_node(node("te9")))
    assert domains(nodes, "tier-1") == {"": 1, "/s6/s4/s0": 2, "/s6/s4/s1": 1, "/s6/s5/s2": 2, "/s6/s5/s3": 2}
    assert domains(nodes, "tier-2") == {"": 1, "/s6/s4": 3, "/s6/s5": 4}


def test_a_node_that_makes_two_hypernodes_overlap_moves_the_nodes_of_the_one_that_is_left_out() -> None:
    nodes = eight()
    plant(nodes, [of("a", 1, exact("te1", "te2", "te9")), of("b", 1, exact("te8", "te9"))])
    assert domains(nodes, "tier-1") == {"": 5, "/a": 2, "/b": 1}
    nodes.put(read_node(node("te9")))
    assert domains(nodes, "tier-1") == {"": 7, "/b": 2}


def test_nodes_that_could_be_added_have_the_places_that_their_labels_say() -> None:
    nodes = eight()
    plant(nodes, WALK_THROUGH, [("block", "rack")])
    text = '[{"maxNodes": 2, "resources": {"nvidia.com/gpu": 8}, "labels": {"block": "b7", "rack": "r1"}}]'
    [pool] = potential_pools(read_groups(text), nodes.count, nodes.trees)
    assert domain_of(pool, "rack") == "/b7/r1"


def test_nodes_of_one_rack_share_their_places() -> None:
    nodes = eight()
    plant(nodes, WALK_THROUGH)
    views = {view.name: view.places for view in nodes.views()}
    assert views["te1"] is views["te2"] and views["te1"][-1] == ("tier-1", "/s6/s4/s0")


def test_a_node_is_held_against_the_selectors_once_for_its_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = eight()
    plant(nodes, [of("r", 1, [{"regexMatch": {"pattern": "te"}}]), of("l", 2, [{"labelMatch": {}}])])
    held: list[str] = []

    def takes(self: HyperNodeMember, name: str, labels: dict[str, str]) -> bool:
        held.append(name)
        return True

    monkeypatch.setattr(HyperNodeMember, "takes", takes)
    nodes.put(read_node(node("te1", gpus=4, labels={"block": "b0"})))
    assert held == [] and domains(nodes, "tier-1") == {"/l/r": 8}
    nodes.put(read_node(node("te1", labels={"block": "b1"})))
    nodes.put(read_node(node("te9")))
    assert held == ["te1", "te1", "te9", "te9"] and domains(nodes, "tier-1") == {"/l/r": 9}


@pytest.mark.parametrize(
    ("pods", "level", "starts"),
    [(2, "tier-1", True), (3, "tier-1", False), (4, "tier-2", True), (5, "tier-2", False), (8, "tier-3", True)],
)
def test_a_gang_starts_where_a_domain_of_its_level_has_all_its_room(pods: int, level: str, starts: bool) -> None:
    nodes = eight()
    plant(nodes, WALK_THROUGH)
    whole = Component("worker", pods, Amounts.of(amounts({"nvidia.com/gpu": "8"})))
    unit = Unit("u", "default/u", (whole,), rules=(PlacementRule(level),))
    snapshot = Snapshot.of([unit], [Member("cfa", pools=nodes.pools())])
    assert bool(decide(snapshot, now=0.0, seed=0, solver=None).placements) is starts
