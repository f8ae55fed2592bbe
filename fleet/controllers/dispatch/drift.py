"""A copy that stands otherwise in its member than the hub sent it.

The number of pods is the member's, too: an autoscaler there changes it. So a number that the hub has not changed since
it was sent stays as the member has it, within the least and the most that the job names, and the charge follows the
pods. All else that the hub sent and somebody changed there is put back, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from fleet.bindings import binding as b
from fleet.bindings.components import WANTED, components_of
from fleet.bindings.elastic import ranges_of
from fleet.controllers.dispatch.manifests import hash_of
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.hub import Hub
from fleet.core.model.charge import beyond
from fleet.core.model.unit import Component
from fleet.kinds import Interpreter
from fleet.kinds.lookup import UNREADABLE, sizes_of
from fleet.values.ports import Body, Key, StoredObject
from fleet.values.quantity import BadQuantity, quantity
from fleet.values.untyped import mapping, rows, text, whole
from fleet.wellknown import ANNOTATION_SIZES, PUT_BACK

PAUSE_FIRST_S, PAUSE_MAX_S = 1.0, 300.0  # until the next time that the same copy is put back
PATHS_MAX = 3  # that an event names
KNOWN_MAX = 10_000  # copies that are kept in mind
_NOT_COMPARED = frozenset({"apiVersion", "kind", "status", "stringData"})


def with_sizes(body: Body, asked: Body, interpreter: Interpreter | None) -> Body:
    """The manifest, which then says how many pods the hub asks for (those of `asked`). Its digest leaves that out."""
    sizes = interpreter.sizes(asked) if interpreter is not None else {}
    if not sizes:
        return body
    meta = body["metadata"]
    annotations = {**meta.get("annotations", {}), ANNOTATION_SIZES: orjson.dumps(sizes).decode()}
    return {**body, "metadata": {**meta, "annotations": annotations}}


def as_there(body: Body, live_copy: Body | None, interpreter: Interpreter | None, binding: Body) -> Body:
    """The manifest with the numbers of pods that the member has changed since they were sent, and the hub has not. An
    elastic job that the hub holds smaller than it asks for has the hub's."""
    held = WANTED in b.spec_of(binding) and ranges_of(binding)
    if live_copy is None or interpreter is None or held:
        return body
    wanted, has = interpreter.sizes(body), sizes_of(live_copy)
    asked = wanted if hash_of(live_copy) == hash_of(body) else _asked(live_copy)
    kept = {name: has[name] for name, size in wanted.items() if name in has and asked.get(name) == size}
    return interpreter.as_large_as(body, kept)


def _asked(there: Body) -> Mapping[str, int]:
    """The numbers that the hub asked for when it sent the copy; none for a copy of an older release."""
    try:
        said = mapping(orjson.loads(b.annotation(there, ANNOTATION_SIZES) or "{}"))
    except orjson.JSONDecodeError:
        return {}
    return {name: whole(size, -1) for name, size in said.items()}


def differences(wanted: Body, there: Body, besides: str = "") -> dict[str, object]:
    """What the hub asks for and the copy has otherwise: the paths, with the values that the copy has. What the copy has
    in addition is none. `besides`: a path that is left out."""
    found: dict[str, object] = {}
    for name in sorted(wanted.keys() - _NOT_COMPARED):
        _compare(wanted[name], there.get(name), name, found)
    found.pop(besides, None)
    return found


def _compare(target: Any, actual: Any, path: str, changes: dict[str, object]) -> None:
    if target.__class__ is dict and (actual.__class__ is dict or not actual):
        for key, value in target.items():
            _compare(value, mapping(actual).get(key), f"{path}.{key}", changes)
    elif target.__class__ is list and actual.__class__ is list:
        for place, value, other in _matched(target, actual):
            _compare(value, other, f"{path}[{place}]", changes)
    elif (target or actual) and not _same(target, actual):
        changes[path] = actual


