"""`fleet up`: a whole hub on one machine, from nothing.

A single process holds the directory's lock, the embedded database and the listening socket, and supervises the API, the
controllers and, when asked, simulated members. Holding the socket here means that a port in use is known before
anything starts, and that an API process that restarts refuses no client meanwhile. The API process holds a share of the
database too: should this process be killed with SIGKILL, its children end by themselves and the last of them stops the
database.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli.datadir import DataDir, locate
from fleet.cli.failure import Failure
from fleet.cli.options import (
    FINISHED_JOB_TTL_S,
    HISTORY_DAYS,
    ClaimOption,
    DatabaseOption,
    DataDirOption,
    FinishedJobOption,
    GpusOption,
    GuaranteeDelayOption,
    HeadOption,
    HistoryDatabaseOption,
    HistoryDaysOption,
    MetricsOption,
    NodesOption,
    ProtectionOption,
    ReclaimOption,
    UsageDaysOption,
)
from fleet.hub import intact, serving
from fleet.hub.access import AccessOptions, takes_access
from fleet.hub.console import hint
from fleet.hub.firststart import Lock, create_root, prepare, public_names, write_kubeconfig
from fleet.hub.parent import follow_parent
from fleet.hub.tracing import ENV_OTLP, OtlpOption, endpoint_of
from fleet.values.untyped import digits

if TYPE_CHECKING:
    from api.store.embedded import EmbeddedPostgres
    from fleet.hub.supervise import Child, Supervisor

DEFAULT_LISTEN = "127.0.0.1:6440"
READY_LIMIT_S = 90.0  # crash recovery of the database included
MEMBERS_LIMIT_S = 30.0
READY_POLL_S = 0.1
REJOIN_S = 2.0  # after an attempt that failed
MEMBERS_MAX = 676
BACKLOG = 1024
PROGRAM_CHARACTERS_MAX = 120


@dataclass(frozen=True)
class UpOptions:
    """The options of `fleet up`. `database_url` None: the embedded one; `history_url` "": the same;
    `tuning`: options of the controllers;
    `metrics`: host and port of theirs."""

    data: DataDir
    host: str
    port: int
    members: int
    nodes: int
    gpus: int
    database_url: str | None
    history_url: str = ""
    tuning: tuple[str, ...] = ()
    metrics: tuple[str, int] | None = None
    hangs_s: float = 30.0
    access: AccessOptions = field(default_factory=AccessOptions)
    otlp: str = ""


@takes_access
def up(
    access: AccessOptions,
    data_dir: DataDirOption = None,
    listen: Annotated[str, typer.Option(help="HOST:PORT to serve on; port 0 picks a free one.")] = DEFAULT_LISTEN,
    members: Annotated[int, typer.Option(min=0, max=MEMBERS_MAX, help="Simulated members to run and join.")] = 0,
    nodes: NodesOption = 4,
    gpus: GpusOption = 8,
    database_url: DatabaseOption = None,
    history_database_url: HistoryDatabaseOption = None,
    reclaim: ReclaimOption = True,
    protection_seconds: ProtectionOption = 300.0,
    claim_seconds: ClaimOption = 900.0,
    head_after_seconds: HeadOption = 600.0,
    guarantee_delay_seconds: GuaranteeDelayOption = None,
    finished_job_ttl_seconds: FinishedJobOption = FINISHED_JOB_TTL_S,
    history_days: HistoryDaysOption = HISTORY_DAYS,
    usage_days: UsageDaysOption = HISTORY_DAYS,
    metrics_listen: MetricsOption = None,
    otlp_endpoint: OtlpOption = None,
    hang_seconds: Annotated[
        float, typer.Option(min=0, help="A part that shows no life for so long is killed and started again; 0: never.")
    ] = 30.0,
) -> None:
    """Run a whole hub on this machine until Ctrl-C.

    Database, API, controllers and, when asked, simulated members; everything is kept in the data directory.
    """
    follow_parent()  # the demo must not leave a hub behind when it is killed
    host, port = parse_listen(listen)
    seconds = ("--protection-seconds", str(protection_seconds), "--claim-seconds", str(claim_seconds))
    heads: tuple[str, ...] = ("--head-after-seconds", str(head_after_seconds))
    if guarantee_delay_seconds is not None:
        heads += ("--guarantee-delay-seconds", str(guarantee_delay_seconds))
    tuning = ("--reclaim" if reclaim else "--no-reclaim", *seconds, *heads)
    tuning += ("--finished-job-ttl-seconds", str(finished_job_ttl_seconds))
    tuning += tuple(word for one in access.outgoing_allow or () for word in ("--outgoing-allow", one))
    tuning += ("--history-days", str(history_days), "--usage-days", str(usage_days))
    metrics = parse_listen(metrics_listen, "--metrics-listen") if metrics_listen else None
    access.check()
    plan = UpOptions(
        locate(data_dir),
        host,
        port,
        members,
        nodes,
        gpus,
        database_url or None,
        history_database_url or "",
        tuning,
        metrics,
        hang_seconds,
        access,
        endpoint_of(otlp_endpoint),
    )
    intact.check(plan.data, embedded=plan.database_url is None)
    create_root(plan.data)
    lock = Lock(plan.data)
    try:
        asyncio.run(_run(plan))
    finally:
        lock.release()


def parse_listen(text: str, option: str = "--listen") -> tuple[str, int]:
    """HOST:PORT, [V6]:PORT or :PORT. Raises Failure, with the name of the option."""
    host, separator, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    number = digits(port)
    if not separator or number is None or number > 65535:
        raise Failure(f"{option} {text}: not HOST:PORT")
    return host or "0.0.0.0", number


def bind(host: str, port: int) -> socket.socket:
    """A listening socket that children inherit. Raises Failure when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except (OSError, UnicodeError) as error:
        listener.close()
        why = getattr(error, "strerror", None) or str(error)
        raise Failure(f"cannot listen on {host}:{port}: {why}{_listening(port)}") from error
    return listener


