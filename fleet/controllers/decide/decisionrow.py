"""The row of a decision in lists: what it changed, how good it is and how long it took, without its record.

A record of a large fleet has megabytes, and a page of a list shows fifty decisions. So a row of its own stands beside
the record, which the row names by id.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from fleet.core.model.plan import Plan
from fleet.core.notation.bytype import encode
from fleet.core.snapshot import Snapshot
from fleet.kinds import named_kind

NAMED_MOST = 1_000  # jobs of each kind of change, which a search finds


def listed(snapshot: Snapshot, plan: Plan, *, now: float, took_s: float) -> dict[str, Any]:
    """`took_s`: seconds from the look at the fleet to the plan."""

    def job(unit: str) -> dict[str, str]:
        found = snapshot.units.get(unit)
        kind = named_kind(found.needs_kind) if found is not None else ""
        return {"kind": kind, "job": found.name if found is not None else unit}

    def named(changes: Iterable[dict[str, str]]) -> list[dict[str, str]]:
        return list(islice(changes, NAMED_MOST))

    certificate = plan.certificate
    return {
        "now": now,
        "placed": len(plan.placements),
        "claimed": len(plan.claims),
        "evicted": len(plan.evictions),
        "waiting": len(plan.reasons),
        "shipped": certificate.shipped,
        "why": certificate.why,
        "causes": [encode(cause) for cause in certificate.causes],
        "gap": certificate.gap,
        "tookMs": round(took_s * 1000, 3),
        "starts": named({**job(one.unit), "member": one.member} for one in plan.placements),
        "claims": named({**job(one.unit), "member": one.member} for one in plan.claims),
        "evictions": named(
            {**job(one.unit), "member": one.member, "for": job(one.preemptor)["job"]} for one in plan.evictions
        ),
    }
