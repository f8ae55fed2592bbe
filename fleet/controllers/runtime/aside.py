"""Telling of objects that a loop cannot handle and has set aside (controller.py): on the object itself, and on its job.

The condition HandlingFailed says which loop failed and with what kind of exception; nothing of the exception's text,
which may quote other objects, perhaps another tenant's. An object without a writable status gets an Event. The
condition stays as it was written first until that loop has handled the object, so that a write which wakes the loops
ends there. Telling never raises but StaleEpoch: a loop that cannot tell goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import structlog

from api.loops.controller import ASIDE_S
from fleet.bindings import binding as b
from fleet.bindings.conditions import condition, drop_condition
from fleet.controllers.runtime.about import about_key
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.hub import Hub, object_key
from fleet.kinds import Interpreter, interpreter_for, pods
from fleet.values.ports import Body, Key, StaleEpoch, StoredObject
from fleet.values.times import rfc3339
from fleet.values.untyped import mapping, rows, text
from fleet.values.wellknown import HANDLING_FAILED
from fleet.wellknown import QUEUE, UNIT_SUFFIX, WORK

log = structlog.get_logger(__name__)

_SILENT = frozenset({"events"})  # core resources that no Event is about


class AsideTeller:
    """A `Teller` of api/loops/controller.py."""

    def __init__(self, hub: Hub, events: EventRecorder) -> None:
        self._hub = hub
        self._events = events

    async def tell(self, loop: str, key: Key, error: Exception) -> None:
        why = f"{loop} cannot handle this object ({type(error).__name__})"
        message = f"{why}; it is left aside, and tried again every {ASIDE_S / 60:.0f} minutes and when it changes"
        try:
            reason = _reason(loop, type(error).__name__)
            for one in (key, self._job_of(key)):
                if one is not None and not await self._say_on(one, reason, message):
                    await self._record(one, message)
        except StaleEpoch:
            raise
        except Exception as failure:  # the metric still tells
            log.warning("an object that is set aside cannot be told of", key=str(key), error=repr(failure))

    async def handled(self, loop: str, key: Key) -> None:
        try:
            unsay = partial(_unsay, prefix=_reason(loop, ""))
            for one in (key, self._job_of(key)):
                if one is not None:
                    await self._edit(one, unsay)
        except StaleEpoch:
            raise
        except Exception as failure:
            log.warning("a condition cannot be taken back", key=str(key), error=repr(failure))

    def told(self, loop: str, stored: StoredObject) -> bool:
        if HANDLING_FAILED.encode() not in stored.raw:  # nearly always; and no body need be parsed
            return False
        return _says(stored.body, _reason(loop, ""))

    def about(self, key: Key) -> dict[str, str]:
        return about_key(self._hub.store, key)

    async def _say_on(self, key: Key, reason: str, message: str) -> bool:
        """Say it on this object, in the form of its kind."""
        at, interpreter = rfc3339(self._hub.clock.now()), self._interpreter(key)
        form = pods.condition if interpreter is None else interpreter.condition
        said = form(HANDLING_FAILED, "True", reason, message, at)
        if not said:
            return False
        return await self._edit(key, partial(_say, new_condition=said, first=interpreter is not None))

    async def _edit(self, key: Key, change: Callable[[Body], bool]) -> bool:
        """Whether its status says, or no longer says, so now; False where there is none to write."""
        kind = self._hub.registry.resource(key.group, key.resource)
        if kind is None or not kind.status:
            return False

        def changed(body: Body) -> Body | None:
            return body if change(body) else None

        write = self._hub.objects.prepare_change(
            kind, key.namespace, key.name, changed, self._hub.options, subresource="status"
        )
        try:
            await self._hub.commit([write])
        except StaleEpoch:
            raise
        except Exception as failure:  # its other fields may be such that no status can be written
            log.info("a status cannot be written", key=str(key), error=repr(failure)[:300])
            return False
        return True

    async def _record(self, key: Key, message: str) -> None:
        kind, stored = self._hub.registry.resource(key.group, key.resource), self._hub.store.peek(key)
        if kind is None or stored is None or (not key.group and key.resource in _SILENT):
            return
        about = {"apiVersion": kind.api_version, "kind": kind.kind, "name": key.name, "uid": stored.uid}
        await self._events.record({**about, "namespace": key.namespace}, HANDLING_FAILED, message, warning=True)

    def _interpreter(self, key: Key) -> Interpreter | None:
        kind = self._hub.registry.resource(key.group, key.resource)
        return interpreter_for(kind) if kind is not None else None

    def _job_of(self, key: Key) -> Key | None:
        """The object that a binding or unit is of."""
        if (key.group, key.resource) == (QUEUE, "queueunits"):
            key = Key(WORK, "resourcebindings", key.namespace, key.name.removesuffix(UNIT_SUFFIX))
        elif (key.group, key.resource) != (WORK, "resourcebindings"):
            return None
        binding = self._hub.store.peek(key)
        resource = b.resource_of(binding.body) if binding is not None else {}
        if not text(resource.get("name")):
            return None
        found = object_key(self._hub.registry, dict(resource))
        return found if found is not None and found.namespace == key.namespace else None


def own_conditions(job: Body) -> list[Body]:
    """The hub's own conditions of a job's status, beside its member's."""
    found = condition(job, HANDLING_FAILED)
    return [found] if found is not None else []


def _reason(loop: str, error: str) -> str:
    return f"{loop.replace('-', '_')}:{error}"


def _says(body: Body, prefix: str) -> bool:
    said = condition(body, HANDLING_FAILED)
    return said is not None and text(said.get("reason")).startswith(prefix)


def _say(body: Body, new_condition: Body, first: bool = False) -> bool:
    """Put the condition in, in place, where it does not stand yet. `first`: before the others, the last of which a job
    shows as its state."""
    if _says(body, ""):  # the words of another loop stand: two that replaced each other's would never end
        return False
    status = dict(mapping(body.get("status")))
    others = [entry for entry in rows(status.get("conditions")) if entry.get("type") != HANDLING_FAILED]
    status["conditions"] = [new_condition, *others] if first else [*others, new_condition]
    body["status"] = status
    return True


def _unsay(body: Body, prefix: str) -> bool:
    return _says(body, prefix) and drop_condition(body, HANDLING_FAILED)
