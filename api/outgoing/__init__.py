"""The hub's own requests to servers that its users and administrators name."""

from api.outgoing.allowlist import AllowList
from api.outgoing.client import Answer, OutgoingClient
from api.outgoing.errors import OutgoingError, Reason

__all__ = ["AllowList", "Answer", "OutgoingClient", "OutgoingError", "Reason"]
