"""Objects written as controllers do it: by read-modify-write, and as writes for a transaction over several objects.

The engine validates. Admission rules are not asked, since controllers act for users who were asked already.
"""

from __future__ import annotations

from collections.abc import Callable

from api.engine.bounds import private
from api.engine.kind import Kind
from api.engine.status import conflict
from api.engine.write import Author, prepare_update
from api.objects.making import BodyMaker
from api.objects.refusing import LastFinalizer
from api.objects.writing import Options
from fleet.values.ports import ABSENT, Body, Change, Clock, CommitResult, Delete, Expect, Key, Put, Store

ATTEMPTS_MAX = 5  # of a read-modify-write that loses to others; then 409 Conflict


class ControllerWrites:
    """What controllers write, over one store."""

    def __init__(self, store: Store, clock: Clock, bodies: BodyMaker) -> None:
        self.store = store
        self.clock = clock
        self._bodies = bodies

    async def change(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        change: Callable[[Body], Body | None],
        options: Options,
        *,
        subresource: str = "",
        generation: int | None = None,
        uid: str | None = None,
    ) -> Body | None:
        """Read-modify-write under the writer's lock: `change` gets a private copy of the newest body, in the version in
        which it is stored. Generation and managedFields are kept by the engine. None when the object is missing or
        (uid, generation) do not hold. With subresource "" everything that `change` returns is stored, status included;
        with "status" only the status. Admission rules are not asked. Removing the last finalizer of an object that is
        being deleted removes it; its last body is returned."""
        write = self.prepare_change(
            kind, namespace, name, change, options, subresource=subresource, generation=generation, uid=uid
        )
        if options.dry_run:
            stored = await self.store.get(write.key)
            if stored is None or not _holds(stored.body, generation, uid):
                return None
            try:
                return write.change(private(stored.body)) or stored.body
            except LastFinalizer as last:
                return last.body
        for _ in range(ATTEMPTS_MAX):
            try:
                outcome = await self.store.commit([write], epoch=options.epoch)
            except LastFinalizer as last:
                expect = Expect(revision=int(last.body["metadata"]["resourceVersion"]))
                outcome = await self.store.commit([Delete(write.key, expect)], epoch=options.epoch)
                if isinstance(outcome, CommitResult):
                    return last.body
                continue  # another write came in between: ask `change` again
            return outcome.stored[0].body if isinstance(outcome, CommitResult) else None
        raise conflict(kind.group, kind.resource, name)

    def prepare_new(self, kind: Kind, namespace: str, body: Body, options: Options, *, with_status: bool = True) -> Put:
        """A create as a write for `store.commit`, for several objects in one transaction. The write fails the commit
        when the object exists. Validated here (StatusError 422); neither admission rules nor the namespace are
        asked."""
        prepared = self._bodies.create(kind, namespace, private(body), options, with_status)
        return Put(key_of(kind, namespace, prepared.body["metadata"]["name"]), prepared.body, ABSENT)

    def prepare_change(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        change: Callable[[Body], Body | None],
        options: Options,
        *,
        subresource: str = "",
        generation: int | None = None,
        uid: str | None = None,
    ) -> Change:
        """`change` as a write for `store.commit`. Committing raises StatusError when the result is invalid, and
        LastFinalizer when it should be removed: let `Objects.change` do that."""
        author = Author(options.manager, subresource)

        def apply(body: Body) -> Body | None:
            old = private(body)
            new = change(body)
            if new is None:
                return None
            prepared = prepare_update(
                kind.stored_as(old),
                old,
                new,
                author,
                now=self.clock.now(),
                field_validation="Strict",
                whole=not subresource,
            )
            if prepared.body is old:
                return None
            if prepared.finished:
                raise LastFinalizer(kind, old)
            return prepared.body

        return Change(key_of(kind, namespace, name), apply, Expect(exists=True, generation=generation, uid=uid))


def key_of(kind: Kind, namespace: str, name: str) -> Key:
    """The key of an object in the store."""
    return Key(kind.group, kind.resource, namespace if kind.namespaced else "", name)


def _holds(body: Body, generation: int | None, uid: str | None) -> bool:
    metadata = body["metadata"]
    return (generation is None or metadata.get("generation") == generation) and (uid is None or metadata["uid"] == uid)
