"""Cluster objects and the connections behind them, kept alike; the state of a member, told in Cluster.status.

A Cluster names the Secret with its kubeconfig; here the two become a member, and changes of either reach it. A Cluster
that is deleted stays until no binding is placed in it or leaving it (failover empties them), so that the connection is
there while copies are withdrawn.

Status is written when something in it changed, and for one Cluster at most once in STATUS_EVERY_S.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterable, Sequence
from typing import Protocol

from api.loops.controller import Controller, Source
from fleet.bindings import binding as b
from fleet.bindings.conditions import condition, set_condition
from fleet.controllers.cluster import topology
from fleet.controllers.cluster.identities import Identities
from fleet.controllers.fields import rooms
from fleet.controllers.runtime.gpus import GPU_PARTS, by_model
from fleet.controllers.runtime.hub import Hub
from fleet.core.model.member import Taint
from fleet.members.identity import Judge
from fleet.members.members import MemberChange
from fleet.members.planting import HubTrees
from fleet.members.potential import BadPotential, NodeGroup, read_groups
from fleet.members.traits import MemberSettings, Traits
from fleet.values.kubeconfig.document import BadKubeconfig, choose, parse
from fleet.values.kubeconfig.ends import ends
from fleet.values.ports import Body, Event, Key, StoredObject
from fleet.values.quantity import texts_of
from fleet.values.untyped import digits, mapping, rows, text
from fleet.wellknown import (
    AGENT,
    ANNOTATION_FORCE_REMOVAL,
    ANNOTATION_POTENTIAL,
    CLUSTER,
    FINALIZER_CLUSTER,
    HYPERNODES,
    LABEL_PRICE,
    SYSTEM_NAMESPACE,
    WORK,
)

STATUS_EVERY_S = 1.0
LOOK_AGAIN_S = 5.0  # at a Cluster that is being deleted; bindings that leave it bring it back sooner
LEAVING = "Leaving"  # condition of a Cluster that is being deleted: its obstacle
GATHER_S = 0.5  # from a change of a HyperNode to a look at the Clusters
NAMED_MAX = 3  # objects that its message names


class MemberJoins(Protocol):
    """This loop's needs of the members beside reading; `ClusterMembers` has them."""

    judge: Judge

    async def add(self, name: str, kubeconfig: str, hub_id: str, *, pull: bool = False) -> None: ...

    async def remove(self, name: str) -> None: ...

    def describe(self, name: str, traits: Traits) -> None: ...

    def state(self, name: str) -> MemberSettings | None: ...


