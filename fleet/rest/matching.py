"""The jobs by state, queue and member, so that a list with such a filter looks at the jobs that match alone.

The look at 100,000 jobs takes a second. What stands here follows the log of bindings and units, from the first such
question on. A list looks at each job that it gets from here once more: a job may be replaced by one of its name.
"""

from __future__ import annotations

from collections.abc import Mapping

from api.engine.kind import Kind
from fleet.bindings import binding as b
from fleet.bindings.unit import queue_of, unit_of
from fleet.rest.aggregates import Groups
from fleet.rest.context import RestHub, spared
from fleet.rest.jobfilter import JobFilter
from fleet.rest.line import BINDINGS, UNITS, binding_key
from fleet.rest.standing import StoredJob, state_of
from fleet.rest.states import State
from fleet.values.ports import Key, StoredObject

# State, name of the queue, member; None where something that is stored cannot be read, which every list shows.
Group = tuple[State, str, str | None] | None
OF_THE_JOB = frozenset({State.UNCLAIMED, State.DELETING})  # states that no binding tells


class JobMatcher:
    """The jobs of one hub."""

    def __init__(self, hub: RestHub) -> None:
        self._hub = hub
        self._groups: Groups[Group] = Groups(hub.store, BINDINGS, self._part, UNITS, owner=_owner)

    async def keys(self, query: JobFilter, revision: int, paths: Mapping[str, str]) -> set[Key] | None:
        """The jobs that may match, and no other does; None: any may. `paths`: of quota nodes, by their Queues."""
        if not (query.state or query.queue or query.member) or OF_THE_JOB & set(query.state):
            return None
        groups = await self._groups.at(revision, self._hub.registry.generation)
        return set().union(*(keys for group, keys in groups.items() if group is None or _fits(group, query, paths)))

    def _part(self, stored: StoredObject) -> tuple[Group, Key] | None:
        resource = b.resource_of(stored.body)
        kind = self._hub.registry.kind_of(str(resource.get("apiVersion", "")), str(resource.get("kind", "")))
        if kind is None:
            return None
        job = Key(kind.group, kind.resource, stored.key.namespace, str(resource.get("name", "")))
        return spared(self._group, kind, stored, otherwise=None), job

    def _group(self, kind: Kind, stored: StoredObject) -> Group:
        unit = unit_of(self._hub.store.peek, stored.key, stored.uid)
        job = StoredJob(kind, {"metadata": {}}, stored.body, unit.body if unit is not None else None)
        return state_of(job), queue_of(job.unit), b.member_of(job.binding)


def _fits(group: tuple[State, str, str | None], query: JobFilter, paths: Mapping[str, str]) -> bool:
    state, queue, member = group
    return query.lies(member, paths.get(queue, queue)) and (not query.state or state in query.state)


def _owner(key: Key) -> Key:
    return binding_key(key) if key.resource == UNITS[1] else key
