"""What can go wrong between a program and its hub, as exceptions with the facts as attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fleet.client.jobvalues import Job


class FleetError(Exception):
    """Every exception of this package."""


class BadConfiguration(FleetError):
    """The hub's address or the user's credentials cannot be read, or the server is no Fleet hub."""


class BadManifest(FleetError, ValueError):
    """A manifest that cannot be sent: no object, or not readable."""


class Unreachable(FleetError):
    """No answer of the hub. `address`: where it was looked for; `lasting`: another try finds the same."""

    def __init__(self, address: str, why: str, *, lasting: bool = False) -> None:
        super().__init__(f"no answer from {address}: {why}")
        self.address = address
        self.why = why
        self.lasting = lasting


class NotInTime(FleetError, TimeoutError):
    """A job has not come where it was waited for. `job`: as it stands."""

    def __init__(self, job: Job, until: str, seconds: float) -> None:
        why = f": {job.reason.text}" if job.reason is not None else ""
        super().__init__(f"{job.place} is not {until} after {seconds:g} s: {job.state}{why}")
        self.job = job


class JobFailed(FleetError):
    """A job that was waited for has failed, or was deleted. `job`: as it was seen last."""

    def __init__(self, job: Job, how: str) -> None:
        why = f": {job.reason.text}" if job.reason is not None else ""
        super().__init__(f"{job.place} {how}{why}")
        self.job = job


class Ambiguous(FleetError):
    """A name that several jobs have; KIND/NAME names one of them."""


@dataclass(frozen=True)
class Cause:
    """One field that is wrong."""

    field: str
    reason: str
    message: str


class Refused(FleetError):
    """The hub has answered, and no. `reason` is the word of Kubernetes, `status` the code of HTTP."""

    def __init__(
        self, status: int, reason: str, message: str, causes: tuple[Cause, ...] = (), retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = causes
        self.retry_after_s = retry_after_s


class BadRequest(Refused):
    """400: the request cannot be read, or has a field that does not exist."""


class Unauthorized(Refused):
    """401: no valid credentials; a token may have expired."""


class Forbidden(Refused):
    """403: the roles of the user do not allow it; the message names the right."""


class NotFound(Refused):
    """404."""


class Conflict(Refused):
    """409: the object has changed meanwhile."""


class AlreadyExists(Conflict):
    """409: the name is taken."""


class Invalid(Refused):
    """422: `causes` names each field that is wrong."""


class TooManyRequests(Refused):
    """429, after the tries that `Fleet(tries=…)` allows."""


class Unavailable(Refused):
    """503, after the tries that `Fleet(tries=…)` allows."""


_BY_STATUS: Mapping[int, type[Refused]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    422: Invalid,
    429: TooManyRequests,
    503: Unavailable,
}


def refusal(status: int, body: Any, text: str, retry_after_s: float | None) -> Refused:
    """The exception for an answer: of its Status, or of the text where it is none."""
    told = body if isinstance(body, dict) else {}
    reason = str(told.get("reason") or "")
    message = str(told.get("message") or "") or " ".join(text.split())[:300] or f"HTTP {status}"
    details = told.get("details")
    listed = (details.get("causes") if isinstance(details, dict) else None) or []
    causes = tuple(
        Cause(*(str(cause.get(field) or "") for field in ("field", "reason", "message")))
        for cause in listed
        if isinstance(cause, dict)
    )
    kind = AlreadyExists if reason == "AlreadyExists" else _BY_STATUS.get(status, Refused)
    return kind(status, reason, message, causes, retry_after_s)
