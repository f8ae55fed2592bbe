"""A hub whose member is a real kube-apiserver with a node of kwok's, which answers in the place of a kubelet."""

from __future__ import annotations

import asyncio
import json
import tempfile
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.objects.objects import Objects
from api.objects.writing import Options, User
from api.store.memory import MemoryStore
from api.wire.http import ASGIApp
from fleet.bindings.unit import unit_key
from fleet.controllers.decide.manifestunits import unit_in
from fleet.members.kubeconfig import Dial
from fleet.relays.places import RelayLimits
from fleet.relays.relays import Relays
from fleet.rest.mount import PREFIX, RestFace
from fleet.simulate.wall import WallClock
from fleet.values.ports import Key
from fleet.wellknown import CLUSTER, LABEL_BINDING, LABEL_COMPONENT, LABEL_HUB, SYSTEM_NAMESPACE, WORK, binding_name
from tests.api.conftest import Hub, Routes, open_hub
from tests.api.rbac import binding, cluster_role
from tests.testbed.bed import Bed
from tests.testbed.build import parts
from tests.testbed.member import RealMember
from tests.testbed.pki import ADMIN
from tests.testbed.processes import free_port, wait_for

HUB_ID = "the-hub"
TEAM = "team"
PODS = f"/api/v1/namespaces/{TEAM}/pods"
JOBS = f"/apis/batch/v1/namespaces/{TEAM}/jobs"
LINES = [f"line {number}" for number in range(1, 6)]
FLEET = Options(User("system:fleet", ("system:masters",), hub=True), "fleet")
QUICK = RelayLimits(look_s=0.2)


