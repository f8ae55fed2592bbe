"""How many jobs may wait: below a node of the quota tree, of a user there, and of a user on the whole hub.

A job waits from its creation until it has its room, also while it is suspended or held. Creations alone are refused: a
job that comes back into its queue never is. The jobs are counted in the memory of this process, which follows the log;
a hub with fewer jobs than the smallest limit counts none.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from api.engine.status import Cause, forbidden
from api.objects.apart import apart
from api.objects.changes import Resource, changed_keys
from api.objects.objects import Objects
from api.objects.writing import Review
from api.slices import unhurried
from fleet.admission.growth import has_room
from fleet.admission.latesttree import latest_tree
from fleet.admission.perstore import once_per_store
from fleet.bindings import binding as b
from fleet.bindings.leaf import leaf_for
from fleet.bindings.trees import tree_object
from fleet.core.quota.parse import BadTree, limits_of_waiting
from fleet.core.quota.tree import QuotaTree
from fleet.core.quota.waiting import MAX_WAITING, WaitingLimit
from fleet.kinds import INTERPRETERS, Interpreter, JobState, interpreter_for
from fleet.values.ports import Body, Key, Store
from fleet.values.untyped import at, digits
from fleet.wellknown import (
    ANNOTATION_CREATOR,
    HUB_CONFIG,
    MAX_WAITING_BY_USER,
    QUOTA_NAME_LABELS,
    SYSTEM_NAMESPACE,
)

_OfNodes = Mapping[str, tuple[WaitingLimit, ...]]

DEFAULT_BY_USER = 10_000
_CONFIG = Key("", "configmaps", SYSTEM_NAMESPACE, HUB_CONFIG)
_OVER = (JobState.SUCCEEDED, JobState.FAILED)


async def may_wait(review: Review, objects: Objects) -> Sequence[Cause]:
    """The check of a new object of any kind that has an interpreter now. StatusError 403 when too many jobs wait."""
    interpreter = interpreter_for(review.kind)
    if review.operation != "CREATE" or interpreter is None or review.new is None or review.user.hub:
        return ()
    desk = _desk_of(objects.store)
    why = await desk.why_not(_owner(review.new), objects)
    if why:
        raise forbidden(review.kind.group, review.kind.resource, review.name, why)
    return ()


class _Owner(NamedTuple):
    """The user, namespace and leaf for which a waiting job counts. `label`: the leaf that the job names."""

    user: str
    namespace: str
    label: str


class _Limit(NamedTuple):
    """The most jobs that may wait. `node` "": on the whole hub; `user` "": of all users together. `word`: the field of
    the node that says it."""

    most: int
    node: str
    user: str
    word: str = ""

    def text(self, count: int) -> str:
        who = f"user {self.user}" if self.user else f"queue {self.node}"
        where = f" in {self.node}" if self.user and self.node else ""
        if not self.node:
            rule = f"{MAX_WAITING_BY_USER} of ConfigMap {SYSTEM_NAMESPACE}/{HUB_CONFIG}"
        else:
            rule = f"{MAX_WAITING} in {self.word} of {self.node}"
        return (
            f"{who} has {count:,} jobs that wait{where}, of at most {self.most:,} ({rule}):"
            " cancel some, or wait until some have started"
        )


class _Desk:
    """Counts the waiting jobs of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tree = latest_tree(store)
        self._limits: tuple[int, _OfNodes] = (0, {})  # of the tree of a revision
        self._owners: dict[Key, _Owner] = {}
        self._count: Counter[_Owner] = Counter()
        self._kinds: dict[Resource, Interpreter] = {}
        self._upto = -1
        self._following = asyncio.Lock()

    async def why_not(self, mine: _Owner, objects: Objects) -> str:
        """The limit that one more job of this owner would pass; "" for none."""
        limits = list(self._limits_of(mine, await self._tree.read_apart(), await self._limits_now()))
        kinds = _kinds(objects)
        there = sum(len(self._store.scan(*resource)) for resource in kinds)
        limits = [limit for limit in limits if limit.most <= there]
        if not limits:
            return ""
        async with self._following:
            await self._follow(kinds)
            return next((limit.text(count) for limit in limits if (count := self._waiting(limit)) >= limit.most), "")

    def _limits_of(self, owner: _Owner, tree: QuotaTree | None, limits: _OfNodes) -> Iterator[_Limit]:
        if tree is not None:
            for node in tree.ancestors(self._leaf(owner)):
                for limit in limits.get(node, ()):
                    if (most := limit.of(owner.user)) is not None:
                        yield _Limit(most, node, owner.user if limit.by_user else "", limit.word)
        stored = self._store.peek(_CONFIG)
        configured = digits(at(stored.body, "data", MAX_WAITING_BY_USER)) if stored is not None else None
        most = DEFAULT_BY_USER if configured is None else configured
        if most and owner.user:
            yield _Limit(most, "", owner.user)

    async def _limits_now(self) -> _OfNodes:
        stored = tree_object(self._store)
        if stored is not None and stored.revision != self._limits[0]:
            try:
                self._limits = stored.revision, await apart(limits_of_waiting, stored.body.get("spec"))
            except BadTree:
                self._limits = stored.revision, {}
        return self._limits[1] if stored is not None else {}

    def _leaf(self, owner: _Owner) -> str:
        return leaf_for(self._tree.read(), owner.namespace, {QUOTA_NAME_LABELS[0]: owner.label})

    def _waiting(self, limit: _Limit) -> int:
        tree = self._tree.read()
        counted = ((owner, n) for owner, n in self._count.items() if limit.user in ("", owner.user))
        if not limit.node or tree is None:
            return sum(n for _, n in counted)
        return sum(n for owner, n in counted if limit.node in tree.ancestors(self._leaf(owner)))

    async def _follow(self, kinds: dict[Resource, Interpreter]) -> None:
        revision = await self._store.revision()
        since = self._upto if kinds == self._kinds else -1
        if since == revision:
            return
        changed, upto = await changed_keys(self._store, kinds.keys(), since, revision)
        if changed is None:
            self._owners, self._count = {}, Counter()
            self._upto = -1  # a count that is broken off is incomplete
            changed = {stored.key for resource in kinds for stored in self._store.scan(*resource)}
        async for key in unhurried(changed):
            self._take(key, kinds[key.group, key.resource])
        self._kinds, self._upto = kinds, upto

    def _take(self, key: Key, interpreter: Interpreter) -> None:
        stored, before = self._store.peek(key), self._owners.pop(key, None)
        if before is not None:
            self._count[before] -= 1
        body = stored.body_once() if stored is not None else None
        if body is not None and _waits(body, interpreter):
            owner = self._owners[key] = _owner(body)
            self._count[owner] += 1
        if before is not None and not self._count[before]:
            del self._count[before]


_desk_of = once_per_store(_Desk)


def _kinds(objects: Objects) -> dict[Resource, Interpreter]:
    """The job kinds that the hub has now."""
    found = ((objects.registry.kind(*target), interpreter) for target, interpreter in INTERPRETERS.items())
    return {(kind.group, kind.resource): interpreter for kind, interpreter in found if kind is not None}


def _owner(job: Body) -> _Owner:
    labels = b.labels_of(job)
    label = next((labels[name] for name in QUOTA_NAME_LABELS if labels.get(name)), "")
    return _Owner(b.annotation(job, ANNOTATION_CREATOR), job["metadata"].get("namespace", ""), label)


def _waits(job: Body, interpreter: Interpreter) -> bool:
    """Whether the job has no room yet, or no more, and is not over. A job that cannot be read counts for nobody."""
    try:
        over = b.deleting(job) or interpreter.state(job.get("status")).state in _OVER
        return not over and not has_room(job, interpreter)
    except (AttributeError, TypeError, KeyError, ValueError):
        return False
