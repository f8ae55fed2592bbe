"""Attempts that come to nothing: each waits longer than the one before, they are counted, and there is an end."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.values.ports import Body
from fleet.wellknown import ANNOTATION_BACKOFF_LIMIT
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree


def annotated(value: str) -> Any:
    return lambda body: body["metadata"].update(annotations={ANNOTATION_BACKOFF_LIMIT: value})


def status(world: World) -> Body:
    return dict((world.unit("one") or {}).get("status") or {})


async def test_a_gang_that_never_gets_whole_is_held_after_its_limit_until_somebody_raises_it() -> None:
    async with hub(member("cfa", no_pods=True)) as world:
        job = pytorchjob("one")
        annotated("2")(job)
        await world.apply(tree(), policy(queue=True), job)
        await eventually(lambda: status(world).get("requeueState", {}).get("count") == 1, within_s=90)
        assert world.phase("one") == "TimeoutBackoff"
        await eventually(lambda: "held: 2 attempts came to nothing" in world.message("one"), within_s=90)
        assert (world.unit("one") or {})["status"]["reason"]["code"] == "Held"
        assert "only 0 of 3 pods found a node" in world.message("one")
        await settle(200)
        assert (world.attempt("one"), world.placed("one")) == (2, "")
        await world.edit("PyTorchJob", "one", annotated("3"))
        await eventually(lambda: world.placed("one") == "cfa")


@pytest.mark.parametrize("queue", [True, False])
async def test_the_policys_limit_is_for_all_its_jobs_in_and_outside_queues(queue: bool) -> None:
    async with hub(member("cfa", no_pods=True)) as world:
        limited = policy(queue=queue)
        annotated("1")(limited)
        await world.apply(tree(), limited, pytorchjob("one"))

        def held() -> Body:
            return world.condition(world.binding("one"), "Scheduled")

        await eventually(lambda: held().get("reason") == "Held", within_s=90)
        assert "1 attempt came to nothing" in held()["message"]
