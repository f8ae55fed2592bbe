"""The answer of /fleet/v1/check."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fleet.rest.models import Model, Reason


class Room(Model):
    """One member, as it would take the job."""

    name: str
    fits: bool = Field(description="Whether the job would find room there now, were there nobody before it.")
    reason: Reason | None


class Start(Model):
    """When a job would start: four of five times between `p10` and `p90`."""

    p10: str
    p50: str
    p90: str | None = Field(description="null: later than the queues were run forward.")


class Checked(Model):
    """What would become of a job that were submitted now."""

    namespace: str
    kind: str
    name: str
    policy: str | None = Field(description="The policy that would take it.")
    queue: str | None = Field(description="Full path of its queue; null outside quota.")
    verdict: Literal["starts", "waits", "never", "unknown"] = Field(
        description="starts: with the next decision; never: not as things are; unknown: `why` says what is missing."
    )
    member: str | None = Field(description="Where it starts.")
    start: Start | None
    reason: Reason | None = Field(description="Why it would wait.")
    members: list[Room]
    why: str | None