def _matched(target: list[Any], actual: list[Any]) -> Iterable[tuple[int, Any, Any]]:
    """The entries with their counterparts: those of the same name, where entries have names."""
    names = [text(mapping(entry).get("name")) for entry in target]
    if all(names) and len(set(names)) == len(names):
        named = {text(entry.get("name")): entry for entry in rows(actual)}
        return [(place, entry, named.get(names[place])) for place, entry in enumerate(target)]
    left = [*actual, *[None] * (len(target) - len(actual))]
    return [(place, entry, other) for place, (entry, other) in enumerate(zip(target, left, strict=False))]


def _same(wanted: Any, there: Any) -> bool:
    if wanted == there:
        return True
    try:  # as API servers write amounts
        return bool(quantity(wanted) == quantity(there))
    except (BadQuantity, TypeError, AttributeError, ValueError):
        return False


@dataclass(slots=True)
class _DriftedCopy:
    """A copy that was put back before, or asks for more than it is charged."""

    stays: Mapping[str, object] = field(default_factory=dict)  # as its member writes it, whatever is sent
    times: int = 0
    until: float = 0.0  # no sooner again; monotonic
    above: bool = False


class Drift:
    """`again`: have a binding looked at after so many seconds. What is known of a copy is learnt again after a restart,
    by one write that changes nothing."""

    def __init__(self, hub: Hub, events: EventRecorder, again: Callable[[Key, float], None]) -> None:
        self._hub, self._events, self._again = hub, events, again
        self._records: dict[tuple[str, str], _DriftedCopy] = {}  # by member and uid of the copy

    def _of(self, member: str, there: Body) -> _DriftedCopy:
        key = member, str(there["metadata"].get("uid"))
        known = self._records.pop(key, None) or _DriftedCopy()
        while len(self._records) >= KNOWN_MAX:
            del self._records[next(iter(self._records))]
        self._records[key] = known  # the newest last
        return known

    def look(
        self,
        stored: StoredObject,
        member: str,
        body: Body,
        live_copy: Body | None,
        interpreter: Interpreter | None = None,
    ) -> Mapping[str, object]:
        """The fields that are to be put back now; none for a copy that stands as it should, or is put back later."""
        if live_copy is None:
            return {}
        self._count_above(stored, member, live_copy, interpreter)
        changed = differences(body, live_copy, _besides(interpreter))
        if not changed or changed == (known := self._of(member, live_copy)).stays:
            return {}
        left = known.until - self._hub.clock.monotonic()
        if left > 0:
            self._again(stored.key, left)
        return changed if left <= 0 else {}

    async def put_back(
        self,
        stored: StoredObject,
        member: str,
        body: Body,
        live_copy: Body,
        changed: Mapping[str, object],
        interpreter: Interpreter | None = None,
    ) -> None:
        """Note the answer of a member that was sent a copy again. `live_copy`: the copy as it stands now."""
        known = self._of(member, live_copy)
        known.stays = differences(body, live_copy, _besides(interpreter))
        known.until = self._hub.clock.monotonic() + min(PAUSE_MAX_S, PAUSE_FIRST_S * 2.0 ** min(known.times, 10))
        known.times += 1
        if known.stays == changed:
            return
        self._hub.metrics.drifted(member)
        paths = list(changed)
        named = ", ".join(paths[:PATHS_MAX]) + (f" and {len(paths) - PATHS_MAX} more" if len(paths) > PATHS_MAX else "")
        what = f"{body['kind']} {body['metadata']['name']}"
        text = f"{what} was changed in member {member}, and is put back: {named}"
        await self._events.record(stored.body["spec"]["resource"], PUT_BACK, text, warning=True)

    def _count_above(self, stored: StoredObject, member: str, there: Body, interpreter: Interpreter | None) -> None:
        above = asks_above(there, interpreter, components_of(stored.body))
        was = self._records.get((member, str(there["metadata"].get("uid"))))
        if above != (was is not None and was.above):
            self._of(member, there).above = above
            if above:
                self._hub.metrics.above_charge(member)


def asks_above(there: Body, interpreter: Interpreter | None, charged: Iterable[Component]) -> bool:
    """Whether the copy asks for more than its job is charged; False for one that cannot be read."""
    try:
        return bool(beyond(interpreter.components(there) if interpreter is not None else (), charged))
    except UNREADABLE:
        return False


def _besides(interpreter: Interpreter | None) -> str:
    return interpreter.suspend_field if interpreter is not None else ""
