"""The numbers of a decision: no user makes those of all others wider by the words that she writes."""

from __future__ import annotations

import pytest

from fleet.core.decide import decide
from fleet.core.model.bounds import BOUNDS
from fleet.core.model.effort import Effort
from fleet.core.model.member import Member, Pool, Taint
from fleet.core.model.reason import Code
from fleet.core.model.unit import Component, NodeClaim, Requirement, Toleration
from fleet.core.placement.packing.room import MemberRoom
from fleet.core.placement.packing.space import Space
from fleet.core.snapshot import Snapshot
from tests.builders import GPU, NOW, amounts, unit

ZONE = "zone"
ANYWHERE = NodeClaim()


def asks(claim: NodeClaim = ANYWHERE, **more: int) -> tuple[Component, ...]:
    return (Component("worker", 1, amounts(gpu=1, **more), claim),)


def in_zones(*zones: str) -> NodeClaim:
    return NodeClaim(affinity=((Requirement(ZONE, "In", zones),),))


def node(zone: str, *taints: Taint) -> Pool:
    return Pool(((ZONE, zone),), taints, free=((amounts(gpu=8, cpu=64), 1),), allocatable=amounts(gpu=8, cpu=64))


X = Member("x", pools=(node("a"), node("b", Taint("t"))))


def test_resources_that_no_node_has_share_one_place_of_a_vector() -> None:
    gangs = [asks(ANYWHERE, **{f"example.com/r{gang}-{number}": 1 for number in range(50)}) for gang in range(10)]
    space = Space([asks(cpu=1), *gangs], members=[X])
    assert space.resources[:2] == (GPU, "cpu") and len(space.resources) == 3
    assert space.devices == 1
    shapes = {space.number(gang) for gang in gangs}
    assert len(shapes) == len(gangs), "each has a reason of its own, which names its resources"
    room = MemberRoom.of(X, space)
    assert not any(room.fit(space.shapes[number], space.devices) for number in shapes)
    assert next(iter(space.pod_request(space.shapes[space.number(gangs[0])][0]))) == "example.com/r0-0"


def test_claims_that_the_same_nodes_take_are_one() -> None:
    claims = [in_zones("a"), in_zones("a", "nowhere"), NodeClaim(((ZONE, "a"),)), NodeClaim()]
    unlike = [NodeClaim((), (Toleration("t", "Exists"),)), in_zones("nowhere")]
    space = Space([asks(claim) for claim in (*claims, *unlike)], members=[X])
    assert len({space.number(asks(claim)) for claim in claims}) == 1, "the taint keeps all of them from b"
    assert len({space.number(asks(claim)) for claim in (claims[0], *unlike)}) == 1 + len(unlike)


def test_without_members_nothing_is_known_to_be_alike_or_absent() -> None:
    gangs = [asks(in_zones("a")), asks(in_zones("a", "nowhere")), asks(ANYWHERE, **{"example.com/r": 1})]
    space = Space(gangs)
    assert space.resources == ("example.com/r", GPU)
    assert len({space.number(gang) for gang in gangs}) == 3


def test_a_resource_that_no_node_has_is_named_beside_the_nodes_that_lack_others() -> None:
    """One node lacks CPU, too; the other's taint comes first, as in kube-scheduler."""
    world = Snapshot.of([unit("a").having(components=asks(ANYWHERE, cpu=100, **{"example.com/fpga": 2})).value], [X])
    (reason,) = decide(world, now=NOW, seed=1, solver=None).reasons.values()
    assert reason.code is Code.UNKNOWN_RESOURCE
    assert reason.numbers["resource"] == "example.com/fpga"
    assert reason.numbers["causes"] == (
        "1 Insufficient cpu, 1 Insufficient example.com/fpga, 1 node(s) had untolerated taint {t: }"
    )


@pytest.mark.parametrize(
    ("spent", "costly"),
    [
        pytest.param({"a": 10, "b": 20}, {}, id="far from every bound"),
        pytest.param({"a": BOUNDS.gang_steps, "b": 20}, {"a"}, id="one kind past its own"),
        pytest.param(
            {f"k{n:02}": BOUNDS.search_steps // 10 + (n < 3) for n in range(10)},
            {"k00", "k01", "k02", "k03", "k04"},
            id="all together past theirs: the costliest, until the rest took at most half",
        ),
    ],
)
def test_the_kinds_of_gangs_that_take_too_many_steps(spent: dict[str, int], costly: set[str]) -> None:
    effort = Effort()
    for kind, steps in spent.items():
        effort.spend(kind, steps)
    assert set(effort.costly()) == set(costly)
    assert bool(effort.bounds) == bool(costly), "the certificate names a bound wherever a kind is left out"


def test_no_search_begins_past_a_bound_and_the_bound_is_named() -> None:
    effort = Effort()
    effort.spend("a", BOUNDS.gang_steps)
    assert (effort.steps_left("a"), set(effort.bounds)) == (0, {"gang_steps"})
    assert effort.steps_left("b") == BOUNDS.gang_steps
    for number in range(BOUNDS.search_steps // BOUNDS.gang_steps):
        effort.spend(f"k{number}", BOUNDS.gang_steps)
    assert (effort.steps_left("b"), set(effort.bounds)) == (0, {"gang_steps", "search_steps"})
