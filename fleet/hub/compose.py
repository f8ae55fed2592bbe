"""Puts the parts of a hub process together: the one place, beside api/server/app.py, that knows all of them.

Everything is imported inside functions: a process loads only the parts that it runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fleet.cli.datadir import DataDir
from fleet.cli.failure import Failure, Misfit
from fleet.simulate.wall import RandomIds, WallClock

if TYPE_CHECKING:
    from api.engine.registry import Registry
    from api.objects.objects import Objects
    from api.store.postgres import PostgresStore
    from fleet.controllers.decide.process import ProcessDecider
    from fleet.controllers.runtime.heartbeat import Heartbeat
    from fleet.controllers.runtime.hub import ControllerConfig, Hub
    from fleet.controllers.runtime.metrics import Metrics
    from fleet.core.solver.process import ProcessSolver
    from fleet.hub.exposition import Gate
    from fleet.hub.serving import ServingOptions
    from fleet.traces.traces import Traces

SWITCH_S = 0.0005  # after which a thread gives way to the event loop, which waits for its turn at each system call
DATABASE_WAIT_S = 60.0
DATABASE_RETRY_S = 0.2
KINDS_WAIT_S = 10.0
STAND_AGAIN_S = 0.2  # after the leadership was lost
STAND_AGAIN_MAX_S = 30.0  # after it could not even be asked for, again and again
CHILDREN_KEPT_S = 5.0  # by a process that leads no more: it may be the next to lead, and new ones take seconds
LED = ("fleet.controllers.manager", "fleet.controllers.runtime.heartbeat", "fleet.members.clusters")  # by a leader


@dataclass
class CommonParts:
    """The parts of every process of a hub: the store, the kinds, and the objects over both."""

    data: DataDir
    dsn: str
    clock: WallClock
    ids: RandomIds
    store: PostgresStore
    registry: Registry
    objects: Objects
    traces: Traces | None = None


@dataclass(frozen=True)
class Children:
    """The processes of a leader's decisions. They write nothing, so the next turn may have them."""

    decider: ProcessDecider
    solver: ProcessSolver

    def warm(self) -> None:
        """Start those that do not run, without waiting for them."""
        self.decider.warm()
        self.solver.warm()

    def close(self) -> None:
        """End them."""
        self.decider.close()
        self.solver.close()


@dataclass(frozen=True)
class Databases:
    """The databases that are named; None: the embedded one, and for the history that of the hub."""

    hub: str | None
    history: str | None = None


