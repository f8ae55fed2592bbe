"""The states of a job, in one word each."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """How a job stands, from submission to its end."""

    UNCLAIMED = "Unclaimed"  # no policy has taken it: nothing will happen to it
    QUEUED = "Queued"
    HELD = "Held"  # it is held in its queue: by a person, or after too many attempts
    RESERVED = "Reserved"  # has quota and room, and waits for its queue's admission checks
    BACK_OFF = "BackOff"  # waits a while after a failed attempt
    WAITING = "Waiting"  # waits for room, without a queue
    PLACED = "Placed"  # has its member, which has said nothing of it yet
    CREATED = "Created"  # is in its member, not all its pods run yet
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    EVICTING = "Evicting"  # leaves its member, to wait again
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    DELETING = "Deleting"
    DELETED = "Deleted"  # only in the answer to a DELETE
