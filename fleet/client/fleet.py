"""`Fleet` and `AsyncFleet`: the operations of this package as methods, blocking and awaited.

The methods are made from the operations, with their names, parameters, types and documentation.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from fleet.client import history, hub, jobs, jobwatch, logs, running, submitting, verbs, watching
from fleet.client.config import Access, access
from fleet.client.steps import Flow, Session, Steps
from fleet.client.tables import Record, Rows
from fleet.client.transport import Awaiting, Blocking

if TYPE_CHECKING:
    from pandas import DataFrame

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


class Items(Generic[T]):
    """Items as they come. Each loop over it asks anew. A notebook shows those of lists that end."""

    def __init__(self, start: Callable[[], Iterator[T]], name: str = "items", *, shown: bool = True) -> None:
        self._start, self._name, self._tabular = start, name, shown

    def __iter__(self) -> Iterator[T]:
        return self._start()

    def all(self) -> Rows[Any]:
        """All of them; a notebook shows a table."""
        return Rows(_records(list(self)))

    def df(self) -> DataFrame:
        """All of them as a DataFrame."""
        return self.all().df()

    def __repr__(self) -> str:
        return f"<{self._name}: read it in a loop{', by .all() or by .df()' if self._tabular else ''}>"

    def _repr_html_(self) -> str | None:
        return self.all()._repr_html_() if self._tabular else None


class AsyncItems(Generic[T]):
    """Items as they come. Each loop over it asks anew."""

    def __init__(self, start: Callable[[], AsyncIterator[T]], name: str = "items") -> None:
        self._start, self._name = start, name

    def __aiter__(self) -> AsyncIterator[T]:
        return self._start()

    async def all(self) -> Rows[Any]:
        """All of them; a notebook shows a table."""
        return Rows(_records([item async for item in self]))

    async def df(self) -> DataFrame:
        """All of them as a DataFrame."""
        return (await self.all()).df()

    def __repr__(self) -> str:
        return f"<{self._name}: read it by async for>"


def _records(items: list[Any]) -> list[Any]:
    for item in items:
        if not isinstance(item, Record):
            raise TypeError(f"{type(item).__name__} is no row of a table")
    return items


class _Client:
    def __init__(
        self,
        *,
        kubeconfig: str | Path | None = None,
        context: str | None = None,
        namespace: str | None = None,
        data_dir: str | Path | None = None,
        server: str | None = None,
        token: str | Callable[[], str] | None = None,
        ca: str | Path | bytes | None = None,
        timeout: float = 30.0,
        tries: int = 5,
    ) -> None:
        """Find the hub as `fleet` does, or by `server` and `ca`. `token` (or a function that returns it) stands for the
        credentials of a kubeconfig's user, as FLEET_TOKEN does.

        `namespace`: of operations that name none. `timeout`: seconds that one request may take. `tries`: how often a
        request is sent at most, where that is safe. Nothing is asked yet. Raises BadConfiguration."""
        found = access(kubeconfig=kubeconfig, data_dir=data_dir, context=context, server=server, token=token, ca=ca)
        self.session = Session(namespace or found.namespace, tries=max(1, tries), sure=found.sure, address=found.server)
        self._connect(found, timeout)

    def _connect(self, found: Access, timeout_s: float) -> None:
        raise NotImplementedError

    @property
    def namespace(self) -> str:
        """The namespace of operations that name none."""
        return self.session.namespace

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.session.address}, namespace={self.namespace!r})"


def _shaped(method: Callable[..., Any], operation: Callable[..., Any]) -> None:
    """`help()` shows the operation's parameters after `self`."""
    functools.update_wrapper(method, operation)
    signature = inspect.signature(operation)
    _, *rest = signature.parameters.values()
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    method.__signature__ = signature.replace(parameters=[own, *rest])  # type: ignore[attr-defined]


