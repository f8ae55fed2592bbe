"""Unknown copies: objects in members that this hub sent after the backup that its database was restored from.

No binding wants them, and yet they may be running work. So no loop removes them: a record for each member, in the
store, names them for `fleet doctor`, and people say there which of them go. Whether a copy is unknown is judged from
its stamp each time. The record holds only since when, and the orders of people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from fleet.bindings import binding as b
from fleet.controllers.dispatch.manifests import is_dependency, users_of
from fleet.controllers.runtime.hub import Hub
from fleet.controllers.runtime.terms import Terms
from fleet.model.times import rfc3339
from fleet.ports import Body, Key
from fleet.wellknown import ANNOTATION_JOB, CLUSTER, LABEL_BINDING, SYSTEM_NAMESPACE, UNKNOWN_COPIES

NAMED_MAX = 1000  # copies that one record names
COPIES, COUNT, REMOVE = "copies", "count", "remove"  # the data of a record

Bindings = Mapping[str, tuple[Key, Body]]  # by uid


def is_unknown(copy_: Body, bindings: Bindings, terms: Terms, revision: int) -> bool:
    """Whether the database that decided on this copy is not the present one. `bindings`: of the hub, at this revision,
    which is newer than the look at the copy."""
    if is_dependency(copy_):
        return not users_of(copy_) <= bindings.keys() and terms.undone(copy_, revision)
    found = bindings.get(b.labels_of(copy_).get(LABEL_BINDING, ""))
    if found is None:
        return terms.undone(copy_, revision)
    _, binding = found
    return not b.deleting(binding) and b.attempt_of_copy(copy_) > b.attempt(binding)


@dataclass(frozen=True, slots=True)
class Orders:
    """The copies that people asked to have removed, by uid."""

    uids: frozenset[str]

    def cover(self, copy_: Body, unknown: Sequence[Body]) -> bool:
        """Whether the copy goes: it is named, or the last job that used it is."""
        if copy_["metadata"]["uid"] in self.uids:
            return True
        if not is_dependency(copy_):
            return False
        jobs = {b.labels_of(other).get(LABEL_BINDING, ""): other for other in unknown if not is_dependency(other)}
        users = [jobs[user] for user in users_of(copy_) if user in jobs]
        return bool(users) and all(user["metadata"]["uid"] in self.uids for user in users)


class Records:
    """The records in the store, one ConfigMap for each member that has unknown copies."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def known(self, member: str) -> bool:
        """Whether there is a record of the member."""
        return self._hub.store.peek(_key(member)) is not None

    def orders(self, member: str) -> Orders:
        stored = self._hub.store.peek(_key(member))
        return Orders(frozenset(_uids(stored.body) if stored is not None else ()))

    def ordered(self, members: Sequence[str]) -> bool:
        return any(self.orders(member).uids for member in members if self._hub.members.ready(member))

    async def write(self, member: str, unknown: Sequence[Body]) -> bool:
        """Name these copies and no others; orders for others are done. Whether the record changed."""
        key = _key(member)
        if not unknown:
            return await self._drop(key)
        now = rfc3339(self._hub.clock.now())
        if self._hub.store.peek(key) is None:
            meta = {"name": key.name, "namespace": key.namespace}
            body: Body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
            _name(body, unknown, now)
            return await self._hub.create(key.group, key.resource, key.namespace, body)
        return await self._hub.edit(key, lambda body: _name(body, unknown, now))

    async def forget_lost(self) -> None:
        """Drop the records of members that are gone from the hub."""
        for stored in self._hub.scan("", "configmaps", SYSTEM_NAMESPACE):
            member = stored.key.name.removeprefix(UNKNOWN_COPIES)
            if member != stored.key.name and self._hub.peek(CLUSTER, "clusters", "", member) is None:
                await self._drop(stored.key)

    async def _drop(self, key: Key) -> bool:
        if self._hub.store.peek(key) is None:
            return False
        await self._hub.delete(key)
        return True


def _key(member: str) -> Key:
    return Key("", "configmaps", SYSTEM_NAMESPACE, UNKNOWN_COPIES + member)


def _name(record: Body, unknown: Sequence[Body], now: str) -> bool:
    """Write the copies down, in place; whether anything changed."""
    data = record.get("data") or {}
    since = {str(entry.get("uid")): str(entry.get("since")) for entry in _list(data.get(COPIES))}
    there = {copy_["metadata"]["uid"] for copy_ in unknown}
    entries = [_entry(copy_, since.get(copy_["metadata"]["uid"], now)) for copy_ in unknown]
    entries.sort(key=lambda entry: (entry["namespace"], entry["kind"], entry["name"]))
    wanted = {COPIES: orjson.dumps(entries[:NAMED_MAX]).decode(), COUNT: str(len(entries))}
    remaining = [uid for uid in _uids(record) if uid in there]
    if remaining:
        wanted[REMOVE] = orjson.dumps(remaining).decode()
    if data == wanted:
        return False
    record["data"] = wanted
    return True


def _entry(copy_: Body, since: str) -> dict[str, str]:
    meta = copy_["metadata"]
    return {
        "kind": str(copy_.get("kind")), "namespace": str(meta.get("namespace") or ""), "name": str(meta["name"]),
        "uid": str(meta["uid"]), "job": b.annotation(copy_, ANNOTATION_JOB), "since": since,
    }  # fmt: skip


def _uids(record: Body) -> list[str]:
    """The orders of a record, as far as they read: people write them."""
    found = _load((record.get("data") or {}).get(REMOVE))
    return [uid for uid in found if isinstance(uid, str)]


def _list(text: object) -> list[Body]:
    return [entry for entry in _load(text) if isinstance(entry, dict)]


def _load(text: object) -> list[object]:
    try:
        found = orjson.loads(str(text or "[]"))
    except orjson.JSONDecodeError:
        return []
    return found if isinstance(found, list) else []
