"""Events on objects of the hub: the lines of `kubectl describe`, and their end.

An event that repeats raises the count of the one there is, as client-go does, so a job that is refused every second
does not fill the store. Nor does one that is refused with other numbers each time: beyond SIMILAR_MAX texts of one
reason within ten minutes they share one event, which says what was said last, as there too. Events older than an hour
are removed, a bounded number at a time.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import structlog

from fleet.controllers.runtime.hub import Hub
from fleet.values.ports import Body, Key, StaleEpoch, StoreUnavailable, Write
from fleet.values.times import rfc3339, seconds
from fleet.values.untyped import mapping, text

log = structlog.get_logger(__name__)

KNOWN_MAX = 4096
SIMILAR_MAX = 10  # events of an object that differ in their text alone
SIMILAR_FOR_S = 600.0
COMBINED = "(combined from similar events): "
COURTESIES_PER_S = 5.0
MESSAGE_MAX = 1024
TRIMMED_AT_ONCE = 500
TRIM_INTERVAL_S = 60.0
SYSTEM_EVENTS_NAMESPACE = "default"  # where events on cluster-scoped objects go


@dataclass(slots=True)
class _Similar:
    """Texts of one object, reason and component since an instant, and the event of those that were too many."""

    since: float
    texts: int = 0
    combined: Key | None = None


class EventRecorder:
    """Makes the write that records an event; the caller commits it with the change that it tells of."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._keys: OrderedDict[tuple[str, ...], Key] = OrderedDict()
        self._similar: OrderedDict[tuple[str, ...], _Similar] = OrderedDict()
        self._budget, self._budget_at = COURTESIES_PER_S, hub.clock.monotonic()

    def write(
        self, about: Body, reason: str, message: str, *, warning: bool = False, component: str = "fleet"
    ) -> Write:
        """`about` is a reference {apiVersion, kind, namespace, name, uid} or a whole object."""
        reference = _reference(about)
        text = message if len(message) <= MESSAGE_MAX else message[: MESSAGE_MAX - 3] + "..."
        identity = (reference["kind"], reference.get("uid", ""), reason, text, component)
        now = self._hub.clock.now()
        known = self._keys.get(identity)
        if known is not None and self._hub.store.peek(known) is not None:
            return self._hub.change(known, lambda body: _again(body, now))
        similar = self._similar_to((reference["kind"], reference.get("uid", ""), reason, component), now)
        similar.texts += 1
        if similar.texts > SIMILAR_MAX:
            text = f"{COMBINED}{text}"[:MESSAGE_MAX]
            if similar.combined is not None and self._hub.store.peek(similar.combined) is not None:
                return self._hub.change(similar.combined, lambda body: _again(body, now, text))
        namespace = reference.get("namespace") or SYSTEM_EVENTS_NAMESPACE
        name = f"{reference['name'][:200]}.{int(now * 1e6):x}{self._hub.ids.suffix()}"
        if similar.texts > SIMILAR_MAX:
            similar.combined = Key("", "events", namespace, name)
        else:
            self._keys[identity] = Key("", "events", namespace, name)
        while len(self._keys) > KNOWN_MAX:
            self._keys.popitem(last=False)
        return self._hub.new(
            "", "events", namespace, _event(namespace, name, reference, reason, text, warning, component, now)
        )

    def _similar_to(self, identity: tuple[str, ...], now: float) -> _Similar:
        similar = self._similar.pop(identity, None)
        if similar is None or similar.since + SIMILAR_FOR_S < now:
            similar = _Similar(now)
        self._similar[identity] = similar  # as the newest
        while len(self._similar) > KNOWN_MAX:
            self._similar.popitem(last=False)
        return similar

    async def once(self, about: Body, reason: str, message: str) -> None:
        """Record a warning that is not repeated while its event is there, by whichever process."""
        reference, now = _reference(about), self._hub.clock.now()
        digest = hashlib.sha256(f"{reference.get('uid')} {reason} {message}".encode()).hexdigest()[:16]
        namespace, name = reference.get("namespace") or SYSTEM_EVENTS_NAMESPACE, f"{reference['name'][:200]}.{digest}"
        if self._hub.store.peek(Key("", "events", namespace, name)) is None:
            body = _event(namespace, name, reference, reason, message[:MESSAGE_MAX], True, "fleet", now)
            await self._hub.commit([self._hub.new("", "events", namespace, body)])

    async def courtesy(self, about: Body, reason: str, message: str) -> None:
        """Record good news, unless there is much of it: beyond COURTESIES_PER_S no user reads it, and it would cost the
        writes that jobs need."""
        clock = self._hub.clock.monotonic()
        self._budget = min(COURTESIES_PER_S, self._budget + (clock - self._budget_at) * COURTESIES_PER_S)
        self._budget_at = clock
        if self._budget >= 1:
            self._budget -= 1
            await self.record(about, reason, message)

    async def record(
        self, about: Body, reason: str, message: str, *, warning: bool = False, component: str = "fleet"
    ) -> None:
        """Record by itself; an event that cannot be written is lost, as events may be."""
        await self._hub.commit([self.write(about, reason, message, warning=warning, component=component)])


def _reference(about: Body) -> dict[str, str]:
    meta = about.get("metadata", about)
    reference = {
        "apiVersion": about.get("apiVersion", ""),
        "kind": about.get("kind", ""),
        "namespace": meta.get("namespace") or "",
        "name": meta.get("name", ""),
        "uid": meta.get("uid") or "",
    }
    return {name: str(value) for name, value in reference.items() if value}


def _event(
    namespace: str,
    name: str,
    reference: dict[str, str],
    reason: str,
    message: str,
    warning: bool,
    component: str,
    now: float,
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": reference,
        "reason": reason,
        "message": message,
        "type": "Warning" if warning else "Normal",
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": "",
        "firstTimestamp": rfc3339(now),
        "lastTimestamp": rfc3339(now),
        "eventTime": None,
        "count": 1,
    }


def _again(body: Body, now: float, text: str | None = None) -> Body:
    body["message"] = text or body["message"]
    body["count"] = int(body.get("count") or 1) + 1
    body["lastTimestamp"] = rfc3339(now)
    return body


class EventRetention:
    """Removes events that nothing has repeated for the time to live."""

    name = "events"

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def run(self) -> None:
        while True:
            await self._hub.clock.sleep(TRIM_INTERVAL_S)
            try:
                await self.trim()
            except StoreUnavailable as error:
                log.warning("events are removed later", error=str(error))

    async def trim(self) -> int:
        """Remove what is too old now, at most TRIMMED_AT_ONCE; returns how many."""
        oldest = self._hub.clock.now() - self._hub.config.event_ttl_s
        old = [s for s in self._hub.scan("", "events") if (_last(s.body) or oldest) < oldest][:TRIMMED_AT_ONCE]
        for stored in old:
            try:
                await self._hub.delete(stored.key, uid=stored.uid)
            except (StaleEpoch, StoreUnavailable):
                raise
            except Exception as error:  # costs a log line an hour, and the others nothing
                log.warning("an event cannot be removed", key=str(stored.key), error=repr(error)[:300])
        return len(old)


def _last(body: Body) -> float | None:
    series = mapping(body.get("series")).get("lastObservedTime")
    times = (series, body.get("lastTimestamp"), body.get("eventTime"), body["metadata"].get("creationTimestamp"))
    return seconds(next((at for time in times if (at := text(time))), ""))
