"""The checker's packing of gangs with rules, judged by the exact model."""

from __future__ import annotations

from hypothesis import event, given, settings

from fleet.core.check.packer import Gang, Packer
from fleet.core.check.rules import RuledGang, read_rules
from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Member
from tests.builders import GPU
from tests.core.exact import ExactModel
from tests.core.ruled import RuledWorld, worlds


@settings(max_examples=300, deadline=None)
@given(worlds())
def test_what_the_checker_takes_keeps_every_rule(world: RuledWorld) -> None:
    """What it refuses has no packing, but for few that its greedy search misses."""
    pools, components, rules = world
    member = Member("cfa", pools=pools)
    exact = ExactModel(member, [(components, rules)])
    pods = [(part.name, part.replicas) for part in components]
    gang = Gang("g", tuple((c.replicas, c.requests, c.claim) for c in components), read_rules(rules, pods))
    packer = Packer(member, {GPU, "pods"})
    sized = packer.sized(gang)
    nodes = packer.nodes(sized.pools, sized.pods)
    before = nodes.free.copy()
    if not RuledGang(nodes, sized.pods).put(sized.rules):
        assert (nodes.free == before).all()
        event(f"refused, exact: {exact.packs()}")
        return
    for number, pool in enumerate(pools):
        here = nodes.usable(frozenset({number}))
        exact.use([pool], Amounts.of({GPU: int((before - nodes.free)[here, 0].sum())}))
    assert exact.packs(), world
