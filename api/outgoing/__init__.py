"""The hub's own requests to servers that its users and administrators name."""

from api.outgoing.allowed import AllowList
from api.outgoing.errors import OutgoingError, Reason
from api.outgoing.outgoing import Answer, Outgoing

__all__ = ["AllowList", "Answer", "Outgoing", "OutgoingError", "Reason"]
