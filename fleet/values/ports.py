"""The ports: the questions of the rest of Fleet to a store, a clock and a source of ids.

Everything above the adapters is written against these types and never against PostgreSQL. One contract suite
(tests/api/store) runs against every implementation of `Store`, so the memory store that the tests and the simulated
members use cannot drift from the real one.

The revision log is the heart of it: every successful write gets the next revision, revision order is commit order,
and there are no gaps. A reader that has seen revision N can therefore ask for "everything after N" and miss nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

Body = dict[str, Any]


class Clock(Protocol):
    """Where time comes from. The core takes `now` as a number instead."""

    def now(self) -> float:
        """Seconds since the Unix epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; only differences mean anything."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class Ids(Protocol):
    """Where uids and the random suffixes of generated names come from."""

    def uid(self) -> str:
        """A new RFC 4122 uid in lower case."""
        ...

    def suffix(self) -> str:
        """Five characters for `generateName`, from the alphabet bcdfghjklmnpqrstvwxz2456789."""
        ...


class Key(NamedTuple):  # the key of most tables: hashed and compared hundreds of times for each job
    """Names one object. `namespace` is "" for cluster-scoped ones; `group` is "" for core."""

    group: str
    resource: str
    namespace: str
    name: str

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.resource}{'.' + self.group if self.group else ''} {where}{self.name}"


class Keeper(Protocol):
    """Bounds the memory that objects take, if need be by a smaller form of their bytes."""

    def plain(self, stored: StoredObject) -> bytes:
        """The bytes of an object whose `raw` is not there."""
        ...

    def unpacked(self, stored: StoredObject) -> bytes:
        """The same, for once: the object stays as it is."""
        ...

    def parsed(self, stored: StoredObject, size: int) -> None:
        """Note that an object of so many bytes has been parsed."""
        ...


class StoredObject:
    """One object at one revision: `raw` is its JSON with `metadata.resourceVersion` set, `body` the parsed form.

    Both are shared by every reader; `body` may not be changed. Copy it first (`copy.deepcopy`, or
    `orjson.loads(stored.raw)`, which is faster). A store's `keeper` may put `packed` in the place of `raw`; reading
    `raw` makes it again.
    """

    __slots__ = ("_body", "keeper", "key", "packed", "raw", "revision", "uid")

    def __init__(self, key: Key, uid: str, revision: int, raw: bytes, body: Body | None = None) -> None:
        self.key = key
        self.uid = uid
        self.revision = revision
        self.raw = raw
        self.packed: bytes | None = None
        self.keeper: Keeper | None = None
        self._body = body

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> bytes:
            """`raw` where its slot is empty: a plain one costs no call."""
            if name == "raw":
                return self.keeper.plain(self)
            raise AttributeError(name)

    @property
    def body(self) -> Body:
        body = self._body
        if body is None:  # others may drop it meanwhile
            import orjson

            raw = self.raw
            body = self._body = orjson.loads(raw)
            if self.keeper is not None:
                self.keeper.parsed(self, len(raw))
        return body

    def raw_once(self) -> bytes:
        """`raw` for who reads many objects once: a packed one stays packed."""
        try:
            raw: bytes = object.__getattribute__(self, "raw")
        except AttributeError:
            assert self.keeper is not None
            raw = self.keeper.unpacked(self)
        return raw

    def body_once(self) -> Body:
        """`body` for who reads many objects once: what is parsed for it is not kept."""
        found = self._body
        if found is None:
            import orjson

            found = orjson.loads(self.raw_once())
        return found

    def once(self, *, packed: bool = False) -> StoredObject:
        """The object for who parses many objects once: what is parsed for it goes with it. `packed`: so do the bytes of
        a packed one."""
        if self._body is not None:
            return self
        return StoredObject(self.key, self.uid, self.revision, self.raw_once() if packed else self.raw)

    def passes(self, selector: Selector) -> bool:
        """Whether the selector passes the object. Its JSON is only parsed where that has the marks."""
        if self._body is not None:
            return selector(self._body)
        raw = self.raw_once()
        if isinstance(selector, HintedSelector):
            for marks in selector.marks:
                for mark in marks:
                    if mark in raw:
                        break
                else:
                    return False
        import orjson

        return selector(orjson.loads(raw))

    def drop_parsed(self) -> None:
        """Keep `raw` alone: the parsed form takes several times the room, and few read a state that is past."""
        self._body = None

    def __repr__(self) -> str:
        return f"StoredObject({self.key}, revision={self.revision})"


