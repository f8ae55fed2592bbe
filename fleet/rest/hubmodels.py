"""The answers of /fleet/v1 about the hub itself: its state, and its parts."""

from __future__ import annotations

from pydantic import Field

from fleet.rest.models import Model


class Leader(Model):
    """The controllers process that leads."""

    name: str
    since: str | None
    renewed: str = Field(description="Its last sign of life.")


class FailingLoop(Model):
    """A loop of the controllers that failed or was started again within the last minute."""

    loop: str
    failures: int = Field(description="Of keys, since its process began.")
    restarts: int
    last: str
    error: str = Field(description="The object and the error of its last failure; empty where it is not known.")


class Aside(Model):
    """Objects that a loop cannot handle and has set aside."""

    count: int
    first: list[str] = Field(description="A few of them: LOOP: KEY.")


class MemberStatus(Model):
    name: str
    ready: bool
    message: str = Field(description="Why it is not ready, or empty.")
    silent_s: int | None = Field(description="Seconds since it last showed life to the leader; null when it never has.")


class HubWarning(Model):
    """A trouble that the hub works on with, and that a person has to mend."""

    check: str = Field(description="Which: nodes-not-ready, jobs-refused, user-floods or webhook-fails.")
    kind: str
    namespace: str
    name: str
    why: str
    what_to_do: str
    member: str = Field(description="The member that it is in, or empty.")


class HubStatus(Model):
    """Whether the hub works, as far as this API process sees it."""

    healthy: bool
    problems: list[str] = Field(description="What is wrong, each in a sentence.")
    warnings: list[HubWarning] = Field(description="They leave the hub healthy.")
    leader: Leader | None = Field(description="Null when none has ever led.")
    looked: str | None = Field(description="The decider's last look at the fleet.")
    decided: str | None = Field(description="The last look that made a decision, since the leader's process began.")
    failing: list[FailingLoop]
    aside: Aside
    members: list[MemberStatus]
    silent: bool = Field(description="Nobody decides.")
    database: str = Field(description='"ok", or what it does not do, and why.')
    version: str | None = Field(description="Of the controllers process that leads.")


class Blocker(Model):
    """A session of the database that a write waits for, and that waits for no other itself."""

    pid: int = Field(description="The id of its process, as pg_stat_activity has it.")
    user: str
    application: str
    state: str
    open_s: float = Field(description="Seconds since its transaction began.")


class Database(Model):
    """The PostgreSQL server, and the hub's database in it."""

    version: str
    schema_: str | None = Field(alias="schema", description="The revision of its tables.")
    wanted: str = Field(description="The revision that this release knows.")
    bytes: int = Field(description="Of the hub's database.")
    connections: int = Field(description="To the server, of all its clients.")
    mostConnections: int
    oldestTransactionS: float = Field(description="Seconds since the oldest open transaction of others began.")
    roundTripMs: float = Field(description="Of one small question.")
    writeMs: float | None = Field(description="Of one write that changes nothing; null: none within two seconds.")
    writeTrouble: str = Field(description="Why there was none, or empty.")
    blockers: list[Blocker] = Field(description="The oldest transaction first; at most five.")
    aheadS: float = Field(description="Seconds that the clock of the database is ahead of this process's.")


class WrittenHistory(Model):
    """How far the history of jobs is written."""

    recordedSince: str | None = Field(description="Null: nothing is recorded yet.")
    gaps: list[str] = Field(description="Times of which nothing is recorded, with the cause; the newest last.")
    behind: int = Field(description="Changes of the hub's log that it has not read; some never concern jobs.")
    behindS: float = Field(description="Seconds since the first of them; up to a minute is usual.")
    lost: int = Field(description="Changes that left the log before the history read them.")


class Disk(Model):
    path: str
    free: int
    total: int


class TlsCertificate(Model):
    name: str = Field(description="Its owner.")
    file: str
    until: str


class HubParts(Model):
    """The parts of the hub beside its objects, as one API process sees them."""

    at: str = Field(description="Its clock.")
    version: str
    database: Database | None = Field(description="Null when it does not answer.")
    databaseTrouble: str
    history: WrittenHistory | None = Field(description="Null when its database does not answer.")
    historyTrouble: str
    disk: Disk = Field(description="Of the data directory.")
    certificates: list[TlsCertificate]
