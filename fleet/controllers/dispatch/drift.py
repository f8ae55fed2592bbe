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
from fleet.kinds import Interpreter
from fleet.model.charge import beyond
from fleet.model.quantity import BadQuantity, quantity
from fleet.model.untyped import mapping, rows, text, whole
from fleet.ports import Body, Key, Stored
from fleet.wellknown import ANNOTATION_SIZES, PUT_BACK

PAUSE_FIRST_S, PAUSE_MAX_S = 1.0, 300.0  # until the next time that the same copy is put back
PATHS_MAX = 3  # that an event names
_NOT_COMPARED = frozenset({"apiVersion", "kind", "status", "stringData"})


def with_sizes(body: Body, asked: Body, interpreter: Interpreter | None) -> Body:
    """The manifest, which then says how many pods the hub asks for (those of `asked`). Its digest leaves that out."""
    sizes = interpreter.sizes(asked) if interpreter is not None else {}
    if not sizes:
        return body
    meta = body["metadata"]
    annotations = {**meta.get("annotations", {}), ANNOTATION_SIZES: orjson.dumps(sizes).decode()}
    return {**body, "metadata": {**meta, "annotations": annotations}}


def as_there(body: Body, there: Body | None, interpreter: Interpreter | None, binding: Body) -> Body:
    """The manifest with the numbers of pods that the member has changed since they were sent, and the hub has not. An
    elastic job that the hub holds smaller than it asks for has the hub's."""
    held = WANTED in b.spec_of(binding) and ranges_of(binding)
    if there is None or interpreter is None or held:
        return body
    wanted, has = interpreter.sizes(body), interpreter.sizes(there)
    asked = wanted if hash_of(there) == hash_of(body) else _asked(there)
    kept = {name: has[name] for name, size in wanted.items() if name in has and asked.get(name) == size}
    return interpreter.as_large_as(body, kept)


def _asked(there: Body) -> Mapping[str, int]:
    """The numbers that the hub asked for when it sent the copy; none for a copy of an older release."""
    try:
        said = mapping(orjson.loads(b.annotation(there, ANNOTATION_SIZES) or "{}"))
    except orjson.JSONDecodeError:
        return {}
    return {name: whole(size, -1) for name, size in said.items()}


def differences(wanted: Body, there: Body, besides: str = "") -> tuple[str, ...]:
    """The paths of what the hub asks for and the copy has otherwise. What the copy has in addition is none.
    `besides`: a path that is left out."""
    found: list[str] = []
    for name in sorted(wanted.keys() - _NOT_COMPARED):
        _compare(wanted[name], there.get(name), name, found)
    return tuple(path for path in found if path != besides)


def _compare(wanted: Any, there: Any, path: str, found: list[str]) -> None:
    if wanted.__class__ is dict and (there.__class__ is dict or not there):
        for key, value in wanted.items():
            _compare(value, mapping(there).get(key), f"{path}.{key}", found)
    elif wanted.__class__ is list and there.__class__ is list:
        for place, value, other in _matched(wanted, there):
            _compare(value, other, f"{path}[{place}]", found)
    elif (wanted or there) and not _same(wanted, there):
        found.append(path)


def _matched(wanted: list[Any], there: list[Any]) -> Iterable[tuple[int, Any, Any]]:
    """The entries with their counterparts: those of the same name, where entries have names."""
    names = [text(mapping(entry).get("name")) for entry in wanted]
    if all(names) and len(set(names)) == len(names):
        named = {text(entry.get("name")): entry for entry in rows(there)}
        return [(place, entry, named.get(names[place])) for place, entry in enumerate(wanted)]
    left = [*there, *[None] * (len(wanted) - len(there))]
    return [(place, entry, other) for place, (entry, other) in enumerate(zip(wanted, left, strict=False))]


def _same(wanted: Any, there: Any) -> bool:
    if wanted == there:
        return True
    try:  # as API servers write amounts
        return bool(quantity(wanted) == quantity(there))
    except (BadQuantity, TypeError, AttributeError, ValueError):
        return False


@dataclass(slots=True)
class _Known:
    """A copy that was put back before."""

    uid: str
    stays: tuple[str, ...] = ()  # as its member writes it, whatever is sent
    times: int = 0
    until: float = 0.0  # no sooner again; monotonic
    above: bool = False


@dataclass
class Drift:
    """What was found, by binding and member: it is learnt again after a restart, by one write that changes nothing."""

    hub: Hub
    events: EventRecorder
    again: Callable[[Key, float], None]  # have a binding looked at after so many seconds
    _known: dict[tuple[str, str], _Known] = field(default_factory=dict)

    def _of(self, uid: str, member: str, there: Body) -> _Known:
        known = self._known.get((uid, member))
        if known is None or known.uid != there["metadata"].get("uid"):
            known = self._known[uid, member] = _Known(str(there["metadata"].get("uid")))
        return known

    def forget(self, uid: str) -> None:
        for key in [key for key in self._known if key[0] == uid]:
            del self._known[key]

    def look(
        self, stored: Stored, member: str, wanted: Body, there: Body | None, interpreter: Interpreter | None
    ) -> tuple[str, ...]:
        """The paths that are to be put back now; () for a copy that stands as it should, or is put back later."""
        if there is None:
            return ()
        known = self._of(stored.uid, member, there)
        self._count_above(stored, member, there, interpreter, known)
        paths = differences(wanted, there, interpreter.suspend_field if interpreter is not None else "")
        if not paths or paths == known.stays:
            return ()
        left = known.until - self.hub.clock.monotonic()
        if left > 0:
            self.again(stored.key, left)
            return ()
        return paths

    async def put_back(
        self, stored: Stored, member: str, wanted: Body, there: Body, interpreter: Interpreter | None,
        paths: tuple[str, ...],
    ) -> None:  # fmt: skip
        """Note the answer of a member that was sent a copy again. `there`: the copy as it stands now."""
        known = self._of(stored.uid, member, there)
        known.stays = differences(wanted, there, interpreter.suspend_field if interpreter is not None else "")
        known.times += 1
        pause = min(PAUSE_MAX_S, PAUSE_FIRST_S * 2.0 ** min(known.times - 1, 10))
        known.until = self.hub.clock.monotonic() + pause
        if paths == known.stays:
            return
        self.hub.metrics.drifted(member)
        named = ", ".join(paths[:PATHS_MAX]) + (f" and {len(paths) - PATHS_MAX} more" if len(paths) > PATHS_MAX else "")
        text = f"was changed in member {member}, and is put back: {named}"
        await self.events.record(stored.body["spec"]["resource"], PUT_BACK, text, warning=True)

    def _count_above(
        self, stored: Stored, member: str, there: Body, interpreter: Interpreter | None, known: _Known
    ) -> None:
        if interpreter is None:
            return
        try:
            above = bool(beyond(interpreter.components(there), components_of(stored.body)))
        except BadQuantity:
            above = False
        if above and not known.above:
            self.hub.metrics.above_charge(member)
        known.above = above
