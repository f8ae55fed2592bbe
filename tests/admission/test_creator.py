"""A job says who made it: the authenticated user, whatever the client claims, for as long as the job is there."""

from __future__ import annotations

from copy import deepcopy

import pytest

from api.engine.patch import APPLY, MERGE
from api.objects.writing import Options, User
from fleet.wellknown import ANNOTATION_CREATOR
from tests.admission.conftest import Body, Hub

FIELD = f"metadata.annotations[{ANNOTATION_CREATOR}]"


def pytorchjob(name: str = "one", **annotations: str) -> Body:
    template = {"spec": {"containers": [{"name": "pytorch", "image": "registry.example/train:1"}]}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": template}}},
    }


def batch_job(name: str = "one") -> Body:
    pod = {"restartPolicy": "Never", "containers": [{"name": "pytorch", "image": "registry.example/x:1"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"spec": pod}},
    }


def creator_of(body: Body) -> str:
    return str(body["metadata"]["annotations"][ANNOTATION_CREATOR])


@pytest.mark.parametrize("job", [pytorchjob(), batch_job()], ids=lambda job: str(job["kind"]))
async def test_the_hub_notes_who_creates_a_job(hub: Hub, job: Body) -> None:
    assert creator_of(await hub.create(job)) == "ann"


async def test_nobody_creates_a_job_in_the_name_of_another(hub: Hub) -> None:
    assert creator_of(await hub.create(pytorchjob(**{ANNOTATION_CREATOR: "bob"}))) == "ann"


async def test_an_apply_that_creates_a_job_notes_who_applies(hub: Hub) -> None:
    kind, bob = hub.registry.need("kubeflow.org", "pytorchjobs"), Options(User("bob"), "kubectl")
    written = await hub.objects.patch(kind, "default", "one", pytorchjob(**{ANNOTATION_CREATOR: "ann"}), APPLY, bob)
    assert creator_of(written.body) == "bob"


async def test_an_update_changes_the_creator_neither_with_another_name_nor_by_leaving_it_out(hub: Hub) -> None:
    stored = await hub.create(pytorchjob())
    claimed = deepcopy(stored)
    claimed["metadata"]["annotations"][ANNOTATION_CREATOR] = "bob"
    refusal = await hub.refused(claimed, "update")
    assert (refusal.code, refusal.causes[0].field) == (422, FIELD)
    without = deepcopy(stored)
    without["metadata"]["annotations"] = {"seen": "again"}
    assert creator_of(await hub.update(without)) == "ann"
    kind, bob = hub.registry.need("kubeflow.org", "pytorchjobs"), Options(User("bob"), "kubectl")
    removal = {"metadata": {"annotations": {ANNOTATION_CREATOR: None}}}
    assert creator_of((await hub.objects.patch(kind, "default", "one", removal, MERGE, bob)).body) == "ann"


async def test_who_edits_a_job_does_not_become_its_creator(hub: Hub) -> None:
    await hub.create(pytorchjob())
    kind, bob = hub.registry.need("kubeflow.org", "pytorchjobs"), Options(User("bob"), "kubectl")
    change = {"metadata": {"labels": {"by": "bob"}}}
    assert creator_of((await hub.objects.patch(kind, "default", "one", change, MERGE, bob)).body) == "ann"
