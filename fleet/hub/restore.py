"""`fleet restore`: a hub from a backup, on a database and a data directory that no hub uses."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleet.cli.failure import Failure
from fleet.cli.options import DatabaseOption, DataDirOption
from fleet.hub.backup import PassphraseOption, passphrase_of

if TYPE_CHECKING:
    from fleet.cli.datadir import DataDir
    from fleet.hub.archive import Backup

LEAP = 1_000_000  # revisions at least between a backup and what is written after its restore


def restore(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The backup; -: stdin.")],
    force: Annotated[
        bool, typer.Option("--force", help="Replace a database that is not empty, and files that differ.")
    ] = False,
    passphrase_file: PassphraseOption = None,
    data_dir: DataDirOption = None,
    database_url: DatabaseOption = None,
) -> None:
    """Make a hub again from its backup.

    The database and the data directory have to be empty. Stop all processes of the hub before, and start them after.
    Work that members have begun since the backup goes on, and `fleet doctor` names it.
    """
    import asyncio

    from fleet.cli.datadir import locate
    from fleet.hub.firststart import Lock, create_root

    data = locate(data_dir)
    with _read(file, passphrase_of(passphrase_file)) as backup:
        _check(backup, file)
        replaced = _differing(data, backup.files)
        if replaced and not force:
            raise Failure(f"{data.root} has other files: {', '.join(replaced)}; --force replaces them")
        create_root(data)
        lock = Lock(data)
        try:
            asyncio.run(_restore(data, database_url or None, backup, replaced, force=force))
        finally:
            lock.release()
    print(
        f"hub {backup.text('hub')} restored as of {backup.text('created')}: {backup.manifest.get('objects')} objects\n"
        "Start its processes, then ask `fleet doctor` what members have run since."
    )


def _read(file: str, passphrase: str | None) -> Backup:
    from fleet.hub.archive import read

    if file == "-":
        return read(sys.stdin.buffer, "stdin", passphrase)
    try:
        source = Path(file).open("rb")  # noqa: SIM115  # closed below
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror}") from error
    with source:
        return read(source, file, passphrase)


def _check(backup: Backup, file: str) -> None:
    """Raises Failure for a backup that this release cannot restore."""
    from api.store.dump import TABLES
    from api.store.migrate import HEAD
    from fleet.cli.datadir import DataDir

    if backup.text("schema") != HEAD:
        raise Failure(
            f"{file} has the schema {backup.text('schema')}, and this release knows {HEAD}: restore it with the release"
            f" that made it ({backup.text('release')}), and upgrade then"
        )
    known = {str(path) for path in DataDir(Path()).identity_files}
    needed = {"hub-id", "secrets.key", "tokens.csv"}
    if set(backup.tables) != set(TABLES) or not needed <= backup.files.keys() <= known:
        raise Failure(f"{file} is damaged: it does not hold what a hub needs")
    if backup.files["hub-id"].decode(errors="replace").strip() != backup.text("hub"):
        raise Failure(f"{file} is damaged: it names two hubs")


def _differing(data: DataDir, files: Mapping[str, bytes]) -> list[str]:
    """The files of the directory that the backup has otherwise, and those that it does not have. Raises Failure."""
    try:
        there = {str(path.relative_to(data.root)): path.read_bytes() for path in data.identity_files if path.exists()}
    except OSError as error:
        raise Failure(f"{error.filename} cannot be read: {error.strerror}") from error
    return sorted(path for path, held in there.items() if files.get(path) != held)


async def _restore(data: DataDir, url: str | None, backup: Backup, replaced: list[str], *, force: bool) -> None:
    from api.store.dump import DumpFailure, load, look
    from fleet.controllers.runtime.terms import KEY, with_end
    from fleet.hub import pki
    from fleet.hub.compose import database
    from fleet.values.files import whole_private

    try:
        async with database(data, url) as dsn:
            before = await look(dsn)
            if not before.empty:
                what = f"the database holds {before.objects} objects at revision {before.revision}"
                if not force:
                    raise Failure(f"{what}: restore into an empty one, or say --force to replace it")
                _say(f"{what}: replaced")
            for path in replaced:
                _say(f"{data.root / path}: replaced")

            def put_files() -> None:
                with contextlib.ExitStack() as files:  # all have their names only when all are written
                    for path, held in backup.files.items():
                        try:
                            output = files.enter_context(whole_private(data.root / path))
                            output.write(held)
                            output.flush()
                        except OSError as error:
                            why = f"cannot write {data.root / path}: {error.strerror or error}"
                            raise Failure(f"nothing was restored: {why}") from error
                    for path in replaced:
                        (data.root / path).unlink(missing_ok=True)

            now = pki.utcnow().timestamp()
            for name in backup.tables:
                _say(f"loading {name}")
            await load(
                dsn,
                backup.tables,
                backup.revision,
                _raised(backup.revision, now),
                amend={KEY: with_end},
                replace=force,
                at_the_end=put_files,
            )
    except DumpFailure as error:
        raise Failure(f"nothing was restored: {error}") from error


def _raised(revision: int, now: float) -> int:
    """The revision that the hub goes on at: past all that the undone past can have used. Milliseconds of the wall clock
    grow faster than revisions do, so a second restore of one backup uses none of the first."""
    return max(revision + LEAP, int(now * 1000))


def _say(text: str) -> None:
    print(text, file=sys.stderr)
