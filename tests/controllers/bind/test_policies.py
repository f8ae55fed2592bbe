"""Which policy an object follows, and what a policy that changes or goes does to what waits and what runs."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.values.ports import Body, Key, Put
from fleet.wellknown import POLICY
from tests.controllers.bind.policies import everywhere
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import cluster, hub, member, passing, policy, pytorchjob, tree


def to(*names: str) -> dict[str, Any]:
    return {**policy()["spec"]["placement"], "clusterAffinity": {"clusterNames": list(names)}}


async def test_a_policy_that_comes_after_the_job_binds_it() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(pytorchjob("one"))
        await settle()
        assert world.binding("one") is None
        await world.apply(policy())
        assert await world.running("one") == "cfa"


async def test_the_alias_group_of_policies_is_the_same_policy() -> None:
    async with hub(member("cfa")) as world:
        await world.apply({**policy(), "apiVersion": "policy.karmada.io/v1alpha1"}, pytorchjob("one"))
        assert await world.running("one") == "cfa"


async def test_a_job_under_a_policy_without_gang_is_not_bound_and_says_why() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(
            policy(placement={"replicaScheduling": {"replicaSchedulingType": "Divided"}}), pytorchjob("one")
        )
        (event,) = await eventually(lambda: world.events("one", "ApplyPolicyFailed"))
        assert "customSchedulingType is not Gang" in event["message"]
        assert world.binding("one") is None


async def test_a_policy_deleted_leaves_what_runs_and_what_waits_as_they_are() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        await world.apply(pytorchjob("two"))
        await eventually(lambda: world.message("two"))
        await world.delete("PropagationPolicy", "example-policy")
        await eventually(lambda: "fleet.io/policy" not in (world.binding("one") or {})["metadata"]["annotations"])
        await settle()
        assert (world.state("one"), world.phase("two")) == ("Running", "Enqueued")
        world.members.finish("one")
        await world.running("two")


async def test_suspension_switched_off_releases_what_waits_and_on_stops_nothing() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=0), policy(queue=True), pytorchjob("one"))
        await eventually(lambda: world.message("one"))
        await world.apply(passing(policy(queue=False)))
        assert await world.running("one") == "cfa"
        await eventually(lambda: world.unit("one") is None)
        await world.apply(policy(queue=True))
        await eventually(lambda: world.phase("one") == "Running")
        assert (world.state("one"), world.attempt("one")) == ("Running", 1)


async def test_a_placement_that_no_longer_allows_the_member_moves_the_job() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await world.apply(tree(), policy(queue=True, placement=to("cfa")), pytorchjob("one"))
        assert await world.running("one") == "cfa"
        await world.apply(policy(queue=True, placement=to("cfb")))
        await eventually(lambda: world.placed("one") == "cfb")
        assert await world.running("one") == "cfb"
        await eventually(lambda: world.members.where("one") == ["cfb"])


async def test_a_lazy_policy_moves_nothing_until_the_job_changes() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await world.apply(policy(placement=to("cfa"), activationPreference="Lazy"), pytorchjob("one"))
        assert await world.running("one") == "cfa"
        await world.apply(policy(placement=to("cfb"), activationPreference="Lazy"))
        await settle()
        assert world.placed("one") == "cfa"
        await world.apply(pytorchjob("one", workers=1))
        await eventually(lambda: world.placed("one") == "cfb")


async def test_failover_added_to_a_policy_counts_for_jobs_that_run() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await world.apply(policy(failover=None), pytorchjob("one"))
        first = await world.running("one")
        await world.apply(policy())
        world.members.finish("one", "Failed")
        await eventually(lambda: world.placed("one") not in ("", first), within_s=60)


async def test_dispatching_suspended_sends_nothing_until_it_is_not() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(suspension={"dispatching": True}), pytorchjob("one"))
        await eventually(lambda: world.placed("one"))
        await settle()
        assert world.members.where("one") == []
        await world.apply(policy())
        await world.running("one")


async def test_a_job_that_changes_while_it_runs_changes_in_its_member() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), pytorchjob("one"))
        await world.running("one")
        await world.edit("PyTorchJob", "one", lambda job: job["spec"].update(runPolicy={"ttlSecondsAfterFinished": 60}))
        await eventually(lambda: (world.members.job("cfa", "default", "one") or {})["spec"].get("runPolicy"))


async def test_objects_without_pods_go_to_every_member_and_to_those_that_join() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        config = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": "default"},
            "data": {"a": "1"},
        }
        await world.apply(everywhere("ConfigMap"), config)
        key = Key("", "configmaps", "default", "c")
        await eventually(lambda: all(world.members.find(name, key) for name in ("cfa", "cfb")))
        world.members.by_name["cfc"] = member("cfc")
        await world.apply(cluster("cfc"))
        await eventually(lambda: world.members.find("cfc", key))
        await world.apply(everywhere("ConfigMap", placement={"clusterAffinity": {"exclude": ["cfa"]}}))
        await eventually(lambda: world.members.find("cfa", key) is None)
        await world.delete("ConfigMap", "c")
        await eventually(world.nothing_left)


async def test_nothing_of_system_namespaces_ever_travels() -> None:
    async with hub(member("cfa")) as world:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "member-cfa", "namespace": "fleet-system"}}
        await world.apply(secret, everywhere("Secret"))
        await settle()
        assert world.all("ResourceBinding") == []
        assert world.members.owned("cfa") == []


async def test_overrides_change_what_one_member_gets() -> None:
    async with hub(member("cfa")) as world:
        override = {
            "apiVersion": f"{POLICY}/v1alpha1",
            "kind": "ClusterOverridePolicy",
            "metadata": {"name": "o"},
            "spec": {
                "overrideRules": [
                    {
                        "targetCluster": {"clusterNames": ["cfa"]},
                        "overriders": {
                            "imageOverrider": [
                                {"component": "Registry", "operator": "replace", "value": "mirror.example"}
                            ],
                            "labelsOverrider": [{"operator": "add", "value": {"zone": "a"}}],
                            "plaintext": [
                                {"path": "/spec/runPolicy", "operator": "add", "value": {"cleanPodPolicy": "None"}}
                            ],
                        },
                    }
                ]
            },
        }
        await world.apply(override, policy(), pytorchjob("one"))
        await world.running("one")
        copy = world.members.job("cfa", "default", "one") or {}
        template = copy["spec"]["pytorchReplicaSpecs"]["Master"]["template"]
        assert template["spec"]["containers"][0]["image"] == "mirror.example/train:1"
        assert copy["metadata"]["labels"]["zone"] == "a"
        assert copy["spec"]["runPolicy"] == {"cleanPodPolicy": "None"}


async def test_an_override_that_does_not_fit_is_told_and_stops_nothing_that_runs() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), pytorchjob("one"))
        await world.running("one")
        patch = {"path": "/spec/no/where", "operator": "replace", "value": 1}
        bad = {
            "apiVersion": f"{POLICY}/v1alpha1",
            "kind": "ClusterOverridePolicy",
            "metadata": {"name": "bad"},
            "spec": {"overrideRules": [{"overriders": {"plaintext": [patch]}}]},
        }
        await world.apply(bad)
        await eventually(lambda: world.events("one", "SyncFailed"))
        why = "override policy bad: replace /spec/no/where does not fit the manifest"
        text = f"cannot be sent to member cfa: {why}; mend or delete that policy"
        assert world.events("one", "SyncFailed")[0]["message"] == text
        await settle(30)
        assert (world.state("one"), world.placed("one"), world.attempt("one")) == ("Running", "cfa", 1)
        assert world.condition(world.binding("one"), "FullyApplied")["reason"] == "OverrideFailed"
        await world.delete("ClusterOverridePolicy", "bad")
        await eventually(lambda: world.condition(world.binding("one"), "FullyApplied")["status"] == "True")


def plaintext(name: str, path: str, value: Any) -> Body:
    entry = {"path": path, "operator": "add", "value": value}
    return {
        "apiVersion": f"{POLICY}/v1alpha1",
        "kind": "ClusterOverridePolicy",
        "metadata": {"name": name},
        "spec": {"overrideRules": [{"overriders": {"plaintext": [entry]}}]},
    }


WORKER = "/spec/pytorchReplicaSpecs/Worker"
TOO_MANY = "asks for more than it is charged: 24 replicas of worker, 2 admitted"


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        pytest.param(f"{WORKER}/replicas", 24, TOO_MANY, id="more than is charged"),
        pytest.param("/spec/pytorchReplicaSpecs", {}, "it has no pods", id="no pods"),
        pytest.param(f"{WORKER}/template/spec/overhead", {"cpu": "much"}, "its pods cannot be read", id="no quantity"),
        pytest.param("/spec/no/where", 1, "add /spec/no/where does not fit the manifest", id="nowhere"),
    ],
)
async def test_a_job_that_an_override_spoils_waits_and_names_the_policy_until_that_is_gone(
    path: str, value: Any, said: str
) -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=9), policy(queue=True))
        await world.apply(plaintext("a-good-one", "/spec/runPolicy", {}), plaintext("bad", path, value))
        await world.apply(pytorchjob("one"))
        await eventually(lambda: "cannot be sent to member cfa: override policy bad: " in world.message("one"))
        assert said in world.message("one") and "refused" not in world.message("one")
        assert world.condition(world.unit("one"), "Evicted")["reason"] == "OverrideFailed"
        assert world.members.where("one") == [] and "HandlingFailed" not in str(world.binding("one"))
        await world.delete("ClusterOverridePolicy", "bad")
        await eventually(lambda: world.state("one") == "Running", within_s=400)


async def test_a_policy_that_cannot_be_read_is_named_by_the_jobs_that_it_may_select() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=9), policy(queue=True), plaintext("bad", "/metadata/labels/a", "b"))
        stored = world.see("ClusterOverridePolicy", "bad")
        assert stored is not None
        broken = {**stored, "spec": {"overrideRules": ["nothing"]}}  # written around admission
        await world.store.commit([Put(Key(POLICY, "clusteroverridepolicies", "", "bad"), broken)])
        await world.apply(pytorchjob("one"))
        said = "override policy bad cannot be applied (AttributeError)"
        await eventually(lambda: said in world.message("one"))
