"""A snapshot: all inputs of one decision, as one immutable value."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace

from fleet.core.model.member import Member
from fleet.core.model.unit import Unit
from fleet.core.quota.tree import QuotaTree
from fleet.core.snapshot.backlog import Backlog

MOST_NODES = 1_000_000  # of one member; a cluster has some thousands


@dataclass(frozen=True, slots=True)
class Config:
    """The settings that an operator may tune. Times in seconds."""

    solve_limit_s: float = 1.5
    relative_gap: float = 0.001
    deterministic_limit: float = 5.0
    reclaim: bool = False  # whether plans may evict; only for a caller that carries evictions and claims out
    protection_s: float = 300.0  # for so long after its start no unit is evicted
    head_after_s: float = 600.0  # a unit that waited so long becomes its leaf's head and collects room; 0: no unit does
    guarantee_delay_s: float | None = None  # overdue heads bind guaranteed units so long; None: head_after_s
    claim_s: float = 900.0  # for so long freed room is kept for the unit that it was freed for

    @property
    def delay_s(self) -> float:
        """For how long guaranteed units of other leaves wait for an overdue head; 0: such units never wait."""
        return self.head_after_s if self.guarantee_delay_s is None else self.guarantee_delay_s

    def problems(self) -> list[tuple[str, str]]:
        """Settings that cannot be meant, as (field, problem)."""
        numbers = {item.name: getattr(self, item.name) or 0 for item in fields(self) if item.name != "reclaim"}
        found = [(f"config.{name}", f"{value} is below zero") for name, value in numbers.items() if value < 0]
        if self.reclaim and self.claim_s == 0:
            found.append(("config.claim_s", "keeps nothing of what is freed: give some seconds, or no reclaim"))
        return found


@dataclass(frozen=True, slots=True)
class SnapshotChanges:
    """The changes since a snapshot. `tree` and `config` count only when `new_tree` and `new_config` say so, since None
    is a tree that may be meant. Removing a key that is not there changes nothing."""

    put_units: tuple[Unit, ...] = ()
    removed_units: tuple[str, ...] = ()
    put_members: tuple[Member, ...] = ()
    removed_members: tuple[str, ...] = ()
    tree: QuotaTree | None = None
    new_tree: bool = False
    config: Config = Config()
    new_config: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`tree` None: no quota applies and units with a leaf wait for NoQueue. Units are keyed by id, members by name."""

    tree: QuotaTree | None = None
    units: Mapping[str, Unit] = field(default_factory=dict)
    members: Mapping[str, Member] = field(default_factory=dict)
    config: Config = Config()
    _backlog: Backlog | None = field(default=None, init=False, repr=False, compare=False)

    @staticmethod
    def of(units: Iterable[Unit] = (), members: Iterable[Member] = (), tree: QuotaTree | None = None) -> Snapshot:
        return Snapshot(tree, {unit.id: unit for unit in units}, {member.name: member for member in members})

    def apply(self, changes: SnapshotChanges) -> Snapshot:
        """The snapshot after the changes; this one stays as it is. Removals count before puts. The cost follows from
        the changes, and from a copy of the two mappings: knowledge about the rest is handed on."""
        units, members = self.units, self.members
        tree = changes.tree if changes.new_tree else self.tree
        if changes.put_units or changes.removed_units:
            changed = dict(units)
            for key in changes.removed_units:
                changed.pop(key, None)
            changed.update((unit.id, unit) for unit in changes.put_units)
            units = changed
        if changes.put_members or changes.removed_members:
            others = dict(members)
            for name in changes.removed_members:
                others.pop(name, None)
            others.update((member.name, member) for member in changes.put_members)
            members = others
        config = changes.config if changes.new_config else self.config
        after = replace(self, units=units, members=members, tree=tree, config=config)
        after._take_over(self, changes.put_units, changes.removed_units)
        return after

    def following(self, before: Snapshot) -> Snapshot:
        """This one, which knows what `before` knew of the units that are the very same in both. For a caller that makes
        each snapshot from its parts and keeps the unchanged ones."""
        known = before.units
        put = [unit for key, unit in self.units.items() if known.get(key) is not unit]
        self._take_over(before, put, known.keys() - self.units.keys())
        return self

    def _take_over(self, before: Snapshot, put: Collection[Unit], removed: Collection[str]) -> None:
        """The index of `before`, changed by the differences. Where most does, it is made anew when it is asked for."""
        backlog = before._backlog
        same = self.tree is before.tree or self.tree == before.tree  # the tree says who is charged where
        few = len(put) + len(removed) <= max(16, len(self.units) // 2)
        if backlog is not None and self._backlog is None and same and few:
            if put or removed:
                backlog = backlog.changed(self.tree, before.units, put, removed)
            object.__setattr__(self, "_backlog", backlog)

    @property
    def backlog(self) -> Backlog:
        """The units sorted into lots: made on first use, handed on by `apply`."""
        if self._backlog is None:
            object.__setattr__(self, "_backlog", Backlog.of(self.tree, self.units))
        assert self._backlog is not None
        return self._backlog

    def problems(self) -> tuple[tuple[str, str], ...]:
        """Contradictions that no decision can be made about, as (field, problem); empty for a sound snapshot. Less
        room than nothing is no contradiction (a node may be overcommitted): nothing fits there."""
        problems: list[tuple[str, str]] = list(self.tree.problems()) if self.tree is not None else []
        problems += self.config.problems()
        for key in sorted(self.backlog.wrong):
            problems += self.backlog.wrong[key]
        for name in sorted(self.members):
            member = self.members[name]
            if member.name != name:
                problems.append((f"members[{name}].name", f"is {member.name!r}"))
            for where, pools in (("pools", member.pools), ("potential", member.potential)):
                for index, pool in enumerate(pools):
                    if any(nodes < 0 for _, nodes in pool.free):
                        problems.append((f"members[{name}].{where}[{index}].free", "a number of nodes is below zero"))
            total = sum(max(0, nodes) for pool in (*member.pools, *member.potential) for _, nodes in pool.free)
            if total > MOST_NODES:
                problems.append((f"members[{name}]", f"has {total} nodes, more than {MOST_NODES}"))
        return tuple(problems)
