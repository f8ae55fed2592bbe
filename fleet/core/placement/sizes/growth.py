"""Growth into what is free: unit by unit, each by as many steps as there are quota and room for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Container, Iterable
from dataclasses import replace
from functools import partial

from fleet.core.model.amounts import Amounts
from fleet.core.model.order import queue_order
from fleet.core.model.unit import Component, Phase, Unit
from fleet.core.placement.greedy.situation import Situation
from fleet.core.placement.packing.draft import Fit
from fleet.core.placement.packing.room import MemberRoom
from fleet.core.placement.sizes.surplus import Replicas, Surplus
from fleet.core.quota.limits import COUNTS
from fleet.core.quota.usage import account_of, request_of


class Growth:
    """Growth into what is free, one unit after the other."""

    def __init__(self, situation: Situation, surplus: Surplus, giving: Collection[str]) -> None:
        """`giving`: members in which pods go, so that others start: until then, nothing grows there."""
        self._situation = situation
        self._surplus = surplus
        self._rooms: dict[str, MemberRoom] = {}
        self._usage = surplus.profile.usage.copy() if surplus.profile.usage is not None else None
        surplus.charge(self._usage)
        held = situation.snapshot.backlog.holding
        self._closed = {*giving, *(held[key].member for key in situation.lost if key in held)}

    def able(self, running: Iterable[Unit], barred: Container[str]) -> list[Unit]:
        """The units that may get more, in queue order: of those that run, and of those that start. Not those that may
        not be preempted: nobody could take it back. `barred`: not these either."""
        new = (replace(candidate.unit, member=member) for candidate, member in self._surplus.starts)
        able = [unit for unit in running if self._may_grow(unit)]
        able += [unit for unit in new if self._may_start_larger(unit)]
        return sorted((unit for unit in able if unit.preemptible and unit.id not in barred), key=queue_order)

    def _may_grow(self, unit: Unit) -> bool:
        """Whether a unit that runs may grow now."""
        member = self._situation.snapshot.members.get(unit.member or "")
        if unit.phase is not Phase.PLACED or member is None or not member.ready or unit.member in self._closed:
            return False
        sizes, protection_s = unit.sizes, self._situation.snapshot.config.protection_s
        if sizes is None or not sizes.settled or not sizes.whole:
            return False
        return sizes.shrunk_at is None or self._situation.now - sizes.shrunk_at >= protection_s

    def _may_start_larger(self, unit: Unit) -> bool:
        """Whether a unit may start with more than its least: not where all of it must lie in one domain, which the
        member chooses."""
        return bool(unit.sizes and unit.sizes.whole) and not unit.confined and unit.member not in self._closed

    def of(self, unit: Unit) -> Replicas:
        """The replicas of its components, of those that grow."""
        assert unit.sizes is not None
        asked = {part.name: part.replicas for part in unit.sizes.whole}
        has = {part.name: part for part in unit.components}
        grown: dict[str, int] = {}
        for name, step in unit.sizes.steps:
            part = has[name]
            steps = range(max(0, asked.get(name, 0) - part.replicas) // step, 0, -1)
            fits = partial(self._fits, unit, part, step)
            at = bisect_left(steps, True, key=fits)
            if at < len(steps):
                grown[name] = part.replicas + step * steps[at]
                self._take(unit, replace(part, replicas=step * steps[at]))
        return tuple(grown.items())

    def _fits(self, unit: Unit, part: Component, step: int, steps: int) -> bool:
        """Whether there are quota and room for so many steps more."""
        more = replace(part, replicas=step * steps)
        account, request = self._charge(unit, more)
        if account is not None and self._usage is not None and self._usage.refusal(account, request) is not None:
            return False
        return self._fit(unit, more) is not None

    def _take(self, unit: Unit, more: Component) -> None:
        account, request = self._charge(unit, more)
        if account is not None and self._usage is not None:
            self._usage.charge(account, request)
        fit = self._fit(unit, more)
        assert fit is not None
        self._room(unit.member or "").take(fit)

    def _fit(self, unit: Unit, more: Component) -> Fit | None:
        space, room = self._situation.space, self._room(unit.member or "")
        shape = space.shape([more])
        return room.fit(shape, space.devices) or room.fit(shape, space.devices, potential=True)

    def _room(self, name: str) -> MemberRoom:
        if name not in self._rooms:
            surplus = self._surplus
            self._rooms[name] = surplus.room(name) if name in surplus.members else surplus.profile.rooms[name].copy()
        return self._rooms[name]

    def _charge(self, unit: Unit, more: Component) -> tuple[str | None, Amounts]:
        """Where these pods are charged, and what: no further job."""
        tree = self._situation.snapshot.tree
        request = request_of(replace(unit, components=(more,)))
        pods = Amounts.of({name: amount for name, amount in request.items_ if name not in COUNTS})
        return account_of(tree, unit) if tree is not None else None, pods
