"""Builders for the core's tests: `unit("a").gpus(8).queue("root/ml")` reads like the story it tells.

Every builder is the value itself with methods that return a changed copy, so a half-built one can be shared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Member, Pool, Taint
from fleet.core.model.rule import PlacementRule
from fleet.core.model.unit import AffinityGroup, Component, NodeClaim, Phase, Requirement, Toleration, Unit
from fleet.core.quota.tree import MAX_JOBS, QuotaNode, QuotaTree
from fleet.core.snapshot import Config, Snapshot

GPU = "nvidia.com/gpu"
GIB = 1 << 30
NOW = 1_000_000.0


def amounts(*, gpu: int = 0, cpu: int = 0, memory: int = 0, pods: int = 0, **others: int) -> Amounts:
    """`cpu` in whole CPUs, `memory` in GiB."""
    return Amounts.of({GPU: gpu, "cpu": cpu * 1000, "memory": memory * GIB, "pods": pods, **others})


ANYWHERE = NodeClaim()


class UnitBuilder:
    def __init__(self, value: Unit) -> None:
        self.value = value

    def _with(self, **changes: Any) -> UnitBuilder:
        return UnitBuilder(replace(self.value, **changes))

    def gang(
        self, pods: int, *, gpu: int = 0, cpu: int = 0, memory: int = 0, claim: NodeClaim = ANYWHERE
    ) -> UnitBuilder:
        """Adds a component of equal pods."""
        first = self.value.components == ONE_GPU
        name = ("worker", "master", "launcher", "chief")[0 if first else len(self.value.components)]
        part = Component(name, pods, amounts(gpu=gpu, cpu=cpu, memory=memory, pods=1), claim)
        return self._with(components=(part,) if first else (*self.value.components, part))

    def gpus(self, count: int, *, pods: int = 1) -> UnitBuilder:
        return self.gang(pods, gpu=count)

    def queue(self, leaf: str | None) -> UnitBuilder:
        return self._with(leaf=leaf)

    def priority(self, priority: int) -> UnitBuilder:
        return self._with(priority=priority)

    def since(self, seconds_ago: float) -> UnitBuilder:
        return self._with(enqueued_at=NOW - seconds_ago)

    def only_in(self, *groups: str | tuple[str, ...]) -> UnitBuilder:
        """Affinity groups in order, each a member or several."""
        sets = [frozenset([group] if isinstance(group, str) else group) for group in groups]
        return self._with(affinity_groups=tuple(AffinityGroup(f"group-{i}", s) for i, s in enumerate(sets)))

    def runs_in(self, member: str, *, visible: int | None = None) -> UnitBuilder:
        """Placed; all its pods are seen unless `visible` says how many of each component are."""
        seen = tuple((c.name, c.replicas if visible is None else visible) for c in self.value.components)
        return self._with(phase=Phase.PLACED, member=member, placed_at=NOW - 5, visible=seen)

    def evicting_from(self, member: str) -> UnitBuilder:
        return UnitBuilder(replace(self.runs_in(member).value, phase=Phase.EVICTING))

    def within(self, topology: str) -> UnitBuilder:
        """The whole gang on nodes with one value of this label."""
        return self._with(rules=(PlacementRule(topology),) if topology else ())

    def having(self, **changes: Any) -> UnitBuilder:
        """Any other field of Unit."""
        return self._with(**changes)


ONE_GPU = (Component("worker", 1, amounts(gpu=1, pods=1)),)


def unit(name: str) -> UnitBuilder:
    """A waiting gang of one pod with one GPU, outside quota, enqueued a minute ago."""
    return UnitBuilder(Unit(id=name, name=f"default/{name}", components=ONE_GPU, enqueued_at=NOW - 60))


class MemberBuilder:
    def __init__(self, value: Member) -> None:
        self.value = value

    def nodes(
        self,
        count: int,
        *,
        gpu: int = 8,
        cpu: int = 96,
        memory: int = 768,
        free_gpu: int | None = None,
        free_cpu: int | None = None,
        free_memory: int | None = None,
        labels: dict[str, str] | None = None,
        taints: tuple[Taint, ...] = (),
    ) -> MemberBuilder:
        """Adds a pool of equal nodes, all free unless `free_…` says what is left of each."""
        whole = amounts(gpu=gpu, cpu=cpu, memory=memory, pods=110)
        left = amounts(
            gpu=gpu if free_gpu is None else free_gpu,
            cpu=cpu if free_cpu is None else free_cpu,
            memory=memory if free_memory is None else free_memory,
            pods=110,
        )
        pool = Pool(tuple(sorted((labels or {}).items())), taints, "", ((left, count),), whole)
        return MemberBuilder(replace(self.value, pools=(*self.value.pools, pool)))

    def could_add(self, count: int, **nodes: Any) -> MemberBuilder:
        """Nodes that an autoscaler could add, as for `nodes`."""
        pools = member("").nodes(count, **nodes).value.pools
        return MemberBuilder(replace(self.value, potential=(*self.value.potential, *pools)))

    def having(self, **changes: Any) -> MemberBuilder:
        return MemberBuilder(replace(self.value, **changes))

    def not_ready(self, why: str = "") -> MemberBuilder:
        return self.having(ready=False, not_ready_reason=why)


def member(name: str) -> MemberBuilder:
    """A ready member without nodes."""
    return MemberBuilder(Member(name))


def tree(**leaves: dict[str, Any]) -> QuotaTree:
    """A root that limits nothing, and leaves: tree(ml={"max": {"nvidia.com/gpu": 8}, "policy": "Block"}). A leaf
    named a__b hangs below a node a. `jobs` is short for max-jobs."""
    nodes: dict[str, dict[str, Any]] = {"root": {"parent": None}}
    for name, given in leaves.items():
        path, parent = "root", "root"
        steps = name.split("__")
        for step in steps:
            parent, path = path, f"{path}/{step}"
            nodes.setdefault(path, {"parent": parent})
        if "jobs" in given:
            given = {**given, "max": {**given.get("max", {}), MAX_JOBS: given["jobs"]}}
        nodes[path].update({key: value for key, value in given.items() if key != "jobs"})
    children = {path: tuple(p for p, n in nodes.items() if n["parent"] == path) for path in nodes}
    return QuotaTree(
        "root",
        {
            path: QuotaNode(path=path, name=path.rpartition("/")[2], children=children[path], **node)
            for path, node in nodes.items()
        },
    )


def snapshot(*parts: UnitBuilder | MemberBuilder | QuotaTree | Config) -> Snapshot:
    return Snapshot(
        tree=next((p for p in parts if isinstance(p, QuotaTree)), None),
        units={p.value.id: p.value for p in parts if isinstance(p, UnitBuilder)},
        members={p.value.name: p.value for p in parts if isinstance(p, MemberBuilder)},
        config=next((p for p in parts if isinstance(p, Config)), Config()),
    )


__all__ = [
    "GIB",
    "GPU",
    "MAX_JOBS",
    "NOW",
    "NodeClaim",
    "Requirement",
    "Taint",
    "Toleration",
    "amounts",
    "member",
    "snapshot",
    "tree",
    "unit",
]
