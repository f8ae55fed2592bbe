"""The process that an agent is connected with tells the figures of its connection, while it is connected."""

from __future__ import annotations

import asyncio
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from tests.agent.test_tunnel import connection
from tests.agent.world import agent_hub, member, running
from tests.controllers.runtime.test_metric_names import faults
from tests.controllers.runtime.test_metrics import assert_told, listed_metrics
from tests.members.conftest import eventually


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
                assert head.ok and b"ADDED" in await anext(lines)
                assert (said("fleet_agent_streams", m1) or 0) >= 1
                assert (said("fleet_agent_sent_bytes_total", m1) or 0) > 20
                assert (said("fleet_agent_received_bytes_total", m1) or 0) > 100
                text = generate_latest(registry).decode()
        listed = {name: row for name, row in listed_metrics().items() if name.startswith("fleet_agent_")}
        assert_told(text, listed)
        assert [found for metric in registry.collect() for found in faults(metric)] == []
        await eventually(lambda: said("fleet_agent_streams", m1) is None)
