"""When time alone changes what would be decided, so that the decider looks again although nothing happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fleet.model.reason import Code, Reason
from fleet.model.unit import Phase
from fleet.snapshot import Snapshot

STEP_S = 1.0  # gangs whose protection ends within this are looked at together


def next_change(snapshot: Snapshot, reasons: Mapping[str, Reason], now: float) -> float | None:
    """The first epoch second after `now` at which a back-off or a claim ends, or, while somebody waits who has a right
    to room, at which some gang may be evicted. `reasons`: of the plan for the snapshot."""
    return min((at for at in _instants(snapshot, reasons) if at > now), default=None)


def _instants(snapshot: Snapshot, reasons: Mapping[str, Reason]) -> Iterator[float]:
    config = snapshot.config
    hungry = config.reclaim and any(_hungry(reason) for reason in reasons.values())
    for unit in snapshot.units.values():
        if unit.phase is Phase.WAITING:
            if unit.backoff_until is not None:
                yield unit.backoff_until
            if unit.claim is not None:
                yield unit.claim.until
        elif hungry and unit.phase is Phase.PLACED and unit.placed_at is not None and unit.preemptible:
            over = unit.placed_at + config.protection_s
            yield over - over % STEP_S + STEP_S


def _hungry(reason: Reason) -> bool:
    """Whether it waits for what it may count on, and nothing leaves for it yet."""
    return reason.numbers.get("tier") in ("Guaranteed", "Share") and reason.code is not Code.ROOM_CLAIMED
