"""More columns of `kubectl get -o wide`: what `fleet jobs` says of a job, beside the job, its QueueUnit or its binding.

No object holds all of it, so the cells are worked out for each answer, as /fleet/v1 does, in the same words. A place in
a queue is the one that the Queue shows: of the first hundred, at most fifteen seconds old.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import orjson

from api.engine.kind import Column, Kind
from api.engine.registry import Registry
from api.wire.servedkind import ServedKind
from fleet.bindings import binding as b
from fleet.bindings.heartbeat import silence_of
from fleet.bindings.unit import queue_of
from fleet.kinds.lookup import interpreter_for
from fleet.rest.context import spared
from fleet.rest.line import binding_key, queue_paths
from fleet.rest.standing import row
from fleet.rest.storedjob import stands
from fleet.values.ports import Clock, Key, Store, StoredObject
from fleet.values.untyped import mapping, rows, text
from fleet.wellknown import QUEUE, QUEUE_NAMESPACE, WORK

_FIELDS = (
    ("Queue", "string"),
    ("Position", "integer"),
    ("Member", "string"),
    ("GPUs", "integer"),
    ("Reason", "string"),
)
COLUMNS = tuple(
    Column(name, type_, "", priority=1, description=f"{name} of the job, as `fleet jobs -o wide` shows it.")
    for name, type_ in _FIELDS
)
_NOTHING: tuple[Any, ...] = (None,) * len(COLUMNS)


class JobColumns:
    """Puts the columns on what the API serves."""

    def __init__(self, store: Store, registry: Registry, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock

    def __call__(self, served: ServedKind) -> ServedKind:
        kind = served.kind
        ours = (kind.group, kind.resource) in ((QUEUE, "queueunits"), (WORK, "resourcebindings"))
        return replace(served, joined=self) if ours or interpreter_for(kind) is not None else served

    @property
    def columns(self) -> tuple[Column, ...]:
        return COLUMNS

    def cells(self, kind: Kind, items: Sequence[StoredObject]) -> Iterator[tuple[Any, ...]]:
        """Of each object, in order; nothing for an object of no job, or of one that cannot be read."""
        paths, silence = queue_paths(self._store), silence_of(self._store, self._clock.now())
        places: dict[str, dict[tuple[str, str], int]] = {}
        for stored in items:
            yield spared(self._cells, kind, stored, paths, silence, places, otherwise=_NOTHING)

    def _cells(
        self, kind: Kind, stored: StoredObject, paths: dict[str, str], silence: str, places: dict[str, dict[Any, int]]
    ) -> tuple[Any, ...]:
        found = self._job(kind, stored)
        if found is None:
            return _NOTHING
        job = stands(self._store, *found, paths, silence)
        place = None
        if job.unit is not None:
            queue, metadata = queue_of(job.unit), job.unit["metadata"]
            if queue not in places:
                places[queue] = self._places(queue)
            place = places[queue].get((metadata.get("namespace", ""), metadata["name"]))
        document = row(job, place)
        reason = document["reason"] or {}
        cells = (
            document["queue"],
            document["position"],
            " ".join(b.clusters_of(job.binding or {})) or None,
            document["gpus"],
            reason.get("text") or reason.get("code"),
        )
        orjson.dumps(cells)  # a value that JSON cannot hold raises here, and not with the whole table
        return cells

    def _job(self, kind: Kind, stored: StoredObject) -> tuple[Kind, dict[str, Any], str] | None:
        """The job that an object is, or belongs to: its kind, body and uid."""
        if interpreter_for(kind) is not None:
            return kind, stored.body, stored.uid
        binding = stored if kind.group == WORK else self._store.peek(binding_key(stored.key))
        if binding is None:
            return None
        resource = b.resource_of(binding.body)
        found = self._registry.kind_of(text(resource.get("apiVersion")), text(resource.get("kind")))
        if found is None or interpreter_for(found) is None:
            return None
        job = self._store.peek(Key(found.group, found.resource, binding.key.namespace, text(resource.get("name"))))
        return None if job is None else (found, job.body, job.uid)

    def _places(self, queue: str) -> dict[tuple[str, str], int]:
        """The places that a Queue shows, by the namespace and name of the unit."""
        stored = self._store.peek(Key(QUEUE, "queues", QUEUE_NAMESPACE, queue))
        status = mapping(stored.body.get("status")) if stored is not None else {}
        active = rows(mapping(status.get("queueItemDetails")).get("active"))
        return {
            (text(item.get("namespace")), text(item.get("name"))): item["position"]
            for item in active
            if isinstance(item.get("position"), int)
        }
