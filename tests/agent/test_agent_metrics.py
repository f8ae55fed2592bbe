"""The process that an agent is connected with tells the figures of its connection, while it is connected."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import httpx
from prometheus_client import CollectorRegistry, generate_latest

from api.transport.serve import bind
from api.transport.tls import Certificates, Pair
from fleet.cli.failure import Failure
from fleet.hub.agentmetrics import OneToken, registry_of
from fleet.hub.exposition import Exposition
from tests.agent.world import agent_hub, connection, member, running
from tests.controllers.runtime.metric_names import faults
from tests.controllers.runtime.metrics_page import assert_told, listed_metrics
from tests.members.conftest import eventually
from tests.testbed.pki import make_pki


async def test_streams_and_bytes_of_an_agent_are_told_while_it_is_connected(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    said = registry.get_sample_value
    m1 = {"member": "m1"}
    async with agent_hub(tmp_path) as hub, member() as cluster:
        token = await hub.join("m1")
        agent = hub.agent(hub.processes[0], "m1", token, cluster)
        hub.processes[0].tunnels.show(registry)
        assert said("fleet_agent_streams", m1) is None
        async with running(agent), connection(hub, "m1", cluster.kubeconfig) as made, asyncio.timeout(30):
            await agent.connected.wait()
            async with made.lines("/api/v1/nodes", {"watch": "true"}, silence_s=20) as (head, lines):
                assert head.ok and b"ADDED" in (await anext(lines))[0]
                assert (said("fleet_agent_streams", m1) or 0) >= 1
                assert (said("fleet_agent_sent_bytes_total", m1) or 0) > 20
                assert (said("fleet_agent_received_bytes_total", m1) or 0) > 100
                text = generate_latest(registry).decode()
        listed = {name: row for name, row in listed_metrics().items() if name.startswith("fleet_agent_")}
        assert_told(text, listed)
        assert [found for metric in registry.collect() for found in faults(metric)] == []
        await eventually(lambda: said("fleet_agent_streams", m1) is None)


async def test_an_agent_serves_its_own_to_the_token_that_it_was_given(tmp_path: Path) -> None:
    pki, tokens = make_pki(tmp_path / "pki"), ["s3cret"]
    listener = bind("127.0.0.1", 0)
    listener.listen(16)

    def token() -> str:
        if not tokens:
            raise Failure("the file is gone")
        return tokens[0]

    async with agent_hub(tmp_path) as hub, member() as cluster:
        agent = hub.agent(hub.processes[0], "m1", await hub.join("m1"), cluster)
        registry = registry_of(agent)
        served = Exposition(registry, listener, OneToken(token), Certificates(Pair(pki.certificate, pki.key)))
        trust = ssl.create_default_context(cafile=str(pki.ca))
        try:
            async with httpx.AsyncClient(
                base_url=f"https://127.0.0.1:{served.port}", verify=trust, timeout=20
            ) as client:
                right = {"authorization": "Bearer s3cret"}
                assert 'fleet_tunnel_connected{member="m1"} 0.0' in (await client.get("/metrics", headers=right)).text
                async with running(agent), connection(hub, "m1", cluster.kubeconfig) as made, asyncio.timeout(60):
                    await agent.connected.wait()
                    assert (await made.request("GET", "/api/v1/nodes")).ok
                    text = (await client.get("/metrics", headers=right)).text
                carried = agent.carried()
                assert min(carried) > 20 and agent.streams == 0  # what is over counts, and is open no more
                assert 'fleet_tunnel_connected{member="m1"} 1.0' in text
                for wrong in ({}, {"authorization": "Bearer other"}, {"authorization": "Basic s3cret"}):
                    assert (await client.get("/metrics", headers=wrong)).status_code == 401
                tokens[0] = "newer"
                assert (await client.get("/metrics", headers=right)).status_code == 401
                tokens.clear()
                assert (await client.get("/metrics", headers=right)).status_code == 503
        finally:
            await asyncio.to_thread(served.stop)
    listed = {
        name: row for name, row in listed_metrics().items() if name.startswith(("fleet_tunnel_", "fleet_build_info"))
    }
    assert_told(text, listed)
    assert [found for metric in registry.collect() for found in faults(metric)] == []
