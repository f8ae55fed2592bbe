"""Jobs from a workload trace. The names in its first line say which format it is:

- Philly gangs: submit_s, vc (the leaf), job_id, num_gpu, duration_s.
- Philly as Sia has it: timestamp, duration, num_gpus, cluster (the leaf).
- openb: name, cpu_milli, memory_mib, num_gpu, gpu_spec, qos (the leaf), creation_time, deletion_time and
  scheduled_time. A pod ran from its scheduled_time (its creation_time where that is blank) to its deletion_time.

A trace says how many GPUs a job had, not of which pods it was made: with 8 or more it is pods of 8 (and one of what is
left over), else one pod. Part of a GPU counts as one. Jobs of no length are left out, since nothing can be learnt from
them; so are those that ask for nothing.
"""

from __future__ import annotations

from calendar import timegm
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import strptime

from fleet.core.model.amounts import Amounts
from fleet.core.model.unit import Component, NodeClaim, Requirement
from fleet.simulate.replay.table import BadTrace, TableRow, header, rows

GPU = "nvidia.com/gpu"
MODEL = "gpu-model"  # the node label that a gpu_spec asks for
GPUS_PER_POD = 8
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class TraceJob:
    """`submit_s` counts from the first job of the trace; `gpus` is the sum over the gang."""

    id: str
    queue: str
    submit_s: float
    duration_s: float
    gpus: int
    components: tuple[Component, ...]


def read(path: Path) -> list[TraceJob]:
    """All jobs, by time of submission. Raises BadTrace."""
    names = header(path)
    for columns, read_row in _FORMATS:
        if set(columns) <= set(names):
            jobs = [job for job in read_row(rows(path, columns)) if job.duration_s > 0 and job.components]
            break
    else:
        raise BadTrace(f"{path}: line 1: not the columns of a trace that is known: {', '.join(names)[:200]}")
    if not jobs:
        raise BadTrace(f"{path}: has no job")
    ids: set[str] = set()
    for job in jobs:
        if job.id in ids:
            raise BadTrace(f"{path}: two jobs are named {job.id}")
        ids.add(job.id)
    jobs.sort(key=lambda job: (job.submit_s, job.id))
    first = jobs[0].submit_s
    return [TraceJob(j.id, j.queue, j.submit_s - first, j.duration_s, j.gpus, j.components) for j in jobs]


@cache  # jobs alike share one value
def gang(gpus: int, cpu_milli: int = 0, memory: int = 0, models: tuple[str, ...] = ()) -> tuple[Component, ...]:
    """The components of a job. `cpu_milli` and `memory` are of one pod, which all but single pods leave out."""
    term = ((Requirement(MODEL, "In", models),),) if models else ()
    claim = NodeClaim(affinity=term)
    whole, rest = divmod(gpus, GPUS_PER_POD) if gpus > GPUS_PER_POD else (1, 0)
    size = GPUS_PER_POD if gpus > GPUS_PER_POD else gpus
    other = {"cpu": cpu_milli, "memory": memory}
    if not size and not cpu_milli and not memory:
        return ()
    parts = [Component("worker", whole, Amounts.of({GPU: size, **other}), claim)]
    if rest:
        parts.append(Component("rest", 1, Amounts.of({GPU: rest, **other}), claim))
    return tuple(parts)


def _philly(lines: Iterator[TableRow]) -> Iterator[TraceJob]:
    for row in lines:
        gpus = row.whole("num_gpu")
        yield TraceJob(
            _name(row, "job_id"), _name(row, "vc"), row.number("submit_s"), row.number("duration_s"), gpus, gang(gpus)
        )


def _sia(lines: Iterator[TableRow]) -> Iterator[TraceJob]:
    for row in lines:
        try:
            submit = float(timegm(strptime(row.text("timestamp")[:19], "%Y-%m-%d %H:%M:%S")))
        except ValueError:
            raise row.bad("timestamp", f"{row.text('timestamp')!r} is not YYYY-MM-DD HH:MM:SS") from None
        gpus = row.whole("num_gpus")
        yield TraceJob(f"job-{row.line}", _name(row, "cluster"), submit, row.number("duration"), gpus, gang(gpus))


def _openb(lines: Iterator[TableRow]) -> Iterator[TraceJob]:
    for row in lines:
        created = row.number("creation_time")
        began = row.number("scheduled_time") if row.text("scheduled_time") else created
        ended = row.number("deletion_time")
        if ended < began:
            raise row.bad("deletion_time", f"{ended:g} is before it began")
        gpus = row.whole("num_gpu")
        models = tuple(sorted(filter(None, row.text("gpu_spec").split("|"))))
        components = gang(gpus, row.whole("cpu_milli"), row.whole("memory_mib") * MIB, models)
        yield TraceJob(_name(row, "name"), _name(row, "qos"), created, ended - began, gpus, components)


def _name(row: TableRow, column: str) -> str:
    text = row.text(column)
    if not text:
        raise row.bad(column, "is empty")
    if "/" in text:
        raise row.bad(column, f"{text!r} is no name, which has no slash")
    return text


_FORMATS: tuple[tuple[tuple[str, ...], Callable[[Iterator[TableRow]], Iterator[TraceJob]]], ...] = (
    (("submit_s", "vc", "job_id", "num_gpu", "duration_s"), _philly),
    (("timestamp", "duration", "num_gpus", "cluster"), _sia),
    (
        (
            "name",
            "cpu_milli",
            "memory_mib",
            "num_gpu",
            "gpu_spec",
            "qos",
            "creation_time",
            "deletion_time",
            "scheduled_time",
        ),
        _openb,
    ),
)
