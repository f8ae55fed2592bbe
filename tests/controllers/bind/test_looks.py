"""Bind looks at an object again when something changed that it reads, and at no other time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fleet.controllers.bind.loop import BindLoop
from fleet.values.ports import Body, Key
from fleet.wellknown import KUBEFLOW
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree

ONE = Key(KUBEFLOW, "pytorchjobs", "default", "one")


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Key]:
    """The objects that were looked at, in order."""
    seen: list[Key] = []
    look = BindLoop._bind

    async def noted(self: BindLoop, key: Key) -> float | None:
        seen.append(key)
        return await look(self, key)

    monkeypatch.setattr(BindLoop, "_bind", noted)
    return seen


async def edit(world: World, change: Callable[[Body], object]) -> None:
    assert await world.hub.edit(ONE, lambda body: bool(change(body)))


async def test_a_status_of_a_job_asks_for_no_look_and_a_label_does(looks: list[Key]) -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("one"))
        assert await world.running("one") == "cfa"
        await settle(5)
        known = len(looks)
        await edit(world, lambda body: body["status"].update(startTime="2026-01-01T00:00:00Z") or True)
        await settle(5)
        assert len(looks) == known
        await edit(world, lambda body: body["metadata"].setdefault("labels", {}).update(a="b") or True)
        await eventually(lambda: len(looks) > known)
        assert looks[known] == ONE


async def test_limits_of_the_quota_tree_ask_for_no_look_and_its_namespaces_do(looks: list[Key]) -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=0), policy(), pytorchjob("one"))
        await eventually(lambda: bool(world.message("one")))
        await settle(5)
        known = len(looks)
        await world.apply(tree(max_jobs=1))
        await eventually(lambda: world.placed("one") == "cfa")
        assert looks[known:] == [ONE]  # the placed binding is another one; its job is looked at once
        await world.apply(tree(max_jobs=1, namespaces=("default", "team-b")))
        await eventually(lambda: len(looks) > known + 1)
        assert set(looks[known + 1 :]) == {ONE}
