"""One object that cannot be handled costs itself alone (I13): good jobs beside it start, and no loop ends.

Every field of every kind that the loops read is taken away or given another type, in objects that are written into the
store around admission, many beside each other.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from structlog.testing import capture_logs

from fleet.values.ports import Body, Key
from fleet.values.wellknown import HANDLING_FAILED
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, pytorchjob
from tests.security.loops.malformed import mutants
from tests.security.loops.world import KINDS, batches, good_world, renamed, sample, write

ANNOTATIONS = {
    "fleet.io/users": "5",
    "fleet.io/hold": "x",
    "fleet.io/attempt": "9" * 400,
    "fleet.io/retries": "[5, {}]",
    "fleet.io/backoff-limit": "-",
    "fleet.io/enqueued-at": "yesterday",
    "fleet.io/checkpoint-at": "9" * 30,
    "fleet.io/required-topology": "a b",
    "fleet.io/placement-rules": "{",
    "fleet.io/slices": "rack",
    "fleet.io/force-removal": "1",
    "fleet.io/potential-nodes": "{",
    "kube-queue/quota-fullname": "root/none",
    "kube-queue/max-depth": "9" * 400,
    "fleet.io/policy": "Foo x/y/z",
    "fleet.io/policy-generation": "x",
    "fleet.io/domain": "x",
}


def troubles(logs: list[Any]) -> list[Any]:
    return [e for e in logs if e["event"] in ("a source failed, listing again", "a loop ended and is started again")]


async def goes_on(world: World, logs: list[Any]) -> None:
    """Jobs that come now start, in a queue and outside, and no loop ended."""
    await world.apply(pytorchjob("later", workers=1), pytorchjob("later", workers=1, namespace="team-b"))
    await world.running("later")
    await eventually(lambda: ((world.binding("later", namespace="team-b") or {}).get("spec") or {}).get("clusters"))
    assert troubles(logs) == []
    faults = world.hub.metrics.registry.get_sample_value
    assert faults("fleet_decision_faults_total", {"outcome": "undecided"}) == 0
    assert not [e for e in logs if e["event"] == "deciding failed" and e["resort"] != "unread"]


def tells(world: World, key: Key) -> bool:
    stored = world.store.peek(key)
    if stored is None:
        return True
    said = f'"{HANDLING_FAILED}"'.encode() in stored.raw
    return said or any(
        e["reason"] == HANDLING_FAILED and e["involvedObject"].get("uid") == stored.uid for e in world.all("Event")
    )


def everybody_tells(world: World) -> None:
    """What some loop has set aside says so."""
    silent = {str(key) for loop in world.hub.metrics.loops for key in loop.aside if not tells(world, key)}
    assert not silent, silent


async def stands_beside(kind: str, only: list[tuple[str, Body]] | None = None) -> None:
    """Every mutant of the kind beside good ones."""
    world: World
    async with hub(member("cfa", count=40)) as world:
        await good_world(world)
        found = world.all(kind)
        if not found:
            return
        pattern = next((b for b in found if "good" in b["metadata"]["name"]), found[-1])
    annotated = copy.deepcopy(pattern)
    annotated["metadata"].setdefault("annotations", {})
    entries = list(mutants(pattern))
    for name, value in ANNOTATIONS.items():
        one = copy.deepcopy(annotated)
        one["metadata"]["annotations"][name] = value
        entries.append((f"annotation {name}", one))
    for batch in batches(sample(entries)):
        async with hub(member("cfa", count=40)) as world:
            await good_world(world)
            with capture_logs() as logs:
                for number, (_, body) in enumerate(batch):
                    await write(world, renamed(body, f"bad-{number}", number))
                try:
                    await goes_on(world, logs)
                    await settle(60)
                    everybody_tells(world)
                except AssertionError as error:
                    raise AssertionError(f"{error} beside {[what for what, _ in batch]}") from error


@pytest.mark.parametrize("kind", KINDS)
async def test_good_jobs_start_beside_malformed_objects(kind: str) -> None:
    await stands_beside(kind)
