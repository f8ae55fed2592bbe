"""The waiting units of each queue and their places, in the status of the Queue: `queueItemDetails`, as Kube Queue
writes it.

One job that starts moves thousands of places, so this follows behind: at most every fifteen seconds, the first hundred
of each queue, and only what is another than before. The order is that of the decider's last plan. A client that needs
every place, or that of this moment, asks /fleet/v1.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from functools import partial

import structlog

from api.engine.status import StatusError
from api.loops.controller import cancelled
from fleet.bindings import binding as b
from fleet.controllers.decide.snapshot import Picture
from fleet.controllers.runtime.hub import Hub
from fleet.core.foresee.position import first_in_line
from fleet.core.model.reason import Reason
from fleet.values.ports import Body, StaleEpoch, StoreUnavailable
from fleet.values.untyped import mapping
from fleet.wellknown import ANNOTATION_QUOTA_FULLNAME, HIDE_ITEMS_ANNOTATIONS, QUEUE, QUEUE_NAMESPACE

log = structlog.get_logger(__name__)

REFRESH_S = 15.0
ITEMS_MAX = 100  # of one queue
QUEUES_AT_ONCE = 50  # in one commit
DETAILS, ACTIVE = "queueItemDetails", "active"


class QueueItems:
    """Takes every plan of the decider, and writes down the newest when it is due."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._offered: tuple[Picture, Mapping[str, Reason]] | None = None
        self._writing: asyncio.Task[None] | None = None

    def offer(self, picture: Picture, reasons: Mapping[str, Reason]) -> None:
        """Returns at once. `reasons`: of all units that wait, by id."""
        self._offered = (picture, reasons)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_when_due(), name="queue items")

    async def close(self) -> None:
        """Write no more; an offered list is forgotten."""
        self._offered = None
        await cancelled(self._writing)

    async def _write_when_due(self) -> None:
        while self._offered is not None:
            await self._hub.clock.sleep(REFRESH_S)
            (picture, reasons), self._offered = self._offered, None
            try:
                await self._write(await asyncio.to_thread(_items, picture, reasons))
            except Exception as error:
                bug = None if isinstance(error, StoreUnavailable | StatusError | StaleEpoch) else error
                log.warning("who waits in the queues is not written", error=str(error), exc_info=bug)

    async def _write(self, items: Mapping[str, list[Body]]) -> None:
        """`items` by full path of the node."""
        edits = [
            (
                queue.key,
                queue.uid,
                partial(_show, items=items.get(b.annotation(queue.body, ANNOTATION_QUOTA_FULLNAME), [])),
            )
            for queue in self._hub.scan(QUEUE, "queues", QUEUE_NAMESPACE)
            if not _hidden(queue.body)
        ]
        for start in range(0, len(edits), QUEUES_AT_ONCE):
            chunk = edits[start : start + QUEUES_AT_ONCE]
            try:
                await self._hub.edit_all(chunk)
            except StatusError:  # one Queue that cannot be written keeps none of the others from it
                for edit in chunk:
                    with contextlib.suppress(StatusError):
                        await self._hub.edit_all([edit])


def _items(picture: Picture, reasons: Mapping[str, Reason]) -> dict[str, list[Body]]:
    items: dict[str, list[Body]] = {}
    for leaf, units in first_in_line(picture.snapshot.units.values(), reasons, ITEMS_MAX).items():
        for position, unit in enumerate(units, 1):
            stored = picture.sources[unit.id].unit
            if stored is not None:
                item = {"name": stored.key.name, "namespace": stored.key.namespace, "priority": unit.priority}
                items.setdefault(leaf, []).append(item | {"position": position})
    return items


def _show(queue: Body, items: list[Body]) -> bool:
    """Write them into the Queue; False when it says so already, and where there never was anything to say."""
    status = mapping(queue.get("status"))
    if mapping(status.get(DETAILS)).get(ACTIVE, []) == items:
        return False
    queue["status"] = dict(status) | {DETAILS: {ACTIVE: items}}
    return True


def _hidden(queue: Body) -> bool:
    """Whether an annotation, with any value, keeps the list as it is."""
    return not mapping(queue["metadata"].get("annotations")).keys().isdisjoint(HIDE_ITEMS_ANNOTATIONS)
