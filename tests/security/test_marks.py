"""The hub's marks are the hub's: nobody else writes them, and what is sent back unchanged passes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from api.engine import patch as patches
from api.objects.writing import Options, User
from fleet.wellknown.marks import TABLE, Writer
from tests.admission.conftest import THE_HUB, Body, Hub
from tests.controllers.world import cluster, pytorchjob

HUB_KEYS = [mark for mark in TABLE.values() if mark.writer is Writer.HUB]
ADMIN = Options(user=User("admin", ("system:masters",)), manager="tests")


def config_map(**metadata: Any) -> Body:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default", **metadata}}


def places(mark: Any) -> list[str]:
    return {"label": ["labels"], "annotation": ["annotations"], "finalizer": ["finalizers"]}.get(
        mark.place, ["labels", "annotations"]
    )


def carrying(mark: Any, place: str) -> Body:
    return config_map(**{place: [mark.key] if place == "finalizers" else {mark.key: "5"}})


@pytest.mark.parametrize(
    ("mark", "place"), [pytest.param(m, p, id=f"{m.key}-{p}") for m in HUB_KEYS for p in places(m)]
)
async def test_a_key_of_the_hub_is_refused_at_create_and_at_change(hub: Hub, mark: Any, place: str) -> None:
    created = await hub.refused(carrying(mark, place))
    assert created.code == 422 and created.causes[0].field.startswith(f"metadata.{place}")
    assert mark.key in created.message
    await hub.create(config_map())
    patch = {"metadata": carrying(mark, place)["metadata"]}
    changed = await refused_patch(hub, "ConfigMap", "c", patch)
    assert changed.code == 422 and mark.key in changed.message


async def refused_patch(hub: Hub, kind: str, name: str, patch: Body) -> Any:
    before = await hub.store.revision()
    found = next(k for k in hub.registry if k.kind == kind)
    with pytest.raises(Exception) as refusal:
        await hub.objects.patch(found, "default", name, patch, patches.MERGE, ADMIN)
    assert await hub.store.revision() == before
    return refusal.value


async def test_an_object_with_the_hubs_keys_is_sent_back_as_it_is(hub: Hub) -> None:
    stored = await hub.made(config_map(annotations={"fleet.io/hash": "abc"}, labels={"fleet.io/hub": "h"}))
    again = await hub.update({**deepcopy(stored), "data": {"changed": "yes"}})
    assert again["metadata"]["annotations"] == {"fleet.io/hash": "abc"}


async def test_what_an_update_leaves_out_of_the_hubs_keys_is_kept(hub: Hub) -> None:
    stored = await hub.made(config_map(annotations={"fleet.io/hash": "abc", "mine": "1"}))
    bare = {**deepcopy(stored), "data": {"changed": "yes"}}
    bare["metadata"].pop("annotations")
    assert (await hub.update(bare))["metadata"]["annotations"] == {"fleet.io/hash": "abc"}


async def test_a_finalizer_of_the_hub_may_be_taken_off_and_not_put_on(hub: Hub) -> None:
    stored = await hub.made(config_map(finalizers=["fleet.io/members"]))
    freed = deepcopy(stored)
    freed["metadata"]["finalizers"] = []
    assert not (await hub.update(freed))["metadata"].get("finalizers")
    assert (await refused_patch(hub, "ConfigMap", "c", {"metadata": {"finalizers": ["fleet.io/members"]}})).code == 422


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("fleet.io/holdd", "did you mean fleet.io/hold?"),
        ("fleet.io/anything", "Fleet knows no such key"),
        ("work.karmada.io/name", "belongs to another control plane"),
    ],
)
async def test_a_key_that_nobody_knows_is_refused_with_the_nearest_name(hub: Hub, key: str, said: str) -> None:
    refusal = await hub.refused(config_map(annotations={key: "x"}))
    assert refusal.code == 422 and said in refusal.message


@pytest.mark.parametrize("key", ["fleet.io/hub", "fleet.io/binding", "fleet.io/attempt", "fleet.io/component"])
async def test_pod_templates_carry_none_of_them(hub: Hub, key: str) -> None:
    job = pytorchjob("one")
    worker = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    worker["metadata"] = {"labels": {key: "somebody-elses"}}
    refusal = await hub.refused(job)
    assert [c.field for c in refusal.causes] == [f"spec.pytorchReplicaSpecs.Worker.template.metadata.labels[{key}]"]


async def test_a_users_keys_are_checked_as_any_field(hub: Hub) -> None:
    for key, value in (("fleet.io/hold", "maybe"), ("fleet.io/backoff-limit", "-1"), ("fleet.io/checkpoint-at", "now")):
        job = pytorchjob("one")
        job["metadata"]["annotations"] = {key: value}
        refusal = await hub.refused(job)
        assert [c.field for c in refusal.causes] == [f"metadata.annotations[{key}]"]


async def test_the_creator_of_a_copied_manifest_is_who_submits_it(hub: Hub) -> None:
    job = pytorchjob("one")
    job["metadata"]["annotations"] = {"fleet.io/creator": "bob"}
    assert (await hub.create(job))["metadata"]["annotations"]["fleet.io/creator"] == "ann"


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("work.karmada.io/v1alpha2", "ResourceBinding"), ("scheduling.x-k8s.io/v1alpha1", "QueueUnit")],
)
async def test_bindings_and_units_are_made_by_the_hub_alone(hub: Hub, api_version: str, kind: str) -> None:
    resource = {"apiVersion": "v1", "kind": "Secret", "namespace": "fleet-system", "name": "member-cfa"}
    forged = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "x", "namespace": "default"},
        "spec": {"resource": resource, "clusters": [{"name": "cfb"}], "queue": "q", "priority": 1},
    }
    refusal = await hub.refused(forged)
    assert refusal.code == 403 and "the hub makes a" in refusal.message


async def test_a_status_is_written_by_the_hub_alone(hub: Hub) -> None:
    await hub.create(pytorchjob("one"))
    await hub.create(cluster("cfa"))
    for kind, name, status in (
        ("PyTorchJob", "one", {"conditions": [{"type": "Queuing", "status": "True"}]}),
        ("Cluster", "cfa", {"conditions": [{"type": "Ready", "status": "True", "reason": "r"}]}),
    ):
        found = next(k for k in hub.registry if k.kind == kind)
        namespace = "default" if found.namespaced else ""
        with pytest.raises(Exception, match="controllers alone write its status"):
            await hub.objects.patch(found, namespace, name, {"status": status}, patches.MERGE, ADMIN, "status")
    assert THE_HUB.user.hub and not ADMIN.user.hub
