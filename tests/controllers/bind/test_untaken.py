"""Objects with pods that nobody places say so: jobs without a policy, and kinds whose pods Fleet does not know."""

from __future__ import annotations

from api.engine.crd import kind_of
from api.objects.definitions import definitions
from fleet.values.ports import Key
from tests.controllers.bind.policies import everywhere
from tests.controllers.bind.rayservice import RAY, pod, rayjob
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, cluster, hub, member, policy, pytorchjob


async def with_rayservices(world: World) -> None:
    """The CRD, and its kind as the process that follows CRDs puts it into the registry."""
    made = kind_of(RAY, definitions())
    assert made is not None
    world.registry.put(made)
    await world.apply(RAY)


async def test_a_job_that_no_policy_takes_says_so_once() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(pytorchjob("one"))
        (event,) = await eventually(lambda: world.events("one", "NoPolicy"))
        assert (event["type"], event["message"]) == (
            "Warning",
            "no policy takes PyTorchJob default/one: no PropagationPolicy or ClusterPropagationPolicy selects it",
        )
        await world.edit("PyTorchJob", "one", lambda job: job["metadata"].update(labels={"a": "b"}))
        await settle(700)
        assert [e["count"] for e in world.events("one", "NoPolicy")] == [1]


async def test_a_policy_that_names_a_version_which_is_served_no_more_is_named() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(resourceSelectors=[{"apiVersion": "kubeflow.org/v1beta2", "kind": "PyTorchJob"}]))
        await world.apply(pytorchjob("one"))
        (event,) = await eventually(lambda: world.events("one", "NoPolicy"))
        assert event["message"] == (
            "no policy takes PyTorchJob default/one: PropagationPolicy default/example-policy names"
            " kubeflow.org/v1beta2 PyTorchJob, and the hub has it as kubeflow.org/v1"
        )


async def test_a_policy_that_comes_in_the_same_batch_is_waited_for() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(pytorchjob("one"))
        await settle(2)
        await world.apply(policy())
        await world.running("one")
        await settle(30)
        assert world.events("one", "NoPolicy") == []


async def test_a_restart_of_the_controllers_does_not_say_it_again() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(pytorchjob("one"))
        await eventually(lambda: world.events("one", "NoPolicy"))
        await world.kill()
        world.start()
        await settle(30)
        assert [e["count"] for e in world.events("one", "NoPolicy")] == [1]


async def test_a_pod_on_the_hub_says_that_nothing_runs_it() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(pod())
        (event,) = await eventually(lambda: world.events("lonely", "NoPolicy"))
        assert "nothing runs them; submit a job" in event["message"]


async def test_an_object_of_an_unknown_kind_with_pods_goes_to_no_member() -> None:
    async with hub(member("cfa"), member("cfb"), member("cfc")) as world:
        await with_rayservices(world)
        await world.apply(everywhere("RayService", "ray.io/v1"), rayjob())
        (event,) = await eventually(lambda: world.events("ray", "ApplyPolicyFailed"))
        assert event["message"] == (
            "ClusterPropagationPolicy all-rayservice does not take it to members, since it has pods: Fleet places only"
            " pods of Deployment, JAXJob, Job, JobSet, LeaderWorkerSet, MPIJob, PaddleJob, PyTorchJob, RayCluster,"
            " RayJob, SparkApplication, StatefulSet, TFJob, TrainJob, Workflow, XGBoostJob;"
            " a WorkloadInterpreter (config.fleet.io) declares another kind"
        )
        await settle(30)
        assert (world.all("ResourceBinding"), world.events("ray", "NoPolicy")) == ([], [])


async def test_an_object_of_an_unknown_kind_without_pods_still_goes_everywhere() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await with_rayservices(world)
        await world.apply(everywhere("RayService", "ray.io/v1"), rayjob(rayClusterSpec={"template": "by name"}))
        await eventually(lambda: world.members.find("cfb", Key("ray.io", "rayservices", "default", "ray")))


async def test_what_was_bound_before_keeps_its_members_and_gets_no_new_ones() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await with_rayservices(world)
        await world.apply(everywhere("RayService", "ray.io/v1"), rayjob(rayClusterSpec=None))
        key = Key("ray.io", "rayservices", "default", "ray")
        await eventually(lambda: world.members.find("cfb", key))
        await world.apply(rayjob())
        await eventually(lambda: world.events("ray", "ApplyPolicyFailed"))
        world.members.by_name["cfc"] = member("cfc")
        await world.apply(cluster("cfc"))
        await settle(30)
        assert [c["name"] for c in world.all("ResourceBinding")[0]["spec"]["clusters"]] == ["cfa", "cfb"]
        assert world.members.find("cfc", key) is None
