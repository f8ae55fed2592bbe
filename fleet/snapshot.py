"""A snapshot: all inputs of one decision, as one immutable value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.model.member import Member
from fleet.model.unit import Unit
from fleet.quota.tree import QuotaTree


@dataclass(frozen=True, slots=True)
class Config:
    """What an operator may tune. Times in seconds."""

    solve_limit_s: float = 2.0
    relative_gap: float = 0.001
    deterministic_limit: float = 5.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`tree` None: no quota applies and units with a leaf wait for NoQueue. Units are keyed by id, members by name."""

    tree: QuotaTree | None = None
    units: Mapping[str, Unit] = field(default_factory=dict)
    members: Mapping[str, Member] = field(default_factory=dict)
    config: Config = Config()
