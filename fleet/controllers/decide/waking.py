"""When time alone changes what would be decided, so that the decider looks again although nothing happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fleet.model.order import queue_order
from fleet.model.reason import Code, Reason, Severity
from fleet.model.unit import Phase, Unit
from fleet.placement.preemption.rights import LOWER, policy_of
from fleet.snapshot import Config, Snapshot

STEP_S = 1.0  # gangs whose protection ends within this are looked at together


def next_change(snapshot: Snapshot, reasons: Mapping[str, Reason], now: float) -> float | None:
    """The first epoch second after `now` at which a back-off or a claim ends, or a unit has waited long enough to
    become the head of its leaf. While a unit with a right to room waits, also the second at which some gang may be
    evicted. `reasons`: of the plan for the snapshot."""
    return min((at for at in _instants(snapshot, reasons) if at > now), default=None)


def _instants(snapshot: Snapshot, reasons: Mapping[str, Reason]) -> Iterator[float]:
    config = snapshot.config
    tree = snapshot.tree
    urgent = tree is not None and any(policy_of(tree, path) == LOWER for path in tree.nodes)
    hungry = config.reclaim and any(_hungry(reason, urgent) for reason in reasons.values())
    headed = {unit.leaf for unit in snapshot.units.values() if unit.head is not None}
    firsts: dict[str | None, Unit] = {}
    for unit in snapshot.units.values():
        if unit.phase is Phase.WAITING:
            if unit.backoff_until is not None:
                yield unit.backoff_until
            if unit.claim is not None:
                yield unit.claim.until
            reason = reasons.get(unit.id)
            if config.head_after_s > 0 and unit.leaf not in headed and reason and reason.severity is Severity.INFO:
                if reason.numbers.get("tier", "Share") != "Borrowed":
                    yield _late(unit, config)
                elif unit.leaf not in firsts or queue_order(unit) < queue_order(firsts[unit.leaf]):
                    firsts[unit.leaf] = unit
        elif hungry and unit.phase is Phase.PLACED and unit.placed_at is not None and unit.preemptible:
            over = unit.placed_at + config.protection_s
            yield over - over % STEP_S + STEP_S
            if unit.share_until is not None:
                yield unit.share_until
    # A unit that borrows beside the younger work of its leaf may become the head, if it is the first.
    yield from (_late(unit, config) for unit in firsts.values())


def _late(unit: Unit, config: Config) -> float:
    """When it has waited long enough to become its leaf's head."""
    late = unit.enqueued_at + config.head_after_s
    return late - late % STEP_S + STEP_S


def _hungry(reason: Reason, urgent: bool) -> bool:
    """Whether it waits for what it may take back, and nothing leaves for it yet. `urgent`: there are leaves in which
    priority alone gives a right to it."""
    tier = reason.numbers.get("tier")
    return reason.code is not Code.ROOM_CLAIMED and (tier in ("Guaranteed", "Share") or (urgent and tier is not None))