def _listening(port: int) -> str:
    """The process of this machine that has the port and what to do about it; "" where none is seen."""
    import psutil

    with contextlib.suppress(psutil.Error):  # other systems show only the own processes, or none
        for one in psutil.net_connections("tcp"):
            if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port and one.pid:
                program = " ".join(psutil.Process(one.pid).cmdline())
                if len(program) > PROGRAM_CHARACTERS_MAX:
                    program = f"{program[:PROGRAM_CHARACTERS_MAX]}…"
                return f", by process {one.pid} ({program}): stop that program or hub, or give another --listen"
    return ""


async def _run(plan: UpOptions) -> None:
    from fleet.cli import logs
    from fleet.hub.starting import place_of, say_start

    began = time.monotonic()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    listener = bind(plan.host, plan.port)
    try:
        metrics = bind(*plan.metrics) if plan.metrics is not None else None
    except Failure:
        listener.close()
        raise
    if sys.stderr.isatty():
        logs.keep(plan.data.logs / "up.log")
    else:
        logs.configure(plan.data.logs / "up.log")
        say_start("up", data=str(plan.data.root), database=place_of(plan.database_url))
    hub = _Hub(plan, listener, metrics)
    try:
        starting = asyncio.create_task(hub.start(began))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            ends: set[asyncio.Future[Any]] = {stopping, hub.supervisor.failed}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if hub.supervisor.failed.done() and not stop.is_set():
                raise hub.supervisor.failed.result()
        else:
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError, Failure):
                await starting
    finally:
        progress("stopping")
        listener.close()
        if metrics is not None:
            metrics.close()
        await hub.stop()


