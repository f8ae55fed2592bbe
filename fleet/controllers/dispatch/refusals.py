"""A member that will not take a job: the code of its refusal, the bound on trying, and the words on the unit. Pure.

A refusal ends the attempt at once. A member that answers about everything else and fails on this one object is tried
again, with back-off, and until a bound: then the attempt has come to nothing, too, and the next member is tried.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleet.bindings.conditions import condition
from fleet.bindings.unit import in_queue, reason_of
from fleet.core.model.reason import Code, Reason
from fleet.members.members import ActOutcome, ActResult
from fleet.values.ports import Body
from fleet.values.times import rfc3339, seconds
from fleet.wellknown import FULLY_APPLIED

_CODES = {ActResult.OVERRIDE: Code.OVERRIDE_FAILED, ActResult.NO_DATA: Code.DATA_MISSING}


def reason_in(member: str, outcome: ActOutcome, binding: Body, *, foreign: bool, now: float, bound_s: float) -> Reason:
    """Why the attempt in the member comes to nothing; MEMBER_UNREACHABLE while it is tried again. `foreign`: something
    that is not of this hub has the job's name. `bound_s`: for so long a member may fail."""
    code = Code.MEMBER_UNREACHABLE
    if outcome.did is ActResult.REFUSED or outcome.did in _CODES:
        code = _CODES.get(outcome.did) or outcome.cause or Code.MEMBER_REFUSED
    elif outcome.did is ActResult.CONFLICT and foreign:
        code = Code.NAME_TAKEN
    elif outcome.cause is Code.MEMBER_FAILS and _failed_s(binding, now) >= bound_s:
        code = Code.MEMBER_FAILS
    return Reason(code, {"member": member, "message": outcome.message})


def _failed_s(binding: Body, now: float) -> float:
    """Seconds since the member began to fail on this attempt."""
    told = condition(binding, FULLY_APPLIED)
    if told is None or told.get("reason") != Code.MEMBER_FAILS:
        return 0.0
    return now - (seconds(told.get("lastTransitionTime")) or now)


def fails(outcomes: Mapping[str, ActOutcome]) -> Reason | None:
    """The reason of a gang whose member fails, for its unit; None where the member does not."""
    for member, outcome in outcomes.items():
        if outcome.cause is Code.MEMBER_FAILS:
            return Reason(Code.MEMBER_FAILS, {"member": member, "message": outcome.message})
    return None


def tell_unit(unit: Body, reason: Reason | None, now: float) -> bool:
    """Write the reason on a unit that has left its queue, in place, or take off the one that is over."""
    if in_queue(unit):
        return False
    status, said = unit.setdefault("status", {}), reason_of(unit)
    told = {"code": str(reason.code), "numbers": reason.figures} if reason is not None else {}
    if said == told or (not told and said.get("code") != Code.MEMBER_FAILS):
        return False
    status.pop("reason", None)
    status.update({"reason": told} if told else {})
    status.update(message=reason.text if reason is not None else "", lastUpdateTime=rfc3339(now))
    return True