def run(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run `main(stop)` on uvloop until it returns; SIGTERM and SIGINT set `stop`."""
    import uvloop

    from fleet.hub.collecting import collect_seldom
    from fleet.hub.eventloop import EventLoop
    from fleet.hub.parent import follow_parent, show_life

    follow_parent()
    collect_seldom()
    sys.setswitchinterval(SWITCH_S)

    async def supervised() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        showing = asyncio.create_task(show_life(), name="life")
        try:
            await main(stop)
        finally:
            showing.cancel()

    uvloop.run(supervised(), loop_factory=EventLoop)


@contextlib.asynccontextmanager
async def database(data: DataDir, url: str | None) -> AsyncIterator[str]:
    """The DSN to use: `url`, or that of the data directory's embedded server, which this process then shares."""
    if url:
        yield url
        return
    from api.store.embedded import EmbeddedFailure, EmbeddedPostgres

    postgres = EmbeddedPostgres(data.postgres)
    try:
        dsn = await postgres.start()
    except EmbeddedFailure as error:
        raise Failure(" ".join(str(error).split())[:500]) from error
    try:
        yield dsn
    finally:
        await postgres.stop()


@contextlib.asynccontextmanager
async def base(data: DataDir, dsn: str, parsed_bytes: int | None = None) -> AsyncIterator[CommonParts]:
    """Store, kinds and objects, with custom kinds following the hub's CRDs. Raises Failure without a database.
    `parsed_bytes`: the room of objects that are parsed; None for loops that look at all objects again and again."""
    from api.engine.registry import Registry
    from api.objects.crds import follow_crds
    from api.objects.objects import Objects
    from api.store.postgres import PostgresStore
    from fleet.admission import rules
    from fleet.admission.filling import filled
    from fleet.admission.interpreters import follow_interpreters
    from fleet.admission.kindfiles import load_kinds

    clock, ids = WallClock(), RandomIds()
    store = PostgresStore(dsn, clock, secret_key_file=data.secrets_key, parsed_bytes=parsed_bytes)
    await _start_store(store, data)
    try:
        registry = Registry(load_kinds())
        objects = Objects(store, registry, clock, ids, rules=rules(), fill=filled)
        loaded, declared = asyncio.Event(), asyncio.Event()
        following = [
            asyncio.create_task(follow_crds(store, registry, loaded), name="crds"),
            asyncio.create_task(follow_interpreters(store, declared), name="interpreters"),
        ]
        try:
            with contextlib.suppress(TimeoutError):  # no loop should look at an object whose kind is on its way
                await asyncio.wait_for(asyncio.gather(loaded.wait(), declared.wait()), KINDS_WAIT_S)
            yield CommonParts(data, dsn, clock, ids, store, registry, objects)
        finally:
            for task in following:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
    finally:
        await store.stop()


async def _start_store(store: PostgresStore, data: DataDir) -> None:
    """Start it; a database that is still starting gets a bounded time."""
    from api.store.secrets import MissingKey
    from fleet.values.ports import SchemaTooNew, StoreUnavailable

    deadline = asyncio.get_running_loop().time() + DATABASE_WAIT_S
    while True:
        try:
            await store.start()
        except MissingKey as error:
            text = "put back the secrets.key that the database was written with"
            raise Misfit(f"{data.secrets_key} is not the key file of this database ({error}): {text}") from error
        except SchemaTooNew as error:
            raise Misfit(str(error)) from error
        except StoreUnavailable as error:
            if asyncio.get_running_loop().time() > deadline:
                raise Failure(str(error)) from error
            await asyncio.sleep(DATABASE_RETRY_S)
        else:
            return


async def same_hub(hub: CommonParts, *, record: bool) -> None:
    """Raises Failure where the database is another hub's than the data directory."""
    from fleet.admission.seed import hub_of_database

    mine = hub.data.hub_id
    known = await hub_of_database(hub.objects, mine, record=record)
    if known != mine:
        raise Failure(
            f"{hub.data.hub_id_file} says {mine}, and the database is of hub {known}: put the file of that hub back, or"
            f" write {known} into it; another id would not know the hub's own copies in the members"
        )


async def run_controllers(
    data: DataDir,
    urls: Databases,
    stop: asyncio.Event,
    on_ready: Callable[[], None],
    config: ControllerConfig,
    listener: socket.socket | None = None,
    otlp: str = "",
    certificate: ServingOptions | None = None,
) -> None:
    """The controllers' process: wait until it leads, then run every loop; when the leadership is lost, end all of them
    and wait again. The process ends with `stop` alone. `listener`: for its metrics, which it serves from the
    beginning, with `certificate` or that of the directory. `otlp`: where its traces go, "" for nowhere."""
    from fleet.controllers.runtime.metrics import Metrics
    from fleet.hub.tracing import traces_of

    metrics = Metrics()
    async with traces_of(otlp, "fleet-controllers", data.hub_id) as traces, contextlib.AsyncExitStack() as stack:
        if traces is not None:
            traces.show(metrics.registry)
        gate = None
        if listener is not None:
            from fleet.hub.authentication import administrator
            from fleet.hub.exposition import Exposition, Gate
            from fleet.hub.serving import ServingOptions, followed, serving_certificates

            gate = Gate(administrator(data, WallClock()))
            certificates = serving_certificates(data, certificate or ServingOptions())
            served = Exposition(metrics.registry, listener, gate, certificates)
            stack.callback(served.stop)
            await stack.enter_async_context(followed(certificates, served.renew))
        await _lead(data, urls, stop, on_ready, config, metrics, gate, traces)


async def _lead(
    data: DataDir,
    urls: Databases,
    stop: asyncio.Event,
    on_ready: Callable[[], None],
    config: ControllerConfig,
    metrics: Metrics,
    gate: Gate | None,
    traces: Traces | None,
) -> None:
    """Stand for election, lead, and stand again, until `stop` (docs/decisions/0016). `gate`: of its metrics."""
    import structlog

    from fleet.controllers.decide.process import ProcessDecider
    from fleet.controllers.runtime.terms import end_term
    from fleet.core.solver.process import ProcessSolver
    from fleet.kinds.lookup import shipped

    log = structlog.get_logger(__name__)
    async with database(data, urls.hub) as dsn, base(data, dsn) as hub, contextlib.AsyncExitStack() as stack:
        if gate is not None:
            from api.access.rbac import Rbac
            from api.access.storedtokens import StoredTokens
            from api.store.metrics import StoreMetrics

            StoreMetrics(hub.store).show(metrics.registry)
            gate.tokens = StoredTokens(hub.store, hub.clock)
            gate.rbac = Rbac(hub.store)
            await gate.rbac.start()
            stack.push_async_callback(gate.rbac.stop)
        hub.traces = traces
        await same_hub(hub, record=False)  # the API records it: namespaces are its work
        await end_term(hub.objects)
        for module in LED:  # before it leads: a hub without a leader waits for nothing that could be done ahead
            importlib.import_module(module)
        shipped()
        children = Children(ProcessDecider(), ProcessSolver())
        stack.callback(children.close)
        pause, history = STAND_AGAIN_S, urls.history or dsn
        while not stop.is_set():
            try:
                led = await _lead_once(hub, history, stop, on_ready, config, metrics, children)
            except Exception:  # a bug, or a database that refuses: nothing of this turn is left, so try another
                log.exception("leading failed", again_in_s=pause)
                led = False
            pause = STAND_AGAIN_S if led else min(STAND_AGAIN_MAX_S, 2 * pause)
            if not stop.is_set():
                log.warning("this process leads no longer, and stands for election again", again_in_s=pause)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), pause)


