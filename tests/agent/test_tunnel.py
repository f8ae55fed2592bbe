"""Members that only their agents reach: the hub's processes, agents and API servers, over real connections."""

from __future__ import annotations

import asyncio
import contextlib
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from api.objects.writing import Options
from fleet.agent.dialer import NoConnection
from fleet.agent.lease import key_of, read
from fleet.agent.mux import BrokenStream
from fleet.agent.pipe import TunnelRefusal, connect, session
from fleet.agent.serving import path_of
from fleet.members.clusters import ClusterMembers
from fleet.members.connection import Unreachable
from fleet.members.relay import client_from_kubeconfig
from fleet.members.traits import MemberLimits
from fleet.wellknown import CLUSTER, SYSTEM_NAMESPACE
from tests.agent.world import ADMIN, AgentHub, agent_hub, connection, member, running
from tests.members.conftest import eventually

OPTIONS = Options(ADMIN, "test")


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[AgentHub]:
    async with agent_hub(tmp_path) as hub:
        yield hub


@pytest.mark.parametrize("secured", [False, True], ids=["http", "tls"])
async def test_the_hub_reaches_the_api_server_of_a_member_through_its_agent(
    hub: AgentHub, tmp_path: Path, secured: bool
) -> None:
    (tmp_path / "member").mkdir()
    token = await hub.join("m1")
    async with member(tmp_path / "member" if secured else None) as cluster:
        agent = hub.agent(hub.processes[0], "m1", token, cluster)
        async with running(agent), connection(hub, "m1", cluster.kubeconfig) as made, asyncio.timeout(30):
            await agent.connected.wait()
            assert (await made.probe(5.0)).ok
            answer = await made.request("GET", "/api/v1/nodes")
            assert len(answer.body["items"]) > 0
            async with made.lines("/api/v1/nodes", {"watch": "true"}, silence_s=10) as (head, lines):
                assert head.ok and b"ADDED" in (await anext(lines))[0]
            dialer = hub.dialer()
            relay = await asyncio.to_thread(client_from_kubeconfig, cluster.kubeconfig, lambda: dialer.dial("m1"))
            listed = await relay.get("/api/v1/nodes")
            assert len(listed.json()["items"]) == len(answer.body["items"])
            await relay.aclose()
            await dialer.aclose()


async def test_the_proxy_of_the_api_goes_through_the_agent_from_every_process(hub: AgentHub) -> None:
    token = await hub.join("m1")
    other = await hub.process()
    async with member() as cluster:
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "member-m1", "namespace": SYSTEM_NAMESPACE},
            "data": {"kubeconfig": b64encode(cluster.kubeconfig.encode()).decode()},
        }
        await hub.put("secrets", secret, namespace=SYSTEM_NAMESPACE)
        kind = hub.registry.need(CLUSTER, "clusters")

        def named(body: dict[str, object]) -> dict[str, object]:
            body["spec"] = {"syncMode": "Pull", "secretRef": {"namespace": SYSTEM_NAMESPACE, "name": "member-m1"}}
            return body

        await hub.objects.change(kind, "", "m1", named, OPTIONS)
        agent = hub.agent(hub.processes[0], "m1", token, cluster)
        headers = {"authorization": "Bearer admin"}
        async with httpx.AsyncClient(verify=hub.tls, headers=headers, timeout=20) as client:
            before = await client.get(other.server.url + path_of("m1", "proxy/api/v1/nodes"))
            assert before.status_code == 503
            assert "its agent is not connected (it never was)" in before.json()["message"]
            async with running(agent):
                await agent.connected.wait()
                for process in (hub.processes[0], other):
                    answer = await client.get(process.server.url + path_of("m1", "proxy/api/v1/nodes"))
                    assert answer.status_code == 200 and answer.json()["items"]
                    watch = process.server.url + path_of("m1", "proxy/api/v1/nodes?watch=true")
                    async with client.stream("GET", watch) as streamed:
                        assert "ADDED" in await anext(streamed.aiter_lines())
                metrics = (await client.get(hub.processes[0].server.url + "/metrics")).text
                assert "fleet_api_agents 1.0" in metrics