class EventType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the revision log.

    `stored` is the object after the change; for DELETED the last state, carrying the revision of the deletion.
    `previous` is the state before the change as far as selectors need it (labels and selectable fields): a body with
    at least `metadata.{name,namespace,labels}`; None for ADDED. `at`: epoch seconds of the change, by its
    writer's clock.
    """

    revision: int
    type: EventType
    stored: StoredObject
    previous: Body | None = None
    at: float = 0.0


# -- writing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Expect:
    """The conditions on the stored object for a write to happen. All given conditions must hold.

    Use the constructors: `ABSENT`, `ANY`, `Expect(revision=…)`, `Expect(uid=…, generation=…)`.
    """

    absent: bool = False
    exists: bool = False
    revision: int | None = None
    uid: str | None = None
    generation: int | None = None


ABSENT = Expect(absent=True)
EXISTS = Expect(exists=True)
ANY = Expect()


@dataclass(frozen=True, slots=True)
class Put:
    """Write `body` whole. The store sets `metadata.resourceVersion`; everything else is the caller's."""

    key: Key
    body: Body
    expect: Expect = ANY


@dataclass(frozen=True, slots=True)
class Change:
    """Read the newest state under the writer's lock, apply `change`, write the result.

    `change` is pure and fast (microseconds). The function gets its own copy of the body and returns the new body, or
    None for "nothing to do" (the write then succeeds without a revision). An exception of `change` is a refusal: the
    commit fails and the exception reaches the caller. Never loses to a concurrent status write. A missing object counts
    as a failed precondition.
    """

    key: Key
    change: Callable[[Body], Body | None]
    expect: Expect = EXISTS


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the object for good. The store does not ask whether it may go."""

    key: Key
    expect: Expect = EXISTS


Write = Put | Change | Delete


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The commit happened. `stored[i]` answers write i: its new state (for Delete the last state, for a Change that
    did nothing the unchanged one). `revision` is the highest revision used, or the current one if none was."""

    stored: tuple[StoredObject, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """Nothing was written, since the precondition of write `index` did not hold. `current` is what is stored."""

    index: int
    current: StoredObject | None


class StaleEpoch(Exception):
    """The writer's leadership epoch is no longer the current one: stop the process, change nothing (I11)."""


class ExpiredRevision(Exception):
    """The revision asked for is older than the log reaches back (HTTP 410)."""


class FutureRevision(Exception):
    """The revision asked for has not happened yet, after a bounded wait (HTTP 504)."""

    def __init__(self, revision: int, current: int) -> None:
        super().__init__(f"Too large resource version: {revision}, current: {current}")
        self.revision, self.current = revision, current


class SchemaTooNew(Exception):
    """The database was migrated by a newer release and no longer carries this one."""


class StoreUnavailable(Exception):
    """The database cannot be reached now; the caller may retry (HTTP 503). A commit that raises this did not happen:
    unknown outcomes are resolved by re-reading before anything is raised."""


class StoreFull(StoreUnavailable):
    """The database has no room for the write, which did not happen; reads go on (HTTP 503, and the reason)."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list, all pages of it at the same `revision`.

    `next_start`: pass as `start` together with `at=revision` to get the next page; None on the last.
    `remaining`: how many items follow this page, when known.
    """

    items: tuple[StoredObject, ...]
    revision: int
    next_start: tuple[str, str] | None = None
    remaining: int | None = None


Selector = Callable[[Body], bool]


@dataclass(frozen=True, slots=True)
class HintedSelector:
    """A Selector, and what a store may know of the objects that it passes before it asks. They have the label `key`
    ("": of none is anything known), with one of `values` (None: with any); `alone`: it passes all that have. Of each
    of `marks`, one byte string is in their JSON."""

    test: Selector
    key: str = ""
    values: frozenset[str] | None = None
    alone: bool = False
    marks: tuple[tuple[bytes, ...], ...] = ()

    def __call__(self, body: Body) -> bool:
        return self.test(body)


class Watch(Protocol):
    """An open subscription. Iterate for events; `aclose()` ends it. Iterating raises ExpiredRevision when the
    subscriber fell further behind than the log reaches."""

    def __aiter__(self) -> AsyncIterator[Event]: ...

    async def next(self, timeout: float) -> Event | None:
        """The next event, or None when `timeout` seconds pass without one. Raises ExpiredRevision."""
        ...

    def ready(self) -> Event | None:
        """The next event, where it is at hand. None says only that `next` may have to wait."""
        ...

    @property
    def progress(self) -> int:
        """Every event up to this revision has been delivered: the revision for a bookmark."""
        ...

    async def aclose(self) -> None: ...


class Store(Protocol):
    """Objects and their revision log."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def get(self, key: Key, *, fresh: bool = True, alone: bool = False) -> StoredObject | None:
        """The object, or None. `fresh`: at least as new as every commit acknowledged, by any process, before the
        call; otherwise what this process has seen so far (never older than its own writes). `alone`: the caller is the
        only one of its user, and its question need not be shared with those of others."""
        ...

    async def list(
        self,
        group: str,
        resource: str,
        *,
        namespace: str | None = None,
        selector: Selector | None = None,
        limit: int | None = None,
        start: tuple[str, str] | None = None,
        at: int | None = None,
        fresh: bool = True,
        alone: bool = False,
    ) -> Page:
        """Objects in order of (namespace, name). `namespace=None`: all. `limit` counts selected items. `at`: the
        state at exactly that revision, or ExpiredRevision. `start`: begin after this (namespace, name). `fresh`,
        `alone`: see `get`."""
        ...

    def scan(self, group: str, resource: str, *, namespace: str | None = None) -> Sequence[StoredObject]:
        """The state that this process has seen, at once and without waiting: for controllers, which are
        level-triggered."""
        ...

    def peek(self, key: Key) -> StoredObject | None:
        """One object as `scan` sees it."""
        ...

    async def commit(self, writes: Sequence[Write], *, epoch: int | None = None) -> CommitResult | Conflict:
        """All of `writes` in one transaction, or none. `epoch`: the leadership epoch that must still be current
        (else StaleEpoch). Concurrent commits share transactions but fail alone."""
        ...

    async def watch(
        self, group: str, resource: str, *, namespace: str | None = None, since: int | None = None
    ) -> Watch:
        """Events after revision `since`, each once, in order (I5). `since=None`: from now on. Raises ExpiredRevision or
        FutureRevision before anything is returned."""
        ...

    async def events(
        self, resources: Collection[tuple[str, str]], *, since: int, limit: int
    ) -> tuple[Sequence[Event], int]:
        """The first events after revision `since` of these (group, resource), at most `limit`, in order; and the
        revision up to which these are all there are. Raises ExpiredRevision."""
        ...

    async def revision(self, *, alone: bool = False) -> int:
        """The newest committed revision, by any process; this process has seen all up to it. `alone`: see `get`."""
        ...

    async def compact(self, before: int) -> None:
        """Forget log entries at or below this revision; watches and pages that need them get ExpiredRevision."""
        ...

    async def raise_to(self, revision: int) -> None:
        """Leave out the revisions up to this one, where it is ahead: the next write gets a higher one. Watches and
        pages from before it get ExpiredRevision."""
        ...

    async def history(self, kind: str, record: Mapping[str, Any], *, keep: int | None = None) -> int:
        """Append a row outside the object log (decision records, finished work); bounded by retention. `keep`: only so
        many rows of this kind stay, the newest. The id of the row, greater than those before."""
        ...

    async def read_history(
        self, kind: str, *, limit: int = 100, before: int | None = None
    ) -> Sequence[Mapping[str, Any]]:
        """Newest first; each row has "id" and "at" (epoch seconds) beside what was recorded."""
        ...


class Leadership(Protocol):
    """One leader at a time, with a fence. PostgreSQL: an advisory lock on a connection of its own."""

    async def acquire(self, name: str, holder: str) -> int:
        """Wait until this process leads; returns the new epoch, higher than every one before."""
        ...

    async def lost(self) -> None:
        """Returns when the leadership is gone (the connection dropped): end the process."""
        ...

    async def release(self) -> None: ...


@dataclass(slots=True)
class Stats:
    """Counts that tests and /metrics read."""

    commits: int = 0
    writes: int = 0
    batches: int = 0
    batch_s: float = 0.0  # that the batches took, in all
    by_resource: dict[str, int] = field(default_factory=dict)
