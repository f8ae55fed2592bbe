"""The answers of /fleet/v1 about queues."""

from __future__ import annotations

from pydantic import Field

from fleet.rest.models import PARTIAL, Amounts, Model, Reason


class Head(Model):
    """A job that is first to go in its queue."""

    namespace: str
    kind: str
    name: str
    position: int | None = Field(description="Null while it is not considered: when all that wait back off, say.")
    priority: int
    enqueued: str | None
    reason: Reason | None


class Lender(Model):
    """A queue whose unused min another may be using. The rest of what that one borrowed is promised to nobody."""

    queue: str = Field(description="Its path: beside the borrower, or beside a queue above it.")
    resource: str
    amount: str = Field(description="Up to its unused min. Other borrowers may name the same.")


class Queue(Model):
    """A node of the quota tree. Jobs wait in leaves; inner nodes show the sums of what is below."""

    path: str = Field(description="Names from the root, such as root/team-a.")
    name: str | None = Field(description="Name of its Queue object.")
    parent: str | None
    children: list[str]
    namespaces: list[str] = Field(description="Namespaces whose jobs wait here.")
    policy: str = Field(description="Priority, Block or Intelligent.")
    stop: str = Field(
        description="None, Hold (no job starts) or HoldAndDrain (and jobs that run leave); of a queue above it, too."
    )
    held_by: str | None = Field(description="The nearest queue that keeps its jobs from starting: itself, or above it.")
    min: Amounts = Field(description="Guaranteed; what is missing is 0.")
    max: Amounts = Field(description="Allowed; what is missing is unlimited.")
    used: Amounts = Field(description="Asked for by the jobs that are placed.")
    fairShare: Amounts = Field(
        description="What it may count on now, when all queues take what they want; of the decider's last snapshot, and"
        " empty before the first."
    )
    borrowed: Amounts = Field(description="Used beyond min; empty for the root.")
    lenders: list[Lender] = Field(description="Of what it borrowed, three of a resource at most, the nearest first.")
    waiting: int
    running: int = Field(description="Jobs that are placed and not over, or have pods left; what max-jobs counts.")
    heads: list[Head] = Field(description="Of a leaf: the first of those that wait, as far as the user may list them.")


class QueueList(Model):
    items: list[Queue] = Field(description="Parents before their children.")
    partial: bool = PARTIAL
