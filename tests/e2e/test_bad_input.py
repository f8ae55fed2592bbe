"""Wrong input, as users type it: each is refused with a text that names what is wrong, and nothing stored changes."""

from __future__ import annotations

import subprocess
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.hub import BIN, World
from tests.e2e.manifests import ROOT, gang_policy, leaf, pytorchjob, quota_tree

pytestmark = pytest.mark.xdist_group("e2e-simulated")


def changed(manifest: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy of the manifest with the value at a dotted path replaced, or removed when it is None."""
    copy = deepcopy(manifest)
    *parents, last = path.split(".")
    place: Any = copy
    for name in parents:
        place = place[int(name)] if isinstance(place, list) else place[name]
    if isinstance(place, list):
        place[int(last)] = value
    elif value is None:
        del place[last]
    else:
        place[last] = value
    return copy


TREE = quota_tree(leaf("a", "default"), leaf("b", "kube-public"))
JOB = pytorchjob("bad")
WORKER = "spec.pytorchReplicaSpecs.Worker"

CASES = [
    pytest.param("{kind: [", "error parsing", id="malformed YAML"),
    pytest.param('{"kind": "PyTorchJob", ', "error", id="malformed JSON"),
    pytest.param(
        {"apiVersion": "kubeflow.org/v1", "kind": "NoSuchJob", "metadata": {"name": "x"}},
        'no matches for kind "NoSuchJob"',
        id="unknown kind",
    ),
    pytest.param(
        changed(gang_policy(), "spec.propagateDebs", True), 'unknown field "spec.propagateDebs"', id="unknown field"
    ),
    pytest.param(changed(TREE, "metadata.namespace", "default"), "kube-system", id="a tree outside kube-system"),
    pytest.param(
        quota_tree({**leaf("a", "default", **{"nvidia.com/gpu": 4}), "min": {"nvidia.com/gpu": 8}}),
        "spec.root.children[0].min",
        id="min above max",
    ),
    pytest.param(
        changed(TREE, "spec.root.min", {**ROOT, "nvidia.com/gpu": 1}), "spec.root.m", id="root min is not max"
    ),
    pytest.param(
        changed(TREE, "spec.root.children.0.min", {"nvidia.com/gpu": 100001}), "spec.root", id="children's min"
    ),
    pytest.param(changed(TREE, "spec.root.children.1.name", "a"), "spec.root.children[1].name", id="duplicate names"),
    pytest.param(
        changed(TREE, "spec.root.children.1.namespaces", ["default"]),
        "spec.root.children[1].namespaces",
        id="one namespace on two leaves",
    ),
    pytest.param(
        changed(TREE, "spec.root.children.0.max", {"nvidia.com/gpu": "many"}),
        "spec.root.children[0].max",
        id="a quantity that does not parse",
    ),
    pytest.param(
        changed(gang_policy(), "spec.resourceSelectors", []), "spec.resourceSelectors", id="a policy without selectors"
    ),
    pytest.param(
        changed(gang_policy(), "spec.placement.replicaScheduling", {"replicaSchedulingType": "Divided"}),
        "spec.placement.replicaScheduling.customSchedulingType",
        id="a job kind without Gang",
    ),
    pytest.param(changed(JOB, "spec.pytorchReplicaSpecs", {}), "spec.pytorchReplicaSpecs", id="a gang without pods"),
    pytest.param(
        changed(JOB, f"{WORKER}.template.spec.containers.0.resources.limits", {"nvidia.com/gpu": "one"}),
        f"{WORKER}.template.spec.containers[0].resources.limits",
        id="a request that does not parse",
    ),
]


@pytest.mark.parametrize(("manifest", "names"), CASES)
def test_wrong_manifests_are_refused_and_change_nothing(simulated: World, manifest: object, names: str) -> None:
    kubectl = simulated.kubectl
    kinds = "elasticquotatree,propagationpolicy,pytorchjob,rb,queueunit"
    before = kubectl.run("get", kinds, "-A", "-o", "name")
    text = manifest if isinstance(manifest, str) else yaml.safe_dump(manifest)
    done = kubectl.try_run("apply", "-f", "-", stdin=text)
    assert done.code == 1, done.out
    assert names in done.err
    assert kubectl.run("get", kinds, "-A", "-o", "name") == before


def test_a_second_tree_is_refused(simulated: World) -> None:
    kubectl = simulated.kubectl
    kubectl.apply(quota_tree())
    try:
        done = kubectl.try_run("apply", "-f", "-", stdin=yaml.safe_dump(changed(TREE, "metadata.name", "another")))
        assert done.code == 1
        assert "elasticquotatree" in done.err
    finally:
        kubectl.run("delete", "elasticquotatree", "--all", "-n", "kube-system")


def test_without_credentials_the_answer_is_401_and_without_rights_403(simulated: World) -> None:
    kubectl = simulated.kubectl
    nobody = kubectl.try_run("get", "pytorchjob", "--token=wrong")
    assert nobody.code == 1 and ("Unauthorized" in nobody.err or "logged in" in nobody.err), nobody.err
    stranger = kubectl.try_run("get", "pytorchjob", "--as=stranger")
    assert stranger.code == 1 and "Forbidden" in stranger.err, stranger.err
    assert 'User "stranger" cannot list resource "pytorchjobs" in API group "kubeflow.org"' in stranger.err


def test_a_kubeconfig_that_cannot_reach_its_member_is_one_line_and_stores_nothing(
    simulated: World, tmp_path: Path
) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "users": [{"name": "u", "user": {"token": "t"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    kubeconfig = tmp_path / "unreachable"
    kubeconfig.write_text(yaml.safe_dump(config))
    command = [str(BIN / "fleet"), "join", "cfx", "--kubeconfig", str(kubeconfig)]
    done = subprocess.run(
        [*command, "--data-dir", str(simulated.hub.folder)], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1 and "cfx" in done.stderr, done.stderr
    assert "cfx" not in simulated.kubectl.run("get", "clusters.cluster.karmada.io", "-o", "name")
    assert "member-cfx" not in simulated.kubectl.run("get", "secret", "-n", "fleet-system", "-o", "name")
