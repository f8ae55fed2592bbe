"""A world in which room is taken back, and plans for it that each break one rule."""

from __future__ import annotations

from dataclasses import replace

from fleet.model.reason import Code, Reason
from fleet.model.unit import Claim
from fleet.plan import Eviction, Placement, Plan, RoomClaim
from fleet.snapshot import Config
from fleet.violation import Rule
from tests.core.builders import GPU, NOW, UnitBuilder, member, snapshot, tree, unit

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
    Rule.EVICTS_NEEDLESSLY: plan(("s3", "y"), claims=(replace(CLAIM, member="y"),)),
    Rule.CLAIM_UNSOUND: plan(claims=(replace(CLAIM, until=NOW),)),
    Rule.CLAIM_TOO_SMALL: plan(),
    Rule.CLAIM_TAKEN: plan(claims=(), starts=(Placement("small", "z"),)),
}
