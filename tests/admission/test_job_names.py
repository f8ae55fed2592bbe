"""What a job may be called, and what it may name: refusals name the field, warnings the thing that is missing."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from api.engine.patch import MERGE
from api.engine.status import StatusError
from tests.admission.conftest import USER, Body, Hub
from tests.simulate.kinds_table import LIVES, Life

BY_KIND = {life.kind: life for life in LIVES}
EVERY_KIND = pytest.mark.parametrize("life", [pytest.param(life, id=life.kind) for life in LIVES])
PT = BY_KIND["PyTorchJob"]
POD = "spec.pytorchReplicaSpecs.Master.template.spec"


async def refusal(hub: Hub, body: Body) -> dict[str, str]:
    """field -> what is said of it."""
    refused = await hub.refused(body)
    assert refused.code == 422
    return {cause.field: cause.message for cause in refused.causes}


async def warnings(hub: Hub, body: Body) -> list[str]:
    kind = hub.registry.kind_of(body["apiVersion"], body["kind"])
    assert kind is not None
    return list((await hub.objects.create(kind, "default", copy.deepcopy(body), USER)).warnings)


@EVERY_KIND
async def test_a_job_of_every_kind_as_its_operator_wants_it_is_taken_without_a_word(hub: Hub, life: Life) -> None:
    assert await warnings(hub, life.job("j")) == []


@EVERY_KIND
async def test_a_container_that_the_operator_needs_is_asked_for_by_its_name(hub: Hub, life: Life) -> None:
    job = life.job("j")
    specs: dict[str, Any] = job["spec"].get(life.field, {}) if life.field else {}
    for spec in specs.values():
        spec["template"] = copy.deepcopy(spec["template"])
        spec["template"]["spec"]["containers"][0]["name"] = "train"
    if life.kind in ("MPIJob", "Job"):  # they start in the first container, whatever its name
        assert await warnings(hub, job) == []
        return
    found = await refusal(hub, job)
    assert list(found) == [f"spec.{life.field}.{role}.template.spec.containers" for role, _ in life.specs]
    assert f'needs a container named "{life.container}", and finds train' in next(iter(found.values()))


@pytest.mark.parametrize(
    ("kind", "change", "field"),
    [
        ("PyTorchJob", lambda specs: specs["Master"].update(replicas=2), "Master.replicas"),
        ("PyTorchJob", lambda specs: specs.update(Chief=specs.pop("Worker")), "Chief"),
        ("XGBoostJob", lambda specs: specs.pop("Master"), "Master"),
        ("MPIJob", lambda specs: specs.pop("Launcher"), "Launcher"),
        ("MPIJob", lambda specs: specs["Launcher"].update(replicas=2), "Launcher.replicas"),
        ("JAXJob", lambda specs: specs.update(Master=specs["Worker"]), "Master"),
        ("TFJob", lambda specs: specs.update(Master=specs["Chief"]), ""),
    ],
)
async def test_replica_types_that_the_operator_refuses_are_named(hub: Hub, kind: str, change: Any, field: str) -> None:
    job = BY_KIND[kind].job("j")
    change(job["spec"][BY_KIND[kind].field])
    assert list(await refusal(hub, job)) == [f"spec.{BY_KIND[kind].field}" + (f".{field}" if field else "")]


def named(life: Life, name: str, workers: int = 1) -> Body:
    job = life.job(name)
    if life.field:
        job["spec"][life.field]["Worker"]["replicas"] = workers
    return job


LONG = "a" * 63


@pytest.mark.parametrize(
    ("body", "said"),
    [
        # 54 characters and "-master-0" are 63, and so are 54 and "-worker-0"; ten workers have one digit, eleven two.
        pytest.param(named(PT, "a" * 54, workers=10), "", id="a Service of 63"),
        pytest.param(named(PT, "a" * 54, workers=11), "64 characters, and may have 63: make it 1 shorter", id="of 64"),
        pytest.param(named(PT, "a" * 70), "make it 7 shorter", id="a label of 70"),
        pytest.param(named(PT, "1st"), "start with a letter", id="a Service that begins with a digit"),
        pytest.param(named(PT, "a.b"), "must consist of", id="a Service with a dot"),
        pytest.param(named(BY_KIND["MPIJob"], LONG), "", id="MPI has no Services"),
        pytest.param(named(BY_KIND["MPIJob"], LONG + "a"), "make it 1 shorter", id="but labels"),
        pytest.param(named(BY_KIND["Job"], LONG), "", id="a batch Job of 63"),
        pytest.param(named(BY_KIND["Job"], "1.a"), "", id="a batch Job with a dot"),
        pytest.param(named(BY_KIND["Job"], LONG + "a"), "make it 1 shorter", id="a batch Job of 64"),
    ],
)
async def test_a_name_must_fit_what_is_made_of_it(hub: Hub, body: Body, said: str) -> None:
    if not said:
        assert await warnings(hub, body) == []
        return
    found = await refusal(hub, body)
    assert list(found) == ["metadata.name"] and said in found["metadata.name"]


async def test_an_indexed_batch_job_has_room_for_its_index_in_host_names(hub: Hub) -> None:
    for name, said in (("a" * 61, ""), ("a" * 62, "invalid DNS label"), ("a.b", "invalid DNS label: a.b-1")):
        job = BY_KIND["Job"].job(name)
        job["spec"]["completionMode"] = "Indexed"
        if said:
            assert said in (await refusal(hub, job))["metadata.name"]
        else:
            assert await warnings(hub, job) == []


def of_class(name: str) -> Body:
    job = PT.job("j")
    master = job["spec"]["pytorchReplicaSpecs"]["Master"]
    master["template"] = copy.deepcopy(master["template"])
    master["template"]["spec"]["priorityClassName"] = name
    return job


async def test_a_priority_class_that_there_is_not_is_refused_with_the_nearest_name(hub: Hub) -> None:
    await hub.create(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}
    )
    field = f"{POD}.priorityClassName"
    found = await refusal(hub, of_class("hihg"))
    assert found == {field: 'Invalid value: "hihg": the hub has no PriorityClass of this name; did you mean high?'}
    job = PT.job("j")
    job["spec"]["runPolicy"] = {"schedulingPolicy": {"priorityClass": "urgent"}}
    assert list(await refusal(hub, job)) == ["spec.runPolicy.schedulingPolicy.priorityClass"]
    assert await warnings(hub, of_class("high")) == []


async def test_the_classes_of_every_cluster_need_not_be_on_the_hub(hub: Hub) -> None:
    assert await warnings(hub, of_class("system-node-critical")) == []


async def test_what_the_pods_use_and_the_hub_does_not_have_is_named_in_a_warning(hub: Hub) -> None:
    await hub.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "here"}})
    job = PT.job("j")
    master = job["spec"]["pytorchReplicaSpecs"]["Master"]
    master["template"] = copy.deepcopy(master["template"])
    master["template"]["spec"] |= {
        "serviceAccountName": "trainer",
        "volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "b", "configMap": {"name": "here"}},
            {"name": "c", "secret": {"secretName": "maybe", "optional": True}},
            {"name": "d", "secret": {"secretName": "key"}},
        ],
    }
    said = "is not on the hub: its pods start where the member has one"
    names = ("PersistentVolumeClaim default/data", "Secret default/key", "ServiceAccount default/trainer")
    assert await warnings(hub, job) == [f"{name} {said}" for name in names]
    kind = hub.registry.need("kubeflow.org", "pytorchjobs")
    labelled = await hub.objects.patch(kind, "default", "j", {"metadata": {"labels": {"a": "b"}}}, MERGE, USER)
    assert labelled.warnings == ()


async def test_what_was_stored_before_these_rules_is_changed_and_deleted_as_ever(hub: Hub) -> None:
    old = PT.job("a" * 70)
    old["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["name"] = "train"
    kind = hub.registry.need("kubeflow.org", "pytorchjobs")
    rules = dict(hub.objects.rules)
    hub.objects.rules.clear()
    await hub.create(old)
    hub.objects.rules.update(rules)
    await hub.objects.patch(kind, "default", "a" * 70, {"metadata": {"labels": {"a": "b"}}}, MERGE, USER)
    with pytest.raises(StatusError):
        await hub.objects.patch(kind, "default", "a" * 70, {"spec": {"runPolicy": {"suspend": True}}}, MERGE, USER)
    assert (await hub.objects.delete(kind, "default", "a" * 70, USER)).deleted
