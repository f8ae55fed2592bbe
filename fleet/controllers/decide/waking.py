"""When time alone changes what would be decided, so that the decider looks again although nothing happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fleet.core.model.order import queue_order
from fleet.core.model.reason import Code, Reason, Severity
from fleet.core.model.tier import Tier
from fleet.core.model.unit import Phase, Unit
from fleet.core.placement.preemption.state import LOWER, policy_of
from fleet.core.placement.reservation.heads import overdue_change
from fleet.core.snapshot import Snapshot

STEP_S = 1.0  # changes within this are looked at together


def next_change(snapshot: Snapshot, reasons: Mapping[str, Reason], now: float) -> float | None:
    """The first epoch second after `now` at which a back-off or a claim ends, a unit has waited long enough to become
    the head of its leaf, guaranteed units begin or cease to wait for a head, or an elastic unit may grow again. While a
    unit with a right to room waits, also the second at which some gang may be evicted. `reasons`: of the plan for the
    snapshot."""
    return min((at for at in _instants(snapshot, reasons, now) if at > now), default=None)


def _instants(snapshot: Snapshot, reasons: Mapping[str, Reason], now: float) -> Iterator[float]:
    config = snapshot.config
    tree = snapshot.tree
    urgent = tree is not None and any(policy_of(tree, path) == LOWER for path in tree.nodes)
    hungry = config.reclaim and any(_hungry(reason, urgent) for reason in reasons.values())
    for unit in snapshot.units.values():
        if unit.phase is Phase.WAITING:
            if unit.backoff_until is not None:
                yield unit.backoff_until
            if unit.claim is not None:
                yield unit.claim.until
            overdue = overdue_change(unit, config, now) if unit.head is not None else None
            if overdue is not None:
                yield _whole(overdue)
        elif hungry and unit.phase is Phase.PLACED and unit.placed_at is not None and unit.preemptible:
            yield _whole(unit.placed_at + config.protection_s)
            if unit.share_until is not None:
                yield unit.share_until
    yield from _of_sizes(snapshot)
    if config.head_after_s > 0:
        yield from (_whole(unit.enqueued_at + config.head_after_s) for unit in _next_heads(snapshot, reasons))


def _of_sizes(snapshot: Snapshot) -> Iterator[float]:
    """When units that gave up replicas may grow again, and when their pods are no longer waited for."""
    for unit in snapshot.backlog.sized.values():
        if unit.sizes is not None and unit.sizes.shrunk_at is not None:
            yield unit.sizes.shrunk_at + snapshot.config.protection_s
            yield unit.sizes.shrunk_at + snapshot.config.claim_s


def _next_heads(snapshot: Snapshot, reasons: Mapping[str, Reason]) -> Iterator[Unit]:
    """The units that may become the head of their leaf once they have waited past the bound. A leaf that has a head
    gets another one only from the units before it. A unit that borrows beside the younger work of its leaf may become
    the head, if it is the first."""
    units = snapshot.units.values()
    heads = {unit.leaf: queue_order(unit) for unit in units if unit.head is not None}
    firsts: dict[str | None, Unit] = {}
    for unit in units:
        reason = reasons.get(unit.id)
        if unit.phase is not Phase.WAITING or unit.head is not None or reason is None:
            continue
        if reason.severity is not Severity.INFO or (unit.leaf in heads and queue_order(unit) > heads[unit.leaf]):
            continue
        if reason.tier is not Tier.BORROWED:
            yield unit
        elif unit.leaf not in firsts or queue_order(unit) < queue_order(firsts[unit.leaf]):
            firsts[unit.leaf] = unit
    yield from firsts.values()


def _whole(at: float) -> float:
    """The end of the step in which a change lies."""
    return at - at % STEP_S + STEP_S


def _hungry(reason: Reason, urgent: bool) -> bool:
    """Whether a unit waits for what it may take back, and nothing leaves for it yet. A head that crosses its leaf's
    share says Share, and may. `urgent`: there are leaves in which priority alone gives a right to it."""
    able = reason.tier in (Tier.GUARANTEED, Tier.SHARE) or (urgent and reason.tier is not None)
    return able and reason.code is not Code.ROOM_CLAIMED
