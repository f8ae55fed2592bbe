"""A backup as one file: a compressed tar with the tables of the database, the files of the data directory, and digests.

    manifest.json       the form, the release, the schema, the hub, the revision, the time
    tables/NAME.copy    the rows of a table
    keys.json           the files, base64; or keys.encrypted, the same under a passphrase
    digests.json        SHA-256 of all before, and the last: without it a file is cut off

A passphrase encrypts the keys (scrypt, AES-256-GCM) and binds them to the digests of the rest, so the keys of one
backup do not open in another. A file is read to its end before anything is changed.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import tarfile
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Self

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from fleet.cli.failure import Failure

FORM, VERSION = "fleet-backup", 1
MANIFEST, KEYS, LOCKED_KEYS, DIGESTS = "manifest.json", "keys.json", "keys.encrypted", "digests.json"
TABLE, SUFFIX = "tables/", ".copy"
SMALL_MAX = 16 << 20  # bytes of a part that is no table
CHUNK = 1 << 20
IN_MEMORY = 8 << 20  # of a table; larger ones go through a temporary file
SALT_BYTES, NONCE_BYTES = 16, 12
SCRYPT = {"n": 1 << 15, "r": 8, "p": 1}
BROKEN = (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, UnicodeError)

Files = Mapping[str, bytes]  # of the data directory, by their path in it


class _Spool(tempfile.SpooledTemporaryFile[bytes]):
    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError as error:
            raise Failure(f"cannot write to {tempfile.gettempdir()}: {error.strerror or error}") from error


def spool() -> IO[bytes]:
    """A place for a table, gone when it is closed. Its `write` raises Failure."""
    return _Spool(max_size=IN_MEMORY)


class _Outlet:
    """The output, until it is abandoned: what the packers hold back then goes nowhere. Raises Failure, which no part
    between here and the command takes for a fault of its own."""

    def __init__(self, output: IO[bytes], name: str) -> None:
        self._output: IO[bytes] | None = output
        self._name = name

    def write(self, content: bytes) -> int:
        try:
            return len(content) if self._output is None else self._output.write(content)
        except OSError as error:
            raise cannot_write(self._name, error) from error

    def flush(self) -> None:
        try:
            if self._output is not None:
                self._output.flush()
        except OSError as error:
            raise cannot_write(self._name, error) from error

    def abandon(self) -> None:
        self._output = None


class BackupWriter:
    """Writes one backup to `output`, which a Failure calls `name`, for the length of a `with` block; whole only after
    `finish`."""

    def __init__(
        self, output: IO[bytes], manifest: dict[str, Any], passphrase: str | None, name: str = "the backup"
    ) -> None:
        self._outlet = _Outlet(output, name)
        self._packed = gzip.GzipFile(fileobj=self._outlet, mode="wb", compresslevel=6, mtime=0)
        self._tar = tarfile.open(fileobj=self._packed, mode="w|")  # noqa: SIM115  # closed by `finish`
        self._digests: dict[str, str] = {}
        self._passphrase = passphrase
        head = {"form": FORM, "version": VERSION, "encrypted": passphrase is not None, **manifest}
        self._small(MANIFEST, orjson.dumps(head, option=orjson.OPT_INDENT_2))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._outlet.abandon()
        self._tar.close()  # else they close themselves some time later, each in the other's way
        self._packed.close()

    def table(self, name: str, rows: IO[bytes]) -> None:
        self._add(f"{TABLE}{name}{SUFFIX}", rows)

    def keys(self, files: Files) -> None:
        content = orjson.dumps({path: base64.b64encode(held).decode() for path, held in files.items()})
        if self._passphrase is None:
            self._small(KEYS, content)
        else:
            self._small(LOCKED_KEYS, _locked(content, self._passphrase, _bound(self._digests)))

    def finish(self) -> None:
        self._small(DIGESTS, orjson.dumps(self._digests))
        self._tar.close()
        self._packed.close()

    def _small(self, name: str, content: bytes) -> None:
        self._add(name, io.BytesIO(content))

    def _add(self, name: str, content: IO[bytes]) -> None:
        size = content.seek(0, os.SEEK_END)
        content.seek(0)
        self._digests[name] = _digest(content)
        content.seek(0)
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = size, 0o600
        self._tar.addfile(entry, content)


def cannot_write(name: str, error: OSError) -> Failure:
    return Failure(f"cannot write {name}: {error.strerror or error}")


@dataclass
class Backup:
    """A backup that was read to its end, and is whole."""

    manifest: dict[str, Any]
    tables: dict[str, IO[bytes]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)

    def text(self, name: str) -> str:
        return str(self.manifest.get(name) or "")

    @property
    def revision(self) -> int:
        return int(self.manifest["revision"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for rows in self.tables.values():
            rows.close()


def read(source: IO[bytes], name: str, passphrase: str | None) -> Backup:
    """The backup. Raises Failure, which calls it `name`."""
    backup, keys = Backup({}), b""
    digests: dict[str, str] = {}
    locked, last = False, b""
    try:
        with gzip.GzipFile(fileobj=source) as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as tar:
            for entry in tar:
                content = tar.extractfile(entry)
                if last or content is None or entry.name in digests or (not digests and entry.name != MANIFEST):
                    raise Failure(f"{name} is no backup of Fleet")
                if entry.name.startswith(TABLE) and entry.name.endswith(SUFFIX):
                    rows = spool()
                    backup.tables[entry.name.removeprefix(TABLE).removesuffix(SUFFIX)] = rows
                    _copy(content, rows)
                    digests[entry.name] = _digest(rows)
                    rows.seek(0)
                    continue
                part = _held(content, entry, name)
                if entry.name == DIGESTS:
                    last = part
                    continue
                if entry.name == MANIFEST:
                    backup.manifest = _manifest(part, name)
                elif entry.name in (KEYS, LOCKED_KEYS):
                    keys, locked = part, entry.name == LOCKED_KEYS
                    if locked:
                        keys = _unlocked(part, passphrase, _bound(digests), name)
                digests[entry.name] = hashlib.sha256(part).hexdigest()
            while unpacked.read(CHUNK):  # to its check sum
                pass
    except BROKEN as error:
        raise Failure(f"{name} is no backup of Fleet, or a part of one: {error}") from error
    except OSError as error:
        raise Failure(f"{name} cannot be read: {error.strerror or error}") from error
    if not last:
        raise Failure(f"{name} is cut off: its end is missing")
    if _json(last, name) != digests or bool(backup.manifest.get("encrypted")) != locked:
        raise Failure(f"{name} is damaged: its parts do not have the digests that it names")
    try:
        backup.files = {str(path): base64.b64decode(text, validate=True) for path, text in _json(keys, name).items()}
    except ValueError as error:
        raise Failure(f"{name} is damaged: {KEYS}") from error
    return backup


def _manifest(held: bytes, name: str) -> dict[str, Any]:
    found = _json(held, name)
    if found.get("form") != FORM or not isinstance(found.get("revision"), int):
        raise Failure(f"{name} is no backup of Fleet")
    if found.get("version") != VERSION:
        raise Failure(f"{name} has the form {found.get('version')}, and this release reads {VERSION}")
    return found


def _json(held: bytes, name: str) -> dict[str, Any]:
    try:
        found = orjson.loads(held)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise Failure(f"{name} is damaged: a part of it does not read")
    return found


def _held(content: IO[bytes], entry: tarfile.TarInfo, name: str) -> bytes:
    if entry.size > SMALL_MAX or entry.name not in (MANIFEST, KEYS, LOCKED_KEYS, DIGESTS):
        raise Failure(f"{name} is no backup of Fleet, or of a newer release: {entry.name[:80]}")
    return content.read()


def _copy(source: IO[bytes], target: IO[bytes]) -> None:
    while chunk := source.read(CHUNK):
        target.write(chunk)


def _digest(content: IO[bytes]) -> str:
    content.seek(0)
    digest = hashlib.sha256()
    while chunk := content.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def _bound(digests: Mapping[str, str]) -> bytes:
    return hashlib.sha256(orjson.dumps(dict(digests), option=orjson.OPT_SORT_KEYS)).digest()


def _key_of(passphrase: str, salt: bytes, cost: Mapping[str, int]) -> bytes:
    return Scrypt(salt=salt, length=32, n=cost["n"], r=cost["r"], p=cost["p"]).derive(passphrase.encode())


def _locked(content: bytes, passphrase: str, bound: bytes) -> bytes:
    salt, nonce = os.urandom(SALT_BYTES), os.urandom(NONCE_BYTES)
    data = AESGCM(_key_of(passphrase, salt, SCRYPT)).encrypt(nonce, content, bound)
    parts = {"salt": salt, "nonce": nonce, "data": data}
    return orjson.dumps({"scrypt": SCRYPT, **{name: base64.b64encode(part).decode() for name, part in parts.items()}})


def _unlocked(held: bytes, passphrase: str | None, bound: bytes, name: str) -> bytes:
    if passphrase is None:
        raise Failure(f"the keys in {name} are encrypted: say --passphrase-file")
    found = _json(held, name)
    try:
        salt, nonce, data = (base64.b64decode(found[part]) for part in ("salt", "nonce", "data"))
        if found["scrypt"] != SCRYPT:
            raise Failure(f"{name} is of another release: its keys are encrypted in another way")
        return AESGCM(_key_of(passphrase, salt, SCRYPT)).decrypt(nonce, data, bound)
    except InvalidTag as error:
        raise Failure(f"the passphrase does not open the keys in {name}, or the file is damaged") from error
    except (LookupError, TypeError, ValueError) as error:
        raise Failure(f"{name} is damaged: {LOCKED_KEYS}") from error
