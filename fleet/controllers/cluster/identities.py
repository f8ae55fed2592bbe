"""The cluster that each Cluster object means: its `spec.id` and the member's own id, kept together.

A cluster that is joined under two names is used under one of them: two names would each remove the other's copies. A
Cluster that means another cluster than before is not used either: its jobs are not there, and objects there may be
another hub's. Both end by themselves, as soon as a person has mended them.
"""

from __future__ import annotations

import asyncio

from fleet.bindings import binding as b
from fleet.controllers.runtime.hub import Hub
from fleet.members.identity import Identity
from fleet.values.ports import Body, Key, StaleEpoch, StoreUnavailable
from fleet.values.untyped import text
from fleet.wellknown import CLUSTER

SAME_CLUSTER = "SameCluster"
IDENTITY_CHANGED = "IdentityChanged"
IDENTITY_UNKNOWN = "IdentityUnknown"


class Identities:
    """Judges what members say that they are, one after the other."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._one_at_a_time = asyncio.Lock()
        self._used: dict[str, str] = {}  # name of a member in use -> its id
        self._trusted: dict[str, str] = {}  # name of a member that does not show its id -> why

    async def judge(self, name: str, identity: Identity) -> tuple[str, str] | None:
        """None when the member may be used, its id being stored then; else reason and message."""
        try:
            async with self._one_at_a_time:
                refused = await self._judge(name, identity)
        except (StoreUnavailable, StaleEpoch) as error:
            return IDENTITY_UNKNOWN, f"its id cannot be compared with those of the others: {error}"
        if refused is not None:
            self.forget(name)
        return refused

    def forget(self, name: str) -> None:
        """The member is not used any more."""
        self._used.pop(name, None)
        self._trusted.pop(name, None)

    def remark(self, name: str) -> str:
        """The warning about a member that is used; "" for none."""
        why = self._trusted.get(name)
        return f"; it is not known to be the cluster of spec.id, since kube-system cannot be read: {why}" if why else ""

    async def _judge(self, name: str, identity: Identity) -> tuple[str, str] | None:
        key = Key(CLUSTER, "clusters", "", name)
        stored = self._hub.store.peek(key)
        if stored is None:
            return IDENTITY_UNKNOWN, "its Cluster object is gone"
        spec_id = id_of(stored.body)
        if not spec_id and not identity.uid:
            return IDENTITY_UNKNOWN, (
                "what tells it from other clusters, the uid of its namespace kube-system, cannot be read"
                f" ({identity.unread}): let the hub's account get namespaces there"
            )
        if spec_id and identity.uid and spec_id != identity.uid:
            return IDENTITY_CHANGED, (
                f"spec.id is {spec_id}, and the kubeconfig leads to cluster {identity.uid}: mend the kubeconfig"
                f" (fleet join {name}), or, if {name} is to be another cluster from now on, fleet unjoin {name} --force"
                " and join it again"
            )
        uid = identity.uid or spec_id
        other = self._same(stored.body, uid)
        if other:
            return SAME_CLUSTER, (
                f"it is the cluster that is joined as {other} already (id {uid}): one cluster has one name;"
                f" fleet unjoin {name} --force"
            )
        if not spec_id:
            await self._hub.edit(key, lambda body: _set_id(body, uid), uid=stored.uid)
        self._used[name] = uid
        self._trusted.pop(name, None)
        if not identity.uid:
            self._trusted[name] = identity.unread
        return None

    def _same(self, cluster: Body, uid: str) -> str:
        """The name of the Cluster that has a better right to this id, "" when there is none. A Cluster in use stays in
        use. Of the others, a Cluster that has the id stored comes first, then the older one."""
        name = cluster["metadata"]["name"]
        for other, used in self._used.items():
            if used == uid and other != name:
                return other
        for stored in self._hub.scan(CLUSTER, "clusters"):
            if stored.key.name == name or id_of(stored.body) != uid:
                continue
            if not id_of(cluster) or _age(stored.body) < _age(cluster):
                return stored.key.name
        return ""


def id_of(cluster: Body) -> str:
    return text(b.spec_of(cluster).get("id"))


def _age(cluster: Body) -> tuple[str, str]:
    meta = cluster["metadata"]
    return text(meta.get("creationTimestamp")), text(meta.get("name"))


def _set_id(body: Body, uid: str) -> bool:
    if id_of(body):
        return False
    body.setdefault("spec", {})["id"] = uid
    return True
