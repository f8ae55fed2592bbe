"""Putting objects into a member and taking them out, without hurting what is not ours; simulated and real alike."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from fleet.bindings.matching import ClusterFields
from fleet.controllers.dispatch.classes import difference
from fleet.controllers.dispatch.manifests import dependency, users_of, with_users
from fleet.members.clusters import ClusterMembers
from fleet.members.members import ActResult
from fleet.values.ports import Key
from fleet.wellknown import ANNOTATION_USERS, LABEL_BINDING, LABEL_HUB
from tests.members.builders import config_map, ours, pytorch_job
from tests.members.conftest import HUB, Target, eventually

JOBS = "kubeflow.org", "pytorchjobs"


async def test_apply_creates_the_namespace_and_the_object(joined: ClusterMembers, target: Target) -> None:
    outcome = await joined.apply("cfa", config_map(ours(target.namespace, "settings"), color="blue"))
    assert outcome.did is ActResult.DONE, outcome
    stored = await target.get(f"/api/v1/namespaces/{target.namespace}/configmaps/settings")
    assert stored is not None and stored["data"] == {"color": "blue"}
    assert [m["manager"] for m in stored["metadata"]["managedFields"]] == ["fleet"]
    namespace = await target.get(f"/api/v1/namespaces/{target.namespace}")
    assert namespace is not None and LABEL_HUB not in namespace["metadata"]["labels"]


async def test_what_was_applied_is_found_at_once_and_after_the_watch(joined: ClusterMembers, target: Target) -> None:
    binding = uuid.uuid4().hex
    body = pytorch_job(ours(target.namespace, "train", binding=binding), workers=0)
    assert (await joined.apply("cfa", body)).did is ActResult.DONE
    found = joined.find("cfa", Key(*JOBS, target.namespace, "train"))
    assert found is not None and found["kind"] == "PyTorchJob" and "managedFields" not in found["metadata"]
    [(member, copy)] = joined.copies(binding)
    assert (member, copy["metadata"]["name"]) == ("cfa", "train")

    def running() -> list[str]:
        return [c["type"] for c in joined.copies(binding)[0][1].get("status", {}).get("conditions", [])]

    await eventually(lambda: "Running" in running(), what="the operator's status, by the watch")
    assert (await joined.delete("cfa", copy)).did is ActResult.DONE
    await eventually(lambda: not joined.copies(binding) and not joined.pods_of(binding))


async def test_applying_the_same_again_changes_nothing(joined: ClusterMembers, target: Target) -> None:
    body = config_map(ours(target.namespace, "settings"), color="blue")
    first = await joined.apply("cfa", body)
    second = await joined.apply("cfa", body)
    assert first.body and second.body
    assert first.body["metadata"]["resourceVersion"] == second.body["metadata"]["resourceVersion"]


async def test_a_field_that_is_no_longer_applied_goes(joined: ClusterMembers, target: Target) -> None:
    meta = ours(target.namespace, "settings")
    await joined.apply("cfa", config_map(meta, color="blue", size="4"))
    assert (await joined.apply("cfa", config_map(meta, color="red"))).did is ActResult.DONE
    stored = await target.get(f"/api/v1/namespaces/{target.namespace}/configmaps/settings")
    assert stored is not None and stored["data"] == {"color": "red"}


async def test_an_object_that_fleet_did_not_create_is_not_touched(joined: ClusterMembers, target: Target) -> None:
    await target.create_namespace()
    path = f"/api/v1/namespaces/{target.namespace}/configmaps"
    await target.post(path, {"metadata": {"name": "settings"}, "data": {"color": "blue"}})
    body = config_map(ours(target.namespace, "settings"), color="blue")
    outcome = await joined.apply("cfa", body)
    assert outcome.did is ActResult.CONFLICT
    assert outcome.message == "ConfigMap settings exists and was not created by Fleet"
    stored = await target.get(f"{path}/settings")
    assert stored is not None and "labels" not in stored["metadata"]

    assert (await joined.apply("cfa", body, overwrite=True)).did is ActResult.DONE
    stored = await target.get(f"{path}/settings")
    assert stored is not None and stored["metadata"]["labels"][LABEL_HUB] == HUB


async def test_an_object_of_another_hub_is_not_touched(joined: ClusterMembers, target: Target) -> None:
    await target.create_namespace()
    theirs = config_map(ours(target.namespace, "settings", hub="hub-2"), color="green")
    await target.post(f"/api/v1/namespaces/{target.namespace}/configmaps", theirs)
    outcome = await joined.apply("cfa", config_map(ours(target.namespace, "settings"), color="blue"))
    assert (outcome.did, outcome.message) == (ActResult.CONFLICT, "ConfigMap settings exists and belongs to hub hub-2")


async def test_two_hubs_that_overwrite_leave_each_others_jobs_alone(joined: ClusterMembers, target: Target) -> None:
    """Without the refusal, one job would run the first hub's master beside the second hub's workers."""
    first = pytorch_job(ours(target.namespace, "train", binding="b-1"), workers=2)
    assert (await joined.apply("cfa", first, overwrite=True)).did is ActResult.DONE
    second = ClusterMembers(dial=target.dial)
    await second.add("cfa", target.kubeconfig, "hub-2", pull=target.pull)
    try:
        await eventually(lambda: second.ready("cfa"))
        theirs = pytorch_job(ours(target.namespace, "train", binding="b-2", attempt=9, hub="hub-2"), workers=5)
        outcome = await second.apply("cfa", theirs, overwrite=True)
        assert (outcome.did, outcome.message) == (
            ActResult.CONFLICT,
            f"PyTorchJob train exists and belongs to hub {HUB}",
        )
        assert (await second.delete("cfa", theirs)).did is ActResult.CONFLICT
    finally:
        await second.stop()
    copy = await target.get(f"/apis/kubeflow.org/v1/namespaces/{target.namespace}/pytorchjobs/train")
    assert copy is not None and copy["metadata"]["labels"][LABEL_HUB] == HUB
    assert copy["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 2
    await joined.delete("cfa", copy)


async def test_a_lower_attempt_never_overwrites_a_higher_one(joined: ClusterMembers, target: Target) -> None:
    binding = uuid.uuid4().hex
    newer = pytorch_job(ours(target.namespace, "train", binding=binding, attempt=2), workers=0)
    older = pytorch_job(ours(target.namespace, "train", binding=binding, attempt=1), workers=0)
    assert (await joined.apply("cfa", newer)).did is ActResult.DONE
    outcome = await joined.apply("cfa", older)
    assert (outcome.did, outcome.message) == (ActResult.CONFLICT, "PyTorchJob train exists at attempt 2, newer than 1")
    # A process that never saw the newer one finds it by looking.
    other = ClusterMembers(dial=target.dial)
    await other.add("cfa", target.kubeconfig, "hub-1", pull=target.pull)
    await eventually(lambda: other.ready("cfa"))
    assert (await other.apply("cfa", older)).did is ActResult.CONFLICT
    await other.stop()
    assert outcome.body is not None
    await joined.delete("cfa", outcome.body)


async def test_a_copy_of_another_binding_is_not_overwritten(joined: ClusterMembers, target: Target) -> None:
    first = pytorch_job(ours(target.namespace, "train", binding="b-1"), workers=0)
    second = pytorch_job(ours(target.namespace, "train", binding="b-2", attempt=9), workers=0)
    assert (await joined.apply("cfa", first)).did is ActResult.DONE
    outcome = await joined.apply("cfa", second)
    assert (outcome.did, outcome.message) == (ActResult.CONFLICT, "PyTorchJob train exists and belongs to binding b-1")
    assert outcome.body is not None
    await joined.delete("cfa", outcome.body)


async def test_a_dependency_is_shared_by_bindings(joined: ClusterMembers, target: Target) -> None:
    meta = ours(target.namespace, "settings", binding="b-1", attempt=3)
    meta["annotations"][ANNOTATION_USERS] = '["b-1"]'
    assert (await joined.apply("cfa", config_map(meta, color="blue"))).did is ActResult.DONE
    meta = ours(target.namespace, "settings", binding="b-2", attempt=1)
    meta["annotations"][ANNOTATION_USERS] = '["b-1","b-2"]'
    outcome = await joined.apply("cfa", config_map(meta, color="blue"))
    assert outcome.did is ActResult.DONE and outcome.body is not None
    assert outcome.body["metadata"]["annotations"][ANNOTATION_USERS] == '["b-1","b-2"]'


async def test_what_the_member_refuses_is_refused_with_its_words(joined: ClusterMembers, target: Target) -> None:
    body = config_map(ours(target.namespace, "Not_A_Name"))
    outcome = await joined.apply("cfa", body)
    assert outcome.did is ActResult.REFUSED and "metadata.name" in outcome.message, outcome


async def test_a_kind_that_the_member_does_not_serve_is_refused(joined: ClusterMembers, target: Target) -> None:
    body = {"apiVersion": "example.org/v1", "kind": "Nothing", "metadata": ours(target.namespace, "x")}
    outcome = await joined.apply("cfa", body)
    expected = "member cfa does not serve Nothing in example.org/v1"
    assert (outcome.did, outcome.message) == (ActResult.REFUSED, expected)


async def test_deleting_takes_exactly_the_object_that_was_meant(joined: ClusterMembers, target: Target) -> None:
    body = config_map(ours(target.namespace, "settings"), color="blue")
    first = (await joined.apply("cfa", body)).body
    assert first is not None
    assert (await joined.delete("cfa", first)).did is ActResult.DONE
    assert (await joined.delete("cfa", first)).did is ActResult.NOT_FOUND

    second = (await joined.apply("cfa", body)).body
    assert second is not None and second["metadata"]["uid"] != first["metadata"]["uid"]
    assert (await joined.delete("cfa", first)).did is ActResult.NOT_FOUND
    assert await target.get(f"/api/v1/namespaces/{target.namespace}/configmaps/settings") is not None
    await joined.delete("cfa", second)


async def test_deleting_by_name_spares_what_is_not_ours(joined: ClusterMembers, target: Target) -> None:
    await target.create_namespace()
    path = f"/api/v1/namespaces/{target.namespace}/configmaps"
    await target.post(path, {"metadata": {"name": "settings"}, "data": {"color": "blue"}})
    nameless = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": target.namespace},
    }
    assert (await joined.delete("cfa", nameless)).did is ActResult.CONFLICT
    assert await target.get(f"{path}/settings") is not None


async def test_deleting_a_job_takes_its_pods(joined: ClusterMembers, target: Target) -> None:
    binding = uuid.uuid4().hex
    job = pytorch_job(ours(target.namespace, "train", binding=binding), workers=2)
    assert (await joined.apply("cfa", job)).did is ActResult.DONE
    await eventually(lambda: len([p for p in joined.pods_of(binding) if p.phase == "Running" and p.ready]) == 3)
    pods = joined.pods_of(binding)
    assert sorted((p.name, p.component, p.attempt) for p in pods) == [
        ("train-master-0", "master", 1),
        ("train-worker-0", "worker", 1),
        ("train-worker-1", "worker", 1),
    ]
    [(_, copy)] = joined.copies(binding)
    assert (await joined.delete("cfa", copy, grace_s=0)).did is ActResult.DONE
    await eventually(lambda: not joined.pods_of(binding), what="pods gone")
    left = await target.get(f"/api/v1/namespaces/{target.namespace}/pods")
    assert left is not None and left["items"] == []


async def test_a_foreground_delete_keeps_the_job_until_its_pods_are_gone(
    joined: ClusterMembers, target: Target
) -> None:
    binding = uuid.uuid4().hex
    job = pytorch_job(ours(target.namespace, "train", binding=binding), workers=1)
    assert (await joined.apply("cfa", job)).did is ActResult.DONE
    await eventually(lambda: len([p for p in joined.pods_of(binding) if p.phase == "Running"]) == 2)
    [(_, copy)] = joined.copies(binding)
    assert (await joined.delete("cfa", copy, grace_s=0, foreground=True)).did is ActResult.DONE
    await eventually(lambda: not joined.copies(binding), what="the job gone")
    left = await target.get(f"/api/v1/namespaces/{target.namespace}/pods")
    assert left is not None and left["items"] == []


async def test_everything_of_this_hub_is_owned_and_nothing_else(joined: ClusterMembers, target: Target) -> None:
    await target.create_namespace()
    path = f"/api/v1/namespaces/{target.namespace}/configmaps"
    await target.post(path, config_map(ours(target.namespace, "theirs", hub="hub-2")))
    await target.post(path, config_map(ours(target.namespace, "forgotten")))
    await joined.apply("cfa", config_map(ours(target.namespace, "settings")))

    def mine() -> list[str]:
        bodies = [b for b in joined.owned("cfa") if b["metadata"]["namespace"] == target.namespace]
        assert all(b["kind"] == "ConfigMap" and b["apiVersion"] == "v1" for b in bodies)
        return sorted(b["metadata"]["name"] for b in bodies)

    await eventually(lambda: mine() == ["forgotten", "settings"])
    await target.merge(f"{path}/forgotten", {"metadata": {"labels": {LABEL_HUB: None}}})
    await eventually(lambda: mine() == ["settings"], what="what lost our label is no longer ours")


async def test_a_kind_installed_later_is_picked_up(joined: ClusterMembers, target: Target) -> None:
    group = f"g{uuid.uuid4().hex[:6]}.example.org"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"rockets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "versions": [version],
            "names": {"plural": "rockets", "singular": "rocket", "kind": "Rocket", "listKind": "RocketList"},
        },
    }
    await target.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    body = {
        "apiVersion": f"{group}/v1",
        "kind": "Rocket",
        "metadata": ours(target.namespace, "r"),
        "spec": {"stages": 2},
    }
    await eventually(
        lambda: (m := joined.model("cfa")) and f"{group}/Rocket" in (m.kinds or ()), what="the kind is known"
    )
    outcome = await joined.apply("cfa", body)
    assert outcome.did is ActResult.DONE, outcome
    key = Key(group, "rockets", target.namespace, "r")
    assert joined.find("cfa", key) is not None
    await target.call("DELETE", f"/apis/{group}/v1/namespaces/{target.namespace}/rockets/r")
    await eventually(lambda: joined.find("cfa", key) is None, what="its end, by the watch that apply began")
    await target.call("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rockets.{group}")


async def test_many_applies_at_once_all_arrive(joined: ClusterMembers, target: Target) -> None:
    bodies = [config_map(ours(target.namespace, f"c-{n}", binding=f"b-{n}"), n=str(n)) for n in range(60)]
    outcomes = await asyncio.gather(*(joined.apply("cfa", body) for body in bodies))
    assert {outcome.did for outcome in outcomes} == {ActResult.DONE}
    labels = {b["metadata"]["labels"][LABEL_BINDING] for b in joined.owned("cfa") if b["kind"] == "ConfigMap"}
    assert {f"b-{n}" for n in range(60)} <= labels


async def test_a_look_finds_what_is_there_whosever_it_is(joined: ClusterMembers, target: Target) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": target.namespace}}
    await target.post("/api/v1/namespaces", namespace)
    await target.post(
        f"/api/v1/namespaces/{target.namespace}/persistentvolumeclaims",
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "scratch", "namespace": target.namespace},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        },
    )

    def named(name: str, where: str = target.namespace) -> dict[str, Any]:
        metadata = {"name": name, "namespace": where}
        return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}

    found = await joined.look("cfa", named("scratch"))
    assert found.did is ActResult.DONE and found.body is not None and found.body["metadata"]["name"] == "scratch"
    assert (await joined.look("cfa", named("other"))).did is ActResult.NOT_FOUND
    assert (await joined.look("cfa", named("scratch", "no-such-namespace"))).did is ActResult.NOT_FOUND
    assert (await joined.look("nobody", named("scratch"))).did is ActResult.UNREACHABLE


async def test_a_headless_service_is_shared_as_dependencies_are(joined: ClusterMembers, target: Target) -> None:
    spec = {"clusterIP": "None", "selector": {"app": "ring"}, "ports": [{"name": "rdzv", "port": 29500}]}
    meta = {"name": "ring", "namespace": target.namespace}
    source = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}
    body = dependency(source, HUB, ["b-1"], ClusterFields("cfa", {}, {}), [])
    assert (await joined.apply("cfa", body)).did is ActResult.DONE
    key = Key("", "services", target.namespace, "ring")
    copy = joined.find("cfa", key)
    assert copy is not None
    outcome = await joined.apply("cfa", with_users(copy, HUB, ["b-1", "b-2"]))
    assert outcome.did is ActResult.DONE, outcome
    stored = await target.get(f"/api/v1/namespaces/{target.namespace}/services/ring")
    assert stored is not None and users_of(stored) == {"b-1", "b-2"}
    assert stored["spec"]["clusterIP"] == "None" and stored["spec"]["selector"] == {"app": "ring"}


async def test_a_priority_class_is_shared_and_known_beside_the_objects_of_namespaces(
    joined: ClusterMembers, target: Target
) -> None:
    name = f"high-{target.namespace}"
    source = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": 10,
        "globalDefault": True,
    }
    body = dependency(source, HUB, ["b-1"], ClusterFields("cfa", {}, {}), [])
    assert (await joined.apply("cfa", body)).did is ActResult.DONE
    copy = joined.find("cfa", Key("scheduling.k8s.io", "priorityclasses", "", name))
    assert copy is not None and not difference(body, copy) and not copy.get("globalDefault")
    outcome = await joined.apply("cfa", with_users(copy, HUB, ["b-1", "b-2"]))
    assert outcome.did is ActResult.DONE, outcome
    stored = await target.get(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")
    assert stored is not None and users_of(stored) == {"b-1", "b-2"}
    assert (await joined.delete("cfa", stored)).did is ActResult.DONE
