"""The cause of a member's refusal, told from its answer: a code of the one table of reasons.

An API server says "no" with a status, a reason and a text, and admission plugins share most statuses. So the status
decides first, and the words that Kubernetes itself puts around the answer of a plugin decide the rest. Pure.
"""

from __future__ import annotations

from fleet.core.model.reason import Code

_QUOTA = ("exceeded quota:", "failed quota:", "insufficient quota")
_ADMISSION = ("admission webhook ", "ValidatingAdmissionPolicy ", "violates PodSecurity", "is forbidden: ")
_RIGHTS = " cannot "  # User "hub" cannot patch resource "jobs" in API group "batch"
_TOO_OLD = 415  # an API server without server-side apply knows no such body


def cause_of(status: int, message: str) -> Code:
    """Of an answer 4xx or 5xx about an object."""
    if status >= 500:
        return Code.MEMBER_FAILS
    if status == _TOO_OLD:
        return Code.MEMBER_TOO_OLD
    return cause_in(message) or (Code.INVALID_THERE if status in (400, 422) else Code.MEMBER_REFUSED)


def cause_in(message: str) -> Code | None:
    """Of a refusal of which the text alone is known, as events of a controller tell it; None where the text names no
    cause."""
    if any(word in message for word in _QUOTA):
        return Code.MEMBER_QUOTA
    if _RIGHTS in message and " resource " in message:
        return Code.MEMBER_FORBIDS
    return Code.ADMISSION_DENIED if any(word in message for word in _ADMISSION) else None
