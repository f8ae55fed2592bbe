"""Members that are lost, slow, or forget their history, and what that does to the others: nothing."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import NoReturn

import pytest

from fleet.core.model.reason import Code
from fleet.members.clusters import ClusterMembers
from fleet.members.connection import Connection, Unreachable
from fleet.members.discovery import Discovery
from fleet.members.kubeconfig import read_kubeconfig
from fleet.members.members import ActResult, MemberChange
from fleet.values.ports import Key
from tests.members.builders import config_map, ours, pytorch_job
from tests.members.conftest import HUB, LIMITS, SimulatedTarget, Target, eventually, simulated_target
from tests.simulate.faulty import faulty, refusal


async def test_a_member_that_is_cut_off_is_lost_and_comes_back_with_what_happened_meanwhile(
    joined: ClusterMembers, target: Target
) -> None:
    changes: list[MemberChange] = []
    joined.subscribe(changes.append)
    binding = uuid.uuid4().hex
    body = pytorch_job(ours(target.namespace, "train", binding=binding), workers=1, run_for="4s")
    assert (await joined.apply("cfa", body)).did is ActResult.DONE
    await eventually(lambda: len([p for p in joined.pods_of(binding) if p.phase == "Running"]) == 2)

    await target.cut_off()
    await eventually(lambda: not joined.ready("cfa"), what="lost")
    await eventually(lambda: MemberChange("cfa", "ready") in changes, what="told")
    model = joined.model("cfa")
    assert model is not None and not model.ready and model.not_ready_reason.startswith("does not answer: ")
    assert len(joined.pods_of(binding)) == 2 and len(joined.copies(binding)) == 1  # what was seen stays known
    async with asyncio.timeout(LIMITS.request_s):  # it is not even asked
        outcome = await joined.apply("cfa", config_map(ours(target.namespace, "late")))
    assert outcome.did is ActResult.UNREACHABLE
    assert (await joined.delete("cfa", body)).did is ActResult.UNREACHABLE

    await target.reconnect()
    await eventually(lambda: joined.ready("cfa"), what="back")
    await eventually(lambda: all(p.phase == "Succeeded" for p in joined.pods_of(binding)), what="the end, seen late")
    outcome = await joined.apply("cfa", config_map(ours(target.namespace, "late")))
    assert outcome.did is ActResult.DONE, outcome
    [(_, copy)] = joined.copies(binding)
    assert (await joined.delete("cfa", copy)).did is ActResult.DONE
    await eventually(lambda: not joined.pods_of(binding) and not joined.copies(binding))


async def test_a_member_that_forgot_its_history_is_listed_again(
    members: ClusterMembers, simulated: SimulatedTarget
) -> None:
    await members.add("cfa", simulated.kubeconfig, HUB)
    await eventually(lambda: members.ready("cfa"))
    for name in ("kept", "gone"):
        outcome = await members.apply("cfa", config_map(ours("default", name)))
        assert outcome.did is ActResult.DONE
    await simulated.cut_off()
    await eventually(lambda: not members.ready("cfa"))
    world = simulated.cluster.world
    kind = world.registry.need("", "configmaps")
    await world.objects.delete(kind, "default", "gone", world.options)
    await world.objects.delete(world.registry.need("", "nodes"), "", "node-3", world.options)
    await world.store.compact(await world.store.revision())
    await simulated.reconnect()
    await eventually(lambda: members.find("cfa", Key("", "configmaps", "default", "gone")) is None)
    assert members.find("cfa", Key("", "configmaps", "default", "kept")) is not None
    await eventually(lambda: (m := members.model("cfa")) and sum(n for p in m.pools for _, n in p.free) == 3)


@asynccontextmanager
async def tarpit() -> AsyncIterator[str]:
    """A kubeconfig of a server that takes connections and never answers."""
    open_connections: list[asyncio.StreamWriter] = []

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_connections.append(writer)
        while await reader.read(4096):
            pass

    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield (
            f"current-context: m\nclusters: [{{name: m, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n"
            "users: [{name: m, user: {token: t}}]\ncontexts: [{name: m, context: {cluster: m, user: m}}]\n"
        )
    finally:
        for writer in open_connections:
            writer.close()
        server.close()


async def test_a_member_that_never_answers_costs_the_others_nothing(
    members: ClusterMembers, simulated: SimulatedTarget
) -> None:
    async with tarpit() as kubeconfig:
        await members.add("slow", kubeconfig, HUB)
        await members.add("cfa", simulated.kubeconfig, HUB)
        await eventually(lambda: members.ready("cfa"))
        stuck = [asyncio.create_task(members.apply("slow", config_map(ours("default", f"c-{n}")))) for n in range(100)]
        async with asyncio.timeout(LIMITS.request_s):  # they do not wait for one of those
            outcomes = await asyncio.gather(
                *(members.apply("cfa", config_map(ours("default", f"c-{n}"))) for n in range(20))
            )
        assert {o.did for o in outcomes} == {ActResult.DONE}
        assert {o.did for o in await asyncio.gather(*stuck)} == {ActResult.UNREACHABLE}
        assert not members.ready("slow") and members.model("slow") is None
        await eventually(lambda: "no answer within" in (members.state("slow") or _none()).message)


def _none() -> NoReturn:
    raise AssertionError("the member is gone")


async def test_a_member_that_hangs_in_the_middle_holds_only_its_own_requests(members: ClusterMembers) -> None:
    async with simulated_target("cfa") as slow, simulated_target("cfb") as quick, hanging_proxy(slow) as proxy:
        await members.add("cfa", slow.kubeconfig.replace(slow.cluster.url, proxy.url), HUB)
        await members.add("cfb", quick.kubeconfig, HUB)
        await eventually(lambda: members.ready("cfa") and members.ready("cfb"))
        proxy.hang()
        stuck = [asyncio.create_task(members.apply("cfa", config_map(ours("default", f"c-{n}")))) for n in range(40)]
        async with asyncio.timeout(LIMITS.request_s):
            for number in range(10):
                assert (await members.apply("cfb", config_map(ours("default", f"c-{number}")))).did is ActResult.DONE
        await eventually(lambda: not members.ready("cfa"))
        assert members.ready("cfb")
        proxy.go_on()
        await eventually(lambda: members.ready("cfa"))
        outcomes = await asyncio.gather(*stuck)
        assert {o.did for o in outcomes} <= {ActResult.DONE, ActResult.UNREACHABLE}


class HangingProxy:
    """Passes bytes on, until it hangs: then connections stay open and nothing moves, like a stopped process."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._moving = asyncio.Event()
        self._moving.set()
        self.server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        assert self.server is not None
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    def hang(self) -> None:
        self._moving.clear()

    def go_on(self) -> None:
        self._moving.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward = await asyncio.open_connection("127.0.0.1", self._target)
        for source, sink in ((reader, onward[1]), (onward[0], writer)):
            task = asyncio.create_task(self._pump(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                await self._moving.wait()
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            sink.close()

    async def close(self) -> None:
        assert self.server is not None
        self.server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def hanging_proxy(target: SimulatedTarget) -> AsyncIterator[HangingProxy]:
    proxy = HangingProxy(int(target.cluster.url.rsplit(":", 1)[1]))
    proxy.server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    try:
        yield proxy
    finally:
        proxy.go_on()
        await proxy.close()


async def test_a_removed_member_leaves_nothing_behind_in_the_cache(
    members: ClusterMembers, simulated: SimulatedTarget
) -> None:
    await members.add("cfa", simulated.kubeconfig, HUB)
    await eventually(lambda: members.ready("cfa"))
    await members.apply("cfa", pytorch_job(ours("default", "train", binding="b-9"), workers=1))
    await eventually(lambda: len(members.pods_of("b-9")) == 2)
    await members.remove("cfa")
    assert members.names() == ()
    assert members.pods_of("b-9") == () and members.copies("b-9") == () and members.owned("cfa") == ()
    assert members.model("cfa") is None and members.state("cfa") is None and not members.ready("cfa")
    stored = await simulated.get("/apis/kubeflow.org/v1/namespaces/default/pytorchjobs/train")
    assert stored is not None  # forgetting a member changes nothing in it


async def test_joining_again_with_the_same_credentials_keeps_the_connection(
    members: ClusterMembers, simulated: SimulatedTarget
) -> None:
    await members.add("cfa", simulated.kubeconfig, HUB)
    await eventually(lambda: members.ready("cfa"))
    await members.add("cfa", simulated.kubeconfig, HUB)
    assert members.ready("cfa")


async def test_credentials_that_expire_make_a_member_lost_though_its_watches_go_on(
    members: ClusterMembers, simulated: SimulatedTarget
) -> None:
    expired: list[bool] = []

    def fault(method: str, path: str) -> tuple[int, object] | None:
        return refusal(401, "Unauthorized", "Unauthorized") if expired else None

    async with faulty(simulated.cluster.url, fault) as server:
        await members.add("cfa", simulated.kubeconfig.replace(simulated.cluster.url, server.url), HUB)
        await eventually(lambda: members.ready("cfa"))
        expired.append(True)
        await eventually(lambda: not members.ready("cfa"), what="lost")
        state = members.state("cfa")
        assert state is not None and state.reason == "CredentialsRefused"
        assert "refuses the credentials in its kubeconfig: Unauthorized" in state.message
        outcome = await members.apply("cfa", config_map(ours("default", "late")))
        assert outcome.did is ActResult.UNREACHABLE
        expired.clear()
        await eventually(lambda: members.ready("cfa"), what="back")


async def test_discovery_that_is_refused_names_the_credentials(simulated: SimulatedTarget) -> None:
    """It may be the first request that an expired credential meets, before the probe."""

    def fault(method: str, path: str) -> tuple[int, object] | None:
        return refusal(401, "Unauthorized", "Unauthorized")

    async with faulty(simulated.cluster.url, fault) as server:
        access = read_kubeconfig(simulated.kubeconfig.replace(simulated.cluster.url, server.url))
        async with aclosing(Connection(access)) as connection:
            with pytest.raises(Unreachable, match="refuses the credentials in its kubeconfig: Unauthorized") as caught:
                await Discovery(connection).look()
    assert caught.value.reason == "CredentialsRefused"


async def test_an_answer_that_is_no_object_does_not_count_as_sent(
    members: ClusterMembers, simulated: SimulatedTarget
) -> None:
    def fault(method: str, path: str) -> tuple[int, object] | None:
        return (200, {"hello": "world"}) if path.endswith("/sent") and method == "PATCH" else None

    async with faulty(simulated.cluster.url, fault) as server:
        await members.add("cfa", simulated.kubeconfig.replace(simulated.cluster.url, server.url), HUB)
        await eventually(lambda: members.ready("cfa"))
        outcome = await members.apply("cfa", config_map(ours("default", "sent")))
        assert (outcome.did, outcome.cause) == (ActResult.UNREACHABLE, Code.MEMBER_FAILS)
        assert outcome.message.endswith("/configmaps/sent is no object")
        assert members.find("cfa", Key("", "configmaps", "default", "sent")) is None


async def test_credentials_that_are_refused_are_told(members: ClusterMembers, simulated: SimulatedTarget) -> None:
    await members.add("cfa", simulated.kubeconfig.replace(simulated.cluster.token, "wrong"), HUB)
    state = members.state

    def told() -> bool:
        found = state("cfa")
        return found is not None and "Unauthorized" in found.message

    await eventually(told, what="the member's refusal")
    assert not members.ready("cfa")
    await members.add("cfa", simulated.kubeconfig, HUB)
    await eventually(lambda: members.ready("cfa"), what="ready with good credentials")
