"""Bugs of the decider arrive as alerts. Nothing outside of a hub can force them, so the hub runs in this process: real
controllers over a store in memory, whose metrics a real Prometheus scrapes by HTTPS from the controllers' own server.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from api.transport.tls import Certificates, Pair
from fleet.controllers.decide.decider import Decider
from fleet.core.decide import decide
from fleet.core.model.plan import Eviction, Plan
from fleet.core.model.unit import Phase
from fleet.core.snapshot import Snapshot
from fleet.hub import pki
from fleet.hub.exposition import Exposition
from tests.cli.hub import until
from tests.controllers.decide.reclaims import QUICK, job, leaves
from tests.controllers.fastloop import eventually
from tests.controllers.world import World, hub, member, policy
from tests.monitoring.readers import Anybody
from tests.monitoring.watch import WITHIN_S, Watch

pytestmark = pytest.mark.timeout(900)
BORROWERS = [f"a{number}" for number in range(8)]  # of 4 GPUs each: all that there are


def buggy(snapshot: Snapshot, **how: Any) -> Plan:
    """The decider with two bugs: one job that waits is too much for it, and where it evicts, it evicts everybody."""
    if any(unit.name == "default/poison" and unit.phase is Phase.WAITING for unit in snapshot.units.values()):
        raise KeyError("a bug")
    plan = decide(snapshot, **how)
    if not plan.evictions:
        return plan
    evicted, preemptor = {eviction.unit for eviction in plan.evictions}, plan.evictions[0].preemptor
    others = (unit for unit in snapshot.units.values() if unit.phase is Phase.PLACED and unit.id not in evicted)
    more = tuple(Eviction(unit.id, unit.member or "", preemptor) for unit in others)
    return replace(plan, evictions=(*plan.evictions, *more))


@contextmanager
def watched(world: World, folder: Path) -> Iterator[Watch]:
    ca, key, server, server_key = (folder / name for name in ("ca.crt", "ca.key", "server.crt", "server.key"))
    pki.make_ca(ca, key, now=pki.utcnow())
    pki.make_server_certificate(ca, key, server, server_key, ["127.0.0.1"], now=pki.utcnow())
    (folder / "token").write_text("anybody")
    with ExitStack() as stack:
        listener = socket.create_server(("127.0.0.1", 0))
        exposition = Exposition(world.hub.metrics.registry, listener, Anybody(), Certificates(Pair(server, server_key)))
        stack.callback(exposition.stop)
        targets = {"fleet-controllers": f"127.0.0.1:{exposition.port}"}
        yield Watch(folder, stack, targets, token=folder / "token", authority=ca)


async def test_bugs_of_the_decider_arrive_as_alerts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Decider.__init__

    def init(self: Decider, clock: Callable[[], float]) -> None:
        made(self, clock, buggy)

    monkeypatch.setattr(Decider, "__init__", init)
    async with hub(member("cfa"), member("cfb"), config=QUICK, replays=False) as world:
        await world.apply(leaves(32, a=0, b=16), policy(queue=True))
        await world.apply(*(job(name, "a", gpus=4, workers=0) for name in BORROWERS))
        for name in BORROWERS:
            await world.running(name)
        figure = world.hub.metrics.registry.get_sample_value
        # The loop of the controllers stands still while the test waits for Prometheus.
        with watched(world, tmp_path) as watch:
            until("nothing is wrong", lambda: watch.has("fleet_decider_needless_evictions_total == 0"), WITHIN_S)
            watch.await_end("FleetDeciderFaults", "FleetNeedlessEvictions")
            await world.apply(job("poison", "a"), job("owner", "b"))
            await eventually(lambda: figure("fleet_decision_faults_total", {"outcome": "left_out"}))
            await eventually(lambda: figure("fleet_decider_needless_evictions_total") == 4, within_s=120)
            watch.await_alert("FleetDeciderFaults", outcome="left_out")
            watch.await_alert("FleetNeedlessEvictions")
