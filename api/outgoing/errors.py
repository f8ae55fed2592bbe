"""Why there is no answer to an outgoing request."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why there is no answer."""

    REFUSED = "Refused"  # the hub does not send such a request
    UNREACHABLE = "Unreachable"
    TIMED_OUT = "TimedOut"
    TOO_LARGE = "TooLarge"
    BAD_CERTIFICATE = "BadCertificate"
    REDIRECTED = "Redirected"


class OutgoingError(Exception):
    """No answer. The text is the hub's own, and has nothing in it that a server sent."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason
