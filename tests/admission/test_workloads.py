"""Objects with pods: which a policy may name, which an object is taken for, and what a client is told of its own."""

from __future__ import annotations

from typing import Any

import pytest

from api.engine import patch as patches
from api.engine.crd import kind_of
from api.objects.definitions import definitions
from fleet.admission import untakenobjects
from fleet.admission.workloads import carries_pods, kinds_in_words
from tests.admission.conftest import USER, Body, Hub
from tests.admission.policies import JOBS, MAPS, gang, policy
from tests.controllers.bind.rayservice import RAY, pod, rayjob
from tests.controllers.world import cluster, cluster_policy, pytorchjob, tree

TEMPLATE = {"spec": {"containers": [{"name": "c"}]}}
NAMED = "no WorkloadInterpreter says what pods a AppWrapper of workload.codeflare.dev/v1beta2 has"


def of(api_version: str, kind: str) -> Body:
    return {"apiVersion": api_version, "kind": kind}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        pytest.param(
            policy(resourceSelectors=[of("workload.codeflare.dev/v1beta2", "AppWrapper")], **gang()),
            NAMED,
            id="an undeclared kind",
        ),
        pytest.param(
            policy(resourceSelectors=[of("kubeflow.org/v1", "PytorchJob")], **gang()),
            "did you mean PyTorchJob?",
            id="a gang kind misspelt",
        ),
        pytest.param(policy(resourceSelectors=[of("v1", "Event")], **gang()), "a policy of their own", id="no gang"),
        *(
            pytest.param(
                policy(resourceSelectors=[of(*kind)], **more),
                "would start in no queue, or in every member",
                id=f"{kind[1]} {'with' if more else 'without'} Gang",
            )
            for kind in [
                ("v1", "Pod"),
                ("v1", "ReplicationController"),
                ("apps/v1", "DaemonSet"),
                ("apps/v1", "ReplicaSet"),
                ("batch/v1", "CronJob"),
            ]
            for more in ({}, gang())
        ),
    ],
)
async def test_a_kind_with_pods_that_fleet_does_not_place_is_refused(hub: Hub, body: Body, says: str) -> None:
    for one in (body, {**body, "kind": "ClusterPropagationPolicy"}):
        refusal = await hub.refused(one)
        assert [cause.field for cause in refusal.causes] == ["spec.resourceSelectors[0].kind"]
        assert says in refusal.causes[0].message


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(policy(resourceSelectors=[JOBS, MAPS, of("v1", "Secret")], **gang()), id="maps beside gangs"),
        pytest.param(policy(resourceSelectors=[of("example.com/v1", "Widget")]), id="a custom kind without Gang"),
        pytest.param(policy(resourceSelectors=[of("kubeflow.org/v2beta1", "MPIJob")], **gang()), id="another version"),
    ],
)
async def test_kinds_without_pods_may_be_named(hub: Hub, body: Body) -> None:
    stored = await hub.create(body)
    assert stored["spec"]["resourceSelectors"] == body["spec"]["resourceSelectors"]


@pytest.mark.parametrize(
    ("body", "carries"),
    [
        (pod(), True),
        (rayjob(), True),
        ({"kind": "Flow", "spec": {"podTemplate": TEMPLATE}}, True),
        ({"kind": "Cron", "spec": {"jobTemplate": {"spec": {"template": TEMPLATE}}}}, True),
        ({"kind": "Work", "spec": {"tasks": [{"template": TEMPLATE}]}}, True),
        ({"kind": "Kept", "spec": {"template": {"spec": {"containers": "see the wiki"}}}}, False),
        ({"kind": "ConfigMap", "data": {"template": "spec: {containers: []}"}}, False),
        ({"kind": "Odd", "spec": None, "template": None, "x": [None, 1]}, False),
        (RAY, False),
    ],
    ids=lambda value: value.get("kind") if isinstance(value, dict) else "",
)
def test_a_pod_template_is_found_wherever_it_stands(body: Body, carries: bool) -> None:
    assert carries_pods(body) is carries


async def warned(hub: Hub, body: Body, **options: Any) -> tuple[str, ...]:
    kind = hub.registry.kind_of(body["apiVersion"], body["kind"])
    assert kind is not None
    return (await hub.objects.create(kind, "default", body, USER)).warnings


async def test_a_job_that_no_policy_takes_is_told_of_when_it_is_created(hub: Hub) -> None:
    untakenobjects.install(hub.objects)
    why = "no PropagationPolicy or ClusterPropagationPolicy selects it"
    assert await warned(hub, pytorchjob("one")) == (f"no policy takes PyTorchJob default/one: {why}",)
    kind = hub.registry.need("kubeflow.org", "pytorchjobs")
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert (await hub.objects.patch(kind, "default", "one", labels, patches.MERGE, USER)).warnings == ()
    await hub.create(cluster_policy())
    assert await warned(hub, pytorchjob("two")) == ()


async def test_a_job_whose_namespace_has_no_queue_is_told_so(hub: Hub) -> None:
    untakenobjects.install(hub.objects)
    await hub.create(cluster_policy(queue=True))
    tree_missing = "there is no quota tree: apply an ElasticQuotaTree"
    assert await warned(hub, pytorchjob("one")) == (f"no queue takes PyTorchJob default/one: {tree_missing}",)
    await hub.create(tree(namespaces=("other",)))
    (text,) = await warned(hub, pytorchjob("two"))
    assert text.startswith("no queue takes PyTorchJob default/two: no leaf of the quota tree has namespace default")
    named = pytorchjob("three")
    named["metadata"]["labels"] = {"quota.scheduling.alibabacloud.com/name": "child-2"}
    assert await warned(hub, named) == ()
    misspelt = pytorchjob("four")
    misspelt["metadata"]["labels"] = {"quota.scheduling.alibabacloud.com/name": "chidl-2"}
    (text,) = await warned(hub, misspelt)
    assert text.endswith('or use another; did you mean "child-2"?'), text


async def test_a_resource_that_no_member_has_is_told_of_with_the_nearest(hub: Hub) -> None:
    untakenobjects.install(hub.objects)
    await hub.create(cluster_policy())
    assert await warned(hub, pytorchjob("before")) == ()  # no member has joined
    await hub.made(cluster("cfa") | {"status": {"resourceSummary": {"allocatable": {"nvidia.com/gpus": "8"}}}})
    said = 'no member has nvidia.com/gpu, which the job asks for; did you mean "nvidia.com/gpus"?'
    assert await warned(hub, pytorchjob("after")) == (said,)


async def test_a_pod_is_told_that_nothing_runs_it(hub: Hub) -> None:
    untakenobjects.install(hub.objects)
    (text,) = await warned(hub, pod())
    assert text == (
        "no policy takes Pod default/lonely: objects of this kind stay on the hub, where nothing runs them;"
        " submit a job"
    )


@pytest.mark.parametrize(("kind", "instead"), [("ResourceQuota", "ElasticQuotaTree"), ("LimitRange", "pod templates")])
async def test_a_kind_that_the_hub_does_not_act_on_is_stored_with_a_warning(hub: Hub, kind: str, instead: str) -> None:
    spec: Body = {"limits": []} if kind == "LimitRange" else {"hard": {"pods": "1"}}
    (text,) = await warned(hub, {"apiVersion": "v1", "kind": kind, "metadata": {"name": "small"}, "spec": spec})
    assert text.startswith(f"{kind} default/small has no effect on jobs on the hub: ") and instead in text


async def test_a_schedule_is_told_that_it_does_not_run_and_of_the_way_out(hub: Hub) -> None:
    untakenobjects.install(hub.objects)
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "x"}]}}
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}}
    (text,) = await warned(hub, {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "n"}, "spec": spec})
    assert text == (
        "no policy takes CronJob default/n: objects of this kind stay on the hub, where nothing runs them; schedules do"
        " not run on the hub: kubectl create job NAME --from=cronjob/n makes one job"
    )


async def test_an_object_of_an_unknown_kind_with_pods_is_told_at_each_write(hub: Hub) -> None:
    made = kind_of(RAY, definitions())
    assert made is not None
    hub.registry.put(made)
    untakenobjects.install(hub.objects)
    selectors = [{"apiVersion": "ray.io/v1", "kind": "RayService"}]
    await hub.create(policy(resourceSelectors=selectors))
    expected = f"PropagationPolicy default/p does not take it to members, since it has pods: {kinds_in_words()}"
    assert await warned(hub, rayjob()) == (expected,)
    entrypoint = {"spec": {"entrypoint": "train"}}
    patched = await hub.objects.patch(made, "default", "ray", entrypoint, patches.MERGE, USER)
    assert patched.warnings == (expected,)
    assert await warned(hub, rayjob("light", rayClusterSpec=None)) == ()


async def test_what_the_hub_writes_itself_is_told_nothing(hub: Hub) -> None:
    untakenobjects.install(hub.objects)
    assert (await hub.made(pytorchjob("one")))["metadata"]["name"] == "one"
