"""The objects of a simulated member in a file, so that they are there after a restart as those of a real cluster.

The file has a line for the whole and a line for each object. It is written anew when something changed, at most every
SAVE_EVERY_S, and at a clean stop: a kill costs the changes since. A member with other nodes than before begins empty.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import structlog

from api.store.memory import MemoryStore
from fleet.values.files import whole_private
from fleet.values.ports import Key, StoredObject
from fleet.values.untyped import mapping

log = structlog.get_logger(__name__)

SAVE_EVERY_S = 5.0
TIMES_AS_LONG = 20.0  # a save of many objects is followed by a pause so many times as long


class ObjectFile:
    """A Loop, beside the others of a member. `shape`: the nodes that it is made with, as JSON."""

    name = "kept objects"

    def __init__(self, store: MemoryStore, path: Path, shape: Any) -> None:
        self._store, self._path, self._shape = store, path, orjson.loads(orjson.dumps(shape))
        self._saved = 0  # revision
        self._writing = threading.Lock()

    def restore(self) -> None:
        """Take in the objects of the file, if it is there and whole, and the nodes of the member are the same."""
        try:
            with self._path.open("rb") as lines:
                head = mapping(orjson.loads(lines.readline()))
                objects = [_stored(line) for line in lines]
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError) as error:
            log.warning("the member begins empty: its file cannot be read", path=str(self._path), error=str(error))
            return
        if head.get("shape") != self._shape or len(objects) != head.get("objects"):
            log.warning("the member begins empty: its file does not fit", path=str(self._path))
            return
        self._store.restore(head["revision"], objects)
        self._saved = head["revision"]

    async def run(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.to_thread(self._write, *self._store.everything())
            await asyncio.sleep(max(SAVE_EVERY_S, TIMES_AS_LONG * (time.monotonic() - began)))

    def save(self) -> None:
        """At the end, when nothing changes any more."""
        self._write(*self._store.everything())

    def _write(self, revision: int, objects: Sequence[StoredObject]) -> None:
        with self._writing:
            if revision <= self._saved:
                return
            head = {"shape": self._shape, "revision": revision, "objects": len(objects)}
            try:
                with whole_private(self._path) as output:
                    output.write(orjson.dumps(head) + b"\n")
                    for stored in objects:
                        about = orjson.dumps([*stored.key, stored.uid, stored.revision])
                        output.write(about + b"\t" + stored.raw + b"\n")
            except OSError as error:
                log.warning("the member's objects are not kept", path=str(self._path), error=str(error))
            else:
                self._saved = revision


def _stored(line: bytes) -> StoredObject:
    """Raises ValueError and TypeError for what is no line of such a file."""
    head, _, raw = line.rstrip(b"\n").partition(b"\t")
    *key, uid, revision = orjson.loads(head)
    return StoredObject(Key(*key), uid, revision, raw, orjson.loads(raw))