@dataclass
class Node:
    """The member. `log`: the file whose lines are the logs of all pods; `port`: where port-forward leads."""

    member: RealMember
    log: Path
    port: int

    def job(self, name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
        """A batch Job, of which nothing makes pods here."""
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
        body = {"metadata": {"name": name, "labels": labels or {}}, "spec": {"template": template}}
        return self.member.post(JOBS, {"apiVersion": "batch/v1", "kind": "Job", **body})

    def pod(self, name: str, owner: dict[str, Any] | None, labels: dict[str, str] | None = None) -> None:
        """A pod that runs, and belongs to the owner."""
        owners = []
        if owner is not None:
            meta = owner["metadata"]
            owners = [
                {
                    "apiVersion": owner["apiVersion"],
                    "kind": owner["kind"],
                    "name": meta["name"],
                    "uid": meta["uid"],
                    "controller": True,
                }
            ]
        spec = {
            "nodeName": "node-0",
            "containers": [{"name": "main", "image": "x"}],
            "automountServiceAccountToken": False,
        }
        metadata = {"name": name, "labels": labels or {}, "ownerReferences": owners}
        self.member.post(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def until_running(self, *names: str) -> None:
        def running() -> bool:
            return all(self.member.get(f"{PODS}/{name}")["status"].get("phase") == "Running" for name in names)

        wait_for(f"{names} run", running)


def _streams(folder: Path, log: Path, port: int) -> Path:
    """kwok's answers for all pods of the team: the lines of a file, commands of this machine, an echo of bytes."""
    here = {"selector": {"matchNamespaces": [TEAM]}}
    target = {"address": "127.0.0.1", "port": port}
    specs: dict[str, Any] = {
        "ClusterLogs": {"logs": [{"logsFile": str(log), "previousLogsFile": str(log), "follow": True}]},
        "ClusterExec": {"execs": [{"local": {"workDir": str(folder)}}]},
        "ClusterAttach": {"attaches": [{"logsFile": str(log)}]},
        "ClusterPortForward": {"forwards": [{"target": target}]},
    }
    objects = [
        {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": kind, "metadata": {"name": "team"}, "spec": {**here, **spec}}
        for kind, spec in specs.items()
    ]
    path = folder / "streams.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return path


@pytest.fixture(scope="package")
def node() -> Iterator[Node]:
    with tempfile.TemporaryDirectory(prefix="fleet-relays-") as name:
        folder, port = Path(name), free_port()
        log = folder / "pods.log"
        log.write_text("".join(f"2026-01-01T00:00:00.00000000{n}Z stdout F {line}\n" for n, line in enumerate(LINES)))
        bed = Bed(folder / "bed", parts())
        try:
            etcd = bed._etcd()
            member = RealMember("cfa", bed.folder / "cfa", bed._built, bed._pki, bed.processes, etcd)
            bed.members["cfa"] = member
            member.start_apiserver()
            member.wait_apiserver()
            member.start_nodes(_streams(folder, log, port))
            member.add_nodes(1, gpus=8)
            member.add_namespace(TEAM)
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
            member.post(f"/api/v1/namespaces/{TEAM}/serviceaccounts", account)
            made = Node(member, log, port)
            train, other = made.job("train"), made.job("other", {LABEL_HUB: "another-hub", LABEL_BINDING: "x"})
            made.pod("train-0", train, {LABEL_COMPONENT: "job", "batch.kubernetes.io/job-completion-index": "0"})
            made.pod("train-1", train, {LABEL_COMPONENT: "job", "batch.kubernetes.io/job-completion-index": "1"})
            made.pod("other-0", other)
            made.pod("alone", None)
            made.until_running("train-0", "train-1", "other-0", "alone")
            yield made
        finally:
            bed.stop()


@dataclass
class World:
    """A hub that has placed the job `train` in its member `cfa`."""

    hub: Hub
    relays: Relays
    node: Node
    binding: Key

    async def grant(self, user: str, *rules: tuple[str, str], group: str = "", name: str = "") -> None:
        """The rights (verb, resource) in the namespace. `name`: of the role, where the user has one already."""
        name = name or user
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        listed = [{"apiGroups": [group], "resources": [resource], "verbs": [verb]} for verb, resource in rules]
        async with self.hub.client() as admin:
            assert (await admin.post(f"{rbac}/clusterroles", json=cluster_role(name, listed))).status_code == 201
            bound = binding(name, "RoleBinding", user, "ClusterRole", name)
            there = f"{rbac}/namespaces/{TEAM}/rolebindings"
            assert (await admin.post(there, json=bound)).status_code == 201

    async def ungrant(self, user: str) -> None:
        async with self.hub.client() as admin:
            there = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{TEAM}/rolebindings/{user}"
            assert (await admin.delete(there)).status_code == 200

    async def edit_binding(self, **spec: Any) -> None:
        kind = self.hub.registry.need(WORK, "resourcebindings")

        def change(body: dict[str, Any]) -> dict[str, Any]:
            return {**body, "spec": {**body["spec"], **spec}}

        await self.hub.objects.change(kind, TEAM, self.binding.name, change, FLEET)

    async def say_why_it_waits(self, why: str) -> None:
        """What the controllers would write of the job's unit."""
        key = unit_key(self.binding)
        kind = self.hub.registry.need(key.group, key.resource)
        stored = await self.hub.store.get(self.binding)
        assert stored is not None
        owner = {"apiVersion": f"{WORK}/v1alpha2", "kind": "ResourceBinding", "name": self.binding.name}
        metadata = {"name": key.name, "ownerReferences": [{**owner, "uid": stored.uid}]}
        await create(self.hub, key.group, key.resource, TEAM, {"metadata": metadata})

        def change(body: dict[str, Any]) -> dict[str, Any]:
            return {**body, "status": {"phase": "Enqueued", "message": why}}

        await self.hub.objects.change(kind, TEAM, key.name, change, FLEET)

    async def say_of_member(self, ready: str, reason: str) -> None:
        """What the controllers would write of the member."""
        kind = self.hub.registry.need(CLUSTER, "clusters")
        said = {"type": "Ready", "status": ready, "reason": reason}

        def change(body: dict[str, Any]) -> dict[str, Any]:
            return {**body, "status": {"conditions": [said]}}

        await self.hub.objects.change(kind, "", "cfa", change, FLEET)

    def pool_requests(self) -> int:
        return sum(pool.requests for pool in self.relays.clients.pools.values())


def _kubeconfig(member: RealMember) -> str:
    cluster = {"server": member.url, "certificate-authority-data": b64encode(member.pki.ca.read_bytes()).decode()}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": ADMIN}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
    )


async def create(hub: Hub, group: str, resource: str, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
    kind = hub.registry.need(group, resource)
    made = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
    return (await hub.objects.create(kind, namespace, made, FLEET)).body


async def join(hub: Hub, member: RealMember, *names: str, mode: str = "Push") -> None:
    """One cluster under each of the names."""
    await create(hub, "", "namespaces", "", {"metadata": {"name": SYSTEM_NAMESPACE}})
    data = {"kubeconfig": b64encode(_kubeconfig(member).encode()).decode()}
    await create(hub, "", "secrets", SYSTEM_NAMESPACE, {"metadata": {"name": "member"}, "data": data})
    for name in names:
        spec = {"syncMode": mode, "secretRef": {"namespace": SYSTEM_NAMESPACE, "name": "member"}}
        await create(hub, CLUSTER, "clusters", "", {"metadata": {"name": name}, "spec": spec})


async def place(hub: Hub, node: Node, job: str, members: Sequence[str]) -> Key:
    """The job on the hub, its binding, and the marks of both on the job's copy in the member and on its pods."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
    await create(hub, "batch", "jobs", TEAM, {"metadata": {"name": job}, "spec": {"template": template}})
    name = binding_name("Job", job)
    resource = {"apiVersion": "batch/v1", "kind": "Job", "namespace": TEAM, "name": job}
    spec = {"resource": resource, "clusters": [{"name": member} for member in members]}
    made = await create(hub, WORK, "resourcebindings", TEAM, {"metadata": {"name": name}, "spec": spec})
    labels = {LABEL_HUB: HUB_ID, LABEL_BINDING: made["metadata"]["uid"]}
    for path in (f"{JOBS}/{job}", f"{PODS}/{job}-0", f"{PODS}/{job}-1"):
        await asyncio.to_thread(node.member.patch, path, {"metadata": {"labels": labels}})
    return Key(WORK, "resourcebindings", TEAM, name)


def _rest(objects: Objects) -> Mapping[str, ASGIApp]:
    """/fleet/v1, where `fleet` finds jobs."""
    return {PREFIX: RestFace(objects, objects.store, objects.registry, partial(unit_in, objects.store))}


@asynccontextmanager
async def opened(
    folder: Path, node: Node, *members: str, limits: RelayLimits = QUICK, dial: Dial | None = None
) -> AsyncIterator[World]:
    relays: list[Relays] = []

    def routes(objects: Objects) -> Routes:
        relays.append(Relays(objects, HUB_ID, limits=limits, dial=dial))
        return relays[0].routes()

    async with open_hub(folder, MemoryStore(WallClock()), routes=routes, mounts=_rest) as hub:
        try:
            await create(hub, "", "namespaces", "", {"metadata": {"name": TEAM}})
            await join(hub, node.member, *members, mode="Pull" if dial is not None else "Push")
            yield World(hub, relays[0], node, await place(hub, node, "train", members))
        finally:
            await relays[0].aclose()


@pytest.fixture
async def world(tmp_path: Path, node: Node) -> AsyncIterator[World]:
    async with opened(tmp_path, node, "cfa") as made:
        yield made