class _Hub:
    """The parts of one running hub, in the order in which they start. The order of the stops is the reverse."""

    def __init__(self, plan: UpOptions, listener: socket.socket, metrics: socket.socket | None) -> None:
        from fleet.hub.supervise import Supervisor

        self._plan = plan
        self._listener = listener
        self._metrics = metrics
        self._postgres: EmbeddedPostgres | None = None
        self._rejoining: asyncio.Task[None] | None = None
        port = listener.getsockname()[1]
        shown = "127.0.0.1" if plan.host in ("0.0.0.0", "::") else plan.host
        self._server = f"https://[{shown}]:{port}" if ":" in shown else f"https://{shown}:{port}"
        self._children = self._plan_children()
        self.supervisor: Supervisor = Supervisor(self._children, plan.hangs_s)

    def _plan_children(self) -> list[Child]:
        """In the order in which they stop."""
        from fleet.hub.supervise import Child

        data = self._plan.data
        where = ["--data-dir", str(data.root)]
        environment = {
            "FLEET_DATABASE_URL": self._plan.database_url or "",
            "FLEET_HISTORY_DATABASE_URL": self._plan.history_url,
            ENV_OTLP: self._plan.otlp,
        }
        descriptor = self._listener.fileno()
        metrics = (self._metrics.fileno(),) if self._metrics is not None else ()
        controllers = ["controllers", *where, *self._plan.tuning]
        controllers += [word for number in metrics for word in ("--metrics-fd", str(number))]
        controllers += self._plan.access.certificate.words()
        advertised = self._server.removeprefix("https://")
        # There is no other API process to go to, and the listening socket stays open for the next one.
        api = ["api", *where, "--fd", str(descriptor), "--advertise", advertised, "--drain-seconds", "0"]
        api += self._plan.access.words()
        children = [
            Child("controllers", controllers, data.logs / "controllers.log", environment, inherit=metrics),
            Child("api", api, data.logs / "api.log", environment, inherit=(descriptor,)),
        ]
        if self._plan.members:
            arguments = ["sim", *where, "--members", str(self._plan.members)]
            arguments += ["--nodes", str(self._plan.nodes), "--gpus", str(self._plan.gpus)]
            children.append(Child("sim", arguments, data.logs / "sim.log"))
        return children

    async def start(self, began: float) -> None:
        """Everything up to the `ready` line. Raises Failure."""
        data, members = self._plan.data, self._plan.members
        if prepare(data, self._plan.host):
            progress(f"first start: made certificates, a token and a kubeconfig in {data.root}")
        given = self._plan.access.certificate
        if lack := serving.lacks(data, given, public_names(self._plan.host)):
            progress(lack)
        write_kubeconfig(data, self._server, serving.server_name(data, given))
        self.supervisor.start()  # the children load while the database starts
        if self._plan.database_url is None:
            await self._start_postgres()
        progress("starting " + ", ".join(["api", "controllers", *(["simulated members"] if members else [])]))
        await self.supervisor.wait_ready(READY_LIMIT_S)
        await asyncio.to_thread(_check_ready, data)
        if members:
            progress(f"joining {members} simulated members")
            simulated = self._children[-1]
            simulated.news.clear()
            await asyncio.to_thread(_join_members, data, simulated.detail.split(","))
            self._rejoining = asyncio.create_task(_rejoin(data, simulated), name="rejoin")
        if self._metrics is not None:
            host, port = self._metrics.getsockname()[:2]
            progress(f"metrics of the controllers: https://{f'[{host}]' if ':' in host else host}:{port}/metrics")
        for line in hint(self._server, data.root) if self._plan.access.console else ():
            progress(line)
        took = time.monotonic() - began
        print(f"ready  {self._server}  kubeconfig={data.kubeconfig}  members={members}  ({took:.1f} s)", flush=True)

    async def _start_postgres(self) -> None:
        from api.store.embedded import EmbeddedFailure, EmbeddedPostgres

        first = not (self._plan.data.postgres / "data").exists()
        progress("creating the database" if first else "starting the database")
        self._postgres = EmbeddedPostgres(self._plan.data.postgres)
        try:
            await self._postgres.start()
        except EmbeddedFailure as error:
            raise Failure(" ".join(str(error).split())[:500]) from error

    async def stop(self) -> None:
        if self._rejoining is not None:
            self._rejoining.cancel()
        await self.supervisor.stop()
        if self._postgres is not None:
            await self._postgres.stop()


def progress(text: str) -> None:
    """The present step, for a person who waits: stderr, so that stdout holds the `ready` line alone."""
    from fleet.cli import logs

    logs.say(text)


def _check_ready(data: DataDir) -> None:
    """Wait until the API, which has to see the first sign of life of the controllers, says so."""
    from fleet.cli.hub import connect

    deadline = time.monotonic() + MEMBERS_LIMIT_S
    while True:
        try:
            connect(data.kubeconfig, token="").request("GET", "/readyz")
            return
        except Failure:
            if time.monotonic() > deadline:
                raise
        time.sleep(READY_POLL_S)


async def _rejoin(data: DataDir, simulated: Child) -> None:
    """Simulated members that died come back empty and at new addresses: join them again, each time."""
    while True:
        await simulated.news.wait()
        simulated.news.clear()
        try:
            await asyncio.to_thread(_join_members, data, simulated.detail.split(","), only_known=True)
        except Exception as error:  # a hub that restarts: the call is repeated until it succeeds
            progress(f"simulated members could not be joined again: {error}")
            await asyncio.sleep(REJOIN_S)
            simulated.news.set()


def _join_members(data: DataDir, names: list[str], *, only_known: bool = False) -> None:
    """Join the simulated members, all of them before waiting for any, and wait until they are ready. `only_known`:
    leave out those that have been removed from the hub."""
    from fleet.amc.get import CLUSTERS
    from fleet.cli.hub import connect
    from fleet.cli.joining import MemberFacts, join, wait_ready

    hub = connect(data.kubeconfig, token="")
    if only_known:
        names = [name for name in names if hub.find(f"{CLUSTERS}/{name}") is not None]
    for name in names:
        join(hub, MemberFacts(name, data.members / f"{name}.kubeconfig", provider="simulated"))
    wait_ready(hub, names, MEMBERS_LIMIT_S)
