"""/fleet/v1 over a hub in memory whose controllers run: real objects, fake members."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from api.access.auth import StaticTokens
from api.access.rbac import Rbac
from api.access.storedtokens import StoredTokens
from api.objects.writing import Options, User
from api.server.app import Api
from fleet.admission import rules
from fleet.controllers.decide.manifestunits import unit_in
from fleet.core.notation.codec import decode_snapshot
from fleet.hub.face import hub_app
from fleet.rest.columns import JobColumns
from fleet.rest.context import RestHub as ApiHub
from fleet.rest.historydb import HistoryDatabase
from fleet.rest.jobwatch import PATH as WATCHED
from fleet.rest.jobwatch import JobWatches
from fleet.rest.line import Lines
from fleet.rest.mount import PREFIX, RestFace
from fleet.values.ports import Body, Key, Put, Write
from fleet.values.times import rfc3339
from fleet.wellknown import (
    ANNOTATION_QUOTA_FULLNAME,
    KUBEFLOW,
    LABEL_JOB_UID,
    QUEUE,
    QUEUE_NAMESPACE,
    WORK,
    binding_name,
    unit_name,
)
from tests.controllers.fakemember import FakeMember
from tests.controllers.world import World, pytorchjob
from tests.controllers.world import hub as controlled

TOKENS = {
    "admin-token": User("admin", ("system:masters",)),
    "alice-token": User("alice", ("dev",)),
    "bob-token": User("bob"),
}
SEEN_S = 60.0
ROLES = "rbac.authorization.k8s.io"
ADMIN = Options(TOKENS["admin-token"], "test")


@dataclass
class Rest:
    """The API of a world, asked as a program asks it."""

    world: World
    app: Api
    _clients: list[httpx.AsyncClient] = field(default_factory=list)

    def client(self, token: str = "admin-token") -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        transport = httpx.ASGITransport(self.app)
        client = httpx.AsyncClient(base_url="https://hub", headers=headers, transport=transport)
        self._clients.append(client)
        return client

    async def get(self, path: str, token: str = "admin-token", **params: Any) -> Any:
        """The JSON of a GET that must succeed."""
        answer = await self.client(token).get(f"{PREFIX}{path}", params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def refused(self, method: str, path: str, token: str = "admin-token", **how: Any) -> Body:
        """The Status of a request that must be refused."""
        answer = await self.client(token).request(method, f"{PREFIX}{path}", **how)
        body: Body = answer.json()
        assert (body["kind"], body["status"], body["code"]) == ("Status", "Failure", answer.status_code), answer.text
        return body

    async def job(self, name: str, kind: str = "PyTorchJob", namespace: str = "default") -> Any:
        return await self.get(f"/jobs/{namespace}/{kind}/{name}")

    async def until(self, name: str, condition: Callable[[Any], bool], within_s: float = 20.0) -> Any:
        """The job as soon as it is so; fails after `within_s`."""
        deadline = self.world.clock.monotonic() + within_s
        while True:
            job = await self.job(name)
            if condition(job):
                return job
            assert self.world.clock.monotonic() < deadline, f"not within {within_s} s: {job}"
            await asyncio.sleep(0.02)

    async def seen(self, **where: str | None) -> Any:
        """The hub's newest snapshot as soon as it has these jobs, of namespace default where they name none, in these
        members; None: it waits."""
        deadline = self.world.clock.monotonic() + SEEN_S
        wanted = {name if "/" in name else f"default/{name}": place for name, place in where.items()}
        while True:
            answer = await self.client().get(f"{PREFIX}/snapshot")
            units = decode_snapshot(answer.json()).units.values() if answer.status_code == 200 else ()
            found = {unit.name: unit.member for unit in units}
            if wanted.items() <= found.items():
                return answer.json()
            assert self.world.clock.monotonic() < deadline, f"not within {SEEN_S} s: {found or answer.text}"
            await asyncio.sleep(0.02)

    async def jobs(self, **params: Any) -> list[str]:
        """Names of the jobs of a list."""
        return [job["name"] for job in (await self.get("/jobs", **params))["items"]]

    async def grant(self, user: str, rule: Body, namespace: str = "") -> None:
        """One rule for a user: in a namespace, or everywhere."""
        kind = "Role" if namespace else "ClusterRole"
        metadata = {"name": f"{user}-{len(self.world.all(kind))}", **({"namespace": namespace} if namespace else {})}
        bodies: tuple[Body, ...] = (
            {"apiVersion": f"{ROLES}/v1", "kind": kind, "metadata": metadata, "rules": [rule]},
            {
                "apiVersion": f"{ROLES}/v1",
                "kind": f"{kind}Binding",
                "metadata": metadata,
                "subjects": [{"kind": "User", "name": user, "apiGroup": ROLES}],
                "roleRef": {"apiGroup": ROLES, "kind": kind, "name": metadata["name"]},
            },
        )
        for body in bodies:
            found = self.world.registry.kind_of(body["apiVersion"], body["kind"])
            assert found is not None
            await self.world.objects.create(found, namespace, body, ADMIN)
        self.app.authorizer.invalidate()


def causes(status: Body) -> dict[str, str]:
    """The problems, by field."""
    return {cause["field"]: cause["message"] for cause in status.get("details", {}).get("causes", ())}


@asynccontextmanager
async def rest(
    *members: FakeMember,
    start: bool = True,
    objects: Sequence[Body] = (),
    history: HistoryDatabase | None = None,
    tokens: Path | None = None,
) -> AsyncIterator[Rest]:
    """A hub with these members, `objects` in it, and its REST face. `tokens`: the file with the administrator's."""
    async with controlled(*members, start=start) as world:
        world.objects.rules.update(rules())
        lines = Lines(world.store)
        face = RestFace(
            world.objects,
            world.store,
            world.registry,
            partial(unit_in, world.store),
            history,
            tokens=StoredTokens(world.store, world.clock, tokens) if tokens is not None else None,
            lines=lines,
        )
        rbac, views = Rbac(world.store), ApiHub(world.objects, world.store, world.registry)
        app = hub_app(
            world.objects,
            world.store,
            world.registry,
            clock=world.clock,
            authenticator=StaticTokens(TOKENS),
            authorizer=rbac,
            mounts={PREFIX: face, WATCHED: JobWatches(views, rbac, lines)},
        )
        app.joined = JobColumns(world.store, world.registry, world.clock)
        await app.start()
        made = Rest(world, app)
        try:
            await world.apply(*objects)
            yield made
        finally:
            for client in made._clients:
                await client.aclose()
            await app.stop()


