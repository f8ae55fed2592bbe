"""`kubectl amc get`, letter for letter, against simulated members behind a hub's own proxy."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from fleet.amc import table, yamlout
from fleet.amc.get import proxy
from fleet.cli import joining
from tests.cli.hub import BIN, Up, fleet, until

NODES = "/api/v1/nodes"
JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
PODS = "/api/v1/namespaces/default/pods"


@dataclass
class Members:
    """A hub with the members cfa and cfb; cfa runs the job `made-there`, which no hub put there."""

    up: Up
    sim: subprocess.Popen[bytes]

    def amc(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return fleet(*arguments, "--kubeconfig", str(self.up.folder / "kubeconfig"), program="kubectl-amc")


def pod_template() -> dict[str, object]:
    container = {"name": "pytorch", "image": "pytorch", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    return {"spec": {"containers": [container]}}


def job(name: str, **metadata: object) -> dict[str, object]:
    return {
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name, **metadata},
        "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": pod_template()}}},
    }  # fmt: skip


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    up = Up(tmp_path_factory.mktemp("amc") / "hub", "--members", "2")
    outside = tmp_path_factory.mktemp("outside")
    sim = subprocess.Popen([str(BIN / "fleet"), "sim", "--members", "3", "--data-dir", str(outside)])
    try:
        gone = outside / "members" / "cfc.kubeconfig"
        until("the third member serves", gone.exists)
        joining.join(up.hub, joining.Member("cfc", gone))
        up.hub.request("POST", proxy("cfa") + JOBS, job("made-there"))
        until(
            "its pod runs",
            lambda: [p["status"].get("phase") for p in up.hub.list(proxy("cfa") + PODS)] == ["Running"],
        )
        yield Members(up, sim)
    finally:
        if sim.poll() is None:
            sim.terminate()
        sim.wait(20)
        assert up.stop() == 0, up.errors.read_text()


def without_ages(text: str) -> str:
    """Every age as 1s, and its column as wide as that makes it."""
    text = re.sub(r"\b(?:\d+[smhd]){1,2}(?: +(?=\S)|$)", "1s    ", text, flags=re.MULTILINE)
    return re.sub(r"AGE +(?=\S)", "AGE   ", re.sub(r" +$", "", text, flags=re.MULTILINE))


def test_jobs_of_all_members_have_cluster_after_name_and_adoption_last(members: Members) -> None:
    adopted = job("put-there", labels={"fleet.io/hub": "some-hub"})
    members.up.hub.request("POST", proxy("cfb") + JOBS, adopted)
    until("it runs", lambda: "Running" in members.amc("get", "pytorchjob", "put-there", "-m", "cfb").stdout)
    done = members.amc("get", "pytorchjob", "-M")
    members.up.hub.request("DELETE", f"{proxy('cfb')}{JOBS}/put-there")
    assert (done.returncode, done.stderr) == (0, "")
    assert without_ages(done.stdout) == (
        "NAME         CLUSTER   STATE     AGE   ADOPTION\n"
        "made-there   cfa       Running   1s    N\n"
        "put-there    cfb       Running   1s    Y\n"
    )


def test_pods_show_adoption_only_when_wide(members: Members) -> None:
    assert without_ages(members.amc("get", "pod", "-M").stdout) == (
        "NAME                  CLUSTER   READY   STATUS    RESTARTS   AGE\n"
        "made-there-master-0   cfa       1/1     Running   0          1s\n"
    )
    wide = members.amc("get", "pod", "-M", "-o", "wide").stdout.splitlines()
    assert wide[0].split()[-1] == "ADOPTION" and wide[1].split()[-1] == "N"


@pytest.mark.parametrize(
    "word", ["pytorchjob", "pytorchjobs", "PyTorchJob", "pytorchjobs.kubeflow.org", "pytorchjob.v1.kubeflow.org"]
)
def test_a_kind_goes_by_every_name_that_kubectl_knows(members: Members, word: str) -> None:
    assert members.amc("get", word, "-m", "cfa", "-o", "name").stdout == "pytorchjob.kubeflow.org/made-there\n"


def test_a_short_name_and_all_namespaces(members: Members) -> None:
    assert without_ages(members.amc("get", "po", "-A", "-m", "cfa").stdout) == (
        "NAMESPACE   NAME                  CLUSTER   READY   STATUS    RESTARTS   AGE\n"
        "default     made-there-master-0   cfa       1/1     Running   0          1s\n"
    )


def test_a_name_that_is_missing_is_one_line_for_each_member(members: Members) -> None:
    done = members.amc("get", "pytorchjob", "nope", "-m", "cfa,cfb")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        'cluster(cfa): pytorchjobs.kubeflow.org "nope" not found\n'
        'cluster(cfb): pytorchjobs.kubeflow.org "nope" not found\n'
    )


def test_one_object_as_yaml_is_the_object(members: Members) -> None:
    for arguments in (["pytorchjob", "made-there"], ["pytorchjob/made-there"]):
        done = members.amc("get", *arguments, "-m", "cfa", "-oyaml")
        body = yaml.safe_load(done.stdout)
        assert done.stdout.startswith("apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata:\n")
        assert body["metadata"]["name"] == "made-there" and "managedFields" not in body["metadata"]


def test_several_objects_as_json_are_a_list(members: Members) -> None:
    body = json.loads(members.amc("get", "nodes", "-M", "-o", "json").stdout)
    assert body["kind"] == "List" and {item["kind"] for item in body["items"]} == {"Node"}


def test_a_label_selector_is_the_members_to_apply(members: Members) -> None:
    done = members.amc("get", "nodes", "-m", "cfb", "-l", "kubernetes.io/hostname=node-1", "-o", "name")
    assert done.stdout == "node/node-1\n"


def test_what_cannot_be_asked_is_refused_in_one_line(members: Members) -> None:
    assert members.amc("get", "pods", "-M", "-n", "empty").stderr == "No resources found in empty namespace.\n"
    assert members.amc("get", "nonsense", "-M").stderr == (
        'error: the server doesn\'t have a resource type "nonsense"\n'
    )
    assert members.amc("get", "pods", "-m", "cfx").stderr == (
        'cluster(cfx): clusters.cluster.karmada.io "cfx" not found\n'
    )
    lost = fleet("get", "pods", "-M", program="kubectl-amc", KUBECONFIG=str(members.up.folder / "none"))
    assert lost.returncode == 1 and len(lost.stderr.splitlines()) == 1


def test_a_kind_that_only_some_members_have_is_listed_from_those(members: Members) -> None:
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": names,
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }  # fmt: skip
    path = proxy("cfb") + "/apis/example.com/v1/namespaces/default/gadgets"
    members.up.hub.request("POST", proxy("cfb") + "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    until("cfb serves it", lambda: members.up.hub.find(path) is not None)
    gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}}
    members.up.hub.request("POST", path, gadget)
    done = members.amc("get", "gadgets", "-M")
    assert (done.returncode, done.stderr) == (0, "")
    assert without_ages(done.stdout) == "NAME   CLUSTER   AGE   ADOPTION\ng      cfb       1s    N\n"
    asked = members.amc("get", "gadgets", "-m", "cfa,cfb")
    assert asked.returncode == 1
    assert asked.stderr == 'cluster(cfa): the server doesn\'t have a resource type "gadgets"\n'


def test_a_pods_log_comes_through_the_hub_and_a_refusal_is_one_line(members: Members) -> None:
    done = members.amc("logs", "made-there-master-0", "-m", "cfa")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "made-there-master-0/pytorch: Running in the simulated cluster cfa\n"
    missing = members.amc("logs", "nobody", "-m", "cfa")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr == 'cluster(cfa): pods "nobody" not found\n'
    unknown = members.amc("logs", "made-there-master-0", "-m", "cfa", "-c", "other")
    assert (unknown.returncode, len(unknown.stderr.splitlines())) == (1, 1)


def test_a_lost_member_is_a_line_and_the_others_are_listed(members: Members) -> None:
    members.sim.terminate()
    members.sim.wait(20)
    done = members.amc("get", "pytorchjob", "-M")
    assert done.returncode == 1
    assert without_ages(done.stdout) == (
        "NAME         CLUSTER   STATE     AGE   ADOPTION\nmade-there   cfa       Running   1s    N\n"
    )
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("cluster(cfc): ")


def test_columns_are_as_wide_as_kubectl_makes_them() -> None:
    rows = [["NAME", "STATE", "AGE"], ["pytorch-test", "", "3m44s"], ["a", "Created", ""]]
    assert table.lines(rows) == [
        "NAME           STATE     AGE",
        "pytorch-test             3m44s",
        "a              Created   ",
    ]
    assert table.lines([["A", "B"], ["1", "2"]]) == ["A     B", "1     2"]
    assert table.cell("one\ntwo") == "one..." and table.cell(None) == "" and table.cell(3) == "3"


def test_yaml_quotes_what_would_be_read_as_something_else() -> None:
    body = {
        "a": "true", "b": "12", "c": "1e3", "d": "2026-11-21T11:09:11Z", "e": "", "f": "two\nlines\n", "g": "plain",
        "h": "a: b", "i": None, "j": [], "k": {}, "l": ["x"], "m": "yes", "n": 5,
    }  # fmt: skip
    assert yamlout.as_yaml(body) == (
        'a: "true"\nb: "12"\nc: "1e3"\nd: "2026-11-21T11:09:11Z"\ne: ""\nf: |\n  two\n  lines\ng: plain\nh: \'a: b\'\n'
        'i: null\nj: []\nk: {}\nl:\n- x\nm: "yes"\n"n": 5\n'
    )
    assert yaml.safe_load(yamlout.as_yaml(body)) == body


def test_the_plugin_starts_fast_enough_to_feel_like_kubectl() -> None:
    code = "import sys, fleet.amc.main, fleet.amc.get, fleet.amc.client; print(len(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180, check=True)
    assert int(done.stdout) < 300  # modules loaded stand for the time it takes, and do not depend on the machine


def test_kubectl_finds_the_plugin_beside_fleet() -> None:
    assert (Path(sys.executable).parent / "kubectl-amc").is_file()