class ClustersLoop:
    """A Loop."""

    name = "clusters"

    def __init__(self, hub: Hub, members: MemberJoins) -> None:
        self._hub, self._members = hub, members
        self._identities = Identities(hub)
        self._hypernodes = topology.HubHyperNodes(hub.store)
        members.judge = self._identities.judge
        self._leaving: set[str] = set()
        self._kubeconfigs: dict[str, str] = {}  # as the Secrets have them
        self._written_at: dict[str, float] = {}  # monotonic
        self._enablements: dict[str, tuple[object, list[Body]]] = {}
        sources = [
            Source(CLUSTER, "clusters"),
            Source("", "secrets", self._of_secret),
            Source(WORK, "resourcebindings", self._of_binding),
            Source(HYPERNODES, "hypernodes", self._of_hypernode),
        ]
        self.controller = Controller(self.name, hub.store, sources, self._reconcile, workers=8)

    async def run(self) -> None:
        self._hub.members.subscribe(self._on_change)
        await self.controller.run()

    # -- when to look

    def _of_secret(self, event: Event) -> Iterable[Key]:
        """A Secret may have any name; there are few Clusters, and Secrets change rarely."""
        namespace, name = event.stored.key.namespace, event.stored.key.name
        return [
            stored.key
            for stored in self._hub.scan(CLUSTER, "clusters")
            if secret_of(stored.body) == Key("", "secrets", namespace, name)
        ]

    def _of_hypernode(self, event: Event) -> Iterable[Key]:
        """They are many, and often come together."""
        for stored in self._hub.scan(CLUSTER, "clusters"):
            self.controller.queue.add_after(stored.key, GATHER_S)
        return ()

    def _of_binding(self, event: Event) -> Iterable[Key]:
        return [_key(name) for name in self._leaving]

    def _on_change(self, changed: MemberChange) -> None:
        if changed.what in ("pod", "node", "ready"):
            self.controller.queue.add_after(_key(changed.member), self._pause(changed.member))

    def _pause(self, name: str) -> float:
        """Seconds until the status may be written again."""
        written = self._written_at.get(name)
        if written is None:
            return 0.0
        return max(0.0, written + STATUS_EVERY_S - self._hub.clock.monotonic())

    # -- reconciling

    async def _reconcile(self, key: Key) -> float | None:
        name = key.name
        stored = self._hub.store.peek(key)
        if stored is None:
            await self._remove(name)
            self._leaving.discard(name)
            self._written_at.pop(name, None)
            self._enablements.pop(name, None)
            return None
        cluster = stored.body
        if b.deleting(cluster):
            again = await self._leave(key, cluster)
            if again is None:
                return None
        else:
            again = None
            await self._hub.edit(key, _with_finalizer, uid=stored.uid)
        trouble = await self._join(name, cluster)
        return await self._tell(key, cluster, trouble) or again

    async def _join(self, name: str, cluster: Body) -> tuple[str, str] | None:
        """Connect with what is stored now; reason and message when that is not possible."""
        secret_key = secret_of(cluster)
        where = f"Secret {secret_key.namespace}/{secret_key.name}"
        secret = await self._hub.store.get(secret_key)
        if secret is None:
            await self._remove(name)
            return "SecretMissing", f"{where} does not exist"
        encoded = (secret.body.get("data") or {}).get("kubeconfig")
        if not encoded:
            await self._remove(name)
            return "BadKubeconfig", f"{where} has no data.kubeconfig"
        try:
            kubeconfig = base64.b64decode(encoded).decode()
            await self._members.add(name, kubeconfig, self._hub.hub_id, pull=pulls(cluster))
            if self._kubeconfigs.get(name) != encoded:
                self._kubeconfigs[name] = encoded
                self._hub.metrics.see_credentials(name, await asyncio.to_thread(_end, kubeconfig))
        except (BadKubeconfig, binascii.Error, UnicodeDecodeError) as error:
            return "BadKubeconfig", f"{where}: {error}"
        self._members.describe(name, traits_of(cluster, self._hypernodes.trees_of(cluster)))
        return None

    async def _remove(self, name: str) -> None:
        await self._members.remove(name)
        self._identities.forget(name)
        self._kubeconfigs.pop(name, None)
        self._hub.metrics.see_credentials(name, None)
        self._hub.metrics.see_nodes(name, None)

    async def _leave(self, key: Key, cluster: Body) -> float | None:
        """None when the Cluster is gone; otherwise when to look again."""
        name = key.name
        self._leaving.add(name)
        forced = b.annotation(cluster, ANNOTATION_FORCE_REMOVAL) == "true"
        waits_for = () if forced else self._in_use(name)
        if waits_for:
            text = self._leaving_text(name, waits_for)
            now = self._hub.clock.now()
            await self._hub.edit(key, lambda body: set_condition(body, LEAVING, True, "WaitsForWork", text, now))
            return LOOK_AGAIN_S
        await self._forget_agent(name)
        kind = self._hub.registry.need(CLUSTER, "clusters")
        uid = cluster["metadata"]["uid"]
        await self._hub.objects.change(kind, "", name, _without_finalizer, self._hub.options, uid=uid)
        return None

    async def _forget_agent(self, name: str) -> None:
        """Its token first, so that it does not come back."""
        await self._hub.delete(Key("", "secrets", SYSTEM_NAMESPACE, f"{AGENT}-{name}"))
        await self._hub.delete(Key("coordination.k8s.io", "leases", SYSTEM_NAMESPACE, f"{AGENT}-{name}"))

    def _in_use(self, name: str) -> Sequence[str]:
        """The work that is placed in the member or leaving it."""
        return [
            b.job_name(stored.body)
            for stored in self._hub.scan(WORK, "resourcebindings")
            if (name in b.clusters_of(stored.body) and not self._done(stored, name))
            or any(t["fromCluster"] == name for t in b.tasks_of(stored.body))
        ]

    def _done(self, stored: StoredObject, name: str) -> bool:
        """Whether its job is over, and the member shows nothing of it any more."""
        copies = self._hub.members.copies(stored.uid)
        return b.finished(stored.body) and not any(member == name for member, _ in copies)

    def _leaving_text(self, name: str, waits_for: Sequence[str]) -> str:
        """The text for a person who deleted the Cluster."""
        more = f" and {len(waits_for) - NAMED_MAX} more" if len(waits_for) > NAMED_MAX else ""
        text = f"its work is being withdrawn: {', '.join(sorted(waits_for)[:NAMED_MAX])}{more}"
        if self._hub.members.ready(name):
            return text
        return (
            f"{text}; the member does not answer. If it never will again, give up what is there:"
            f" kubectl annotate cluster {name} {ANNOTATION_FORCE_REMOVAL}=true (or fleet unjoin {name} --force)"
        )

    # -- status

    async def _tell(self, key: Key, cluster: Body, trouble: tuple[str, str] | None) -> float | None:
        name = key.name
        pause = self._pause(name)
        state = self._members.state(name)
        ready = state is not None and state.ready and trouble is None
        reason, message = trouble or _standing(state)
        message += self._identities.remark(name) if ready else ""
        if trouble is None and _unsettled(state) and condition(cluster, "Ready") is not None:
            return STATUS_EVERY_S  # the stored state stands, since this process has only begun to look
        changes = self._summary(name, state)
        places = state.places if ready and state is not None else None
        now = self._hub.clock.now()

        def change(body: Body) -> bool:
            status = body.setdefault("status", {})
            differs = any(status.get(field) != value for field, value in changes.items())
            status.update(changes)
            differs |= rooms.tell(body, now)
            differs |= places is not None and topology.tell(body, places, now)
            return set_condition(body, "Ready", ready, reason, message, now) or differs

        if pause > 0:
            return pause
        if await self._hub.edit(key, change, uid=cluster["metadata"]["uid"]):
            self._written_at[name] = self._hub.clock.monotonic()
        return None

    def _summary(self, name: str, state: MemberSettings | None) -> Body:
        if state is None or not state.version:  # not seen since this process began: the stored state is newer
            return {}
        known = self._enablements.get(name)
        if known is None or known[0] is not state.catalogue:
            known = self._enablements[name] = (state.catalogue, state.catalogue.enablements())
        changes: Body = {"kubernetesVersion": state.version, "apiEnablements": known[1]}
        if state.ready:
            self._hub.metrics.see_nodes(name, (state.nodes_ready, state.nodes))
            changes["nodeSummary"] = {"totalNum": state.nodes, "readyNum": state.nodes_ready}
            changes["resourceSummary"] = {
                "allocatable": texts_of(state.allocatable),
                "allocating": texts_of(state.allocating),
                "allocated": texts_of(state.allocated),
            }
            changes |= self._gpus(name)
        return changes

    def _gpus(self, name: str) -> Body:
        """GPUs by model; nothing before the first full list."""
        model = self._hub.members.model(name)
        if model is None:
            return {}
        found = by_model(model.pools, self._hub.members.closed(name))
        return {"gpus": [{"model": of, **{part: found[of][part] for part in GPU_PARTS}} for of in sorted(found)]}


