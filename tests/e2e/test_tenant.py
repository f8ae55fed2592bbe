"""What a user with the ordinary role `edit` of one namespace tries, with kubectl, on a hub with its members.

Each attack here once succeeded, or has a relative that did.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.hub import BIN, Kubectl, World
from tests.e2e.manifests import Manifest, gang_policy, pytorchjob

POLICY = "policy.one.alibabacloud.com/v1alpha1"


@pytest.fixture
def tenant(world: World, team: Callable[..., str], tmp_path: Path) -> tuple[str, Kubectl]:
    """Her namespace, which hangs on a leaf of two GPUs, and her kubectl."""
    namespace = team(**{"nvidia.com/gpu": 2, "kube-queue/max-jobs": 10})
    user = f"eve-{namespace}"
    command = [str(BIN / "fleet"), "token", "create", user, "-o", "kubeconfig", "--data-dir", str(world.hub.folder)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(made.stdout)
    world.kubectl.run("create", "rolebinding", "eve", "--clusterrole=edit", f"--user={user}", "-n", namespace)
    world.kubectl.apply(gang_policy(queue=True), namespace=namespace)
    kubectl = Kubectl(kubeconfig)
    world.until("her token is known", lambda: kubectl.try_run("get", "pytorchjobs", "-n", namespace).code == 0)
    return namespace, kubectl


def override(path: str, value: Any, kind: str = "OverridePolicy") -> Manifest:
    plain = [{"path": path, "operator": "add", "value": value}]
    return {
        "apiVersion": POLICY,
        "kind": kind,
        "metadata": {"name": "o"},
        "spec": {"overrideRules": [{"overriders": {"plaintext": plain}}]},
    }


def refused(kubectl: Kubectl, said: str, *arguments: str, stdin: str | None = None) -> None:
    done = kubectl.try_run(*arguments, stdin=stdin)
    assert done.code != 0 and said in done.err, f"kubectl {' '.join(arguments)}: {done.out}{done.err}"


def apply_refused(kubectl: Kubectl, namespace: str, body: Manifest, said: str) -> None:
    import yaml

    refused(kubectl, said, "apply", "-n", namespace, "-f", "-", stdin=yaml.safe_dump(body))


def test_nothing_that_she_writes_takes_more_than_her_namespace(world: World, tenant: tuple[str, Kubectl]) -> None:
    namespace, eve = tenant
    for path, value in (
        ("/metadata/namespace", "kube-system"),
        ("/kind", "ClusterRoleBinding"),
        ("/spec/pytorchReplicaSpecs/Worker/replicas", 24),
        ("/spec/pytorchReplicaSpecs/Worker/template/spec/serviceAccountName", "root"),
        ("/metadata/labels/fleet.io~1hub", "other"),
    ):
        apply_refused(eve, namespace, override(path, value), "spec.overrideRules[0].overriders.plaintext[0].path")
    apply_refused(eve, namespace, gang_policy("p", conflictResolution="Overwrite"), "spec.conflictResolution")
    roles = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
    body = gang_policy("p", resourceSelectors=[roles], placement={})
    apply_refused(eve, namespace, body, "grants rights")
    mark = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "annotations": {"fleet.io/users": '["x"]'}}}
    apply_refused(eve, namespace, mark, "metadata.annotations[fleet.io/users]")
    apply_refused(eve, namespace, override("/spec/x", 1, "ClusterOverridePolicy"), "forbidden")
    forged = {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": "x"},
        "spec": {
            "clusters": [{"name": world.members[1]}],
            "resource": {
                "apiVersion": "v1",
                "kind": "Secret",
                "namespace": "fleet-system",
                "name": f"member-{world.members[0]}",
            },
        },
    }
    apply_refused(eve, namespace, forged, "forbidden")
    apply_refused(world.kubectl, namespace, forged, "the hub makes a ResourceBinding by itself")
    refused(eve, "NotFound", "get", "--raw", f"/api/v1/namespaces/{namespace}/namespaces/fleet-system")
    refused(eve, "orbidden", "get", "secrets", "-n", "fleet-system")
    refused(eve, "orbidden", "get", "clusters")


def test_a_job_of_hers_grows_neither_past_its_quota_nor_in_a_status(world: World, tenant: tuple[str, Kubectl]) -> None:
    namespace, eve = tenant
    eve.apply(pytorchjob("one", workers=0), namespace=namespace)
    world.until("it runs", lambda: world.state("one", namespace) == "Running")
    worker = pytorchjob("one", workers=12)["spec"]["pytorchReplicaSpecs"]["Worker"]
    import json

    grown = json.dumps({"spec": {"pytorchReplicaSpecs": {"Worker": worker}}})
    said = "worker was not admitted: asks for 12 more nvidia.com/gpu"
    growing = ("patch", "pytorchjob", "one", "-n", namespace, "--type=merge", "-p", grown)
    world.until("the decider has seen it run", lambda: "try again in a moment" not in eve.try_run(*growing).err)
    refused(eve, said, *growing)
    more = json.dumps({"spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 3}}}})
    refused(
        eve, "there is one Master: must be 1", "patch", "pytorchjob", "one", "-n", namespace, "--type=merge", "-p", more
    )
    waiting = json.dumps({"status": {"conditions": []}})
    status = ("patch", "pytorchjob", "one", "-n", namespace, "--type=merge", "--subresource=status", "-p", waiting)
    refused(eve, 'cannot patch resource "pytorchjobs/status"', *status)
    refused(world.kubectl, "controllers alone write its status", *status)
    assert len(world.pods_in_members(namespace)) == 1
    body = eve.get("pytorchjob", "one", "-n", namespace)
    eve.run("replace", "-n", namespace, "-f", "-", stdin=json.dumps(body))  # as it is: nothing is refused


def test_what_an_honest_override_says_arrives(world: World, tenant: tuple[str, Kubectl]) -> None:
    namespace, eve = tenant
    path = "/spec/pytorchReplicaSpecs/Master/template/spec/containers/0/env"
    eve.apply(override(path, [{"name": "ZONE", "value": "a"}]), namespace=namespace)
    eve.apply(pytorchjob("one", workers=0), namespace=namespace)
    world.until("it runs", lambda: world.state("one", namespace) == "Running")
    member = world.placed("one", namespace)
    (copy,) = world.kubectl.in_member(member, f"/apis/kubeflow.org/v1/namespaces/{namespace}/pytorchjobs")
    container = copy["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    assert container["env"] == [{"name": "ZONE", "value": "a"}]


def test_she_takes_no_job_past_the_queue_and_an_administrator_does(world: World, tenant: tuple[str, Kubectl]) -> None:
    namespace, eve = tenant
    apply_refused(eve, namespace, gang_policy("fast"), 'needs the verb "bypass" on queues.scheduling.x-k8s.io')
    for group in ("policy.one.alibabacloud.com", "policy.karmada.io"):
        where = ("-n", namespace, f"propagationpolicy.{group}", "gang")
        patch = ("--type", "merge", "-p", '{"spec": {"suspension": null}}')
        refused(eve, 'needs the verb "bypass"', "patch", *where, *patch)
    eve.apply(pytorchjob("large"), namespace=namespace)
    world.until("it waits", lambda: "nvidia.com/gpu" in world.message("large", namespace))
    world.kubectl.apply(gang_policy("fast"), namespace=namespace)
    eve.apply(pytorchjob("past"), namespace=namespace)
    world.until("it runs past the queue", lambda: bool(world.placed("past", namespace)))
    assert not world.placed("large", namespace)
