"""clusters/NAME/proxy: another API behind the hub, reached with the hub's own credentials."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator

import pytest

from api.access.auth import StaticTokens
from api.access.rbac import AllowAll
from api.admission.dynamic import DynamicAdmission
from api.engine.registry import Registry
from api.objects.objects import Objects
from api.objects.writing import Options, User
from api.outgoing import AllowList, OutgoingClient
from api.store.memory import MemoryStore
from api.transport.serve import Server
from fleet.admission.filling import filled
from fleet.admission.kindfiles import load_kinds
from fleet.hub.face import hub_app
from fleet.simulate.wall import RandomIds, WallClock
from tests.api.conftest import ADMIN, KUBECTL, Hub
from tests.api.proxy import PROXY, join
from tests.api.rbac import binding, cluster_role
from tests.api.streams import config_map, watching
from tests.api.wait import eventually
from tests.relays.proxies import proxy_of

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def member() -> AsyncIterator[tuple[Server, MemoryStore]]:
    """A member of its own: the same application on another store, over plain HTTP."""
    clock = WallClock()
    store, registry = MemoryStore(clock), Registry(load_kinds())
    objects = Objects(store, registry, clock, RandomIds(), fill=filled)
    users = StaticTokens({"member-token": User("fleet", ("system:masters",))})
    app = hub_app(objects, store, registry, clock=clock, authenticator=users, authorizer=AllowAll())
    server = Server(app, close_streams=app.close_streams)
    await app.start()
    await server.start()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    await objects.create(registry.need("", "namespaces"), "", namespace, Options(ADMIN, "test"))
    yield server, store
    await server.stop()
    await app.stop()


async def test_reads_writes_and_errors_pass_through(hub: Hub, member: tuple[Server, MemoryStore]) -> None:
    await join(hub, member[0].url)
    async with hub.client() as client:
        created = await client.post(PROXY + MAPS, json=config_map("a", {"x": "y-z"}))
        assert created.status_code == 201, created.text
        assert (await client.get(MAPS)).json()["items"] == []
        listed = (await client.get(PROXY + MAPS, params={"labelSelector": "x=y-z", "limit": 5})).json()
        assert [item["metadata"]["name"] for item in listed["items"]] == ["a"]
        missing = await client.get(f"{PROXY}{MAPS}/none")
        assert (missing.status_code, missing.json()["reason"]) == (404, "NotFound")
        assert (await client.delete(f"{PROXY}{MAPS}/a")).status_code == 200
        assert (await client.get(f"{PROXY}/version")).json()["major"] == "1"


async def test_a_watch_streams_through_and_ends_with_its_client(hub: Hub, member: tuple[Server, MemoryStore]) -> None:
    await join(hub, member[0].url)
    async with watching(hub, PROXY + MAPS) as events, hub.client() as client:
        await client.post(PROXY + MAPS, json=config_map("a"))
        assert await events.take(1) == [("ADDED", "a")]
    pool = proxy_of(hub.app).clients.pools["m1"]
    await eventually(lambda: pool.requests == 0, "the member's watch is closed")


async def test_kubectl_works_against_a_member_through_the_hub(hub: Hub, member: tuple[Server, MemoryStore]) -> None:
    await join(hub, member[0].url)
    server = f"--server={hub.server.url}{PROXY}"
    await hub.kubectl(KUBECTL, server, "create", "configmap", "a", "--from-literal=x=y")
    assert "a " in (await hub.kubectl(KUBECTL, server, "get", "cm"))[1]


async def test_the_proxy_has_a_right_of_its_own(hub: Hub, member: tuple[Server, MemoryStore]) -> None:
    await join(hub, member[0].url)
    async with hub.client("alice-token") as alice, hub.client() as admin:
        refused = await alice.get(PROXY + MAPS)
        assert refused.status_code == 403 and "clusters/proxy" in refused.text
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        rule = {"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"], "verbs": ["get"]}
        await admin.post(f"{rbac}/clusterroles", json=cluster_role("see", [rule]))
        body = binding("see", "ClusterRoleBinding", "alice", "ClusterRole", "see")
        await admin.post(f"{rbac}/clusterrolebindings", json=body)
        assert (await alice.get(PROXY + MAPS)).status_code == 200
        assert (await alice.post(PROXY + MAPS, json=config_map("a"))).status_code == 403


async def test_a_member_that_is_gone_is_unavailable_and_an_unknown_one_not_found(hub: Hub) -> None:
    await join(hub, "http://127.0.0.1:9")
    async with hub.client() as client:
        answer = await client.get(PROXY + MAPS)
        assert (answer.status_code, answer.json()["reason"]) == (503, "ServiceUnavailable")
        answer = await client.get(PROXY.replace("m1", "m2") + MAPS)
        assert (answer.status_code, answer.json()["reason"]) == (404, "NotFound")


async def test_a_member_that_never_answers_is_a_timeout(hub: Hub) -> None:
    held: list[asyncio.StreamWriter] = []

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    listener = await asyncio.start_server(silent, "127.0.0.1", 0)
    proxy_of(hub.app).clients.answer_s = 0.5
    try:
        await join(hub, f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
        async with hub.client() as client:
            answer = await client.get(PROXY + MAPS)
        assert (answer.status_code, answer.json()["reason"]) == (504, "Timeout")
    finally:
        for writer in held:
            writer.close()
        listener.close()
        await listener.wait_closed()


async def test_credentials_that_cannot_be_used_are_said_so(hub: Hub) -> None:
    await join(hub, "http://127.0.0.1:9")
    async with hub.client() as client:
        patch = json.dumps({"data": {"kubeconfig": b64encode(b"nonsense: [").decode()}})
        headers = {"content-type": "application/merge-patch+json"}
        secret = "/api/v1/namespaces/fleet-system/secrets/member-m1"
        assert (await client.patch(secret, content=patch, headers=headers)).status_code == 200
        answer = await client.get(PROXY + MAPS)
    assert answer.status_code == 503 and "kubeconfig cannot be used" in answer.json()["message"]


ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CONNECTS = {
    "operations": ["CONNECT"],
    "apiGroups": ["cluster.karmada.io"],
    "apiVersions": ["*"],
    "resources": ["clusters/proxy"],
}


async def test_a_policy_decides_who_connects_to_which_member(hub: Hub, member: tuple[Server, MemoryStore]) -> None:
    await join(hub, member[0].url)
    seen = "request.operation + ' ' + request.kind.kind + ' ' + request.name + '/' + request.subResource"
    spec = {
        "matchConstraints": {"resourceRules": [CONNECTS]},
        "validations": [{"expression": "!object.path.endsWith('/secrets')", "messageExpression": seen}],
    }
    warns = {**spec, "validations": [{"expression": "!object.path.endsWith('/pods')", "message": "pods"}]}
    async with OutgoingClient(AllowList.parse([])) as outgoing, hub.client() as client:
        hub.objects.hooks = DynamicAdmission(hub.store, hub.registry, RandomIds(), outgoing)
        for name, said, action in (("no-secrets", spec, "Deny"), ("pods", warns, "Warn")):
            bound = {"policyName": name, "validationActions": [action]}
            for plural, body in (("policies", said), ("policybindings", bound)):
                there = f"{ADMISSION}/validatingadmission{plural}"
                assert (await client.post(there, json={"metadata": {"name": name}, "spec": body})).status_code == 201
        assert (await client.get(PROXY + MAPS)).status_code == 200
        warned = await client.get(f"{PROXY}/api/v1/pods")
        assert warned.status_code == 200 and "binding 'pods': pods" in warned.headers["warning"]
        refused = await client.get(f"{PROXY}/api/v1/secrets?limit=1")
        assert refused.status_code == 422
        assert refused.json()["message"].endswith("denied request: CONNECT ClusterProxyOptions m1/proxy")
