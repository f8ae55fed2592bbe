"""API priority and fairness in front of the handlers: the requests of other users pass a flood of one.

The scarce thing of an API process is the time of its event loop. So a request is run step by step, and as long as
others wait, each step takes its turn (scheduler.py). The time of a step is measured and charged to the request's flow.
While no step waits, and the steps of one round of the loop are short together, a request costs a few readings of a
clock and nothing waits.

Seats bound the number of requests that are worked on at once, as in a kube-apiserver. A request that finds neither a
seat nor room in its queue is refused with 429.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from time import perf_counter, thread_time
from typing import Any

from api.audit.face import Handler
from api.engine.status import StatusError
from api.fairness.config import Class, Config
from api.fairness.metrics import RequestCounts
from api.fairness.reading import SCOPE, Reader
from api.fairness.scheduler import Scheduler, WaitingStep
from api.objects.objects import Objects
from api.wire.http import Answer, Receive, Request, Response, Scope, Send, Upgrade
from api.wire.rights import Attributes

SEATS = 600  # of one API process, as of a kube-apiserver: 400 requests that read and 200 that write
ROUND_S = 0.001  # steps of one round of the event loop, before the next ones wait
SHORT_S = 0.00002  # the same while a light flow passes others: one step, since an answer takes several rounds
SHORT_ROUNDS = 500  # after such a step: about 60 ms
LONG_S = 0.001  # of a step, from which on processor time is asked for
STEP_S = 0.0001  # of a step, at first
STEP_LEAST_S = 0.00002
WEIGHT = 0.05  # of one step in the mean of their lengths
SEAT_S = 0.001  # of loop time for each seat of a list
SEATS_MAX = 10  # of one request
COMPANY = 16  # requests of a flow after several at once, until one counts as alone
BODY_BYTES = 128 * 1024  # of a body for each seat
WAIT_S = 15.0  # in a queue; then the request is refused
LOOK_S = 1.0  # between two looks for requests that have waited too long
LISTS_KEPT = 1000  # sorts of lists whose time is remembered
FORGET = 0.8  # of the remembered time, with each list that takes less
LONG_RUNNING = frozenset({"attach", "dial", "exec", "log", "portforward", "proxy", "tunnel"})

Work = Callable[[Request, Scope, Receive, Send], Coroutine[Any, Any, None]]


class RequestPlace:
    """The place of one request among the others, once it is classified."""

    __slots__ = ("_fairness", "cls", "flow", "granted", "level", "seated", "seats", "sort", "spent")

    def __init__(self, fairness: Fairness, cls: Class, seats: int) -> None:
        self._fairness, self.cls, self.level, self.flow = fairness, cls, cls.level, cls.flow
        self.seats = seats
        self.seated = False
        self.sort: tuple[object, ...] | None = None  # of a list, whose time is remembered
        self.spent = self.granted = 0.0  # time on the loop; what is charged already for the next step

    def answered(self, answer: Answer) -> None:
        """Name the class in the answer. A stream gives its seat back: it may last."""
        if not isinstance(answer, Upgrade):
            answer.headers += self.cls.headers
        if not isinstance(answer, Response):
            self.leave()

    def leave(self) -> None:
        """Give the seats back; may be called more than once."""
        if self.seated:
            self.seated = False
            self._fairness.left(self)


class Fairness:
    """The gate of one API process."""

    def __init__(self, objects: Objects, seats: int = SEATS) -> None:
        self.scheduler = Scheduler(seats)
        self.counts = RequestCounts(self.scheduler)
        self._config = Config(objects, self.scheduler, self.counts)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._round = 0.0  # spent in this round of the loop
        self._noted = self._processor = 0.0  # the processor time that was used up to a moment not long ago
        self._bound = ROUND_S  # of a round
        self._short = 0  # rounds that will be short
        self._step = STEP_S  # the mean length of a step
        self._turning = False
        self._timer: asyncio.TimerHandle | None = None
        self._lists: dict[tuple[object, ...], float] = {}

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._config.start()

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._config.stop()

    def around(self, handler: Work) -> Handler:
        """A handler that works on each request step by step, and gives its seats back at the end."""

        def stepped(request: Request, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
            return _MeasuredWork(self, request, handler(request, scope, receive, send))

        return stepped

    def reader(self) -> Reader:
        """The reader of a new connection."""
        return Reader(self)

    def place(self, cls: Class, seats: int) -> RequestPlace:
        return RequestPlace(self, cls, seats)

    # -- seats

    def enter(self, request: Request, attributes: Attributes) -> Coroutine[Any, Any, None] | None:
        """Classify the request. Returns what is to be awaited before it goes on, which may raise StatusError 429; None
        for one that has its seat, or needs none."""
        request_class = self._config.classify(request.user, attributes)
        place = request.place = RequestPlace(self, request_class, 1)
        level, flow = request_class.level, place.flow
        flow.company = COMPANY if flow.in_use or len(flow) else max(flow.company - 1, 0)
        request.alone = not flow.company
        reader: Reader | None = request.scope.get(SCOPE)
        turned = reader is not None and reader.classified(request_class)
        if level.limits.exempt or attributes.subresource in LONG_RUNNING:
            return None
        if attributes.verb == "list" or request.method != "GET":
            self._estimate(place, request, attributes)
        if reader is not None and reader.late:
            raise self._refused(place, "time-out")
        scheduler = self.scheduler
        turned = turned or not (scheduler.waiting or self._round >= self._bound)
        if not turned or not scheduler.take(level, place.flow, place.seats):
            return self._queue(place)
        place.seated = True
        request_class.tally.dispatched += 1
        return None

    def _estimate(self, place: RequestPlace, request: Request, attributes: Attributes) -> None:
        """The seats of a request: by the time that a list like it took, or by the size of the body."""
        if attributes.verb == "list" and not attributes.name:
            limit = request.query.get("limit", "")
            size = int(limit).bit_length() if limit.isascii() and limit.isdigit() and len(limit) < 10 else 0
            place.sort = (attributes.group, attributes.resource, attributes.namespace, size)
            place.seats = min(1 + int(self._lists.get(place.sort, 0.0) / SEAT_S), SEATS_MAX)
            return
        length = request.header(b"content-length")
        if len(length) > 5 and length.isascii() and length.isdigit():
            place.seats = min(1 + int(length[:12]) // BODY_BYTES, SEATS_MAX)

    async def _queue(self, place: RequestPlace) -> None:
        scheduler, level = self.scheduler, place.level
        if not level.limits.queues:
            if not scheduler.take(level, place.flow, place.seats):
                raise self._refused(place, "concurrency-limit")
            place.seated = True
        if not self._light(place) or not (place.seated or scheduler.take(level, place.flow, place.seats)):
            await self._wait_in_queue(place)
        place.seated = True
        place.cls.tally.dispatched += 1

    async def _wait_in_queue(self, place: RequestPlace) -> None:
        turn = self._wait(place)
        if turn is None:
            raise self._refused(place, "queue-full")
        began = perf_counter()
        if not await turn:
            raise self._refused(place, "time-out")
        self.counts.waited(place.level.name, perf_counter() - began)

    def _refused(self, place: RequestPlace, why: str) -> StatusError:
        self.counts.refused(place.cls.tally, why)
        return StatusError(429, "TooManyRequests", "Too many requests, please try again later.", retry_after_s=1)

    def left(self, place: RequestPlace) -> None:
        self.scheduler.leave(place.level, place.flow, place.seats)
        if place.sort is not None:
            known = self._lists.get(place.sort, 0.0)
            if known or len(self._lists) < LISTS_KEPT:
                self._lists[place.sort] = max(place.spent, known * FORGET)
        if self.scheduler.waiting:
            self._turn_soon()

    # -- turns

    def turn_of(self, place: RequestPlace) -> asyncio.Future[bool] | None:
        """The turn that a request with a seat waits for before its next step; None where it need not wait."""
        free = self._light(place) if self.scheduler.waiting else self._round < self._bound
        return None if free else self._wait(place)

    def _light(self, place: RequestPlace) -> bool:
        """Whether the request goes on before all that wait. Rounds are short then for a while, where it is the only one
        of its flow: there are more steps of it to come. Flows with many requests gain nothing by short rounds."""
        if self._round >= ROUND_S or not self.scheduler.light(place.level, place.flow):
            return False
        if place.flow.in_use <= place.seats:
            self._short, self._bound = SHORT_ROUNDS, SHORT_S
        return True

    def spend(self, place: RequestPlace | None, seconds: float) -> None:
        """A step has taken so long on the loop: less, where other processes have had the processor meanwhile."""
        if seconds > LONG_S:
            seconds = min(seconds, thread_time() - self._processor)
        self._round += seconds
        if not self._turning:
            self._turn_soon()
        if place is not None and place.seated:
            place.spent += seconds
            if self.scheduler.waiting:
                self._step += (max(seconds, STEP_LEAST_S) - self._step) * WEIGHT
                self.scheduler.charge(place.level, place.flow, seconds - place.granted)
            place.granted = 0.0

    def _wait(self, place: RequestPlace) -> asyncio.Future[bool] | None:
        """Whether the turn has come (else the wait was too long); None where the queue is full."""
        assert self._loop is not None
        future: asyncio.Future[bool] = self._loop.create_future()
        estimate = self._step if place.seated else self._step + max(place.seats - 1, 0) * SEAT_S
        step = WaitingStep(
            place.level, place.flow, place.seats, estimate, self._loop.time(), place.seated, (future, place)
        )
        if not self.scheduler.wait(step):
            return None
        future.add_done_callback(lambda done: self.scheduler.drop(step) if done.cancelled() else None)
        self._turn_soon()
        return future

    def _turn_soon(self) -> None:
        if not self._turning:
            assert self._loop is not None
            self._turning = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """A new round: let so many steps go on as fill it."""
        self._turning = False
        self._round = granted = 0.0
        if self._loop is not None and (now := self._loop.time()) >= self._noted + LONG_S:
            self._noted, self._processor = now, thread_time()
        self._short -= self._short > 0
        self._bound = SHORT_S if self._short else ROUND_S
        while granted < self._bound:
            step = self.scheduler.next()
            if step is None:
                break
            granted += step.estimate_s
            future, place = step.owner
            if not future.done():
                place.seated = True
                place.granted = step.estimate_s
                future.set_result(True)
            elif not step.seated:
                self.scheduler.leave(step.level, step.flow, step.seats)
        if self.scheduler.waiting:
            if granted:
                self._turn_soon()
            self._look_later()

    def _look_later(self) -> None:
        if self._timer is None and self._loop is not None:
            self._timer = self._loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        """Refuse what has waited too long."""
        assert self._loop is not None
        self._timer = None
        for step in self.scheduler.overdue(self._loop.time() - WAIT_S):
            future, _ = step.owner
            if not future.done():
                future.set_result(False)
        if self.scheduler.waiting:
            self._look_later()
            self._turn_soon()


class _MeasuredWork:
    """Awaits a coroutine as if it were awaited itself, and measures each of its steps."""

    __slots__ = ("_fairness", "_request", "_work")

    def __init__(self, fairness: Fairness, request: Request, work: Coroutine[Any, Any, None]) -> None:
        self._fairness, self._request, self._work = fairness, request, work

    def __await__(self) -> Generator[Any, None, None]:
        try:
            yield from self._steps()
        finally:
            if self._request.place is not None:
                self._request.place.leave()

    def _steps(self) -> Generator[Any, None, None]:
        fairness, request, work = self._fairness, self._request, self._work
        error: BaseException | None = None
        while True:
            began = perf_counter()
            try:
                step = work.send(None) if error is None else work.throw(error)
            except StopIteration:
                return
            finally:
                fairness.spend(request.place, perf_counter() - began)
            error = None
            try:
                yield step
                place = request.place
                if place is not None and place.seated:
                    turn = fairness.turn_of(place)
                    if turn is not None:
                        yield from turn.__await__()
            except BaseException as raised:  # the work decides, as when it is awaited itself
                error = raised
