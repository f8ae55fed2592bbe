"""Gauges that are read out of a snapshot when a scrape asks for them: units, quota, and GPUs of members.

Labels are bounded, whatever users and administrators write: beyond the most of a label the rest shares one row, or has
none where rows must not be added up.
"""

from __future__ import annotations

import threading
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from fleet.controllers.runtime.gpus import by_model
from fleet.core.model.amounts import GPU
from fleet.core.model.member import Member
from fleet.core.model.unit import Phase, Unit
from fleet.core.quota.limits import COUNTS
from fleet.core.quota.tree import QuotaTree
from fleet.core.quota.usage import Usage, request_of
from fleet.core.snapshot import Snapshot
from fleet.core.snapshot.shares import fair_shares
from fleet.members.gpufigures import Sum
from fleet.members.members import Closed

LEAVES_MOST = 200
USERS_MOST = 5
QUEUES_MOST = 200
RESOURCES_MOST = 5
MEMBERS_MOST = 1_000
MODELS_MOST = 8  # of one member
PATIENCE_S = 0.1  # for fair shares
OUTSIDE, UNKNOWN, OTHERS = "(none)", "(unknown)", "(others)"  # no quota; not in the tree; the leaves beyond the most
Row = tuple[tuple[str, ...], float]


def gauge(name: str, says: str, labels: Sequence[str], rows: Iterable[Row]) -> Metric:
    found = GaugeMetricFamily(name, says, labels=labels)
    for values, number in rows:
        found.add_metric(values, number)
    return found


def of_units(snapshot: Snapshot) -> Iterator[Metric]:
    units: Sequence[Unit] = list(snapshot.units.values())
    tally = Tally((leaf_of(snapshot.tree, unit), unit.phase) for unit in units)
    sizes: Tally[str] = Tally()
    for (leaf, _), count in tally.items():
        sizes[leaf] += count
    shown = {leaf for leaf, _ in sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[:LEAVES_MOST]}
    rows: Tally[tuple[str, str]] = Tally()
    for (leaf, phase), count in tally.items():
        rows[leaf if leaf in shown else OTHERS, phase.value.lower()] += count
    yield gauge("fleet_units", "Units by leaf of the quota tree and phase.", ("leaf", "phase"), sorted(rows.items()))
    waiting = [unit for unit in units if unit.phase is Phase.WAITING]
    users = Tally(unit.user for unit in waiting if unit.user).most_common(USERS_MOST)
    yield gauge(
        "fleet_user_units_waiting",
        "Waiting units of the users who have most.",
        ("user",),
        (((user,), count) for user, count in users),
    )
    claims = sum(unit.claim is not None for unit in waiting)
    yield GaugeMetricFamily("fleet_units_claiming", "Waiting units that room is kept for.", value=claims)
    heads = sum(unit.head is not None for unit in waiting)
    yield GaugeMetricFamily("fleet_units_collecting", "Waiting units that room is collected for.", value=heads)


def leaf_of(tree: QuotaTree | None, unit: Unit) -> str:
    """The value of the label for the unit's leaf."""
    if unit.leaf is None:
        return OUTSIDE
    return unit.leaf if tree is not None and unit.leaf in tree.nodes else UNKNOWN


# -- quota


