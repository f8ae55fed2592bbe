"""Unknown copies: objects in members that this hub sent after the backup that its database was restored from.

No binding wants them, and yet they may be running work. So no loop removes them: a record for each member, in the
store, names them for `fleet doctor`. People say there which of them go, or become jobs of the hub again (adopting.py).
Whether a copy is unknown is judged from its stamp each time. The record holds only since when, the orders of people,
and why an order was not carried out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from fleet.bindings import binding as b
from fleet.bindings.orphans import COPIES, entries
from fleet.controllers.dispatch.manifests import is_dependency, users_of
from fleet.controllers.runtime.hub import Hub
from fleet.controllers.runtime.terms import Terms
from fleet.kinds import word_of
from fleet.values.ports import Body, Key
from fleet.values.times import rfc3339
from fleet.wellknown import ANNOTATION_JOB, CLUSTER, LABEL_BINDING, SYSTEM_NAMESPACE, UNKNOWN_COPIES

NAMED_MAX = 1000  # copies that one record names
COUNT, REMOVE, ADOPT, PROBLEMS = "count", "remove", "adopt", "problems"  # the data of a record, beside COPIES

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
    """The copies that people asked to have removed, and those to have adopted, by uid."""

    uids: frozenset[str]
    adopt: frozenset[str] = frozenset()

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

    def has_record(self, member: str) -> bool:
        """Whether there is a record of the member."""
        return self._hub.store.peek(_key(member)) is not None

    def orders(self, member: str) -> Orders:
        stored = self._hub.store.peek(_key(member))
        if stored is None:
            return Orders(frozenset())
        return Orders(frozenset(_uids(stored.body, REMOVE)), frozenset(_uids(stored.body, ADOPT)))

    def ordered(self, members: Sequence[str]) -> bool:
        orders = (self.orders(member) for member in members if self._hub.members.ready(member))
        return any(order.uids or order.adopt for order in orders)

    async def write(self, member: str, unknown: Sequence[Body], problems: Mapping[str, str]) -> bool:
        """Name these copies and no others; orders for others are done. `problems`: why copies, by uid, were not
        adopted, which ends their orders. Whether the record changed."""
        key = _key(member)
        if not unknown:
            return await self._drop(key)
        now = rfc3339(self._hub.clock.now())
        if self._hub.store.peek(key) is None:
            meta = {"name": key.name, "namespace": key.namespace}
            body: Body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
            _name(body, unknown, now, problems)
            return await self._hub.create(key.group, key.resource, key.namespace, body)
        return await self._hub.edit(key, lambda body: _name(body, unknown, now, problems))

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


def _name(record: Body, unknown: Sequence[Body], now: str, problems: Mapping[str, str]) -> bool:
    """Write the copies down, in place; whether anything changed."""
    data = record.get("data") or {}
    since = {str(entry.get("uid")): str(entry.get("since")) for entry in entries(record)}
    uids = {copy_["metadata"]["uid"] for copy_ in unknown}
    named = [_entry(copy_, since.get(copy_["metadata"]["uid"], now)) for copy_ in unknown]
    named.sort(key=lambda entry: (entry["namespace"], entry["kind"], entry["name"]))
    target = {COPIES: orjson.dumps(named[:NAMED_MAX]).decode(), COUNT: str(len(named))}
    told = {**_problems(record), **problems}
    for field, remaining in (
        (REMOVE, [uid for uid in _uids(record, REMOVE) if uid in uids]),
        (ADOPT, [uid for uid in _uids(record, ADOPT) if uid in uids and uid not in problems]),
        (PROBLEMS, {uid: why for uid, why in told.items() if uid in uids}),
    ):
        if remaining:
            target[field] = orjson.dumps(remaining).decode()
    if data == target:
        return False
    record["data"] = target
    return True


def _entry(copy_: Body, since: str) -> dict[str, str]:
    meta = copy_["metadata"]
    return {
        "kind": word_of(copy_),
        "namespace": str(meta.get("namespace") or ""),
        "name": str(meta["name"]),
        "uid": str(meta["uid"]),
        "job": b.annotation(copy_, ANNOTATION_JOB),
        "since": since,
    }


def _uids(record: Body, field: str) -> list[str]:
    """The orders of a record, as far as they read: people write them."""
    found = _load((record.get("data") or {}).get(field))
    return [uid for uid in found if isinstance(uid, str)] if isinstance(found, list) else []


def _problems(record: Body) -> dict[str, str]:
    found = _load((record.get("data") or {}).get(PROBLEMS))
    return {uid: str(why) for uid, why in found.items()} if isinstance(found, dict) else {}


def _load(text: object) -> object:
    try:
        return orjson.loads(str(text or "[]"))
    except orjson.JSONDecodeError:
        return []
