"""A policy that depends on override policies takes nothing up before they exist."""

from __future__ import annotations

from typing import Any

from fleet.values.ports import Body
from fleet.wellknown import POLICY
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, cluster_policy, hub, member, policy, pytorchjob, tree


def override(name: str, *, cluster_wide: bool = False) -> Body:
    return {
        "apiVersion": f"{POLICY}/v1alpha1",
        "kind": "ClusterOverridePolicy" if cluster_wide else "OverridePolicy",
        "metadata": {"name": name, **({} if cluster_wide else {"namespace": "default"})},
        "spec": {
            "overrideRules": [{"overriders": {"labelsOverrider": [{"operator": "add", "value": {"site": "near"}}]}}]
        },
    }


def pending(world: World, name: str = "one") -> dict[str, Any]:
    return world.condition(world.see("PyTorchJob", name), "Pending")


async def test_a_job_waits_until_all_override_policies_exist_and_says_so() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(dependentOverrides=["near", "far"]), pytorchjob("one"), override("near"))
        await eventually(lambda: pending(world).get("reason") == "DependentOverridesMissing")
        why = (
            "PropagationPolicy default/example-policy waits for its dependentOverrides: OverridePolicy default/far"
            " (not on the hub)"
        )
        await eventually(lambda: pending(world)["message"] == why)
        assert why in [event["message"] for event in world.events("one", "ApplyPolicyFailed")]
        await settle(30)
        assert world.binding("one") is None and world.events("one", "NoPolicy") == []
        await world.apply(override("far"))
        assert await world.running("one") == "cfa"
        assert (world.members.job("cfa", "default", "one") or {})["metadata"]["labels"]["site"] == "near"
        assert pending(world) == {}


async def test_a_cluster_wide_policy_depends_on_cluster_wide_overrides() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(override("near"), cluster_policy(dependentOverrides=["near"]), pytorchjob("one"))
        await eventually(lambda: "ClusterOverridePolicy near (" in pending(world).get("message", ""))
        await world.apply(override("near", cluster_wide=True))
        assert await world.running("one") == "cfa"


async def test_a_job_that_follows_the_policy_goes_on_when_an_override_policy_goes() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(override("near"), policy(dependentOverrides=["near"]), pytorchjob("one"))
        await world.running("one")
        await world.delete("OverridePolicy", "near")
        await world.apply(pytorchjob("two"))
        await eventually(lambda: pending(world, "two"))
        assert (world.state("one"), world.attempt("one")) == ("Running", 1)
        assert world.binding("two") is None


async def test_a_better_policy_that_waits_leaves_a_job_with_the_one_that_it_follows() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), pytorchjob("one"))
        await world.running("one")
        better = policy("better", priority=5, preemption="Always", dependentOverrides=["near"])
        await world.apply(better)
        await eventually(lambda: world.events("one", "ApplyPolicyFailed"))
        await settle()
        annotations = (world.binding("one") or {})["metadata"]["annotations"]
        assert annotations["fleet.io/policy"] == "PropagationPolicy default/example-policy"
        await world.apply(override("near"))
        await eventually(
            lambda: "default/better" in (world.binding("one") or {})["metadata"]["annotations"]["fleet.io/policy"]
        )


async def test_a_job_whose_waiting_policy_goes_waits_for_nothing_more() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(), policy(dependentOverrides=["near"]), pytorchjob("one"))
        await eventually(lambda: pending(world))
        await world.delete("PropagationPolicy", "example-policy")
        await eventually(lambda: pending(world) == {})
