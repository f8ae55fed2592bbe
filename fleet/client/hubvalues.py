"""Queues, members, the hub itself and what-if, as values. docs/reference/rest.md describes each field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from fleet.client.jobvalues import Reason
from fleet.client.tables import Readers, Record, Rows, moment

Amounts = Mapping[str, str]


@dataclass(frozen=True, repr=False, kw_only=True)
class Queue(Record):
    """A node of the quota tree; jobs wait in leaves. A resource that `max` lacks is unlimited."""

    SHOWN: ClassVar[tuple[str, ...]] = ("path", "namespaces", "waiting", "running", "used", "min", "max")
    path: str = ""
    name: str | None = None
    parent: str | None = None
    children: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    policy: str = ""
    stop: str = "None"
    held_by: str | None = None
    min: Amounts = field(default_factory=dict)
    max: Amounts = field(default_factory=dict)
    used: Amounts = field(default_factory=dict)
    waiting: int = 0
    running: int = 0


@dataclass(frozen=True, repr=False, kw_only=True)
class Cluster(Record):
    """A member cluster."""

    SHOWN: ClassVar[tuple[str, ...]] = ("name", "ready", "message", "version", "free_gpus", "jobs")
    name: str = ""
    ready: bool = False
    message: str = ""
    version: str | None = None
    endpoint: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, Any], ...] = ()
    allocatable: Amounts = field(default_factory=dict)
    allocated: Amounts = field(default_factory=dict)
    free: Amounts = field(default_factory=dict)
    free_gpus: int = 0
    jobs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, repr=False, kw_only=True)
class HubStatus(Record):
    """Whether the hub works. `problems`: what is wrong, each in a sentence."""

    SHOWN: ClassVar[tuple[str, ...]] = ("healthy", "problems", "decided", "database")
    READ: ClassVar[Readers] = {"looked": moment, "decided": moment}
    healthy: bool = False
    problems: tuple[str, ...] = ()
    leader: Mapping[str, Any] | None = None
    looked: datetime | None = None
    decided: datetime | None = None
    failing: tuple[Mapping[str, Any], ...] = ()
    members: tuple[Mapping[str, Any], ...] = ()
    database: str = ""


@dataclass(frozen=True, repr=False, kw_only=True)
class Standing(Record):
    """A job before or after the edits of a what-if."""

    READ: ClassVar[Readers] = {"reason": Reason.of}
    state: str = ""
    member: str | None = None
    reason: Reason | None = None
    start: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return f"{self.state} in {self.member}" if self.member else self.state


@dataclass(frozen=True, repr=False, kw_only=True)
class Difference(Record):
    """A job that the edits make a difference to."""

    SHOWN: ClassVar[tuple[str, ...]] = ("job", "leaf", "change", "before", "after")
    READ: ClassVar[Readers] = {"before": Standing.of, "after": Standing.of}
    job: str = ""
    leaf: str | None = None
    change: str = ""
    before: Standing | None = None
    after: Standing | None = None

    def __str__(self) -> str:
        return f"{self.job} {self.change}: {self.before} → {self.after}"


def _differences(raw: list[Mapping[str, Any]]) -> tuple[Difference, ...]:
    return tuple(Difference.of(one) for one in raw)


@dataclass(frozen=True, repr=False, kw_only=True)
class WhatIf(Record):
    """What would be otherwise. `others`: jobs that the user may not see, counted by queue and change."""

    READ: ClassVar[Readers] = {"rows": _differences}
    rows: tuple[Difference, ...] = ()
    bound: tuple[Mapping[str, Any], ...] = ()
    others: tuple[Mapping[str, Any], ...] = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self.rows)) or "nothing would be otherwise"

    def _repr_html_(self) -> str:
        return Rows(self.rows)._repr_html_()
