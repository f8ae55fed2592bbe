"""Members to test against: simulated ones and a real kube-apiserver, behind one small handle.

The contract suite (test_contract_*.py) runs on both. Names of objects are unique in each test, since the real member is
started once and shared.
"""

from __future__ import annotations

import asyncio
import base64
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
import yaml

from fleet.members.clusters import ClusterMembers
from fleet.members.kubeconfig import Dial
from fleet.members.traits import MemberLimits
from fleet.simulate.cluster import SimulatedCluster
from fleet.values.ports import Key
from tests.agent.world import AgentHub, agent_hub
from tests.members.world import World
from tests.testbed.bed import Bed, started_bed

HUB = "hub-1"
# Short, so that a loss is seen soon, but no member that answers late on a busy machine is taken for lost.
LIMITS = MemberLimits(probe_every_s=0.2, probe_s=4.0, lost_after_s=6.0, discover_every_s=0.5, request_s=30.0)
SOON_S = 90.0


async def eventually(condition: Callable[[], Any], *, within_s: float = SOON_S, what: str = "") -> Any:
    """The first true answer of `condition`; fails after `within_s`."""
    deadline = asyncio.get_running_loop().time() + within_s
    while True:
        if found := condition():
            return found
        assert asyncio.get_running_loop().time() < deadline, f"not within {within_s} s: {what or condition}"
        await asyncio.sleep(0.02)


class Target(ABC):
    """A member and an administrator's client to it. `cut_off`: nothing answers any more, until `reconnect`. `pull`: its
    agent alone reaches it, and `dial` by it."""

    pull = False
    dial: Dial | None = None

    def __init__(self, kubeconfig: str, client: httpx.AsyncClient) -> None:
        self.kubeconfig = kubeconfig
        self.client = client
        self.namespace = f"ns-{uuid.uuid4().hex[:8]}"

    @abstractmethod
    async def cut_off(self) -> None: ...

    @abstractmethod
    async def reconnect(self) -> None: ...

    async def call(
        self, method: str, path: str, body: Any = None, media_type: str = "application/json"
    ) -> dict[str, Any]:
        answer = await self.client.request(method, path, json=body, headers={"content-type": media_type})
        assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text[:500]}"
        return dict(answer.json())

    async def post(self, path: str, body: Any) -> dict[str, Any]:
        return await self.call("POST", path, body)

    async def merge(self, path: str, body: Any) -> dict[str, Any]:
        return await self.call("PATCH", path, body, "application/merge-patch+json")

    async def create_node(self, body: dict[str, Any]) -> None:
        """A node with the status that its kubelet would report."""
        await self.post("/api/v1/nodes", body)
        await self.merge(f"/api/v1/nodes/{body['metadata']['name']}/status", {"status": body["status"]})

    async def get(self, path: str) -> dict[str, Any] | None:
        answer = await self.client.get(path)
        return None if answer.status_code == 404 else dict(answer.json())

    async def create_namespace(self) -> None:
        await self.post("/api/v1/namespaces", {"metadata": {"name": self.namespace}})


class SimulatedTarget(Target):
    def __init__(self, cluster: SimulatedCluster) -> None:
        headers = {"authorization": f"Bearer {cluster.token}"}
        super().__init__(cluster.kubeconfig, httpx.AsyncClient(base_url=cluster.url, headers=headers, timeout=30))
        self.cluster = cluster

    async def cut_off(self) -> None:
        await self.cluster.pause_serving()

    async def reconnect(self) -> None:
        await self.cluster.resume_serving()

    async def hide_kube_system(self) -> None:
        """As a role without namespaces does, but with 404."""
        await self.client.request("DELETE", "/api/v1/namespaces/kube-system")
        await eventually(lambda: self.cluster.world.store.peek(Key("", "namespaces", "", "kube-system")) is None)


class TunnelledTarget(SimulatedTarget):
    """Cut off by the end of its agent."""

    pull = True

    def __init__(self, cluster: SimulatedCluster, hub: AgentHub, token: str, dial: Dial) -> None:
        super().__init__(cluster)
        self.dial = dial
        document = yaml.safe_load(cluster.kubeconfig)
        document["clusters"][0]["cluster"]["server"] = "http://member.invalid"
        self.kubeconfig = yaml.safe_dump(document)
        self._hub, self._token = hub, token
        self._agents: list[asyncio.Task[None]] = []

    async def cut_off(self) -> None:
        agents, self._agents = self._agents, []
        for agent in agents:
            agent.cancel()
        await asyncio.gather(*agents, return_exceptions=True)

    async def reconnect(self) -> None:
        if not self._agents:
            agent = self._hub.agent(self._hub.processes[0], "cfa", self._token, self.cluster)
            self._agents.append(asyncio.create_task(agent.run()))


