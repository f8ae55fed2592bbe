"""List, then watch, then for ever: one collection of one member, kept as new as the connection allows.

The watch resumes from the last revision seen; a revision the member no longer has (410) means listing again; a broken
connection is tried again after a growing, bounded pause, and at once when the member is known to be back. The consumer
gets objects, not pages: a whole list is `started`, `seen` for each, `listed`. Objects that were not seen are gone.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Protocol

import orjson
import structlog

from fleet.members.allowance import LoopTime, TooMuch
from fleet.members.connection import Connection, HttpAnswer, TooLarge, Unreachable
from fleet.values.ports import Body
from fleet.values.untyped import mapping, rows, text

log = structlog.get_logger(__name__)

PAGE = 500
SMALLER = 10  # times, of a page after one that was too large
PAGES_MAX = 2000  # of one list; a member with more objects of a kind is not followed
LIST_ALL_S = 600.0  # for all pages
WATCH_S = 300  # the server ends a watch after this time, and the watch is resumed
SILENCE_S = WATCH_S + 30.0
PAUSE_FIRST_S = 0.2
PAUSE_MAX_S = 5.0  # a member that is back is found by its probe, so pauses need not be long
LIST_S = 60.0
TELL_AFTER = 8  # failures in a row: about 20 s
_pause = asyncio.timeout  # until the next try


class Sink(Protocol):
    def started(self) -> None:
        """A full list begins."""
        ...

    def seen(self, body: Body) -> None:
        """The object is there, new or changed."""
        ...

    def gone(self, body: Body) -> None: ...

    def listed(self) -> None:
        """The list is complete: objects that were not seen since `started` are gone."""
        ...


class _Relist(Exception):
    pass


class UnservedCollection(Exception):
    """The member does not (any longer) serve this collection."""


def _is_of_the_future(answer: HttpAnswer) -> bool:
    """Whether the member refuses a revision as one that it has not reached: its data went back, as after a restore."""
    causes = rows(mapping(answer.body.get("details")).get("causes"))
    return answer.status == 504 and any(cause.get("reason") == "ResourceVersionTooLarge" for cause in causes)


class Follower:
    """`contact` is called whenever the member showed that it lives. `kick` cuts pauses and streams short: used when
    the member is back after a loss, since an old stream may be dead without knowing. `time`: the member's on the event
    loop. `member`: its name, for the log. `pause_max_s`: between two tries. `refused` is called when `forbidden` is
    another."""

    def __init__(
        self,
        connection: Connection,
        path: str,
        sink: Sink,
        *,
        selector: str = "",
        contact: Callable[[], None],
        time: LoopTime | None = None,
        member: str = "",
        pause_max_s: float = PAUSE_MAX_S,
        refused: Callable[[], None] = lambda: None,
    ) -> None:
        self.path = path
        self._member = member
        self.synced = False
        self.error = ""
        self.unread = 0  # objects that could not be read so far
        self.forbidden = False  # the hub has no right to the collection
        self._connection = connection
        self._sink = sink
        self._selector = selector
        self._contact = contact
        self._time = time or LoopTime()
        self._pause_max_s, self._refused = pause_max_s, refused
        self._page = PAGE
        self._revision = ""
        self._failures = 0  # in a row, since a watch brought something
        self._kick = asyncio.Event()

    def forget(self) -> None:
        """Begin with a list, as if nothing had been seen."""
        self._revision, self.synced = "", False

    def kick(self) -> None:
        self._kick.set()

    async def run(self) -> None:
        """Until cancelled. Raises UnservedCollection when the collection does not exist, and TooMuch."""
        while True:
            self._kick.clear()
            try:
                if not self._revision:
                    await self._list_in_time()
                await self._watch_until_kicked()
                self._failures = 0
                continue
            except _Relist:
                self._revision = ""
                self._failures += 1
                if self._failures == 1:
                    continue
            except Unreachable as error:
                self.error = str(error)
                self._failures += 1
                if self._failures == TELL_AFTER and not self._connection.lost():
                    log.warning("a member is not followed", member=self._member, path=self.path, error=self.error)
                if isinstance(error, TooLarge) and self._page > 1 and not self._revision:
                    self._page = max(1, self._page // SMALLER)
                    continue
            pause = min(self._pause_max_s, PAUSE_FIRST_S * 2 ** min(self._failures - 1, 10)) * random.uniform(0.7, 1.3)
            try:
                async with _pause(pause):
                    await self._kick.wait()
            except TimeoutError:
                pass

    def _params(self, more: dict[str, str]) -> dict[str, str]:
        return {**more, "labelSelector": self._selector} if self._selector else more

    def _must_be_ok(self, answer: HttpAnswer, what: str) -> None:
        """Raise UnservedCollection, _Relist, or Unreachable, for an answer that is none."""
        if (answer.status == 403) != self.forbidden:
            self.forbidden = not self.forbidden
            self._refused()
        if answer.status == 404:
            raise UnservedCollection(self.path)
        if answer.status == 410 or _is_of_the_future(answer):
            raise _Relist
        if not answer.ok:
            raise Unreachable(f"cannot {what} {self.path}: {answer.message}")

    async def _list_in_time(self) -> None:
        try:
            async with asyncio.timeout(LIST_ALL_S):
                await self._list()
        except TimeoutError:
            raise Unreachable(f"the list of {self.path} had no end within {LIST_ALL_S:.0f} s") from None

    async def _list(self) -> None:
        self._sink.started()
        token = ""
        for _ in range(PAGES_MAX):
            params = {"limit": str(self._page)}
            if token:
                params["continue"] = token
            answer = await self._connection.request(
                "GET", self.path, params=self._params(params), limit_s=LIST_S, even_lost=False
            )
            self._must_be_ok(answer, "list")
            self._contact()
            work = self._time.work()
            for item in rows(answer.body.get("items")):
                self._tell(self._sink.seen, item)
                await work.turn()
            await work.end()
            meta = mapping(answer.body.get("metadata"))
            token = text(meta.get("continue"))
            if not token:
                break
        else:
            raise Unreachable(f"the list of {self.path} has more than {PAGES_MAX} pages")
        self._sink.listed()
        self._revision = str(meta.get("resourceVersion") or "")
        self.synced = True
        self.error = ""

    async def _watch_until_kicked(self) -> None:
        watching = asyncio.ensure_future(self._watch())
        kicked = asyncio.ensure_future(self._kick.wait())
        try:
            await asyncio.wait((watching, kicked), return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()
        finally:
            for task in (watching, kicked):
                task.cancel()
            await asyncio.gather(watching, kicked, return_exceptions=True)

    async def _watch(self) -> None:
        seconds = int(WATCH_S * random.uniform(0.8, 1.0))  # so that a hub's watches do not all end together
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._revision,
            "timeoutSeconds": str(seconds),
        }
        params = self._params(params)
        received = False
        async with self._connection.lines(self.path, params, silence_s=SILENCE_S) as (answer, lines):
            self._must_be_ok(answer, "watch")
            self.error = ""
            self._contact()
            started = asyncio.get_running_loop().time()
            async for some in lines:
                received, self._failures = True, 0
                self._contact()
                await self._take_all(some)
        # A server that ends every watch at once would otherwise be asked without a pause.
        if not received and asyncio.get_running_loop().time() - started < 1.0:
            raise Unreachable(f"the watch of {self.path} ended at once")

    def _tell(self, sink: Callable[[Body], None], body: Body) -> None:
        """One object that cannot be read costs itself alone, and counts as not there."""
        try:
            sink(body)
        except TooMuch:
            raise
        except Exception as error:
            self.unread += 1
            if self.unread in (1, 10, 100) or self.unread % 1000 == 0:  # a member may show many
                log.warning(
                    "an object of a member cannot be read",
                    path=self.path,
                    error=repr(error)[:200],
                    so_many=self.unread,
                    exc_info=self.unread == 1,
                )

    async def _take_all(self, lines: Sequence[bytes]) -> None:
        """Of several changes of one object that came together, the last one counts."""
        work, latest = self._time.work(), dict[object, Body]()
        for number, line in enumerate(lines):
            try:
                event = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise Unreachable(f"the watch of {self.path} sent what is not JSON") from error
            if not isinstance(event, dict):
                raise Unreachable(f"the watch of {self.path} sent what is no event")
            uid = text(mapping(mapping(event.get("object")).get("metadata")).get("uid")) or number
            latest.pop(uid, None)  # the place of the last one, too
            latest[uid] = event
            await work.turn()
        for event in latest.values():
            self._take(event)
            await work.turn()
        await work.end()

    def _take(self, event: Body) -> None:
        kind, body = event.get("type"), dict(mapping(event.get("object")))
        if kind == "ERROR":
            if body.get("code") == 410:
                raise _Relist
            raise Unreachable(f"the watch of {self.path} failed: {body.get('message')}")
        revision = mapping(body.get("metadata")).get("resourceVersion")
        if kind in ("ADDED", "MODIFIED"):
            self._tell(self._sink.seen, body)
        elif kind == "DELETED":
            self._tell(self._sink.gone, body)
        if revision:
            self._revision = str(revision)
