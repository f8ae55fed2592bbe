"""A world in which room is taken back, and plans for it that each break one rule."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from fleet.core.check.violation import Rule
from fleet.core.model.plan import Eviction, Placement, Plan, RoomClaim
from fleet.core.model.reason import Code, Reason
from fleet.core.model.unit import Claim, Nomination, Seat
from fleet.core.snapshot import Config, Snapshot
from tests.builders import GPU, NOW, MemberBuilder, UnitBuilder, amounts, member, snapshot, tree, unit

RECLAIM = Config(reclaim=True)
PROMISED = tree(a={"min": {GPU: 16}}, c={}, d={})
LONG = NOW - 10_000


def runs(name: str, leaf: str, gpus: int = 8, *, where: str = "x", since: float = LONG) -> UnitBuilder:
    return unit(name).gpus(gpus).queue(f"root/{leaf}").runs_in(where).having(placed_at=since)


def waits(name: str, leaf: str, gpus: int = 8) -> UnitBuilder:
    return unit(name).gpus(gpus).queue(f"root/{leaf}")


OWNER = waits("owner", "a")
WORLD = snapshot(
    OWNER,
    waits("own2", "a"),
    runs("s1", "c", since=LONG + 1),
    runs("s2", "c", since=LONG + 2),
    runs("young", "c", since=NOW - 5),
    runs("high", "c", since=LONG + 3).priority(9),
    runs("s3", "c", where="y", since=LONG + 4),
    unit("claimant").gpus(8).having(claim=Claim("z", NOW + 99)),
    unit("small"),
    member("x").nodes(4, free_gpu=0),
    member("y").nodes(1, free_gpu=0).nodes(1),
    member("z").nodes(1),
    PROMISED,
    RECLAIM,
)
CLAIM = RoomClaim("owner", "x", OWNER.value.total, NOW + 900)


def plan(
    *evicted: tuple[str, str], claims: tuple[RoomClaim, ...] = (CLAIM,), starts: tuple[Placement, ...] = ()
) -> Plan:
    placed = {placement.unit for placement in starts}
    reasons = {name: Reason(Code.HELD) for name in {"owner", "own2", "claimant", "small"} - placed}
    return Plan(
        starts, reasons, evictions=tuple(Eviction(name, where, "owner") for name, where in evicted), claims=claims
    )


SOUND = plan(("s2", "x"))
CORRUPTIONS = {
    Rule.EVICTS_NOBODY: plan(("s2", "x"), ("s2", "x")),
    Rule.EVICTS_PROTECTED: plan(("s2", "x"), ("young", "x")),
    Rule.EVICTS_HIGHER: plan(("s2", "x"), ("high", "x")),
    Rule.CLAIM_UNSOUND: plan(claims=(replace(CLAIM, until=NOW),)),
    Rule.CLAIM_TOO_SMALL: plan(),
    Rule.CLAIM_TAKEN: plan(claims=(), starts=(Placement("small", "z"),)),
}


def crowded(
    rng: random.Random, *, leaves: str, gpus: Sequence[int], pods: int, others: Sequence[int]
) -> tuple[list[UnitBuilder], list[MemberBuilder]]:
    """Two members of a few nodes, on which gangs of these leaves sit, of up to `pods` pods of one of these sizes.
    On most nodes with room left others run, which leave free one of these numbers of GPUs."""
    free = {(name, number): 8 for name in "xy" for number in range(rng.randint(1, 3))}
    parts: list[tuple[str, int, list[tuple[str, int]], int]] = []
    for _ in range(rng.randint(2, 7)):
        name, size = rng.choice("xy"), rng.choice(gpus)
        homes = [node for node in free if node[0] == name and free[node] >= size]
        nodes = rng.sample(homes, min(len(homes), rng.randint(1, pods)))
        for node in nodes:
            free[node] -= size
        if nodes:
            parts.append((rng.choice(leaves), size, nodes, rng.randint(1, 9)))
    for node, left in free.items():
        if left and rng.random() < 0.7:
            free[node] = rng.choice([room for room in others if room <= left])
    vectors = {node: amounts(gpu=left, cpu=96, memory=768, pods=110) for node, left in free.items()}
    units: list[UnitBuilder] = []
    for number, (leaf, size, nodes, age) in enumerate(parts):
        seats = tuple(Seat(f"{node[0]}/{node[1]}", 0, vectors[node], amounts(gpu=size, pods=1)) for node in nodes)
        running = unit(f"r{number}").gpus(size, pods=len(nodes)).queue(f"root/{leaf}").runs_in(nodes[0][0])
        units.append(running.having(placed_at=NOW - 1000 * age, seats=seats))
    members = []
    for name in "xy":
        counts = Counter(vector for node, vector in vectors.items() if node[0] == name)
        shown = member(name).nodes(1).value.pools[0]
        members.append(member(name).having(pools=(replace(shown, free=tuple(counts.items())),)))
    return units, members


def contested(rng: random.Random) -> Snapshot:
    """Two crowded members, and up to six units that wait: some have a claim, some are heads, some queues are strict."""
    units, members = crowded(rng, leaves="bccd", gpus=(1, 2, 2, 4, 4, 3, 8), pods=2, others=range(9))
    waiting: list[UnitBuilder] = []
    for number in range(rng.randint(1, 6)):
        made = unit(f"w{number}").gpus(rng.choice((1, 2, 3, 4, 8)), pods=rng.randint(1, 2))
        made = made.queue(f"root/{rng.choice('aabbc')}").priority(rng.choice((0, 0, 0, 5)))
        made = made.since(rng.choice((9, 90, 900, 9000)))
        if rng.random() < 0.2:
            made = made.having(claim=Claim(rng.choice("xy"), NOW + 300))
        elif rng.random() < 0.15:
            said = Nomination(rng.choice("xy"), NOW - 60, NOW + rng.choice((-9, 0, 600)), rng.random() < 0.5)
            made = made.having(head=said)
        waiting.append(made)
    strict = [rng.choice(("Priority", "Block", "Intelligent")) for _ in "ab"]
    quota = tree(
        a={"min": {GPU: rng.choice((8, 20))}, "policy": strict[0]},
        b={"min": {GPU: rng.choice((0, 4))}, "policy": strict[1]},
        c={},
        d={"min": {GPU: rng.choice((0, 4))}},
    )
    if rng.random() < 0.5:
        most = sum(made.value.total[GPU] for made in units) + rng.randint(0, 8)
        quota = replace(quota, nodes={**quota.nodes, "root": replace(quota.nodes["root"], max={GPU: most})})
    return snapshot(*waiting, *units, *members, quota, RECLAIM)