async def test_a_member_without_its_agent_is_not_ready_and_says_since_when(hub: AgentHub) -> None:
    token = await hub.join("m1")
    limits = MemberLimits(probe_every_s=0.1, probe_s=4.0, lost_after_s=1.0, discover_every_s=0.5)
    dialer = hub.dialer()
    members = ClusterMembers(limits=limits, dial=dialer.dial)
    async with member() as cluster:
        try:
            await members.add("m1", cluster.kubeconfig, "hub-1", pull=True)
            await eventually(lambda: (state := members.state("m1")) and "(it never was)" in state.message)
            async with running(hub.agent(hub.processes[0], "m1", token, cluster)):
                await eventually(lambda: members.ready("m1"))
            await eventually(lambda: not members.ready("m1"))
            state = members.state("m1")
            assert state is not None and state.reason == "ClusterNotReachable"
            assert "its agent is not connected (since 20" in state.message
            async with running(hub.agent(hub.processes[0], "m1", token, cluster)):
                await eventually(lambda: members.ready("m1"))
        finally:
            await members.stop()
            await dialer.aclose()


async def test_an_api_server_that_the_agent_cannot_reach_is_named(hub: AgentHub) -> None:
    token = await hub.join("m1")
    agent = hub.agent(hub.processes[0], "m1", token)
    async with running(agent), member() as cluster, connection(hub, "m1", cluster.kubeconfig) as made:
        await agent.connected.wait()
        with pytest.raises(Unreachable, match=r"the agent cannot reach the API server 127\.0\.0\.1:1"):
            await made.probe(5.0)


async def test_of_two_agents_of_one_name_the_newer_serves_wherever_it_came_in(hub: AgentHub) -> None:
    token = await hub.join("m1")
    other = await hub.process()
    async with member(name="one") as one, member(name="two") as two:
        first = hub.agent(hub.processes[0], "m1", token, one)
        second = hub.agent(other, "m1", token, two)
        async with running(first), connection(hub, "m1", one.kubeconfig) as made:
            await first.connected.wait()
            assert (await made.request("GET", "/api/v1/namespaces/kube-system")).body["metadata"]["uid"] == one.identity
            async with running(second):
                await second.connected.wait()
                await eventually(lambda: not first.connected.is_set())
                assert "a newer connection of this agent serves" in first.trouble
                async with connection(hub, "m1", two.kubeconfig) as fresh:
                    answer = await fresh.request("GET", "/api/v1/namespaces/kube-system")
                    assert answer.body["metadata"]["uid"] == two.identity
                await asyncio.sleep(1.0)
                assert second.connected.is_set() and not first.connected.is_set()


@pytest.mark.parametrize(
    ("path", "token", "status"),
    [
        (path_of("m1", "tunnel"), "fleet-agent.m1.wrong", 401),
        (path_of("m1", "tunnel"), "fleet-agent.m2.secret-of-m2", 403),
        (path_of("m1", "dial"), "fleet-agent.m1.secret-of-m1", 403),
        (path_of("m1", "tunnel"), "reader", 403),
        (path_of("m1", "dial"), "reader", 403),
        (path_of("push", "tunnel"), "fleet-agent.push.secret-of-push", 409),
        (path_of("nowhere", "tunnel"), "admin", 404),
        (path_of("m1", "dial"), "admin", 503),
    ],
)
async def test_refusals_of_tunnels(hub: AgentHub, path: str, token: str, status: int) -> None:
    for name, mode in (("m1", "Pull"), ("m2", "Pull"), ("push", "Push")):
        await hub.join(name, mode)
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
    group = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": "reads-all"}, "rules": [rule]}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "reads-all"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "reads-all"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "reader"}],
    }
    await hub.put("clusterroles", role, group)
    await hub.put("clusterrolebindings", binding, group)
    hub.processes[0].app.authorizer.invalidate()
    async with session() as client:
        with pytest.raises(TunnelRefusal) as refused:
            await connect(client, hub.processes[0].server.url + path, token, hub.tls)
    assert refused.value.status == status


async def test_an_agent_may_do_nothing_else(hub: AgentHub) -> None:
    token = await hub.join("m1")
    async with httpx.AsyncClient(verify=hub.tls, headers={"authorization": f"Bearer {token}"}) as client:
        url = hub.processes[0].server.url
        for path in ("/api/v1/secrets", f"/apis/{CLUSTER}/v1alpha1/clusters", path_of("m1", "proxy/api")):
            assert (await client.get(url + path)).status_code == 403
        assert (await client.get(url + path_of("m1", "tunnel"))).status_code == 426
        assert (await client.post(url + path_of("m1", "tunnel"))).status_code == 403


