"""Built-in kinds, bindings, members: what stays, what is frozen, what users may change."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from api.admission.kubernetes import UPDATES, check
from api.engine.builtin import complete
from api.engine.registry import Registry
from api.objects.writing import Review
from fleet.admission.fleet_objects import OUR_ID
from fleet.admission.kindfiles import load_kinds
from tests.admission.conftest import USER, Body, Hub
from tests.api.sound_table import SOUND


def thing(kind: str, api_version: str = "v1", name: str = "a", **fields: Any) -> Body:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-queue", "fleet-system"])
async def test_the_hubs_own_namespaces_stay(hub: Hub, name: str) -> None:
    refusal = await hub.refused(thing("Namespace", name=name), "delete")
    assert refusal.code == 403 and "may not be deleted" in refusal.message


async def test_other_namespaces_may_go(hub: Hub) -> None:
    await hub.create(thing("Namespace", name="team"))
    written = await hub.delete(thing("Namespace", name="team"))
    assert written.deleted or written.body["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
async def test_immutable_data_stays(hub: Hub, kind: str) -> None:
    stored = await hub.create(thing(kind, data={"k": "dg=="}, immutable=True))
    for change in ({"data": {"k": "eA=="}}, {"immutable": False}):
        refusal = await hub.refused({**deepcopy(stored), **change}, "update")
        assert refusal.code == 422 and refusal.causes[0].field == next(iter(change))
    labelled = deepcopy(stored)
    labelled["metadata"]["labels"] = {"a": "b"}
    assert (await hub.update(labelled))["metadata"]["labels"] == {"a": "b"}


async def test_a_secrets_type_stays(hub: Hub) -> None:
    stored = await hub.create(thing("Secret", type="example.com/a"))
    refusal = await hub.refused({**deepcopy(stored), "type": "example.com/b"}, "update")
    assert [cause.field for cause in refusal.causes] == ["type"]


async def test_a_data_key_that_is_no_file_name_is_refused(hub: Hub) -> None:
    refusal = await hub.refused(thing("ConfigMap", data={"a/b": "c"}))
    assert [cause.field for cause in refusal.causes] == ["data[a/b]"]


async def test_a_priority_does_not_change_under_running_work(hub: Hub) -> None:
    scheduling = "scheduling.k8s.io/v1"
    stored = await hub.create(thing("PriorityClass", scheduling, value=10, globalDefault=True))
    assert stored["preemptionPolicy"] == "PreemptLowerPriority"
    refusal = await hub.refused({**deepcopy(stored), "value": 11}, "update")
    assert [cause.field for cause in refusal.causes] == ["value"]
    refusal = await hub.refused(thing("PriorityClass", scheduling, name="b", value=1, globalDefault=True))
    assert refusal.code == 403 and "already marked as default" in refusal.message
    refusal = await hub.refused(thing("PriorityClass", scheduling, name="b", value=2_000_000_000))
    assert [cause.field for cause in refusal.causes] == ["value"]


async def test_a_role_binding_keeps_its_role(hub: Hub) -> None:
    rbac = "rbac.authorization.k8s.io"
    role = {"apiGroup": rbac, "kind": "ClusterRole", "name": "view"}
    stored = await hub.create(thing("RoleBinding", f"{rbac}/v1", roleRef=role, subjects=[]))
    refusal = await hub.refused({**deepcopy(stored), "roleRef": {**role, "name": "edit"}}, "update")
    assert [cause.field for cause in refusal.causes] == ["roleRef"]


async def test_users_change_no_binding_which_the_hub_would_only_put_right_again(hub: Hub) -> None:
    binding = thing(
        "ResourceBinding",
        "work.karmada.io/v1alpha2",
        spec={"resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "namespace": "default"}},
    )
    stored = await hub.made(binding)
    for field, value in (
        ("clusters", [{"name": "m"}]),
        ("suspension", {"dispatching": True}),
        ("schedulePriority", {"priority": 9}),
    ):
        changed = deepcopy(stored)
        changed["spec"][field] = value
        refusal = await hub.refused(changed, "update")
        assert [cause.field for cause in refusal.causes] == [f"spec.{field}"]
        assert "its policy and its object say what it is" in refusal.causes[0].message


async def test_controllers_write_what_users_may_not(hub: Hub) -> None:
    unit = thing("QueueUnit", "scheduling.x-k8s.io/v1alpha1", spec={"queue": "q", "priority": 1})
    stored = await hub.made(unit)
    moved = deepcopy(stored)
    moved["spec"]["queue"] = "other"
    assert [cause.field for cause in (await hub.refused(moved, "update")).causes] == ["spec.queue"]
    kind = hub.registry.need("scheduling.x-k8s.io", "queueunits")

    def change(body: Body) -> Body:
        body["spec"]["queue"] = "other"
        return body

    changed = await hub.objects.change(kind, "default", "a", change, USER)
    assert changed is not None and changed["spec"]["queue"] == "other"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"syncMode": "Both"}, "spec.syncMode"),
        ({"apiEndpoint": "10.0.0.1"}, "spec.apiEndpoint"),
        ({"taints": [{"key": "k", "effect": "Never"}]}, "spec.taints[0].effect"),
        ({"taints": [{"key": "", "effect": "NoSchedule"}]}, "spec.taints[0].key"),
    ],
)
async def test_a_member_must_be_one_that_can_be_reached(hub: Hub, spec: Body, field: str) -> None:
    refusal = await hub.refused(thing("Cluster", "cluster.karmada.io/v1alpha1", spec=spec))
    assert refusal.code == 422 and [cause.field for cause in refusal.causes] == [field]


async def test_nodes_that_could_be_added_are_listed_in_full(hub: Hub) -> None:
    body = thing("Cluster", "cluster.karmada.io/v1alpha1", spec={})
    body["metadata"]["annotations"] = {"fleet.io/potential-nodes": '[{"maxNodes": 2}]'}
    refusal = await hub.refused(body)
    assert [cause.field for cause in refusal.causes] == ["metadata.annotations[fleet.io/potential-nodes]"]
    assert "[0].resources: must say what one node has" in refusal.message
    body["metadata"]["annotations"] = {"fleet.io/potential-nodes": '[{"maxNodes": 2, "resources": {"cpu": 4}}]'}
    await hub.create(body)


async def test_a_gang_scheduler_that_nobody_knows_is_refused_with_those_that_are_known(hub: Hub) -> None:
    body = thing("Cluster", "cluster.karmada.io/v1alpha1", spec={})
    body["metadata"]["annotations"] = {"fleet.io/gang-scheduler": "Vulcano"}
    refusal = await hub.refused(body)
    assert [cause.field for cause in refusal.causes] == ["metadata.annotations[fleet.io/gang-scheduler]"]
    assert '"None", "Koordinator", "Volcano"' in refusal.message
    body["metadata"]["annotations"] = {"fleet.io/gang-scheduler": "Volcano/mine"}
    await hub.create(body)


async def test_the_controllers_heartbeat_is_written_by_the_hub_alone(hub: Hub) -> None:
    body = thing("Lease", "coordination.k8s.io/v1", name="fleet-controllers", spec={"holderIdentity": "me"})
    body["metadata"]["namespace"] = "fleet-system"
    refusal = await hub.refused(body)
    assert refusal.code == 403 and "heartbeat" in refusal.message
    body["metadata"]["name"] = "another"
    assert (await hub.create(body))["spec"]["holderIdentity"] == "me"


async def test_the_hub_is_no_member_of_itself(hub: Hub) -> None:
    system = await hub.store.get(OUR_ID)
    assert system is not None
    refusal = await hub.refused(thing("Cluster", "cluster.karmada.io/v1alpha1", spec={"id": system.uid}))
    assert [cause.field for cause in refusal.causes] == ["spec.id"]
    assert "this is the hub itself" in refusal.message


async def test_one_cluster_has_one_name(hub: Hub) -> None:
    of = "cluster.karmada.io/v1alpha1"
    await hub.create(thing("Cluster", of, spec={"id": "1"}))
    refusal = await hub.refused(thing("Cluster", of, name="b", spec={"id": "1"}))
    assert [cause.field for cause in refusal.causes] == ["spec.id"]
    assert refusal.causes[0].message.endswith("this cluster is joined already, as a")
    other = await hub.create(thing("Cluster", of, name="b", spec={}))
    refusal = await hub.refused({**other, "spec": {"id": "1"}}, "update")
    assert [cause.field for cause in refusal.causes] == ["spec.id"]
    assert (await hub.update({**other, "spec": {"id": "2"}}))["spec"]["id"] == "2"


async def test_a_member_is_the_same_cluster_for_good(hub: Hub) -> None:
    stored = await hub.create(thing("Cluster", "cluster.karmada.io/v1alpha1", spec={"apiEndpoint": "https://h:1"}))
    known = deepcopy(stored)
    known["spec"]["id"] = "one"
    known = await hub.update(known)
    another = deepcopy(known)
    another["spec"]["id"] = "two"
    assert [cause.field for cause in (await hub.refused(another, "update")).causes] == ["spec.id"]


async def test_a_queues_policy_is_one_of_those_known(hub: Hub) -> None:
    queue = thing("Queue", "scheduling.x-k8s.io/v1alpha1", spec={"queuePolicy": "Random"})
    refusal = await hub.refused(queue)
    assert refusal.code == 422 and [cause.field for cause in refusal.causes] == ["spec.queuePolicy"]


@pytest.mark.parametrize(
    ("annotations", "checks", "field"),
    [
        ({"kube-queue/priority-threshold": "high"}, [], "metadata.annotations[kube-queue/priority-threshold]"),
        (
            {"fleet.io/admission-checks-timeout-seconds": "0"},
            [],
            "metadata.annotations[fleet.io/admission-checks-timeout-seconds]",
        ),
        ({"koord-queue/max-depth": "-2"}, [], "metadata.annotations[koord-queue/max-depth]"),
        ({"kube-queue/wait-for-pods-running": "yes"}, [], "metadata.annotations[kube-queue/wait-for-pods-running]"),
        ({}, [{"name": ""}], "spec.admissionChecks[0].name"),
        ({}, [{"name": "a"}, {"name": "b"}, {"name": "a"}], "spec.admissionChecks[2].name"),
    ],
)
async def test_what_a_queue_is_tuned_by_must_mean_something(
    hub: Hub, annotations: Body, checks: list[Body], field: str
) -> None:
    queue = thing("Queue", "scheduling.x-k8s.io/v1alpha1", spec={"queuePolicy": "Block", "admissionChecks": checks})
    queue["metadata"]["annotations"] = annotations
    refusal = await hub.refused(queue)
    assert refusal.code == 422 and [cause.field for cause in refusal.causes] == [field]


async def test_a_class_that_a_unit_is_given_exists(hub: Hub) -> None:
    unit = thing("QueueUnit", "scheduling.x-k8s.io/v1alpha1", spec={"queue": "q", "priority": 1})
    stored = await hub.made(unit)
    chosen = deepcopy(stored)
    chosen["spec"]["priorityClassName"] = "urgent"
    assert [cause.field for cause in (await hub.refused(chosen, "update")).causes] == ["spec.priorityClassName"]
    await hub.create(thing("PriorityClass", "scheduling.k8s.io/v1", name="urgent", value=9))
    assert (await hub.update(chosen))["spec"]["priorityClassName"] == "urgent"


SOUND_BY_RESOURCE = {path.rsplit("/", 1)[1]: body for path, body in SOUND.values()}


@pytest.mark.parametrize("name", sorted(UPDATES))
@pytest.mark.parametrize("spec", ["x", 1, [None]])
def test_a_stored_object_that_cannot_be_read_can_be_mended(name: tuple[str, str], spec: Any) -> None:
    kind, new = Registry(load_kinds()).need(*name), deepcopy(SOUND_BY_RESOURCE[name[1]])
    complete(kind, new)
    old = {**new, "spec": spec}
    assert list(check(Review("UPDATE", kind, "", "default", "one", new, old, USER.user, False))) == []
