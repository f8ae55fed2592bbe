"""Queues that start nothing: their `stopPolicy`, as Kueue's queues have it. It holds for the queues below them, too."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from fleet.bindings import binding as b
from fleet.values.ports import Body
from fleet.values.untyped import mapping, text
from fleet.wellknown import ANNOTATION_QUOTA_FULLNAME

NONE = "None"  # jobs start
HOLD = "Hold"  # no job starts; jobs that run go on
DRAIN = "HoldAndDrain"  # no job starts, and jobs that run are evicted


def path_of(queue: Body) -> str:
    return b.annotation(queue, ANNOTATION_QUOTA_FULLNAME)


def stops_of(queues: Iterable[Body]) -> dict[str, str]:
    """The policy of each queue that starts nothing, by full path."""
    said = {path_of(queue): text(mapping(queue.get("spec")).get("stopPolicy")) for queue in queues}
    return {path: policy for path, policy in said.items() if path and policy in (HOLD, DRAIN)}


def held_by(stops: Container[str], path: str) -> str:
    """The nearest queue, the one of `path` or one above it, that keeps its jobs from starting; "" when none does."""
    while path and path not in stops:
        path = path.rpartition("/")[0]
    return path


def drained_by(stops: Mapping[str, str], path: str) -> str:
    """The nearest such queue for which its jobs are evicted; "" when none is."""
    return held_by({name for name, policy in stops.items() if policy == DRAIN}, path)


def in_force(stops: Mapping[str, str], path: str) -> str:
    """The policy that holds for the queue of `path`."""
    if drained_by(stops, path):
        return DRAIN
    return HOLD if held_by(stops, path) else NONE