async def _lead_once(
    hub: CommonParts,
    history: str,
    stop: asyncio.Event,
    on_ready: Callable[[], None],
    config: ControllerConfig,
    metrics: Metrics,
    children: Children,
) -> bool:
    """Wait for the leadership and run every loop until it is lost, or until `stop`; whether it led. On return nothing
    that this turn began runs any more: its loops have ended, and its members are disconnected. A write of a thread of
    it is refused, since its epoch is over and its `leadership` sure of nothing. The next turn has the same `children`,
    if it comes soon."""
    import os
    import socket as sockets

    from api.lifecycle.authority import Authority
    from api.loops.controller import cancelled
    from api.store.leadership import PostgresLeadership, Sign
    from fleet.bindings.heartbeat import RENEW_S
    from fleet.controllers.runtime.hub import Hub
    from fleet.hub.tunnels import dialer_of
    from fleet.members.clusters import ClusterMembers

    leadership, holder = PostgresLeadership(hub.dsn), f"{sockets.gethostname()}-{os.getpid()}"
    leading = asyncio.create_task(leadership.acquire("controllers", holder))
    stopping = asyncio.create_task(stop.wait())
    try:
        for patience in (CHILDREN_KEPT_S, None):
            await asyncio.wait({leading, stopping}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if leading.done() or stopping.done():
                break
            await asyncio.to_thread(children.close)
        if not leading.done():
            return False
        dialer = dialer_of(hub)
        members = ClusterMembers(may_write=leadership.sure, dial=dialer.dial)
        parts = Hub(
            hub.store,
            hub.objects,
            hub.registry,
            members,
            hub.clock,
            hub.ids,
            hub.data.hub_id,
            epoch=leading.result(),
            config=config,
            metrics=metrics,
            authority=Authority(hub.data.ca_certificate, hub.data.ca_key),
            history_dsn=history,
            traces=hub.traces,
        )
        over = asyncio.Event()
        lost = asyncio.create_task(leadership.lost())
        for task in (lost, stopping):
            task.add_done_callback(lambda _: over.set())

        def show(heartbeat: Heartbeat) -> None:
            writer = hub.store.apart()
            leadership.show(Sign(lambda: heartbeat.beat(writer.commit), RENEW_S, writer.close))

        try:
            await _run_loops(parts, holder, children, over, on_ready, show)
        finally:
            await cancelled(lost)
            await members.stop()
            await dialer.aclose()
        return True
    finally:
        for waiting in (leading, stopping):
            await cancelled(waiting)
        await leadership.release()


async def _run_loops(
    parts: Hub,
    holder: str,
    children: Children,
    over: asyncio.Event,
    on_ready: Callable[[], None],
    show: Callable[[Heartbeat], None],
) -> None:
    """Run every loop of the leader `holder` until `over`; `show` begins its sign of life."""
    import structlog

    from api.loops.controller import cancelled, run_all
    from fleet.controllers.decide.loop import DecideLoop
    from fleet.controllers.manager import build_loops
    from fleet.controllers.runtime.heartbeat import Heartbeat
    from fleet.values.ports import StaleEpoch

    metrics = parts.metrics
    warming = asyncio.create_task(asyncio.to_thread(children.warm))
    try:
        structlog.get_logger(__name__).info("this process leads", epoch=parts.epoch)
        metrics.leader.set(1)
        on_ready()
        loops = build_loops(parts, children.solver, children.decider)
        decide = next(loop for loop in loops if isinstance(loop, DecideLoop))
        heartbeat = Heartbeat(parts, holder, decide.look_again)
        show(heartbeat)
        await run_all([*loops, heartbeat], over, metrics.ended)
    except StaleEpoch:  # another process leads; this one was the last to know
        pass
    finally:
        metrics.leader.set(0)
        await cancelled(warming)


async def simulate(
    data: DataDir, count: int, nodes: int, gpus: int, stop: asyncio.Event, on_ready: Callable[[str], None]
) -> None:
    """The simulated members' process; `on_ready` gets their names, separated by commas."""
    from fleet.hub.firststart import members_tls
    from fleet.simulate.run import member_names, run_simulated

    names = member_names(count)
    await run_simulated(
        names,
        directory=data.members,
        nodes=nodes,
        gpus=gpus,
        tls=members_tls(data),
        stop=stop,
        on_ready=lambda _: on_ready(",".join(names)),
    )
