"""The answers of /fleet/v1 about the history: jobs of the past, and the reports."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fleet.rest.models import PARTIAL, Model

_SINCE = Field(description="Since when the hub records; null: nothing is recorded yet.")


class PastJob(Model):
    """A job of the history, which may still go on. Times are RFC 3339 in UTC."""

    uid: str
    namespace: str
    kind: str
    name: str
    user: str | None = Field(description="Who created it; null: unknown, or erased.")
    queue: str | None = Field(description="Full path of its quota leaf.")
    priority: int
    gpus: int = Field(description="GPUs of all its pods at full size.")
    pods: int
    state: str = Field(description="As lists of jobs have it; at the end Succeeded, Failed or Deleted.")
    why: str | None = Field(description="Code of why it ended.")
    message: str | None
    submitted: str
    started: str | None = Field(description="When pods of it first ran.")
    ended: str | None
    waitedS: float = Field(description="Seconds from submission to the first start, or up to now.")
    ranS: float = Field(description="Seconds in which its attempts ran; the waits between them do not count.")
    attempts: int = Field(description="How often it has been placed.")
    evictions: int
    members: list[str] = Field(description="In the order of its attempts.")
    models: dict[str, int] = Field(description="GPUs of the last attempt by model.")
    gpuHours: float = Field(description="That all its attempts used.")
    lostGpuHours: float = Field(description="Of attempts that were evicted or failed, and whose work is done again.")


class PastJobList(Model):
    """A page of jobs, the newest submission first."""

    items: list[PastJob]
    continue_: str | None = Field(alias="continue", description="Pass it as `continue` for the next page.")
    partial: bool = PARTIAL
    recordedSince: str | None = _SINCE


class Waited(Model):
    reason: str = Field(description="Code of a reason.")
    seconds: float
    goesOn: bool = Field(description="Whether it waits by this reason now.")


class Placement(Model):
    """One attempt."""

    number: int
    member: str
    models: dict[str, int] = Field(description="GPUs by model.")
    placed: str
    started: str | None
    ended: str | None
    gpuHours: float
    outcome: str | None = Field(
        description="Succeeded, Failed, Evicted, Withdrawn or Deleted; NotRecorded: it ended while nothing was"
        " recorded; null while it goes on."
    )
    why: str | None


class EarlierJob(Model):
    uid: str
    kind: str
    state: str
    submitted: str


class Life(PastJob):
    """A job with everything that the history has of it."""

    waits: list[Waited] = Field(description="The longest first.")
    placements: list[Placement] = Field(description="In the order of its attempts.")
    earlier: list[EarlierJob] = Field(description="Jobs of the same kind and name that were submitted before it.")


class Figures(Model):
    """One row of a report; `key` is null for a user, queue or model that is not known."""

    key: str | None


class UsageRow(Figures):
    gpuHours: float
    models: dict[str, float] = Field(description="GPU-hours by GPU model.")
    capacityGpuHours: float | None = Field(description="Of members and models; null where it is not known.")
    share: float | None = Field(description="Used ÷ capacity.")


class WaitRow(Figures):
    submitted: int = Field(description="Jobs that were submitted in the period.")
    started: int = Field(description="Those of them that have started; the figures are theirs.")
    waiting: int = Field(description="Those that still wait for their first start.")
    meanS: float | None
    p50S: float | None
    p90S: float | None
    p99S: float | None
    reasons: dict[str, float] | None = Field(description="Hours of waiting by reason; null by member and model.")


class EfficiencyRow(Figures):
    gpuHours: float
    countedGpuHours: float = Field(description="Used less lost.")
    lostGpuHours: float = Field(description="Of attempts that were evicted or failed.")
    evictedGpuHours: float
    failedGpuHours: float
    efficiency: float | None = Field(description="Counted ÷ used; null where nothing was used.")
    capacityGpuHours: float | None = Field(description="Of members and models; null where it is not known.")
    share: float | None = Field(description="Used ÷ capacity.")


class HistoryReport(Model):
    """A report: a row for each value of `by`, the largest first, and the figures of all together."""

    report: Literal["usage", "waits", "efficiency"]
    by: str
    from_: str = Field(alias="from")
    to: str
    rows: list[UsageRow] | list[WaitRow] | list[EfficiencyRow]
    left: int = Field(description="Rows beyond `limit`; `total` has them too.")
    total: UsageRow | WaitRow | EfficiencyRow
    partial: bool = PARTIAL
    recordedSince: str | None = _SINCE


class UsedOverTime(Model):
    """GPUs of each step; null where nothing was recorded."""

    name: str | None = Field(description="Path of a queue, or name of a member; null: all others together.")
    used: list[float | None]
    waiting: list[float | None] = Field(description="That waiting jobs asked for; 0 by member.")


class UsageOverTime(Model):
    """Means over the steps of a period."""

    by: Literal["queue", "member"]
    from_: str = Field(alias="from")
    to: str
    stepS: int = Field(description="Seconds of a step.")
    at: list[str] = Field(description="Beginnings of the steps.")
    series: list[UsedOverTime] = Field(description="The most use first.")
    capacity: list[float | None] | None = Field(
        description="GPUs of the ready nodes of all members; null without the right to list clusters."
    )


class Change(Model):
    at: str
    what: str = Field(description="Started, Succeeded, Failed, Evicted, Withdrawn, Deleted or NotRecorded.")
    member: str
    namespace: str
    kind: str
    name: str
    gpus: int
    queue: str | None


class Changes(Model):
    """Attempts that started and ended in a period."""

    from_: str = Field(alias="from")
    to: str
    items: list[Change] = Field(description="The newest first.")
    counts: dict[str, int] = Field(description="Of all of them, by `what`.")
    partial: bool = PARTIAL


class Forgotten(Model):
    user: str
    rows: int = Field(description="Rows of the history that named this user.")


class ToldJob(Model):
    namespace: str
    kind: str
    name: str
    uid: str


class Notification(Model):
    """One event of one job, for one receiver. Times are RFC 3339 in UTC."""

    id: str = Field(description="The same at each try: `webhook-id` at the receiver.")
    namespace: str = Field(description="Of the receiver.")
    receiver: str
    state: Literal["Pending", "Retrying", "Delivered", "GaveUp", "NoReceiver"] = Field(
        description="Pending: not tried yet. Retrying: the last try failed. GaveUp: all tries failed. NoReceiver: the"
        " receiver was deleted."
    )
    job: ToldJob
    event: str = Field(description="Started, Succeeded, Failed, Evicted or WaitsLong.")
    at: str = Field(description="When it happened.")
    entered: str = Field(description="When the hub recorded it.")
    tries: int = Field(description="Those so far, a successful last one too.")
    error: str | None = Field(description="Of the last try that failed.")
    nextTry: str | None = Field(description="Null when it is over.")
    over: str | None = Field(description="When it was delivered or given up.")


class NotificationList(Model):
    """A page of notifications, the newest first."""

    items: list[Notification]
    continue_: str | None = Field(alias="continue", description="Pass it as `continue` for the next page.")
    partial: bool = PARTIAL


class Retried(Model):
    notifications: int = Field(description="How many are tried again.")
