"""The hub's own requests to servers that its users and administrators name."""

from api.outgoing.allowed import AllowList
from api.outgoing.errors import OutgoingError, Reason
from api.outgoing.outgoing import Answer, OutgoingClient

__all__ = ["AllowList", "Answer", "OutgoingClient", "OutgoingError", "Reason"]