class RealTarget(Target):
    def __init__(self, bed: Bed) -> None:
        self.member = bed.members["cfa"]
        kubeconfig = inline(self.member.kubeconfig)
        sync = self.member.new_client(timeout=30)
        transport = httpx.AsyncHTTPTransport(verify=sync._transport._pool._ssl_context)  # type: ignore[attr-defined]
        client = httpx.AsyncClient(base_url=self.member.url, headers=sync.headers, transport=transport, timeout=30)
        super().__init__(kubeconfig, client)

    async def cut_off(self) -> None:
        self.member.cut_off()

    async def reconnect(self) -> None:
        self.member.reconnect()


def inline(path: Path) -> str:
    """The kubeconfig with its files read in, as `fleet join` sends it."""
    config = yaml.safe_load(path.read_text())
    for cluster in config["clusters"]:
        authority = Path(cluster["cluster"].pop("certificate-authority"))
        cluster["cluster"]["certificate-authority-data"] = base64.b64encode(authority.read_bytes()).decode()
    return yaml.safe_dump(config)


@pytest.fixture(scope="package")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with started_bed(tmp_path_factory.mktemp("bed"), ["cfa"]) as started:
        yield started


@asynccontextmanager
async def simulated_target(name: str = "cfa") -> AsyncIterator[SimulatedTarget]:
    cluster = SimulatedCluster(name, pod_start_s=0.02, pod_stop_s=0.02)
    await cluster.start()
    target = SimulatedTarget(cluster)
    try:
        yield target
    finally:
        await target.client.aclose()
        await cluster.stop()


@pytest_asyncio.fixture
async def simulated() -> AsyncIterator[SimulatedTarget]:
    async with simulated_target() as target:
        yield target


@asynccontextmanager
async def tunnelled_target(folder: Path, dials: dict[str, Dial]) -> AsyncIterator[TunnelledTarget]:
    async with agent_hub(folder) as hub, simulated_target() as behind:
        dialer = hub.dialer()
        target = TunnelledTarget(behind.cluster, hub, await hub.join("cfa"), dialer.dial)
        dials["cfa"] = dialer.dial
        await target.reconnect()
        try:
            yield target
        finally:
            await target.cut_off()
            await dialer.aclose()
            await target.client.aclose()


@pytest.fixture(params=["simulated", "tunnelled", pytest.param("real", marks=pytest.mark.xdist_group("tests/members"))])
def kind_of_member(request: pytest.FixtureRequest) -> str:
    """The one whose turn it is."""
    return str(request.param)


@pytest.fixture
def real_bed(request: pytest.FixtureRequest, kind_of_member: str) -> Bed | None:
    """The bed when the real member's turn has come. Apart from `target`, since it is started outside any event loop."""
    return request.getfixturevalue("bed") if kind_of_member == "real" else None


@pytest.fixture
def dials() -> dict[str, Dial]:
    """The way to each member that only its agent reaches."""
    return {}


@pytest_asyncio.fixture
async def target(
    real_bed: Bed | None, kind_of_member: str, dials: dict[str, Dial], tmp_path: Path
) -> AsyncIterator[Target]:
    """Each kind of member in turn."""
    if kind_of_member == "tunnelled":
        async with tunnelled_target(tmp_path, dials) as target:
            yield target
        return
    if real_bed is None:
        async with simulated_target() as target:
            yield target
        return
    real = RealTarget(real_bed)
    try:
        yield real
    finally:
        await real.reconnect()
        await real.client.aclose()


@pytest_asyncio.fixture
async def members(dials: dict[str, Dial]) -> AsyncIterator[ClusterMembers]:
    """Without any member yet."""
    joined = ClusterMembers(limits=LIMITS, dial=lambda name: dials[name](name))
    yield joined
    await joined.stop()


@pytest_asyncio.fixture
async def joined(members: ClusterMembers, target: Target) -> ClusterMembers:
    """With the target as `cfa`, ready."""
    await members.add("cfa", target.kubeconfig, HUB, pull=target.pull)
    await eventually(lambda: members.ready("cfa"), what="cfa ready")
    return members


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    world = World(HUB, LIMITS)
    running = asyncio.create_task(world.loop.run())
    yield world
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await world.members.stop()
