"""How many jobs may wait: of a leaf, of a user there, and of a user on the hub."""

from __future__ import annotations

from typing import Any

import pytest

from api.engine.status import StatusError
from api.objects.writing import Options, User
from fleet.admission import waiting
from fleet.core.quota.parse import parse_tree, validate_tree
from fleet.wellknown import QUOTA
from tests.admission.conftest import Body, Hub


def job(name: str, namespace: str = "team", *, leaf: str = "", suspend: bool = False) -> Body:
    template = {"spec": {"containers": [{"name": "pytorch", "image": "i"}]}}
    spec: Body = {"pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": template}}}
    if suspend:
        spec["runPolicy"] = {"suspend": True}
    labels = {"quota.scheduling.alibabacloud.com/name": leaf} if leaf else {}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": spec,
    }


def tree(limits: Body, **leaf: Any) -> Body:
    whole = {"nvidia.com/gpu": 8}
    children = [
        {"name": "a", "max": {"nvidia.com/gpu": 8, **limits}, "namespaces": ["team"], **leaf},
        {"name": "b", "namespaces": ["other"]},
    ]
    return {
        "apiVersion": f"{QUOTA}/v1beta1",
        "kind": "ElasticQuotaTree",
        "metadata": {"name": "elasticquotatree", "namespace": "kube-system"},
        "spec": {"root": {"name": "root", "max": whole, "min": whole, "children": children}},
    }


def config(**data: str) -> Body:
    meta = {"name": "hub", "namespace": "fleet-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


async def submit(hub: Hub, body: Body, user: str = "ann") -> Body:
    kind = hub.registry.kind_of(body["apiVersion"], body["kind"])
    assert kind is not None
    return (await hub.objects.create(kind, body["metadata"]["namespace"], body, Options(User(user), "tests"))).body


async def refused(hub: Hub, body: Body, user: str = "ann") -> str:
    with pytest.raises(StatusError) as refusal:
        await submit(hub, body, user)
    assert refusal.value.code == 403
    return refusal.value.message


@pytest.fixture
async def teams(hub: Hub) -> Hub:
    for name in ("team", "other"):
        await hub.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return hub


async def test_a_leaf_refuses_more_waiting_jobs_than_its_limit_and_the_others_take_theirs(teams: Hub) -> None:
    await teams.create(tree({"fleet.io/max-waiting-jobs": 2}))
    await submit(teams, job("one"))
    await submit(teams, job("two", suspend=True), "bob")
    message = await refused(teams, job("three"), "cy")
    assert "queue root/a has 2 jobs that wait, of at most 2 (fleet.io/max-waiting-jobs in max of root/a)" in message
    assert "of at most 2" in await refused(teams, job("by-label", "other", leaf="a"))
    await submit(teams, job("three", "other"))


async def test_a_job_that_starts_ends_or_goes_makes_room_for_another(teams: Hub) -> None:
    await teams.create(tree({"fleet.io/max-waiting-jobs": 1}))
    for name, change in (("runs", "Running"), ("ends", "Succeeded"), ("goes", "")):
        made = await submit(teams, job(name))
        await refused(teams, job("next"))
        if change:
            await told(teams, made, change)
        else:
            await teams.delete(made)
    await submit(teams, job("next"))


async def told(hub: Hub, body: Body, state: str) -> None:
    kind = hub.registry.kind_of(body["apiVersion"], body["kind"])
    assert kind is not None

    def change(found: Body) -> Body:
        queuing = {"type": "Queuing", "status": "False", "reason": "Dequeued"}
        found["status"] = {"conditions": [queuing, {"type": state, "status": "True", "reason": "x"}]}
        return found

    meta, the_hub = body["metadata"], Options(User("system:fleet:controllers", hub=True), "fleet")
    await hub.objects.change(kind, meta["namespace"], meta["name"], change, the_hub, subresource="status")


async def test_each_user_has_her_limit_in_a_leaf_and_some_their_own(teams: Hub) -> None:
    by_name = '{"bob": {"fleet.io/max-waiting-jobs": 2}}'
    limits = {"fleet.io/user-max": '{"fleet.io/max-waiting-jobs": 1}', "fleet.io/user-max-by-name": by_name}
    await teams.create(tree({}, attributes=limits))
    await submit(teams, job("a1"))
    assert "user ann has 1 jobs that wait in root/a, of at most 1" in await refused(teams, job("a2"))
    await submit(teams, job("b1"), "bob")
    await submit(teams, job("b2"), "bob")
    assert "user bob has 2" in await refused(teams, job("b3"), "bob")
    await submit(teams, job("a3", "other"))


async def test_a_user_has_a_limit_on_the_whole_hub_that_an_administrator_changes(
    teams: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "DEFAULT_BY_USER", 2)
    await submit(teams, job("one"))
    await submit(teams, job("two", "other"))
    message = await refused(teams, job("three"))
    assert "user ann has 2 jobs that wait, of at most 2 (maxWaitingJobsByUser of ConfigMap fleet-system/hub)" in message
    await submit(teams, job("three"), "bob")
    await teams.create(config(maxWaitingJobsByUser="3"))
    await submit(teams, job("four"))
    await refused(teams, job("five"))
    await teams.update(config(maxWaitingJobsByUser="0"))
    await submit(teams, job("five"))
    refusal = await teams.refused(config(maxWaitingJobsByUser="many"), "update")
    assert [cause.field for cause in refusal.causes] == ["data[maxWaitingJobsByUser]"]


async def test_a_job_that_comes_back_into_a_full_queue_is_not_refused(teams: Hub) -> None:
    await teams.create(tree({"fleet.io/max-waiting-jobs": 1}))
    made = await submit(teams, job("one", suspend=True))
    made["spec"]["runPolicy"]["suspend"] = False
    assert (await teams.update(made))["spec"]["runPolicy"]["suspend"] is False


async def test_the_count_is_made_anew_where_the_log_tells_of_too_much(
    teams: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.objects.changes.CHANGES", 2)
    await teams.create(tree({"fleet.io/max-waiting-jobs": 4}))
    for number in range(4):
        await submit(teams, job(f"j{number}"))
    await refused(teams, job("more"))
    for number in range(3):
        await teams.delete(job(f"j{number}"))
    await submit(teams, job("more"))


def test_the_decider_does_not_see_the_limit() -> None:
    attributes = {"fleet.io/user-max": '{"fleet.io/max-waiting-jobs": 1}'}
    spec = tree({"fleet.io/max-waiting-jobs": 2}, attributes=attributes)["spec"]
    read = parse_tree(spec)
    assert read.nodes["root/a"].max == {"nvidia.com/gpu": 8} and not read.user_caps


def test_a_limit_in_min_or_one_that_is_no_number_is_refused() -> None:
    spec = tree({"fleet.io/max-waiting-jobs": "many"}, min={"fleet.io/max-waiting-jobs": 1})["spec"]
    assert [flaw.field for flaw in validate_tree(spec)] == [
        "spec.root.children[0].max[fleet.io/max-waiting-jobs]",
        "spec.root.children[0].min[fleet.io/max-waiting-jobs]",
    ]