async def test_an_agent_goes_with_its_token_and_with_its_member(hub: AgentHub) -> None:
    token, again = await hub.join("m1"), await hub.join("m2")
    first, second = hub.agent(hub.processes[0], "m1", token), hub.agent(hub.processes[0], "m2", again)
    async with running(first, second):
        await first.connected.wait()
        await second.connected.wait()
        await hub.objects.delete(hub.registry.need("", "secrets"), SYSTEM_NAMESPACE, "agent-m1", OPTIONS, {})
        await eventually(lambda: "does not accept the token" in first.trouble)
        lease = hub.registry.need("coordination.k8s.io", "leases")
        await hub.objects.delete(lease, SYSTEM_NAMESPACE, "agent-m2", OPTIONS, {})
        await eventually(lambda: "the member has left the hub" in second.trouble)


async def test_a_hub_that_restarts_gets_its_agents_back(hub: AgentHub) -> None:
    token = await hub.join("m1")
    process = hub.processes[0]
    async with member() as cluster:
        agent = hub.agent(process, "m1", token, cluster)
        async with running(agent), connection(hub, "m1", cluster.kubeconfig) as made:
            await agent.connected.wait()
            assert (await made.probe(5.0)).ok
            port = process.server.port
            await process.stop()
            await eventually(lambda: not agent.connected.is_set())
            lease = hub.store.peek(key_of("m1"))
            assert lease is not None
            holding = read(lease.body)
            assert holding is not None and holding.holder == ""
            with pytest.raises(Unreachable, match="its agent is not connected"):
                await made.probe(5.0)
            await hub.process(port)
            await asyncio.wait_for(agent.connected.wait(), 20)
            assert (await made.probe(5.0)).ok


async def test_a_connection_that_a_firewall_forgot_is_noticed_by_both_sides(hub: AgentHub) -> None:
    token = await hub.join("m1")
    async with member() as cluster, forgetful(hub.processes[0].server.port) as firewall:
        agent = hub.agent(hub.processes[0], "m1", token, cluster)
        agent._url = f"https://127.0.0.1:{firewall.port}{path_of('m1', 'tunnel')}"
        async with running(agent), connection(hub, "m1", cluster.kubeconfig) as made:
            await agent.connected.wait()
            assert (await made.probe(5.0)).ok
            firewall.forget()
            with pytest.raises(Unreachable):
                await made.probe(5.0)
            await eventually(lambda: len(hub.processes[0].tunnels) == 0, within_s=10)
            await asyncio.wait_for(agent.connected.wait(), 20)
            await eventually(lambda: len(hub.processes[0].tunnels) == 1, within_s=10)
            assert (await made.probe(5.0)).ok


class Firewall:
    """Passes connections on, until it forgets them: then nothing comes through, and no end either."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._forgotten = 0
        self._made = 0
        self.port = 0

    def forget(self) -> None:
        self._forgotten = self._made

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._made += 1
        number = self._made
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._to)

        async def way(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while data := await source.read(65536):
                    if number > self._forgotten:
                        sink.write(data)
                        await sink.drain()
            if number > self._forgotten:
                sink.close()

        await asyncio.gather(way(reader, to_writer), way(to_reader, writer))


@contextlib.asynccontextmanager
async def forgetful(to: int) -> AsyncIterator[Firewall]:
    firewall = Firewall(to)
    server = await asyncio.start_server(firewall.serve, "127.0.0.1", 0)
    firewall.port = server.sockets[0].getsockname()[1]
    try:
        yield firewall
    finally:
        server.close()


async def test_a_dialler_without_a_lease_says_that_the_agent_never_was_there(hub: AgentHub) -> None:
    dialer = hub.dialer()
    with pytest.raises(NoConnection, match="it never was"):
        await dialer.dial("m1")
    await dialer.aclose()


async def test_more_streams_than_a_tunnel_has_are_refused_and_the_others_go_on(hub: AgentHub) -> None:
    token = await hub.join("m1")
    async with member() as cluster:
        agent = hub.agent(hub.processes[0], "m1", token, cluster)
        async with running(agent):
            await agent.connected.wait()
            dialer = hub.dialer()
            sockets = [await dialer.dial("m1") for _ in range(256)]
            with pytest.raises(BrokenStream, match="too many streams"):
                await dialer.dial("m1")
            sockets.pop().close()
            await asyncio.sleep(0.3)
            sockets.append(await dialer.dial("m1"))
            for each in sockets:
                each.close()
            await dialer.aclose()
