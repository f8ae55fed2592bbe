"""Snapshots in which something was wrong once, as recorded, and made small by leaving out what did not matter."""

from __future__ import annotations

from pathlib import Path

import orjson

from fleet.check import check
from fleet.decide import decide
from fleet.model.plan import Plan
from fleet.notation.codec import decode_snapshot

FOLDER = Path(__file__).parent / "recorded"
AT = 1_000_000.0


def decided(name: str) -> Plan:
    world = decode_snapshot(orjson.loads((FOLDER / f"{name}.json").read_bytes()))
    plan = decide(world, now=AT, seed=1, solver=None)
    assert check(world, plan, now=AT) == ()
    assert plan.certificate.why == "no solver was asked"
    return plan


def test_a_large_job_that_may_start_does_so_though_one_behind_it_claims_room_there() -> None:
    """Beside it room is kept in the other member for guaranteed work, and with the claim all that had been done anew:
    it lost its nodes to the claim, and nobody had to leave."""
    plan = decided("starts-by-right-beside-a-claim")
    assert ("h037", "m0") in {(placement.unit, placement.member) for placement in plan.placements}
    assert [(claim.unit, claim.member) for claim in plan.claims] == [("u027", "m0")]
    assert [(eviction.unit, eviction.preemptor) for eviction in plan.evictions] == [("r003", "u027")]
