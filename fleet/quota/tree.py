"""The quota tree: who may use how much. (The algebra over it is in usage.py.)"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_JOBS = "kube-queue/max-jobs"


@dataclass(frozen=True, slots=True)
class QuotaNode:
    """`path` is the full name from the root, "root/child-2". In `max` a missing resource is unlimited; in `min` it is
    zero. Amounts are base units (see fleet/model/amounts.py)."""

    path: str
    name: str
    parent: str | None
    min: Mapping[str, int] = field(default_factory=dict)
    max: Mapping[str, int] = field(default_factory=dict)
    namespaces: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    policy: str = "Priority"  # of its Queue: Priority | Block | Intelligent


@dataclass(frozen=True, slots=True)
class QuotaTree:
    """All nodes by path; `root` is the path of the root."""

    root: str
    nodes: Mapping[str, QuotaNode]

    def leaf_of(self, namespace: str) -> str | None:
        """The leaf that a namespace hangs on, or None."""
        raise NotImplementedError

    def ancestors(self, path: str) -> tuple[str, ...]:
        """The node itself, its parent, …, the root."""
        raise NotImplementedError
