"""Asks the members for the use of their GPUs, about once a minute: for metrics, and for the list of idle jobs.

Only members whose Cluster names a source are asked, each at a time of its own. At most AT_ONCE are asked at the same
time, and one that does not answer costs ten seconds of one place. The log tells a failure once, and its end.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import structlog

from api.outgoing import AllowList, OutgoingClient
from api.outgoing.reach import Resolver
from fleet.bindings.gpuuse import GPU_USE, LatestGpuUse
from fleet.controllers.cluster.idlegpus import LowGpuUse, LowUse
from fleet.controllers.runtime.gauges import MEMBERS_MOST, MODELS_MOST, ModelUse
from fleet.controllers.runtime.hub import Hub
from fleet.core.model.unit import Unit
from fleet.members.clusters import ClusterMembers
from fleet.members.connection import Unreachable
from fleet.members.gpuelsewhere import asked_elsewhere
from fleet.members.gpufigures import ANSWER_BYTES_MAX, Figure, NoFigures, SourceFigures, ask, summed
from fleet.members.gpusource import Prometheus, Source, source_of
from fleet.values.ports import Key, StoreUnavailable
from fleet.wellknown import CLUSTER

log = structlog.get_logger(__name__)

EVERY_S = 60.0  # of one member, with a fifth more or less
LOOK_S = 5.0  # between two looks at the sources that are named
AT_ONCE = 16  # members
JOBS_MOST = 5_000  # of the row, those that use least
BREATH = 200  # jobs between two turns of others


@dataclass(frozen=True, slots=True)
class _Answer:
    """`due`: when the member is asked again, by the clock that only grows."""

    source: Source
    report: SourceFigures
    due: float


class GpuUseLoop:
    """`resolver`: how names of servers outside the members become addresses; None: as the machine does it."""

    name = "gpu-use"

    def __init__(self, hub: Hub, members: ClusterMembers, *, resolver: Resolver | None = None) -> None:
        self._hub, self._members = hub, members
        self._outgoing = OutgoingClient(AllowList.parse(hub.config.outgoing_allow), resolver=resolver)
        self._answers: dict[str, _Answer] = {}
        self._low: LowUse | None = None
        self._written = False  # by this leader

    async def run(self) -> None:
        try:
            async with self._outgoing:
                while True:
                    if await self.look():
                        await self.write()
                    await self._hub.clock.sleep(LOOK_S)
        finally:
            self._answers.clear()
            self._hub.metrics.see_gpu_use({})

    async def look(self) -> bool:
        """Ask the members that are due; whether anything is other than before."""
        sources, now = self._sources(), self._hub.clock.monotonic()
        old_names = self._answers.keys() - sources.keys()
        for name in old_names:
            del self._answers[name]
        places = asyncio.Semaphore(AT_ONCE)
        due = [name for name, source in sources.items() if self._is_due(name, source, now)]
        async with asyncio.TaskGroup() as group:
            for name in due:
                group.create_task(self._ask(name, sources[name], places), name=f"gpu-use:{name}")
        self._hub.metrics.see_gpu_use({name: _by_model(answer.report) for name, answer in self._answers.items()})
        return bool(due or old_names)

    def _sources(self) -> dict[str, Source]:
        """Of the members that are ready: others have an alert of their own."""
        sources: dict[str, Source] = {}
        for name in sorted(self._members.names())[:MEMBERS_MOST]:
            cluster = self._hub.store.peek(Key(CLUSTER, "clusters", "", name))
            source = source_of(cluster.body) if cluster is not None else None
            if source is not None and self._members.ready(name):
                sources[name] = source
        return sources

    def _is_due(self, name: str, source: Source, now: float) -> bool:
        before = self._answers.get(name)
        return before is None or before.source != source or before.due <= now

    async def _ask(self, name: str, source: Source, places: asyncio.Semaphore) -> None:
        async with places:
            try:
                report = await ask(source, _Asker(name, self._hub, self._members, self._outgoing))
            except Exception:  # a bug that the data of one member brings out costs the others nothing
                log.exception("GPU figures cannot be read", member=name)
                report = SourceFigures(silent="tells GPU figures that the hub cannot read")
        before = self._answers.get(name)
        why = before.report.silent if before is not None else ""
        if bool(report.silent) != bool(why):
            tell = log.warning if report.silent else log.info
            tell("GPU figures are missing" if report.silent else "GPU figures are told", member=name, why=report.silent)
        pause = EVERY_S * random.uniform(0.8, 1.2)
        self._answers[name] = _Answer(source, report, self._hub.clock.monotonic() + pause)

    # -- the row

    async def write(self) -> None:
        """The row takes the place of the one before. A store that is away gets the next one."""
        now = self._hub.clock.now()
        try:
            low = await self._lows(now)
            units = {unit.id: unit for unit in self._hub.metrics.snapshot.units.values() if unit.member is not None}
            await self._see(low, units.values(), now)
            low.keep(units, now)
            if not self._answers and not self._written:
                return  # a hub without a source writes nothing
            order = sorted(low.jobs, key=lambda unit: (low.jobs[unit].use, unit))
            row = {
                "now": now,
                "members": {name: _member(answer.report) for name, answer in self._answers.items()},
                "jobs": [_row(units[unit], low.jobs[unit]) for unit in order[:JOBS_MOST]],
                "left": max(0, len(order) - JOBS_MOST),
            }
            await self._hub.store.history(GPU_USE, row, keep=1)
            self._written = True
        except StoreUnavailable as error:
            log.warning("the GPU figures are not written", error=str(error))

    async def _lows(self, now: float) -> LowUse:
        if self._low is None:
            seen = await LatestGpuUse(self._hub.store).latest()
            self._low = LowUse()
            if seen is not None:
                self._low.begin({job.unit: job.since for job in seen.jobs}, now)
                self._written = True
        return self._low

    async def _see(self, low: LowUse, units: Iterable[Unit], now: float) -> None:
        figures: dict[tuple[str, str, str], list[Figure]] = {}
        for member, answer in self._answers.items():
            for figure in answer.report.figures:
                if figure.pod and figure.utilization is not None:
                    figures.setdefault((member, figure.namespace, figure.pod), []).append(figure)
        if not figures:
            return
        for number, unit in enumerate(units, 1):
            pods = [pod for pod in self._members.pods_of(unit.id) if pod.member == unit.member]
            used = [
                figure.utilization for pod in pods for figure in figures.get((pod.member, pod.namespace, pod.name), ())
            ]
            told = [use for use in used if use is not None]
            if told:
                low.see(unit.id, sum(told) / len(told), len(told), now)
            if number % BREATH == 0:
                await asyncio.sleep(0)


def _row(unit: Unit, low: LowGpuUse) -> dict[str, Any]:
    return {
        "unit": unit.id,
        "kind": unit.needs_kind,
        "name": unit.name,
        "leaf": unit.leaf or "",
        "user": unit.user,
        "member": unit.member,
        "gpus": low.gpus,
        "use": round(low.use, 4),
        "since": {str(level): at for level, at in low.since.items()},
    }


def _member(told: SourceFigures) -> dict[str, Any]:
    found = asdict(summed(told.figures))
    return {**found, "models": list(found["models"]), "silent": told.silent}


def _by_model(told: SourceFigures) -> Mapping[str, ModelUse] | None:
    """None for a member that tells nothing."""
    models = sorted({one.model for one in told.figures})[:MODELS_MOST]
    found: dict[str, ModelUse] = {}
    for model in models:
        figures = [one for one in told.figures if one.model == model]
        found[model] = ModelUse(summed(figures), sum(one.utilization is not None for one in figures))
    return found or None


class _Asker:
    """The ways to the sources of one member (fleet.members.gpufigures.Asker)."""

    def __init__(self, member: str, hub: Hub, members: ClusterMembers, outgoing: OutgoingClient) -> None:
        self._member, self._hub, self._members, self._outgoing = member, hub, members, outgoing

    async def member(self, path: str, within_s: float) -> bytes:
        try:
            status, content = await self._members.fetch(
                self._member, path, limit_s=within_s, limit_bytes=ANSWER_BYTES_MAX
            )
        except Unreachable as error:
            raise NoFigures(str(error)) from None
        if status != 200:
            raise NoFigures(f"{path.partition('?')[0]} answers {status}")
        return content

    async def elsewhere(self, source: Prometheus, path: str, within_s: float) -> bytes:
        return await asked_elsewhere(self._outgoing, self._hub.store, source, path, within_s)
