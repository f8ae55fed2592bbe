"""/fleet/v1 over a hub in memory whose controllers run: real objects, fake members."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from api.app import Api, build_app
from api.auth import StaticTokens
from api.rbac import Rbac
from api.v1.mount import PREFIX, RestFace
from fleet.admission import rules
from fleet.ports import Body
from fleet.store.writing import User
from tests.controllers.fakes import FakeMember
from tests.controllers.world import World
from tests.controllers.world import hub as controlled

TOKENS = {
    "admin-token": User("admin", ("system:masters",)),
    "alice-token": User("alice", ("dev",)),
    "bob-token": User("bob"),
}
ROLES = "rbac.authorization.k8s.io"


@dataclass
class Rest:
    """The API of a world, asked as a program asks it."""

    world: World
    app: Api
    _clients: list[httpx.AsyncClient] = field(default_factory=list)

    def client(self, token: str = "admin-token") -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        transport = httpx.ASGITransport(self.app)  # type: ignore[arg-type,unused-ignore]
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

    async def jobs(self, **params: Any) -> list[str]:
        """Names of the jobs of a list."""
        return [job["name"] for job in (await self.get("/jobs", **params))["items"]]

    async def grant(self, user: str, rule: Body, namespace: str = "") -> None:
        """One rule for a user: in a namespace, or everywhere."""
        kind = "Role" if namespace else "ClusterRole"
        metadata = {"name": f"{user}-{len(self.world.all(kind))}", **({"namespace": namespace} if namespace else {})}
        await self.world.apply(
            {"apiVersion": f"{ROLES}/v1", "kind": kind, "metadata": metadata, "rules": [rule]},
            {
                "apiVersion": f"{ROLES}/v1", "kind": f"{kind}Binding", "metadata": metadata,
                "subjects": [{"kind": "User", "name": user, "apiGroup": ROLES}],
                "roleRef": {"apiGroup": ROLES, "kind": kind, "name": metadata["name"]},
            },
        )  # fmt: skip
        self.app.authorizer.invalidate()


def causes(status: Body) -> dict[str, str]:
    """What is wrong, by field."""
    return {cause["field"]: cause["message"] for cause in status.get("details", {}).get("causes", ())}


@asynccontextmanager
async def rest(*members: FakeMember, start: bool = True, objects: Sequence[Body] = ()) -> AsyncIterator[Rest]:
    """A hub with these members, `objects` in it, and its REST face."""
    async with controlled(*members, start=start) as world:
        world.objects.rules.update(rules())
        app = build_app(
            world.objects, world.store, world.registry, clock=world.clock, authenticator=StaticTokens(TOKENS),
            authorizer=Rbac(world.store), mounts={PREFIX: RestFace(world.objects, world.store, world.registry)},
        )  # fmt: skip
        await app.start()
        face = Rest(world, app)
        try:
            await world.apply(*objects)
            yield face
        finally:
            for client in face._clients:
                await client.aclose()
            await app.stop()
