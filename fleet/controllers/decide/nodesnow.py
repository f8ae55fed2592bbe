"""The nodes with GPUs and the jobs on them, kept where the API can read them: for a map of the fleet.

The API process has no inventory of the members. One row in the store's history has the nodes, and the next row takes
its place. A row is written no sooner than twenty times as long as the last one took, so it may be so much older. The
loop goes on between two parts of the work.
"""

from __future__ import annotations

import asyncio
import base64
import zlib
from collections.abc import Mapping
from typing import Any

import orjson
import structlog

from api.loops.controller import cancelled
from fleet.admission.latest import NODES
from fleet.controllers.runtime.gpus import model_of
from fleet.controllers.runtime.hub import Hub
from fleet.core.model.amounts import gpus_in
from fleet.core.model.unit import Unit
from fleet.core.snapshot import Snapshot
from fleet.members.hypernodetree import Places
from fleet.members.members import NodeView
from fleet.values.ports import StoreUnavailable

log = structlog.get_logger(__name__)

PAUSE_MIN_S = 2.0  # between two rows
PAUSE_MAX_S = 60.0
PAUSE_PER_COST = 20.0
BREATH = 200  # nodes or jobs between two turns of others
NODES_MOST = 20_000  # in a row


class NodesNow:
    """Takes every snapshot of the decider, and writes the nodes when they are due."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._offered: tuple[Snapshot, float] | None = None
        self._written: object = None
        self._writing: asyncio.Task[None] | None = None
        self._due = 0.0

    def offer(self, snapshot: Snapshot, now: float) -> None:
        """Returns at once. `now`: epoch seconds."""
        if not self._hub.config.record_decisions:
            return
        self._offered = (snapshot, now)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_when_due(), name="nodes now")

    async def close(self) -> None:
        """Write no more."""
        self._offered = None
        await cancelled(self._writing)

    async def _write_when_due(self) -> None:
        clock = self._hub.clock
        while self._offered is not None:
            await clock.sleep(max(0.0, self._due - clock.monotonic()))
            (snapshot, now), self._offered = self._offered, None
            began = clock.monotonic()
            try:
                found = await self._look(snapshot)
                if found != self._written:
                    text = await asyncio.to_thread(_packed, found)
                    await self._hub.store.history(NODES, {"now": now, "nodes": text}, keep=1)
                    self._written = found
            except Exception as error:
                bug = None if isinstance(error, StoreUnavailable) else error
                log.warning("the nodes are not written", error=str(error), exc_info=bug)
            ended = clock.monotonic()
            self._due = ended + min(PAUSE_MAX_S, max(PAUSE_MIN_S, PAUSE_PER_COST * (ended - began)))

    async def _look(self, snapshot: Snapshot) -> dict[str, Any]:
        """`units`: kind, job and leaf by id; `members`: the rows of `_row` by name; `places`: by name, the domains that
        nodes lie in, each once, and the number of its own for each row; `left`: nodes beyond the most."""
        holds: dict[tuple[str, str], dict[str, int]] = {}
        units: dict[str, list[str | None]] = {}
        held = [unit for unit in snapshot.units.values() if unit.member is not None]
        for number, unit in enumerate(held, 1):
            if self._seen(unit, holds):
                units[unit.id] = [unit.needs_kind, unit.name, unit.leaf]
            if number % BREATH == 0:
                await asyncio.sleep(0)
        members: dict[str, list[Any]] = {}
        places: dict[str, dict[str, list[Any]]] = {}
        count = surplus = 0
        for name in sorted(self._hub.members.names()):
            rows = members[name] = []
            numbers, of = dict[Places, int](), list[int]()
            places[name] = {"of": of}
            for number, node in enumerate(sorted(self._hub.members.nodes(name), key=lambda one: one.name), 1):
                if number % BREATH == 0:
                    await asyncio.sleep(0)
                if not gpus_in(node.allocatable):
                    continue
                if count == NODES_MOST:
                    surplus += 1
                    continue
                count += 1
                rows.append(_row(node, holds.get((name, node.name), {})))
                of.append(numbers.setdefault(node.places, len(numbers)))
            places[name]["domains"] = list(numbers)
        return {"units": units, "members": members, "places": places, "left": surplus}

    def _seen(self, unit: Unit, holds: dict[tuple[str, str], dict[str, int]]) -> bool:
        """Adds the GPUs of the unit's pods to `holds`: by member and node, then by unit."""
        any_gpus = False
        for pod in self._hub.members.pods_of(unit.id):
            works = pod.member == unit.member and pod.holds_room and not pod.placeholder
            gpus = gpus_in(pod.requests) if works else 0
            if gpus:
                here = holds.setdefault((pod.member, pod.node), {})
                here[unit.id] = here.get(unit.id, 0) + gpus
                any_gpus = True
        return any_gpus


def _row(node: NodeView, held: Mapping[str, int]) -> list[Any]:
    """Name, model, GPUs, used GPUs, state, and GPUs by unit."""
    state = "ready" if node.usable else "cordoned" if node.ready else "notReady"
    return [node.name, model_of(node.labels), gpus_in(node.allocatable), gpus_in(node.used), state, dict(held)]


def _packed(found: Mapping[str, Any]) -> str:
    return base64.b64encode(zlib.compress(orjson.dumps(found))).decode()
