"""Queue order: the order of the units within one queue. Every part that compares two units of a queue asks here."""

from __future__ import annotations

from fleet.core.model.unit import Unit


def queue_order(unit: Unit) -> tuple[int, float, str, str]:
    """Return the sort key of a unit in its queue: priority, enqueue time, name, id; the smallest key is first."""
    return (-unit.priority, unit.enqueued_at, unit.name, unit.id)
