"""Small members with racks in blocks, and gangs with rules about them."""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st

from fleet.core.model.member import Pool, places_of
from fleet.core.model.nesting import flaws
from fleet.core.model.rule import PlacementRule, Rules
from fleet.core.model.unit import Component
from tests.builders import amounts

RuledWorld = tuple[tuple[Pool, ...], tuple[Component, ...], Rules]


def rack(path: str, *free: int) -> Pool:
    """The nodes of one rack with so many free GPUs each, by its path: "b1/r1"."""
    block, name = path.split("/")
    places = places_of([("block", block), ("rack", name)])
    counts = tuple((amounts(gpu=gpus, pods=9), nodes) for gpus, nodes in sorted(Counter(free).items()))
    return Pool((), (), "", counts, amounts(gpu=8, pods=9), places)


def workers(pods: int, gpus: int = 8, name: str = "worker") -> Component:
    return Component(name, pods, amounts(gpu=gpus, pods=1))


@st.composite
def rule_sets(draw: st.DrawFn, components: tuple[Component, ...]) -> Rules:
    """Up to three rules without flaws."""
    rules: Rules = ()
    names = [component.name for component in components]
    for _ in range(draw(st.integers(1, 3))):
        of = tuple(draw(st.sets(st.sampled_from(names), max_size=len(names))))
        pods = sum(part.replicas for part in components if not of or part.name in of)
        size = draw(st.sampled_from([0, *(size for size in range(1, pods + 1) if pods % size == 0)]))
        most = size * draw(st.integers(0, 2)) if size else 0
        rule = PlacementRule(
            draw(st.sampled_from(("block", "rack"))), of, size, True, most, bool(size) and draw(st.booleans())
        )
        if not list(flaws((*rules, rule), components)):
            rules = (*rules, rule)
    return rules


@st.composite
def worlds(draw: st.DrawFn) -> RuledWorld:
    names = ("b1/r1", "b1/r2", "b2/r1", "b2/r2", "/r9")
    free = st.lists(st.sampled_from((1, 2, 4, 8)), max_size=3)
    pools = tuple(rack(name, *draw(free)) for name in names)
    sizes = draw(st.lists(st.tuples(st.integers(1, 6), st.sampled_from((1, 2, 4, 8))), min_size=1, max_size=2))
    components = tuple(workers(pods, gpus, f"c{number}") for number, (pods, gpus) in enumerate(sizes))
    return pools, components, draw(rule_sets(components))