def _run(operation: Callable[Concatenate[Session, P], Steps[R]]) -> Callable[Concatenate[Fleet, P], R]:
    def method(self: Fleet, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.driver.run(operation(self.session, *args, **kwargs))

    _shaped(method, operation)
    return method


def _items(
    operation: Callable[Concatenate[Session, P], Flow[T]], *, tabular: bool = False
) -> Callable[Concatenate[Fleet, P], Items[T]]:
    """`tabular`: the items end soon, and are rows of a table."""

    def method(self: Fleet, /, *args: P.args, **kwargs: P.kwargs) -> Items[T]:
        operation(self.session, *args, **kwargs)  # refuses wrong arguments here, and not in the loop
        name = operation.__name__
        return Items(lambda: self.driver.items(operation(self.session, *args, **kwargs)), name, shown=tabular)

    _shaped(method, operation)
    return method


def _awaited(
    operation: Callable[Concatenate[Session, P], Steps[R]],
) -> Callable[Concatenate[AsyncFleet, P], Coroutine[Any, Any, R]]:
    def method(self: AsyncFleet, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        return self.driver.run(operation(self.session, *args, **kwargs))

    _shaped(method, operation)
    return method


def _async_items(
    operation: Callable[Concatenate[Session, P], Flow[T]],
) -> Callable[Concatenate[AsyncFleet, P], AsyncItems[T]]:
    def method(self: AsyncFleet, /, *args: P.args, **kwargs: P.kwargs) -> AsyncItems[T]:
        operation(self.session, *args, **kwargs)  # refuses wrong arguments here, and not in the loop
        return AsyncItems(lambda: self.driver.items(operation(self.session, *args, **kwargs)), operation.__name__)

    _shaped(method, operation)
    return method


class Fleet(_Client):
    """A hub, asked by a program that waits for each answer. Several threads may share one."""

    def _connect(self, found: Access, timeout_s: float) -> None:
        self.driver = Blocking(found, timeout_s)

    submit, run = _run(submitting.submit), _run(running.run)
    apply, delete = _run(submitting.apply), _run(submitting.delete)
    job, explain, events = _run(jobs.job), _run(jobs.explain), _run(jobs.events)
    wait, watch = _run(jobwatch.wait), _items(jobwatch.watch)
    jobs = _items(jobs.jobs, tabular=True)
    watch_objects = _items(watching.watch_objects)
    pods = _run(logs.pods)
    logs, all_logs = _items(logs.logs), _items(logs.all_logs)
    hold, release = _run(verbs.hold), _run(verbs.release)
    suspend, resume = _run(verbs.suspend), _run(verbs.resume)
    cancel, priority = _run(verbs.cancel), _run(verbs.priority)
    queues, clusters, status = _run(hub.queues), _run(hub.clusters), _run(hub.status)
    what_if, usage = _run(hub.what_if), _run(hub.usage)
    report = _run(history.report)
    history = _items(history.history, tabular=True)

    def close(self) -> None:
        """Close the connections."""
        self.driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncFleet(_Client):
    """A hub, asked by coroutines of one event loop: `Fleet` with `await` and `async for`."""

    def _connect(self, found: Access, timeout_s: float) -> None:
        self.driver = Awaiting(found, timeout_s)

    submit, run = _awaited(submitting.submit), _awaited(running.run)
    apply, delete = _awaited(submitting.apply), _awaited(submitting.delete)
    job, explain, events = _awaited(jobs.job), _awaited(jobs.explain), _awaited(jobs.events)
    wait, watch = _awaited(jobwatch.wait), _async_items(jobwatch.watch)
    jobs = _async_items(jobs.jobs)
    watch_objects = _async_items(watching.watch_objects)
    pods = _awaited(logs.pods)
    logs, all_logs = _async_items(logs.logs), _async_items(logs.all_logs)
    hold, release = _awaited(verbs.hold), _awaited(verbs.release)
    suspend, resume = _awaited(verbs.suspend), _awaited(verbs.resume)
    cancel, priority = _awaited(verbs.cancel), _awaited(verbs.priority)
    queues, clusters, status = _awaited(hub.queues), _awaited(hub.clusters), _awaited(hub.status)
    what_if, usage = _awaited(hub.what_if), _awaited(hub.usage)
    report = _awaited(history.report)
    history = _async_items(history.history)

    async def close(self) -> None:
        """Close the connections."""
        await self.driver.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
