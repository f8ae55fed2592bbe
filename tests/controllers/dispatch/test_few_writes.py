"""A gang that starts costs the hub few writes: its decision, its sending, and the state that its member shows."""

from __future__ import annotations

from fleet.values.ports import Body
from fleet.wellknown import WORK
from tests.controllers.fastloop import settle
from tests.controllers.world import hub, member, policy, pytorchjob, tree


async def test_a_gang_that_starts_costs_one_write_of_its_binding_for_each_step() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=0), policy(queue=True), pytorchjob("one"))
        await settle(30)
        waiting = world.binding("one")
        assert waiting is not None
        assert world.placed("one") == ""
        watch = await world.store.watch(WORK, "resourcebindings")
        await world.apply(tree(max_jobs=1))
        assert await world.running("one") == "cfa"
        await settle(30)
        states: list[Body] = []
        while (event := await watch.next(timeout=0.1)) is not None:
            states.append(event.stored.body)
        await watch.aclose()
    assert [_steps(state) for state in states] == [("placed",), ("sent",), ("Created",), ("Created", "Running")]
    assert states[1]["status"]["aggregatedStatus"] == [{"clusterName": "cfa", "applied": True, "health": "Unknown"}]


def _steps(binding: Body) -> tuple[str, ...]:
    """How far the binding says that its job is."""
    assert binding["spec"]["clusters"] == [{"name": "cfa", "replicas": 0}]
    for item in binding["status"].get("aggregatedStatus") or ():
        shown = (item.get("status") or {}).get("conditions") or ()
        return tuple(condition["type"] for condition in shown) or ("sent",)
    return ("placed",)
