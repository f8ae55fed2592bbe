"""The pods of the hub's jobs, asked of the members at each request.

A pod is the hub's where its controlling owners lead to an object that carries this hub's id and the uid of a binding
of the same namespace, which is placed in that member. Labels of the pod itself prove nothing: users write templates.
All other pods are as if they were not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from api.engine.registry import Registry
from api.engine.status import StatusError, not_found, unavailable
from fleet.bindings.binding import places_of, resource_of
from fleet.bindings.conditions import condition
from fleet.bindings.names import binding_of, group_of, key_of
from fleet.kinds.lookup import INTERPRETERS
from fleet.relays.clients import MemberClients
from fleet.values.ports import Body, Key, Store
from fleet.values.untyped import mapping, rows, text
from fleet.wellknown import CLUSTER, LABEL_BINDING, LABEL_HUB, WORK

OWNERS_MAX = 8  # between a pod and its job; the longest that we know are three
ASKED_AT_ONCE = 16  # members
LOST = "ClusterNotReachable"  # reason of the Cluster's condition Ready
# Kinds beside those of jobs whose controllers name pods after them.
_OTHERS = (
    ("", "Pod"),
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
    ("apps", "DaemonSet"),
    ("apps", "ReplicaSet"),
    ("batch", "CronJob"),
)


@dataclass(frozen=True, slots=True)
class MemberPod:
    """A pod as its member shows it, and the binding that it is of."""

    member: str
    namespace: str
    name: str
    body: Body
    binding: Key
    uid: str  # of the binding

    @property
    def path(self) -> str:
        return f"{pods_path(self.namespace)}/{quote(self.name, safe='')}"


def pods_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"


class MemberPods:
    """`hub_id`: the id that this hub marks its objects in members with."""

    def __init__(self, store: Store, registry: Registry, clients: MemberClients, hub_id: str) -> None:
        self._store, self._registry, self.clients, self._hub_id = store, registry, clients, hub_id

    async def find(self, namespace: str, name: str) -> MemberPod:
        """The pod NAME, or NAME.MEMBER. StatusError 404 where the hub shows none, 409 where several members have one of
        the name, 503 where the member that should have it does not answer."""
        pod, _, member = name.rpartition(".")
        if pod and self._store.peek(Key(CLUSTER, "clusters", "", member)) is not None:
            pods = await self._ask([member], namespace, pod, sure=True)
            if pods:
                return pods[0]
        likely = self._likely(namespace, name)
        pods = await self._ask(likely, namespace, name, sure=True)
        if not pods:
            others = [place for place in self._places(namespace) if place not in likely]
            pods = await self._ask(others, namespace, name, sure=False)
        if not pods:
            raise not_found("", "pods", name)
        if len(pods) > 1:
            names = ", ".join(f"{name}.{one.member}" for one in pods)
            raise StatusError(409, "Conflict", f'several members have a pod "{name}": name one of {names}')
        return pods[0]

    async def of_member(self, member: str, namespace: str, name: str) -> MemberPod | None:
        """The pod of the name in this member; None where the hub shows none. StatusError where it does not answer."""
        cluster = self._store.peek(Key(CLUSTER, "clusters", "", member))
        if cluster is not None and _lost(cluster.body):
            raise unavailable(f"cluster {member} does not answer", 5)
        body = await self.clients.read(member, f"{pods_path(namespace)}/{quote(name, safe='')}")
        if body is None:
            return None
        binding = await self._binding_of(member, namespace, body)
        return MemberPod(member, namespace, name, body, *binding) if binding is not None else None

    async def proven(self, member: str, namespace: str, pods: Iterable[Body]) -> list[MemberPod]:
        """Those of the pods that are the hub's. Pods of one owner cost one look at it."""
        bindings: dict[str, tuple[Key, str] | None] = {}
        hub_pods = []
        for body in pods:
            owner = text(mapping(controller_of(body)).get("uid"))
            if not owner or owner not in bindings:
                bindings[owner] = await self._binding_of(member, namespace, body)
            binding = bindings[owner]
            if binding is not None:
                hub_pods.append(MemberPod(member, namespace, text(body["metadata"].get("name")), body, *binding))
        return hub_pods

    def end_reason(self, found: MemberPod) -> str:
        """Why a relay to the pod has to end, as far as the hub itself knows; "" while it may go on."""
        binding = self._store.peek(found.binding)
        if binding is None or binding.uid != found.uid or found.member not in places_of(binding.body):
            return f"the job has left {found.member}"
        return member_ended(self._store, found.member)

    # -- members that may have it

    def _likely(self, namespace: str, name: str) -> list[str]:
        """Members of the bindings of jobs that the pod could be named after."""
        steps = name.split("-")
        jobs = ["-".join(steps[:count]) for count in range(1, len(steps) + 1)]
        members: dict[str, None] = {}
        for group, kind in (*INTERPRETERS, *_OTHERS):
            for job in jobs:
                binding = binding_of(self._store.peek, group, kind, namespace, job)
                members.update(dict.fromkeys(places_of(binding.body) if binding is not None else ()))
        return list(members)

    def _places(self, namespace: str) -> list[str]:
        """All members that bindings of the namespace are placed in."""
        bindings = self._store.scan(WORK, "resourcebindings", namespace=namespace)
        return sorted({place for binding in bindings for place in places_of(binding.body)})

    async def _ask(self, members: Sequence[str], namespace: str, name: str, *, sure: bool) -> list[MemberPod]:
        """The pods of the name in these members. `sure`: a member that does not answer is an error where none has
        it."""
        bound = asyncio.Semaphore(ASKED_AT_ONCE)

        async def ask(member: str) -> MemberPod | StatusError | None:
            async with bound:
                try:
                    return await self.of_member(member, namespace, name)
                except StatusError as error:
                    return error

        answers = await asyncio.gather(*(ask(member) for member in members))
        found = [answer for answer in answers if isinstance(answer, MemberPod)]
        errors = [answer for answer in answers if isinstance(answer, StatusError)]
        if not found and errors and sure:
            raise errors[0]
        return found

    # -- owners

    async def _binding_of(self, member: str, namespace: str, pod: Body) -> tuple[Key, str] | None:
        """Key and uid of the binding that the pod's owners lead to; None where they lead to none of this hub's."""
        body, group, kind = pod, "", "Pod"
        for _ in range(OWNERS_MAX):
            owner = controller_of(body)
            if owner is None:
                break
            path = await self._path_of(member, namespace, owner)
            parent = await self.clients.read(member, path) if path else None
            if parent is None or mapping(parent.get("metadata")).get("uid") != owner.get("uid"):
                return None
            body, group, kind = parent, text(owner.get("apiVersion")).rpartition("/")[0], text(owner.get("kind"))
        else:
            return None
        meta = mapping(body.get("metadata"))
        if meta.get("namespace") != namespace:
            return None
        labels, name = mapping(meta.get("labels")), text(meta.get("name"))
        key = key_of(self._store.peek, group, kind, namespace, name)
        binding = await self._store.get(key) if labels.get(LABEL_HUB) == self._hub_id else None
        if binding is None or binding.uid != labels.get(LABEL_BINDING) or member not in places_of(binding.body):
            return None
        resource = resource_of(binding.body)
        placed = group_of(binding.body), resource.get("kind"), resource.get("name"), resource.get("namespace")
        return (key, binding.uid) if placed == (group, kind, name, namespace) else None

    async def _path_of(self, member: str, namespace: str, owner: Body) -> str:
        """Where the member serves the owner; "" for nowhere below a namespace."""
        version, kind, name = (text(owner.get(field)) for field in ("apiVersion", "kind", "name"))
        known = self._registry.kind_of(version, kind)
        if known is not None:
            plural = known.resource if known.namespaced else ""
        else:
            listed = await self.clients.read(member, _root(version)) or {}
            kinds = [one for one in rows(listed.get("resources")) if one.get("kind") == kind]
            plural = next((text(one.get("name")) for one in kinds if one.get("namespaced")), "").partition("/")[0]
        if not (plural and name):
            return ""
        return (
            f"{_root(version)}/namespaces/{quote(namespace, safe='')}/{quote(plural, safe='')}/{quote(name, safe='')}"
        )


def member_ended(store: Store, member: str) -> str:
    """Why a relay to the member has to end, as far as the hub itself knows; "" while it may go on."""
    cluster = store.peek(Key(CLUSTER, "clusters", "", member))
    if cluster is None:
        return f"cluster {member} has left the hub"
    return f"cluster {member} does not answer" if _lost(cluster.body) else ""


def controller_of(body: Body) -> Body | None:
    owners = rows(mapping(body.get("metadata")).get("ownerReferences"))
    return next((owner for owner in owners if owner.get("controller") is True), None)


def _root(version: str) -> str:
    return f"/apis/{quote(version)}" if "/" in version else f"/api/{quote(version)}"


def _lost(cluster: Body) -> bool:
    ready = condition(cluster, "Ready")
    return ready is not None and ready.get("status") == "False" and ready.get("reason") == LOST