async def fill(hub: Rest, count: int) -> None:
    """`count` waiting PyTorchJobs, written past the controllers."""
    await hub.world.store.commit(waiting_jobs(count, hub.world.clock.now()))


def waiting_jobs(count: int, now: float) -> list[Write]:
    """`count` waiting PyTorchJobs as bind and enqueue leave them, in one queue. The later a job's number, the higher
    its priority."""
    queue = Key(QUEUE, "queues", QUEUE_NAMESPACE, "root-big")
    writes: list[Write] = [
        Put(queue, {"metadata": {"name": "root-big", "annotations": {ANNOTATION_QUOTA_FULLNAME: "root/big"}}})
    ]
    for number in range(count):
        job = pytorchjob(f"job-{number:05}")
        meta = {"namespace": "default", "creationTimestamp": rfc3339(now)}
        name = binding_name("PyTorchJob", job["metadata"]["name"])
        job["metadata"] |= {"uid": f"j{number}", **meta}
        resource = {"apiVersion": job["apiVersion"], "kind": "PyTorchJob", "namespace": "default"}
        requests = {"resourceRequest": {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "1"}}
        components = [
            {"name": component, "replicas": replicas, "replicaRequirements": requests}
            for component, replicas in (("master", 1), ("worker", 2))
        ]
        binding = {
            "metadata": {"name": name, "uid": f"b{number}", "labels": {LABEL_JOB_UID: f"j{number}"}, **meta},
            "spec": {
                "gang": True,
                "resource": {**resource, "name": job["metadata"]["name"]},
                "components": components,
                "suspension": {"scheduling": True},
                "schedulePriority": {"priority": number},
            },
        }
        owner = {"apiVersion": f"{WORK}/v1alpha2", "kind": "ResourceBinding", "name": name, "uid": f"b{number}"}
        unit = {
            "metadata": {"name": unit_name(name), "uid": f"u{number}", "ownerReferences": [owner], **meta},
            "spec": {"queue": "root-big", "priority": number},
            "status": {"phase": "Enqueued", "message": "m", "reason": {"code": "MaxJobsReached", "numbers": {}}},
        }
        writes += [
            Put(Key(KUBEFLOW, "pytorchjobs", "default", job["metadata"]["name"]), job),
            Put(Key(WORK, "resourcebindings", "default", name), binding),
            Put(Key(QUEUE, "queueunits", "default", unit_name(name)), unit),
        ]
    return writes
