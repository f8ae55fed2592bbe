"""How long the checker takes with many node selectors: `python -m tests.bench.selectors [N …]`.

Gangs wait in the proportions of tests/core/check; each names one of 500 kinds of nodes, and every kind is a pool of its
own or a label of one large pool. All nodes run what borrows, so that a leaf takes back what it is promised: then the
checker asks of every gang whether it fits a member that is empty. Prints seconds of a decision, greedy and checked, of
its checker alone, and of measuring its evictions.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TypeVar

from fleet.core.check import check
from fleet.core.check.quality import needless
from fleet.core.decide import decide
from fleet.core.model.unit import NodeClaim, Seat
from fleet.core.snapshot import Config, Snapshot
from tests.builders import GPU, NOW, MemberBuilder, UnitBuilder, amounts, member, snapshot, tree, unit

SELECTORS, MEMBERS = 500, 4
_T = TypeVar("_T")


def world(waiting: int, *, own_pools: bool) -> Snapshot:
    """`waiting` gangs before four members of 100 nodes or more, all of which run what borrows."""
    units: list[UnitBuilder] = []
    for number in range(waiting):
        named = NodeClaim(node_selector=((f"kind{number % SELECTORS}", "yes"),))
        made = unit(f"u{number}").gang(1 + number % 3, gpu=(1, 2, 4, 8)[number % 4], cpu=4, claim=named)
        units.append(made.queue(f"root/{'abcd'[number % 4]}").since(number % 599))
    members: list[MemberBuilder] = []
    kinds = [f"kind{number}" for number in range(SELECTORS)]
    for number in range(MEMBERS):
        here = member(f"m{number}")
        for kind in kinds[number::MEMBERS] if own_pools else ():
            here = here.nodes(1, free_gpu=0, labels={kind: "yes"})
        members.append(here if own_pools else here.nodes(100, free_gpu=0, labels=dict.fromkeys(kinds, "yes")))
    for built in members:
        seats = [(index, pool.free[0]) for index, pool in enumerate(built.value.pools)]
        nodes = [(index, free) for index, (free, count) in seats for _ in range(count)]
        for number, (index, free) in enumerate(nodes):
            name = f"{built.value.name}-{number}"
            runs = unit(name).gang(1, gpu=8).queue("root/d").runs_in(built.value.name)
            seat = Seat(name, index, free, amounts(gpu=8, pods=1))
            units.append(runs.having(placed_at=NOW - 10_000, seats=(seat,)))
    promised = tree(a={"min": {GPU: 400}}, b={"min": {GPU: 300}}, c={}, d={})
    return snapshot(*units, *members, promised, Config(reclaim=True))


# `...`: a lambda in a loop binds its variable by a default, which mypy refuses for `[]`
def timed(what: str, asked: Callable[..., _T]) -> _T:
    began = time.perf_counter()
    found = asked()
    print(f"  {what:<10} {time.perf_counter() - began:6.2f} s")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("waiting", nargs="*", type=int, default=[2_000])
    for waiting in parser.parse_args().waiting:
        for own_pools in (True, False):
            made = world(waiting, own_pools=own_pools)
            print(f"{waiting} gangs, {SELECTORS} selectors of {'own pools' if own_pools else 'one pool a member'}")
            plan = timed("decision", lambda made=made: decide(made, now=NOW, seed=1, solver=None))
            assert timed("check", lambda made=made, plan=plan: check(made, plan, now=NOW)) == ()
            timed("measure", lambda made=made, plan=plan: needless(made, plan, now=NOW))
            print(f"  {len(plan.evictions)} evictions for {len(plan.claims)} claims")


if __name__ == "__main__":
    main()