def _key(name: str) -> Key:
    return Key(CLUSTER, "clusters", "", name)


def _with_finalizer(body: Body) -> bool:
    finalizers = body["metadata"].setdefault("finalizers", [])
    if FINALIZER_CLUSTER in finalizers or b.deleting(body):
        return False
    finalizers.append(FINALIZER_CLUSTER)
    return True


def _without_finalizer(body: Body) -> Body | None:
    meta = body["metadata"]
    if FINALIZER_CLUSTER not in (meta.get("finalizers") or ()):
        return None
    meta["finalizers"] = [f for f in meta["finalizers"] if f != FINALIZER_CLUSTER]
    return body


def _end(kubeconfig: str) -> float | None:
    """When the credentials end, in epoch seconds, as far as they say it."""
    try:
        return min(ends(choose(parse(kubeconfig)).user).values(), default=None)
    except BadKubeconfig:
        return None  # the Cluster says so


def secret_of(cluster: Body) -> Key:
    """Where its kubeconfig is."""
    ref = mapping(b.spec_of(cluster).get("secretRef"))
    name = text(ref.get("name")) or f"member-{cluster['metadata']['name']}"
    return Key("", "secrets", text(ref.get("namespace")) or SYSTEM_NAMESPACE, name)


def pulls(cluster: Body) -> bool:
    """Whether only its agent reaches the member."""
    return b.spec_of(cluster).get("syncMode") == "Pull"


def traits_of(cluster: Body, trees: HubTrees) -> Traits:
    spec, labels = b.spec_of(cluster), b.labels_of(cluster)
    return Traits(
        labels=tuple(sorted(labels.items())),
        taints=tuple(
            Taint(text(t.get("key")), text(t.get("value")), text(t.get("effect")) or "NoSchedule")
            for t in rows(spec.get("taints"))
        ),
        provider=text(spec.get("provider")),
        region=text(spec.get("region")),
        zone=text(spec.get("zone")),
        price=digits(labels.get(LABEL_PRICE, "")) or 0,
        potential=_potential(cluster),
        trees=trees,
    )


def _potential(cluster: Body) -> tuple[NodeGroup, ...]:
    """None for a text that does not parse: admission refuses those."""
    try:
        return read_groups(b.annotation(cluster, ANNOTATION_POTENTIAL))
    except BadPotential:
        return ()


def _standing(state: MemberSettings | None) -> tuple[str, str]:
    """Reason and message of the condition Ready of a member that no trouble keeps from joining."""
    return (state.reason, state.message) if state is not None else ("ClusterNotReachable", "not joined yet")


def _unsettled(state: MemberSettings | None) -> bool:
    """Whether this process has only begun to look at the member."""
    return state is not None and not state.settled
