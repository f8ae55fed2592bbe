"""Keeps a process's table of interpreters in step with the WorkloadInterpreter objects in the store.

Every process that reads jobs follows them by itself, as it follows the CRDs (crds.py). A declaration that cannot be
read, since it was written around admission or by an older version, counts for nothing, and its kind is what it would be
without.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import structlog

from fleet.kinds import INTERPRETERS
from fleet.kinds.declaration import BadDeclaration, read_declaration
from fleet.kinds.declared import DeclaredKind
from fleet.values.ports import ExpiredRevision, StaleEpoch, Store, StoredObject, StoreUnavailable
from fleet.values.untyped import mapping
from fleet.wellknown import CONFIG

log = structlog.get_logger(__name__)

RESOURCE = "workloadinterpreters"
RETRY_S = 1.0


class DeclarationLoader:
    """Puts the stored declarations into the table. A declaration that has not changed is not compiled again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[int, DeclaredKind | None]] = {}  # name -> revision, interpreter

    def load(self) -> None:
        """Bring the table in step with what this process has seen."""
        self._put(self._store.scan(CONFIG, RESOURCE))

    async def follow(self, loaded: asyncio.Event | None) -> None:
        page = await self._store.list(CONFIG, RESOURCE, fresh=True)
        self._put(page.items)
        watch = await self._store.watch(CONFIG, RESOURCE, since=page.revision)
        if loaded is not None:
            loaded.set()
        try:
            async for _ in watch:
                self.load()
        finally:
            await watch.aclose()

    def _put(self, items: Iterable[StoredObject]) -> None:
        objects = {stored.key.name: stored for stored in items}
        revisions = {name: stored.revision for name, stored in objects.items()}
        if revisions == {name: revision for name, (revision, _) in self._known.items()}:
            return
        for name in self._known.keys() - objects.keys():
            del self._known[name]
        for name, stored in objects.items():
            if self._known.get(name, (None,))[0] != stored.revision:
                self._known[name] = (stored.revision, _interpreter(stored))
        found = (self._known[name][1] for name in sorted(self._known))
        INTERPRETERS.declare(interpreter for interpreter in found if interpreter is not None)


def _interpreter(stored: StoredObject) -> DeclaredKind | None:
    try:
        return DeclaredKind(read_declaration(mapping(stored.body.get("spec"))))
    except BadDeclaration as error:
        log.warning("a declaration of a kind cannot be read", name=stored.key.name, error=str(error)[:300])
        return None


async def follow_interpreters(store: Store, loaded: asyncio.Event | None = None) -> None:
    """Run until cancelled. `loaded` is set once every declaration that is stored counts."""
    loader = DeclarationLoader(store)
    while True:
        try:
            await loader.follow(loaded)
        except ExpiredRevision:
            log.info("the log no longer reaches back, listing the declarations again")
        except StoreUnavailable as error:
            log.warning("store unavailable", error=str(error))
            await asyncio.sleep(RETRY_S)
        except StaleEpoch:
            raise
        except Exception:
            log.exception("following the declarations failed, listing them again")
            await asyncio.sleep(RETRY_S)
