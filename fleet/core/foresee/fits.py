"""The members where a unit would find room now, and why not in the others: each is asked alone, without quota."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from fleet.core.decide import decide
from fleet.core.model.reason import Reason
from fleet.core.model.unit import Phase, Unit
from fleet.core.snapshot import Snapshot


def fits(
    snapshot: Snapshot, unit: Unit, *, now: float, seed: int = 0, enough: Callable[[], bool] = lambda: False
) -> Mapping[str, Reason | None]:
    """By member the reason why a waiting unit does not start there; None where it does. Members that are not looked at
    before `enough` says True are left out. Raises BadSnapshot as `decide` does."""
    free = replace(unit, leaf=None, held=False, held_why="", waits_turn=False, suspended=False, backoff_until=None)
    occupants: dict[str, dict[str, Unit]] = {name: {} for name in snapshot.members}
    for other in snapshot.units.values():
        if other.phase is not Phase.WAITING and other.member in occupants:
            occupants[other.member][other.id] = replace(other, leaf=None)
    reasons: dict[str, Reason | None] = {}
    for name in sorted(snapshot.members):
        if reasons and enough():
            break
        units = {**occupants[name], free.id: free}
        alone = Snapshot(None, units, {name: snapshot.members[name]}, snapshot.config)
        reasons[name] = decide(alone, now=now, seed=seed, solver=None).reasons.get(free.id)
    return reasons