class Shares:
    """The fair shares of the newest snapshot that was asked about. In a tree of thousands of nodes they take a second,
    so they are found in a thread of their own, and an asker who would wait for longer gets those before."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._of: Snapshot | None = None  # the last one that was begun
        self._shares: Mapping[str, Mapping[str, int]] = {}
        self._thread: threading.Thread | None = None

    def of(self, snapshot: Snapshot, tree: QuotaTree) -> Mapping[str, Mapping[str, int]]:
        """By path and resource; empty before the first are found."""
        with self._lock:
            idle = self._thread is None or not self._thread.is_alive()
            if idle and self._of is not snapshot:
                self._of = snapshot
                self._thread = threading.Thread(target=self._find, args=(snapshot, tree), name="shares", daemon=True)
                self._thread.start()
            thread = self._thread
        if thread is not None:
            thread.join(self._patience_s)
        return self._shares

    def _find(self, snapshot: Snapshot, tree: QuotaTree) -> None:
        self._shares = fair_shares(snapshot, tree)


def of_quota(snapshot: Snapshot, shares: Shares) -> Iterator[Metric]:
    """Of the nodes of the tree that use most. A node includes those below it, so rows must not be added up."""
    tree = snapshot.tree
    rows: dict[str, list[Row]] = {"used": [], "min": [], "fair_share": [], "max": []}
    left_out = 0
    if tree is not None and not tree.problems():
        usage, fair = Usage(tree), shares.of(snapshot, tree)
        for held in snapshot.backlog.holders.values():
            if held.account is not None:
                usage.charge(held.account, request_of(held.unit), held.count)
        resources = _resources(tree)
        order = sorted(tree.nodes, key=lambda path: ([-usage.used(path, name) for name in resources], path))
        left_out = max(0, len(order) - QUEUES_MOST)
        for path in order[:QUEUES_MOST]:
            node = tree.nodes[path]
            for name in resources:
                rows["used"].append(((path, name), _base(name, usage.used(path, name))))
                for said, amounts in (("min", node.min), ("fair_share", fair.get(path, {})), ("max", node.max)):
                    if name in amounts:
                        rows[said].append(((path, name), _base(name, amounts[name])))
    labels = ("queue", "resource")
    yield gauge("fleet_quota_used", "Amount that jobs of a queue hold, those below it included.", labels, rows["used"])
    yield gauge("fleet_quota_min", "Amount that a queue is promised.", labels, rows["min"])
    yield gauge("fleet_quota_fair_share", "Amount that a queue may count on now.", labels, rows["fair_share"])
    yield gauge("fleet_quota_max", "Most that a queue may use.", labels, rows["max"])
    yield GaugeMetricFamily("fleet_quota_queues_left_out", "Queues without rows, since others use more.", left_out)


def _resources(tree: QuotaTree) -> list[str]:
    """Those that the tree names, GPUs first."""
    named = {name for node in tree.nodes.values() for amounts in (node.min, node.max) for name in amounts}
    return sorted(named - COUNTS, key=lambda name: (not name.endswith(GPU), name))[:RESOURCES_MOST]


def _base(resource: str, amount: int) -> float:
    """In cores, bytes, or pieces."""
    return amount / 1000 if resource == "cpu" else float(amount)


# -- members


def of_gpus(members: Mapping[str, Member], closed: Mapping[str, Sequence[Closed]]) -> Iterator[Metric]:
    """`closed`: by member, its nodes that take no pods."""
    states: list[Row] = []
    fragmented: list[Row] = []
    for name in sorted(members)[:MEMBERS_MOST]:
        of_models = by_model(members[name].pools, closed.get(name, ()))
        for model in sorted(of_models)[:MODELS_MOST]:
            counts = of_models[model]
            states += [((name, model, state), counts[state]) for state in ("allocated", "free", "cordoned")]
            fragmented.append(((name, model), counts["fragmented"]))
    labels = ("member", "model", "state")
    yield gauge("fleet_member_gpus", "GPUs of a member by model and state; the sum is all of them.", labels, states)
    yield gauge(
        "fleet_member_gpus_fragmented",
        "Of the free GPUs, those on nodes where others are taken.",
        labels[:2],
        fragmented,
    )


@dataclass(frozen=True, slots=True)
class ModelUse:
    """The GPUs of one model in a member; `telling`: those that tell their utilization."""

    sum: Sum
    telling: int


_USES = (
    (
        "fleet_member_gpu_utilization_ratio",
        "Mean utilization of the GPUs that tell it, from 0 to 1.",
        lambda use: use.sum.utilization,
    ),
    ("fleet_member_gpus_telling", "GPUs that the mean utilization is of.", lambda use: float(use.telling)),
    ("fleet_member_gpus_idle", "GPUs that a pod holds and uses by less than 5 %.", lambda use: float(use.sum.idle)),
    ("fleet_member_gpu_memory_used_bytes", "Used memory of the GPUs.", lambda use: use.sum.used_bytes),
    ("fleet_member_gpu_memory_bytes", "Memory of the GPUs.", lambda use: use.sum.memory_bytes),
    ("fleet_member_gpu_power_watts", "Power of the GPUs.", lambda use: use.sum.power_watts),
)


def of_gpu_use(members: Mapping[str, Mapping[str, ModelUse] | None]) -> Iterator[Metric]:
    """`members`: those that name a source, by model; None for one that tells nothing."""
    up = (((name,), float(found is not None)) for name, found in sorted(members.items()))
    yield gauge("fleet_member_gpu_source_up", "1 while a member's source tells GPU figures, else 0.", ("member",), up)
    for name, says, read in _USES:
        rows: list[Row] = []
        for member, found in sorted(members.items()):
            for model, use in (found or {}).items():
                value = read(use)
                if value is not None:
                    rows.append(((member, model), value))
        yield gauge(name, says, ("member", "model"), rows)
