"""A process follows the declarations in its store: its table has them, and loses them, without a restart."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from fleet.admission.interpreters import follow_interpreters
from fleet.kinds import INTERPRETERS, interpreter_of
from tests.admission.conftest import USER, Hub, hub
from tests.simulate.declarations import DECLARED

__all__ = ["hub"]


@pytest.fixture
async def following(hub: Hub) -> AsyncIterator[Hub]:
    loaded = asyncio.Event()
    task = asyncio.create_task(follow_interpreters(hub.store, loaded))
    await asyncio.wait_for(loaded.wait(), 10)
    yield hub
    task.cancel()
    INTERPRETERS.declare(())


async def until(condition: Callable[[], Any]) -> None:
    deadline = asyncio.get_running_loop().time() + 10
    while not condition():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.005)


def known() -> bool:
    return interpreter_of("example.com/v1", "Widget") is not None


async def test_a_declaration_counts_while_it_is_stored(following: Hub) -> None:
    assert not known()
    stored = await following.create(copy.deepcopy(DECLARED))
    await until(known)
    first = interpreter_of("example.com/v1", "Widget")
    changed = copy.deepcopy(stored)
    changed["spec"]["suspend"] = "object.spec.stopped"
    await following.update(changed)
    await until(lambda: interpreter_of("example.com/v1", "Widget") is not first)
    found = interpreter_of("example.com/v1", "Widget")
    assert found is not None and found.suspend_field == "spec.stopped"
    await following.delete(changed)
    await until(lambda: not known())


async def test_a_stored_declaration_that_cannot_be_read_costs_the_others_nothing(following: Hub) -> None:
    kind = following.registry.need("config.fleet.io", "workloadinterpreters")
    bad = copy.deepcopy(DECLARED)
    bad["metadata"]["name"] = "bad"
    bad["spec"]["target"] = {"group": "example.com", "kind": "Gadget"}
    bad["spec"]["components"][0]["replicas"] = "nonsense("
    await following.store.commit([following.objects.prepare_new(kind, "", bad, USER)])
    await following.create(copy.deepcopy(DECLARED))
    await until(known)
    assert interpreter_of("example.com/v1", "Gadget") is None
