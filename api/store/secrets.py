"""Secret bodies are unreadable in the database: encrypted here, with keys from a file that the database never sees.

AES-256-GCM with a random nonce, bound to the object's group, namespace and name, so that a row copied over another one
does not open. Every row says which key it was written with; rotation adds a key, writes with it from then on, and
`PostgresStore.reencrypt` brings the old rows up to it. Labels stay readable in an event's `previous`, for selectors.
"""

from __future__ import annotations

import base64
import fcntl
import os
from pathlib import Path

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fleet.values.files import write_private
from fleet.values.ports import Key

NONCE_BYTES = 12
ENCRYPTED = frozenset({("", "secrets")})  # (group, resource)


class SecretUnreadable(Exception):
    """The row was tampered with."""


class MissingKey(SecretUnreadable):
    """The key of a row is not in the key file: the file is not the one that the database was written with."""


class BadKeyFile(Exception):
    """The key file is damaged, or cannot be read; the text names it and says what to do."""


class SecretBox:
    """Encrypts and decrypts bodies with the keys of one file, which is made on first use (mode 0600)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ciphers: dict[str, AESGCM] = {}
        self._current = ""
        if not path.exists():
            self.rotate()
        self._read()

    @property
    def current(self) -> str:
        """The id of the key that new bodies are written with."""
        return self._current

    def seal(self, key: Key, raw: bytes) -> tuple[str | None, bytes]:
        """(key id, the text to store); the id is None for resources that are stored as they are."""
        if (key.group, key.resource) not in ENCRYPTED:
            return None, raw
        nonce = os.urandom(NONCE_BYTES)
        return self._current, nonce + self._ciphers[self._current].encrypt(nonce, raw, _bound_to(key))

    def open(self, key: Key, key_id: str | None, stored: bytes) -> bytes:
        if key_id is None:
            return stored
        if key_id not in self._ciphers:
            self._read()  # another process has rotated
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise MissingKey(f"{key} was written with the key {key_id}, which is not in {self._path.name}")
        try:
            return cipher.decrypt(stored[:NONCE_BYTES], stored[NONCE_BYTES:], _bound_to(key))
        except (InvalidTag, ValueError) as error:
            raise SecretUnreadable(f"{key} does not open with its key {key_id}") from error

    def rotate(self) -> str:
        """Add a new key to the file and write with it from now on; returns its id. Old keys stay readable."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._path.with_name(self._path.name + ".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            keys: dict[str, str] = {}
            if self._path.exists():
                keys = orjson.loads(self._path.read_bytes())["keys"]
                if not self._ciphers:
                    return self._read()  # another process has made the file meanwhile
            # Random, so that a new file made in place of a lost one is told from it.
            name = f"k{len(keys) + 1}-{os.urandom(4).hex()}"
            keys[name] = base64.b64encode(AESGCM.generate_key(256)).decode()
            write_private(self._path, orjson.dumps({"current": name, "keys": keys}, option=orjson.OPT_INDENT_2))
            return self._read()
        finally:
            os.close(lock)

    def _read(self) -> str:
        self._ciphers, self._current = read_keys(self._path)
        return self._current


def read_keys(path: Path) -> tuple[dict[str, AESGCM], str]:
    """The keys by their id, and the id of the current one. Raises BadKeyFile."""
    remedy = "put back the file that the database was written with, from a backup"
    try:
        content = orjson.loads(path.read_bytes())
        ciphers = {str(name): AESGCM(base64.b64decode(key)) for name, key in content["keys"].items()}
        current = content["current"]
    except OSError as error:
        raise BadKeyFile(f"{path} cannot be read ({error.strerror}): {remedy}") from error
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise BadKeyFile(f"{path} is damaged: {remedy}") from error
    if current not in ciphers:
        raise BadKeyFile(f"{path} is damaged: {remedy}")
    return ciphers, current


def unreadable(key: Key, uid: str, revision: int) -> bytes:
    """The stand-in for an object whose body does not open: its name, and nothing of its content. A user who may write
    it puts it right by writing it anew."""
    where = {"namespace": key.namespace} if key.namespace else {}
    meta = {"name": key.name, **where, "uid": uid, "resourceVersion": str(revision)}
    return orjson.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque"})


def _bound_to(key: Key) -> bytes:
    return orjson.dumps([key.group, key.namespace, key.name])
