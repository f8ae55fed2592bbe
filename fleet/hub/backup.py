"""`fleet backup`: database and data directory of a hub in one file, while the hub works."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, NoReturn

import typer

from fleet.cli.failure import Failure
from fleet.cli.options import DatabaseOption, DataDirOption

if TYPE_CHECKING:
    from fleet.cli.datadir import DataDir

PassphraseOption = Annotated[
    Path | None,
    typer.Option("--passphrase-file", help="A file whose first line encrypts the keys in the backup."),
]


def backup(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write; -: stdout.")],
    passphrase_file: PassphraseOption = None,
    data_dir: DataDirOption = None,
    database_url: DatabaseOption = None,
) -> None:
    """Write a backup of the hub to a file.

    The hub may work meanwhile. The backup holds all objects, the decision records, and the keys and certificates of the
    data directory. Keep it as you keep the keys. `fleet restore` reads it.
    """
    import asyncio

    from fleet.cli.datadir import locate
    from fleet.hub import intact

    data = locate(data_dir)
    intact.check(data, embedded=not database_url)
    data.need()
    if not database_url and not (data.postgres / "data").exists():
        raise Failure(f"there is no database in {data.root}: say --database-url")
    passphrase = passphrase_of(passphrase_file)
    with _written(file) as output:
        asyncio.run(_backup(data, database_url or None, output, _name(file), passphrase))
    if passphrase is None:
        _say("the backup holds the hub's keys as they are: whoever reads it is the hub (else: --passphrase-file)")


async def _backup(data: DataDir, url: str | None, output: IO[bytes], name: str, passphrase: str | None) -> None:
    from api.store.dump import TABLES, DumpFailure, dump
    from api.store.migrate import HEAD
    from fleet import __version__
    from fleet.hub import pki
    from fleet.hub.archive import BackupWriter, spool
    from fleet.hub.compose import database
    from fleet.values.times import rfc3339

    try:
        async with database(data, url) as dsn, dump(dsn) as source:
            content = source.content
            if content.schema is None or content.empty:
                raise Failure("the database holds no hub")
            if content.schema != HEAD:
                raise Failure(f"the database has the schema {content.schema}, and this release knows {HEAD}")
            await _check_same_hub(data, source)
            manifest = {
                "release": __version__,
                "schema": content.schema,
                "hub": data.hub_id,
                "revision": content.revision,
                "objects": content.objects,
                "created": rfc3339(pki.utcnow().timestamp()),
            }
            with BackupWriter(output, manifest, passphrase, name) as writing:
                for table in TABLES:
                    with spool() as rows:
                        count = await source.write(table, rows)
                        _say(f"{table}: {count} {'row' if count == 1 else 'rows'}, {rows.tell() / (1 << 20):.1f} MiB")
                        writing.table(table, rows)
                writing.keys(_files(data, content.keys))
                writing.finish()
            _say(f"hub {data.hub_id} at revision {content.revision}: {content.objects} objects")
    except DumpFailure as error:
        raise Failure(str(error)) from error


async def _check_same_hub(data: DataDir, source: object) -> None:
    """Raises Failure where the directory is of another hub: its keys would not open the database."""
    import orjson

    from api.store.dump import Dump
    from fleet.values.ports import Key
    from fleet.wellknown import HUB_CONFIG, SYSTEM_NAMESPACE

    assert isinstance(source, Dump)
    body = await source.body(Key("", "configmaps", SYSTEM_NAMESPACE, HUB_CONFIG))
    known = (orjson.loads(body).get("data") or {}).get("id") if body is not None else None
    if known != data.hub_id:
        raise Failure(f"the database is of hub {known}, and {data.hub_id_file} says {data.hub_id}")


def _files(data: DataDir, keys: frozenset[str]) -> dict[str, bytes]:
    """The files of the directory. Read after the database: a rotation only adds keys. Raises Failure where a key of the
    database is missing."""
    from api.store.secrets import read_keys

    missing = keys - read_keys(data.secrets_key)[0].keys()
    if missing:
        raise Failure(f"{data.secrets_key} is not the key file of this database: it lacks {', '.join(sorted(missing))}")
    return {str(path.relative_to(data.root)): path.read_bytes() for path in data.identity_files if path.exists()}


def passphrase_of(file: Path | None) -> str | None:
    """The first line of the file. Raises Failure."""
    if file is None:
        return None
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise Failure(f"--passphrase-file {file} cannot be read: {why}") from error
    if not lines or not lines[0].strip():
        raise Failure(f"--passphrase-file {file}: its first line is empty")
    return lines[0]


@contextlib.contextmanager
def _written(file: str) -> Iterator[IO[bytes]]:
    """The output, for the owner alone; a file is there under its name only when it is whole. Raises Failure."""
    from fleet.amc.terminal import drop_output
    from fleet.hub.archive import cannot_write
    from fleet.values.files import whole_private

    try:
        if file != "-":
            with _ended_by_sigterm(), whole_private(Path(file)) as output:
                yield output
            return
        if sys.__stdout__ is None:
            raise Failure("stdout is closed: name a file")
        if sys.stdout.isatty():
            raise Failure("a backup is no text for a terminal: name a file, or redirect stdout")
        try:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        except BaseException:
            drop_output()
            raise
    except OSError as error:
        raise cannot_write(_name(file), error) from error


def _name(file: str) -> str:
    return "stdout" if file == "-" else file


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the program as an exception does, so that it leaves no part of a file."""

    def ended(number: int, frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, ended)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _say(text: str) -> None:
    print(text, file=sys.stderr)
