"""The reasons of a plan: one for each unit that waits on."""

from __future__ import annotations

from collections.abc import Mapping

from fleet.model.plan import RoomClaim
from fleet.model.reason import Code, Reason, instant
from fleet.placement.explain.why import Explainer
from fleet.placement.greedy.settle import Outcome
from fleet.placement.greedy.situation import Situation


def reasons(situation: Situation, outcome: Outcome, claims: Mapping[str, RoomClaim]) -> dict[str, Reason]:
    """By unit. `claims`: the claims that this plan makes."""
    found = {**situation.reasons, **Explainer(situation, outcome).all()}
    found |= {unit: Reason(Code.LOST_TO_OTHERS, {"member": at}) for unit, at in outcome.out.items()}
    for candidate, member in situation.kept:
        unit = candidate.unit
        claim = claims.get(unit.id) or unit.claim
        numbers = {"member": member, "until": instant(claim.until if claim is not None else 0.0)}
        found[unit.id] = Reason(Code.ROOM_CLAIMED, {**numbers, "tier": candidate.tier.name.capitalize()})
    return found
