"""NoExecute taints of a member: who stays, for how long, and who leaves; what a NoSchedule taint leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.bindings.matching import ClusterFields, cluster_tolerations, tolerated
from fleet.controllers.cluster.taints import leaves_at
from fleet.core.model.member import Taint
from fleet.values.times import rfc3339
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree

NOW = 1_700_000_000.0
FIX: dict[str, Any] = {"key": "fix", "value": "disk", "effect": "NoExecute", "timeAdded": rfc3339(NOW - 100)}
BARE = {"key": "fix", "value": "disk", "effect": "NoExecute"}
EVERYTHING = {"operator": "Exists"}
FOR_A_WHILE = {"key": "fix", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


@pytest.mark.parametrize(
    ("taints", "tolerations", "leaves"),
    [
        pytest.param([], [], None, id="no taint"),
        pytest.param([{**FIX, "effect": "NoSchedule"}], [], None, id="NoSchedule moves nobody"),
        pytest.param([FIX], [], -100.0, id="nothing tolerates it"),
        pytest.param([BARE], [], 0.0, id="nothing tolerates it, and nobody wrote when it came"),
        pytest.param([FIX], [EVERYTHING], None, id="everything is tolerated"),
        pytest.param([FIX], [{"key": "fix", "value": "disk"}], None, id="key and value are tolerated"),
        pytest.param([FIX], [{"key": "fix", "value": "net"}], -100.0, id="another value is"),
        pytest.param(
            [FIX], [{"key": "fix", "operator": "Exists", "effect": "NoSchedule"}], -100.0, id="another effect is"
        ),
        pytest.param([FIX], [FOR_A_WHILE], 200.0, id="for 300 s since it came"),
        pytest.param([BARE], [FOR_A_WHILE], 300.0, id="for 300 s, from now"),
        pytest.param([FIX], [EVERYTHING, FOR_A_WHILE], 200.0, id="the shorter of two counts"),
        pytest.param([FIX, {**FIX, "key": "other"}], [FOR_A_WHILE], -100.0, id="one of two taints is not tolerated"),
    ],
)
def test_when_a_job_leaves(taints: list[Any], tolerations: list[Any], leaves: float | None) -> None:
    at = leaves_at({"clusterTolerations": tolerations}, ClusterFields("cfa", {}, {}, taints), NOW)
    assert (at - NOW if at is not None else None) == leaves


def test_a_toleration_that_ends_lets_no_newcomer_past_a_noexecute_taint() -> None:
    assert not tolerated(FIX, cluster_tolerations({"clusterTolerations": [FOR_A_WHILE]}))
    of_all_effects = cluster_tolerations({"clusterTolerations": [{**EVERYTHING, "tolerationSeconds": 5}]})
    assert not tolerated(FIX, of_all_effects)
    assert tolerated({**FIX, "effect": "NoSchedule"}, of_all_effects)


async def taint(world: World, name: str, *taints: dict[str, str]) -> None:
    """On the Cluster, and so in what its member shows to the decider."""
    world.members.by_name[name].taints = tuple(Taint(t["key"], t.get("value", ""), t["effect"]) for t in taints)
    await world.edit("Cluster", name, lambda body: body["spec"].update(taints=list(taints)))


async def test_a_job_leaves_a_member_with_a_noexecute_taint_and_keeps_its_place() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("one"))
        first = await world.running("one")
        enqueued = (world.binding("one") or {})["metadata"]["annotations"]["fleet.io/enqueued-at"]
        await taint(world, first, BARE)
        await eventually(lambda: world.placed("one") not in ("", first))
        other = await world.running("one")
        assert world.members.where("one") == [other]
        assert (world.binding("one") or {})["metadata"]["annotations"]["fleet.io/enqueued-at"] == enqueued
        [event] = world.events("one", "EvictWorkloadFromClusterSucceed")
        assert event["message"].endswith(
            f"member {first} has a taint that the job does not tolerate, or no longer: fix=disk:NoExecute"
        )
        assert "fix=disk:NoExecute" in world.condition(world.unit("one"), "Evicted")["message"]


async def test_a_job_that_tolerates_it_for_a_while_leaves_after_that_and_does_not_come_back() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(
            tree(),
            policy(
                queue=True,
                placement={
                    "clusterTolerations": [FOR_A_WHILE],
                    "replicaScheduling": {"replicaSchedulingType": "Divided", "customSchedulingType": "Gang"},
                },
            ),
            pytorchjob("one"),
        )
        await world.running("one")
        at = world.clock.now()
        await taint(world, "cfa", BARE)
        await eventually(lambda: (world.see("Cluster", "cfa") or {})["spec"]["taints"][0].get("timeAdded"))
        await settle(290)
        assert world.placed("one") == "cfa"
        await eventually(lambda: not world.placed("one"), within_s=30)
        assert 299 <= world.clock.now() - at <= 305
        await settle(60)
        assert world.attempt("one") == 1
        await taint(world, "cfa")
        assert await world.running("one") == "cfa"


async def test_a_job_that_is_over_stays_where_it_is() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        world.members.finish("one")
        await eventually(lambda: world.phase("one") == "Succeed")
        await taint(world, "cfa", BARE)
        await settle(30)
        assert (world.placed("one"), world.phase("one")) == ("cfa", "Succeed")


async def test_what_goes_to_every_member_leaves_a_tainted_one_likewise() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}}
        await world.apply(
            policy(resourceSelectors=[{"apiVersion": "v1", "kind": "ConfigMap"}], placement={}, failover=None), config
        )

        def there() -> list[str]:
            binding = world.see("ResourceBinding", "c-configmap") or {}
            return [entry["name"] for entry in (binding.get("spec") or {}).get("clusters") or ()]

        await eventually(lambda: there() == ["cfa", "cfb"])
        await taint(world, "cfa", {**BARE, "effect": "NoSchedule"})
        await settle(5)
        assert there() == ["cfa", "cfb"]
        await taint(world, "cfa", BARE)
        await eventually(lambda: there() == ["cfb"])
        await eventually(lambda: not world.members.owned("cfa"))
