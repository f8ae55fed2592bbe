"""Sweeps that run so many of their jobs at once: the others are not considered."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from fleet.bindings import binding as b
from fleet.core.model.order import queue_order
from fleet.core.model.unit import Phase, Unit
from fleet.values.ports import Body
from fleet.values.untyped import digits, text
from fleet.wellknown import ANNOTATION_AT_MOST, LABEL_SWEEP


@dataclass(frozen=True, slots=True)
class Sweep:
    """The sweep of a job: `most` of its jobs run at once."""

    namespace: str
    name: str
    most: int


def sweep_of(binding: Body) -> Sweep | None:
    """None for a job of no sweep, and of one without a bound."""
    most = digits(b.annotation(binding, ANNOTATION_AT_MOST))
    name = b.labels_of(binding).get(LABEL_SWEEP)
    return Sweep(text(binding["metadata"].get("namespace")), name, most) if name and most else None


def beyond(
    sweeps: Mapping[str, Sweep], units: Mapping[str, Unit], exclusions: Container[str], now: float
) -> Iterator[tuple[Unit, str]]:
    """The units of sweeps for which too many others run, and why each waits. One that backs off comes last: it keeps
    no other from starting, and starts only where it may. `sweeps`: of units, by id. `exclusions`: units that are not
    considered anyhow. Where jobs of one sweep disagree, the least number counts."""
    groups: dict[tuple[str, str], list[Unit]] = {}
    most: dict[tuple[str, str], int] = {}
    for key, sweep in sweeps.items():
        name = sweep.namespace, sweep.name
        groups.setdefault(name, []).append(units[key])
        most[name] = min(sweep.most, most.get(name, sweep.most))
    for name, group in groups.items():
        free = most[name] - sum(unit.phase is not Phase.WAITING for unit in group)
        line = [unit for unit in group if unit.phase is Phase.WAITING and not unit.held and unit.id not in exclusions]
        line.sort(key=lambda unit: ((unit.backoff_until or 0.0) > now, queue_order(unit)))
        for unit in line[max(0, free) :]:
            yield unit, f"sweep {name[1]} runs at most {most[name]} at once"
