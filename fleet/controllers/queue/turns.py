"""Queues that let only some of their jobs be considered: the first so many, one at a time, or none.

The queues' options of Kube Queue: the annotations `max-depth` and `wait-for-pods-running`; and `stopPolicy`, as Kueue's
queues have it. A unit that is not considered is held for this decision and says its obstacle, so that the core
need not know; so are jobs of a sweep beyond its bound (sweeps.py). All keep from starting only; a unit that is placed
or Reserved stays. One whose pods do not run within a time is not waited for any longer: a queue must not stand still
for an image that cannot be pulled. Of a queue that starts one at a time, the decision itself starts one at most
(`QuotaNode.one_at_a_time`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fleet.bindings import binding as b
from fleet.bindings.stopping import held_by, path_of, stops_of
from fleet.bindings.trees import one_at_a_time
from fleet.bindings.unit import BACKING_OFF, phase_of
from fleet.controllers.queue.sweeps import Sweep, beyond
from fleet.core.model.order import queue_order
from fleet.core.model.pod import PodView
from fleet.core.model.reason import named_to
from fleet.core.model.unit import Phase, Unit
from fleet.values.ports import Body, StoredObject
from fleet.values.untyped import digits
from fleet.wellknown import MAX_DEPTH_ANNOTATIONS

PODS_RUN_S = 600.0


@dataclass(frozen=True, slots=True)
class Turns:
    """How a queue's jobs are considered: the first `depth` in its order (None: all); the next only when all pods of
    the one before run. `stopped`: the path of the held queue, this one or one above it, for which none starts."""

    depth: int | None = None
    one_by_one: bool = False
    stopped: str = ""


def turns_of(queues: Iterable[Body]) -> dict[str, Turns]:
    """By full path, of the queues that ask for any of this. Text that does not parse asks for nothing. A held queue
    holds the queues below it."""
    turns_by_path: dict[str, Turns] = {}
    by_path = {path_of(queue): queue for queue in queues}
    stops = stops_of(by_path.values())
    for path, queue in by_path.items():
        depth = digits(next((text for name in MAX_DEPTH_ANNOTATIONS if (text := b.annotation(queue, name))), ""))
        turns = Turns(depth, one_at_a_time(queue), held_by(stops, path))
        if path and turns != Turns():
            turns_by_path[path] = turns
    return turns_by_path


def starting(unit: Unit, pods: Iterable[PodView]) -> bool:
    """Whether it has left its queue and some of its pods do not run yet."""
    run: dict[str, int] = {}
    for pod in pods:
        if pod.member == unit.member and pod.phase in ("Running", "Succeeded"):
            run[pod.component.lower()] = run.get(pod.component.lower(), 0) + 1
    placed = unit.phase is Phase.PLACED
    return placed and any(run.get(c.name.lower(), 0) < c.replicas for c in unit.components)


class Waits:
    """Says who is not considered, and keeps the units that say so, so that an equal picture has the same objects."""

    def __init__(self, patience_s: float) -> None:
        """`patience_s`: how long a queue waits for the pods of one unit, from when it was placed."""
        self._patience_s = patience_s
        self.again_at: float | None = None  # when to look again although nothing changed
        self._read: tuple[int, dict[str, Turns]] = (-1, {})
        self._waiters: dict[str, tuple[Unit, str, Unit]] = {}

    def look(
        self,
        queues: Sequence[StoredObject],
        units: Mapping[str, Unit],
        queue_unit: Callable[[str], StoredObject | None],
        pods_of: Callable[[str], Iterable[PodView]],
        now: float,
        sweeps: Mapping[str, Sweep],
    ) -> dict[str, Unit]:
        """The units of `units` that change. `queue_unit` and `pods_of`: of a unit, by its id. `sweeps`: of those that
        belong to one."""
        mark = max((queue.revision for queue in queues), default=0)
        if self._read[0] != mark:
            self._read = (mark, turns_of(queue.body for queue in queues))
        turns, waiters = self._read[1], {}
        lines: dict[str, list[Unit]] = {}
        ahead: dict[str, Unit] = {}
        until: dict[str, float] = {}
        for unit in units.values() if turns else ():
            leaf = unit.leaf
            if leaf is None or leaf not in turns:
                continue
            if unit.phase is not Phase.WAITING:
                over = (now if unit.placed_at is None else unit.placed_at) + self._patience_s
                if turns[leaf].one_by_one and over > now and starting(unit, pods_of(unit.id)):
                    until[leaf] = max(over, until.get(leaf, over))
                    ahead.setdefault(leaf, unit)
            elif not unit.held and not _backs_off(queue_unit(unit.id)):
                lines.setdefault(leaf, []).append(unit)
        self.again_at = min((until[leaf] for leaf in lines if leaf in until), default=None)
        for leaf, line in lines.items():
            before, stopped = ahead.get(leaf), turns[leaf].stopped
            for unit in line if before is not None or stopped else _beyond(turns[leaf].depth, line):
                why = _HELD.format(queue=stopped) if stopped else _why(leaf, turns[leaf].depth, before, unit)
                waiters[unit.id] = self._saying(unit, why, waits_turn=not stopped)
        for unit, why in beyond(sweeps, units, waiters, now):
            waiters[unit.id] = self._saying(unit, why, waits_turn=True)
        self._waiters = waiters
        return {key: known[2] for key, known in waiters.items()}

    def _saying(self, unit: Unit, why: str, *, waits_turn: bool) -> tuple[Unit, str, Unit]:
        """The unit as it is, and as it says why it is not considered. To release a unit whose queue is held changes
        nothing."""
        known = self._waiters.get(unit.id)
        if known is not None and known[0] is unit and known[1] == why:
            return known
        helps = waits_turn and unit.release_helps
        return unit, why, replace(unit, held=True, held_why=why, waits_turn=waits_turn, release_helps=helps)


_HELD = "the queue {queue} is held, and starts jobs once it is released"


def _beyond(depth: int | None, line: list[Unit]) -> list[Unit]:
    """The units of a queue that come after the first `depth`."""
    if depth is None or depth >= len(line):
        return []
    line.sort(key=queue_order)
    return line[depth:]


def _why(leaf: str, depth: int | None, before: Unit | None, unit: Unit) -> str:
    """Why `unit` is not considered. `before`: a unit of its queue that is starting."""
    if before is None:
        return f"{leaf} considers its first {'job' if depth == 1 else f'{depth} jobs'} only"
    named = named_to(unit.name.partition("/")[0], before.name)
    return f"{leaf} starts one job at a time, and waits for the pods of {named} to run"


def _backs_off(unit: StoredObject | None) -> bool:
    return unit is not None and phase_of(unit.body) == BACKING_OFF
