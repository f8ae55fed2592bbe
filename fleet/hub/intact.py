"""Whether a data directory is whole, asked before anything is started on it, and before anything in it is changed.

A hub that starts on a damaged directory fails somewhere inside, or worse, makes anew what it does not find: another hub
id would not know the hub's own copies in the members, another key not the Secrets in the database. So each file is
looked at. The first flaw ends the command with one line, which names the file and the remedy.
"""

from __future__ import annotations

import csv
import os
import pwd
import stat
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet.cli.datadir import DataDir
from fleet.cli.failure import Failure

FILE_MAX = 4 << 20  # bytes of one of these files
BACKUP = "put back the file from a backup"


class _Damage(Exception):
    pass


@dataclass(frozen=True)
class _File:
    """One file of the directory; `read` raises ValueError for content that it cannot have."""

    path: Path
    read: Callable[[bytes], Any]
    remedy: str
    public: bool = False  # others may read it


def check(data: DataDir, *, embedded: bool) -> None:
    """Raises Failure. `embedded`: the hub's database is in the directory. A directory that is not there yet is well."""
    if not data.root.exists():
        return
    if not data.root.is_dir():
        raise Failure(f"{data.root} is no directory: name another --data-dir")
    if not os.access(data.root, os.R_OK | os.W_OK | os.X_OK):
        raise Failure(f"{data.root} cannot be written by {_name(os.geteuid())}: run this as its owner, or chown -R it")
    _check_complete(data, embedded)
    contents = {file.path: _look(file) for file in _files(data) if os.path.lexists(file.path)}
    _check_pair(
        contents,
        data.ca_certificate,
        data.ca_key,
        f"{BACKUP}; without one, remove {data.root / 'pki'}: a new"
        " authority is made, and every kubeconfig has to be made anew",
    )
    both = f"remove {data.server_certificate} and {data.server_key}: the next start makes new ones"
    _check_pair(contents, data.server_certificate, data.server_key, both)
    if embedded:
        _check_database(data)


def _check_complete(data: DataDir, embedded: bool) -> None:
    """The files of the first start, which cannot be made again."""
    ours = (data.tokens, data.service_account_key, data.ca_key, data.postgres / "data")
    if not os.path.lexists(data.hub_id_file):
        if any(os.path.lexists(path) for path in ours):
            raise Failure(
                f"{data.hub_id_file} is missing beside an existing hub: {BACKUP}; another id would not know the hub's"
                " own copies in the members"
            )
    elif embedded and (data.postgres / "data").exists() and not os.path.lexists(data.secrets_key):
        raise Failure(
            f"{data.secrets_key} is missing beside an existing database: {BACKUP}; without it the Secrets in the"
            " database cannot be read"
        )


def _files(data: DataDir) -> list[_File]:
    anew = "or remove it: a new one is made"
    return [
        _File(data.hub_id_file, _hub_id, f"{BACKUP}; another id would not know the hub's own copies in the members"),
        _File(
            data.secrets_key,
            lambda _: _secrets_key(data.secrets_key),
            f"{BACKUP}; without it the Secrets in the database cannot be read",
        ),
        _File(data.tokens, _tokens, f"mend it or {BACKUP}, {anew} with a new token of the administrator alone"),
        _File(data.service_account_key, _key, f"{BACKUP}, {anew}, and tokens of service accounts end"),
        _File(data.ca_key, _key, BACKUP),
        _File(data.ca_certificate, _certificate, BACKUP, public=True),
        _File(data.server_key, _key, f"remove it and {data.server_certificate}: the next start makes new ones"),
        _File(
            data.server_certificate,
            _certificate,
            f"remove it and {data.server_key}: the next start makes new ones",
            public=True,
        ),
    ]


def _look(file: _File) -> Any:
    """The content of the file. Raises Failure."""
    path = file.path
    try:
        entry = path.stat()
        if not stat.S_ISREG(entry.st_mode):
            raise Failure(f"{path} is no file: move it away, and {file.remedy}")
        if entry.st_uid not in (os.geteuid(), 0):  # root may have put it there to be read
            owner = _name(entry.st_uid)
            raise Failure(f"{path} belongs to {owner}: run this as {owner}, or chown -R {_name(os.geteuid())} it")
        mode = stat.S_IMODE(entry.st_mode)
        if mode & 0o007 and not file.public:
            raise Failure(f"{path} is open to others (mode {mode:04o}): chmod 0600 {path}, and consider what they read")
        content = path.read_bytes() if entry.st_size <= FILE_MAX else b""
    except OSError as error:
        raise Failure(f"{path} cannot be read ({error.strerror}): chmod 0600 {path}, or {file.remedy}") from error
    if not content.strip():
        raise Failure(f"{path} is {'empty' if entry.st_size <= FILE_MAX else 'damaged'}: {file.remedy}")
    try:
        return file.read(content)
    except Failure:
        raise
    except (ValueError, TypeError, LookupError, csv.Error, _Damage) as error:
        raise Failure(f"{path} is damaged: {file.remedy}") from error


def _check_pair(contents: dict[Path, Any], certificate: Path, key: Path, remedy: str) -> None:
    """A certificate and its key are there together, and belong together."""
    if certificate in contents and key not in contents:
        raise Failure(f"{key} is missing: {remedy}")
    if key in contents and certificate not in contents:
        raise Failure(f"{certificate} is missing: {remedy}")
    if key in contents and contents[certificate].public_key() != contents[key].public_key():
        raise Failure(f"{key} is not the key of {certificate}: {remedy}")


def _check_database(data: DataDir) -> None:
    from api.store.embedded import EmbeddedFailure, check_files

    try:
        check_files(data.postgres)
    except EmbeddedFailure as error:
        raise Failure(str(error)) from error


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user id {user}"


def _hub_id(content: bytes) -> uuid.UUID:
    return uuid.UUID(content.decode("ascii").strip())


def _secrets_key(path: Path) -> object:
    from api.store.secrets import BadKeyFile, read_keys

    try:
        return read_keys(path)
    except BadKeyFile as error:
        raise _Damage from error


def _tokens(content: bytes) -> None:
    """Every line has a token, a user and a uid, and the first is the administrator's."""
    rows = [row for row in csv.reader(content.decode().splitlines(), skipinitialspace=True, strict=True) if row]
    rows = [row for row in rows if not row[0].startswith("#")]
    if not rows or any(len(row) < 3 or not (row[0].strip() and row[1].strip()) for row in rows):
        raise _Damage
    if b"\0" in content:
        raise _Damage


def _key(content: bytes) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    try:
        return serialization.load_pem_private_key(content, None)
    except UnsupportedAlgorithm as error:
        raise _Damage from error


def _certificate(content: bytes) -> Any:
    from cryptography import x509

    return x509.load_pem_x509_certificate(content)
