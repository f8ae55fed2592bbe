"""A reservation in the profile: what its member and its quota have at its start, beside all that will be there then.

A unit that ends before the start takes nothing from it. A unit that outlasts the start is counted at the nodes where
it does the most harm, and in the usage of the quota path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fleet.model.unit import Unit
from fleet.placement.candidates.candidate import Candidate
from fleet.placement.packing.space import Shape
from fleet.placement.reservation.nodes import SpanNodes
from fleet.placement.reservation.reservation import Reservation
from fleet.quota.usage import Usage


class Span:
    """See the module. Changes with what starts."""

    def __init__(
        self, reservation: Reservation, nodes: SpanNodes, usage: Usage | None, shapes: Sequence[Shape], now: float
    ) -> None:
        """`usage`: at the start, the reservation itself included; None where no tree limits it."""
        self.reservation = reservation
        self.usage = usage
        self._nodes: SpanNodes | None = nodes
        self._shapes = shapes
        self._now = now
        self._spared: dict[int, bool] = {}

    @property
    def holder(self) -> Candidate:
        return self.reservation.holder

    @property
    def member(self) -> str:
        return self.reservation.member

    def copy(self) -> Span:
        made = Span.__new__(Span)
        made.__dict__.update(self.__dict__)
        made._nodes = self._nodes.copy() if self._nodes is not None else None
        made.usage = self.usage.copy() if self.usage is not None else None
        made._spared = {}
        return made

    def close(self) -> None:
        """Let nothing more in: what the member has at the start is not known any more."""
        self._nodes = None
        self._spared.clear()

    def outlasted_by(self, unit: Unit) -> bool:
        """Whether a unit that starts now may still be there at the start."""
        return self.end_of(unit) > self.reservation.start

    def end_of(self, unit: Unit) -> float:
        """When a unit that starts now ends, as an epoch second; infinite where nobody knows."""
        return float("inf") if unit.walltime_s is None else max(self._now, self._now + unit.walltime_s)

    def spares_room(self, shape: int, gangs: int = 1) -> bool:
        """Whether the reserved gang still fits its member beside so many gangs of this shape that outlast its start."""
        known = self._spared.get(shape)
        if known is None or gangs != 1:
            nodes = self._nodes.copy() if self._nodes is not None else None
            mine = self._shapes[self.holder.shape]
            others = tuple(replace(part, replicas=part.replicas * gangs) for part in self._shapes[shape])
            known = nodes is not None and nodes.crowd(others, mine) and nodes.takes(mine)
            if gangs == 1:
                self._spared[shape] = known
        return known

    def spares_quota(self, candidate: Candidate) -> bool:
        """Whether quota has room for the reserved gang beside a candidate that outlasts its start."""
        account = candidate.account
        return account is None or self.usage is None or self.usage.refusal(account, candidate.request) is None

    def quota_room(self, node: str, resource: str) -> int | None:
        """What quota leaves beside the reserved gang at a node; None where nothing limits it."""
        return self.usage.room(node, resource) if self.usage is not None else None

    def see(self, candidate: Candidate, member: str) -> None:
        """Count a unit that starts now."""
        if candidate.unit.id == self.holder.unit.id or not self.outlasted_by(candidate.unit):
            return
        if member == self.member and self._nodes is not None:
            self._nodes.crowd(self._shapes[candidate.shape], self._shapes[self.holder.shape])
            self._spared = {shape: False for shape, spared in self._spared.items() if not spared}
        if candidate.account is not None and self.usage is not None:
            self.usage.charge(candidate.account, candidate.request)
