"""Nodes on which the attempts of several jobs failed by the infrastructure: counted out for a time. Pure.

The failures stand on the bindings, so a new leader comes to the same nodes. One job alone proves nothing about a node,
however often it fails there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.bindings import binding as b
from fleet.bindings.conditions import condition
from fleet.bindings.failures import failures_of
from fleet.bindings.faults import fault_in
from fleet.values.ports import Body
from fleet.values.times import rfc3339, seconds
from fleet.values.untyped import mapping, rows, text, whole

FAILURES_MIN = 3
JOBS_MIN = 2
WITHIN_S = 3600.0  # so old a failure counts
AVOIDED_S = 3600.0  # after the last failure a node is avoided for so long
NODES_MAX = 50  # of one member that are avoided at once, the newest failures first
FIELD = "avoidedNodes"  # in a Cluster's status


@dataclass(frozen=True, slots=True)
class FailingNode:
    """A node to avoid until an epoch second."""

    node: str
    failures: int
    jobs: int
    until: float

    @property
    def text(self) -> str:
        return f"node {self.node}: {self.failures} failures of {self.jobs} jobs, avoided until {rfc3339(self.until)}"


def failures_at(binding: Body) -> list[tuple[str, str, float]]:
    """The failures of its attempts that name nodes: member, node, time. The present one is not on the list yet."""
    found = [(failure.member, node, failure.at) for failure in failures_of(binding) for node in failure.nodes]
    fault, over = fault_in(binding), condition(binding, b.FINISHED)
    at = seconds((over or {}).get("lastTransitionTime"))
    if fault is not None and at is not None:
        found += [(member, node, at) for member in b.clusters_of(binding) for node in fault.nodes]
    return found


def failing_nodes(member: str, bindings: Iterable[Body], now: float) -> list[FailingNode]:
    """The nodes of the member to avoid now, by name."""
    failures_by_node: dict[str, list[tuple[str, float]]] = {}
    for binding in bindings:
        for name, node, at in failures_at(binding):
            if name == member and at > now - max(WITHIN_S, AVOIDED_S):
                failures_by_node.setdefault(node, []).append((binding["metadata"]["uid"], at))
    failing: list[FailingNode] = []
    for node, failures in failures_by_node.items():
        last = max(at for _, at in failures)
        counted = [(job, at) for job, at in failures if at > last - WITHIN_S]
        jobs = {job for job, _ in counted}
        if len(counted) >= FAILURES_MIN and len(jobs) >= JOBS_MIN and last + AVOIDED_S > now:
            failing.append(FailingNode(node, len(counted), len(jobs), last + AVOIDED_S))
    failing.sort(key=lambda one: (-one.until, one.node))
    return sorted(failing[:NODES_MAX], key=lambda one: one.node)


def still_avoided(cluster: Body, now: float) -> list[FailingNode]:
    """The nodes that the Cluster names, and whose time is not over: their jobs may have been deleted since."""
    return [
        FailingNode(text(e.get("name")), whole(e.get("failures")), whole(e.get("jobs")), until)
        for e in rows(b.status_of(cluster).get(FIELD))
        if (until := seconds(text(e.get("until")))) is not None and until > now and text(e.get("name"))
    ]


def to_body(failing: FailingNode) -> dict[str, Any]:
    said = {"name": failing.node, "failures": failing.failures, "jobs": failing.jobs}
    return {**said, "until": rfc3339(failing.until)}


def avoided_in(cluster: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The nodes that the Cluster names as avoided."""
    entries = rows(mapping(mapping(cluster).get("status")).get(FIELD))
    return tuple(sorted({name for entry in entries if (name := text(entry.get("name")))}))
