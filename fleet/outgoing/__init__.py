"""The hub's own requests to servers that its users and administrators name."""

from fleet.outgoing.allowed import Allowed
from fleet.outgoing.errors import OutgoingError, Reason
from fleet.outgoing.outgoing import Answer, Outgoing

__all__ = ["Allowed", "Answer", "Outgoing", "OutgoingError", "Reason"]
