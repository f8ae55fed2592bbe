"""Terms: which writes of the hub the present database has seen, so that a copy in a member can say whether it was sent
by this past or by one that a restored backup has undone.

Every leader begins a term under a random id, and stamps each copy that it sends with the term and with the revision of
the binding. The record of terms is an object in the store, so it goes back together with the store. Every start of a
process of the hub ends the newest term: a leader that goes on begins another. A stamp of a term that the record does
not have, or of a revision after the end of its term, is therefore of writes that the database does not have any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import orjson

from api.objects.objects import Objects
from api.objects.writing import Options
from fleet.controllers.runtime.hub import CONTROLLER, Hub
from fleet.values.ports import Body, CommitResult, Key, StoreUnavailable, Write
from fleet.wellknown import ANNOTATION_SENT, FIELD_MANAGER, SYSTEM_NAMESPACE, TERMS

TERMS_MAX = 1000  # the oldest go; what they stamped and no binding wants is then left to people
TRIES = 5
KEY = Key("", "configmaps", SYSTEM_NAMESPACE, TERMS)
_FIELD = "terms"
_END = ""  # in place of an id: a process started


@dataclass(frozen=True, slots=True)
class Stamp:
    """The term and the revision that a copy was sent on."""

    term: str
    revision: int

    @property
    def text(self) -> str:
        return f"{self.term}/{self.revision}"


Entry = tuple[str, int]  # the id, or _END; the revision at which it began


def stamp_of(copy_: Body) -> Stamp | None:
    """The stamp of a copy; None without one. A stamp that does not read is of no term."""
    text = (copy_["metadata"].get("annotations") or {}).get(ANNOTATION_SENT)
    if not text:
        return None
    term, _, revision = str(text).partition("/")
    known = revision.isascii() and revision.isdigit() and len(revision) < 19
    return Stamp(term, int(revision)) if term and known else Stamp("", 0)


def stamped(body: Body, stamp: str) -> Body:
    """The manifest with its stamp, which its digest leaves out: no object is sent again for a stamp alone."""
    body["metadata"].setdefault("annotations", {})[ANNOTATION_SENT] = stamp
    return body


def undone(stamp: Stamp, entries: Sequence[Entry], revision: int) -> bool:
    """Whether the stamp is of writes that a store at this revision, with this record, does not have."""
    if not stamp.term or stamp.revision > revision:
        return True
    for index, (term, _) in enumerate(entries):
        if term == stamp.term:
            return index + 1 < len(entries) and stamp.revision > entries[index + 1][1]
    return True


def entries_of(body: Body | None) -> list[Entry]:
    """The record's entries, oldest first. The newest began with the record's last write, whose revision nobody knew
    before. A record that people made unreadable has none."""
    if body is None:
        return []
    try:
        found = [(str(term), int(since)) for term, since in orjson.loads((body.get("data") or {})[_FIELD])]
    except (KeyError, TypeError, ValueError):
        return []
    return [*found[:-1], (found[-1][0], int(body["metadata"]["resourceVersion"]))] if found else []


async def end_term(objects: Objects) -> None:
    """A process of the hub has started: later stamps are of another term."""
    options = Options(user=CONTROLLER, manager=FIELD_MANAGER)
    await _append(objects, options, lambda entries: None if not entries or entries[-1][0] == _END else _END)


def with_end(record: bytes, revision: int) -> bytes:
    """The record with the end of its newest term before `revision`, at which the result is written. For a restore: the
    end is exact then, though the revisions go on much higher."""
    body = orjson.loads(record)
    entries = [*entries_of(body), (_END, revision - 1), (_END, 0)]
    body["metadata"]["resourceVersion"] = str(revision)
    body["data"] = {_FIELD: orjson.dumps(entries[-TERMS_MAX:]).decode()}
    return orjson.dumps(body)


class Terms:
    """The terms as one leader sees and makes them."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._own_term = ""
        self._lock = asyncio.Lock()

    async def begin(self) -> str:
        """The id of this leader's term. Another entry may have ended it: then it is a new one."""
        async with self._lock:
            if not self._own_term or self._newest() != self._own_term:
                self._own_term = await _append(self._hub.objects, self._hub.options, lambda _: self._hub.ids.uid())
            return self._own_term

    async def stamp(self, revision: int) -> str:
        """For a copy of a binding at this revision, as this process sees it. The view is in the order of revisions, so
        the end of a term is seen before any later binding."""
        return Stamp(await self.begin(), revision).text

    def undone(self, copy_: Body, revision: int | None = None) -> bool:
        """Whether a restored backup has undone the sending of this copy. Copies without a stamp are of older
        releases: nobody knows, and they count as sent."""
        stamp = stamp_of(copy_)
        if stamp is None:
            return False
        return undone(stamp, self._entries(), stamp.revision if revision is None else revision)

    def _entries(self) -> list[Entry]:
        stored = self._hub.store.peek(KEY)
        return entries_of(stored.body if stored is not None else None)

    def _newest(self) -> str:
        entries = self._entries()
        return entries[-1][0] if entries else _END


async def _append(objects: Objects, options: Options, choose: Callable[[list[Entry]], str | None]) -> str:
    """Append an entry, which begins with this write; `choose` gives its id, or None for no entry. Returns the newest
    id."""
    kind = objects.registry.need(KEY.group, KEY.resource)
    newest = _END

    def data_after(entries: list[Entry]) -> dict[str, str] | None:
        nonlocal newest
        name = choose(entries)
        newest = entries[-1][0] if name is None and entries else name or _END
        return None if name is None else {_FIELD: orjson.dumps([*entries, (name, 0)][-TERMS_MAX:]).decode()}

    def change(body: Body) -> Body | None:
        data = data_after(entries_of(body))
        return None if data is None else {**body, "data": data}

    for _ in range(TRIES):
        write: Write
        if await objects.store.get(KEY) is None:
            data = data_after([])
            if data is None:
                return newest
            meta = {"name": TERMS, "namespace": SYSTEM_NAMESPACE}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
            write = objects.prepare_new(kind, SYSTEM_NAMESPACE, body, options)
        else:
            write = objects.prepare_change(kind, SYSTEM_NAMESPACE, TERMS, change, options)
        if isinstance(await objects.store.commit([write], epoch=options.epoch), CommitResult):
            return newest
    raise StoreUnavailable(f"{KEY} comes and goes")
