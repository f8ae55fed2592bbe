"""`kubectl amc get`, letter for letter, against simulated members behind a hub's own proxy."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.amc import table, yamlout
from fleet.amc.get import proxy
from fleet.cli import joining
from tests.api.conftest import KUBECTL
from tests.cli.amc_objects import job, metrics_kind
from tests.cli.hub import BIN, Up, fleet, until

NODES = "/api/v1/nodes"
JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
PODS = "/api/v1/namespaces/default/pods"


@dataclass
class Members:
    """A hub with the members cfa and cfb; cfa runs the job `made-there`, which no hub put there."""

    up: Up
    sim: subprocess.Popen[bytes]

    def amc(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """`--member-timeout`: a machine with much to do answers late."""
        where = ("--kubeconfig", str(self.up.folder / "kubeconfig"), "--member-timeout", "60")
        return fleet(*arguments, *where, program="kubectl-amc", **environment)


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    up = Up(tmp_path_factory.mktemp("amc") / "hub", "--members", "2")
    outside = tmp_path_factory.mktemp("outside")
    sim = subprocess.Popen([str(BIN / "fleet"), "sim", "--members", "3", "--data-dir", str(outside)])
    try:
        gone = outside / "members" / "cfc.kubeconfig"
        until("the third member serves", gone.exists)
        joining.join(up.hub, joining.MemberFacts("cfc", gone))
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
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
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


CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}}


def test_an_object_is_applied_described_and_deleted_in_named_members(members: Members, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(yaml.safe_dump(CONFIG))
    dry = members.amc("apply", "-f", str(file), "-m", "cfa", "--dry-run")
    assert (dry.stdout, dry.stderr) == ("configmap/settings serverside-applied in cfa (server dry run)\n", "")
    done = members.amc("apply", "-f", str(file), "-m", "cfa,cfb")
    assert done.stdout.splitlines() == [f"configmap/settings serverside-applied in {name}" for name in ("cfa", "cfb")]
    described = members.amc("describe", "configmap", "settings", "-m", "cfa,cfb", PATH=str(Path(KUBECTL).parent))
    assert described.returncode == 0, described.stderr
    assert described.stdout.startswith("Cluster:  cfa\nName:         settings\n")
    assert "\n\nCluster:  cfb\nName:" in described.stdout
    gone = members.amc("delete", "configmap/settings", "configmap/nope", "-m", "cfa")
    assert (gone.returncode, gone.stdout) == (1, 'configmap "settings" deleted from cfa\n')
    assert gone.stderr == 'cluster(cfa): configmaps "nope" not found\n'
    assert members.amc("delete", "cm", "settings", "-m", "cfb").returncode == 0


def test_what_the_hub_put_there_is_left_alone(members: Members, tmp_path: Path) -> None:
    adopted = job("of-the-hub", labels={"fleet.io/hub": "some-hub"})
    members.up.hub.request("POST", proxy("cfb") + JOBS, adopted)
    refused = "cluster(cfb): pytorchjob.kubeflow.org/of-the-hub was put there by the hub"
    deleted = members.amc("delete", "pytorchjob", "of-the-hub", "-m", "cfb")
    assert (deleted.returncode, deleted.stderr) == (1, f"{refused}: delete it on the hub\n")
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job("of-the-hub")))
    applied = members.amc("apply", "-f", str(file), "-m", "cfb")
    assert (applied.returncode, applied.stderr) == (1, f"{refused}: change it on the hub\n")
    file.write_text(yaml.safe_dump(adopted))
    marked = members.amc("apply", "-f", str(file), "-m", "cfb")
    assert marked.returncode == 1 and "has the label fleet.io/hub, which is the hub's to set" in marked.stderr
    members.up.hub.request("DELETE", f"{proxy('cfb')}{JOBS}/of-the-hub")


def test_a_watch_goes_on_with_each_change(members: Members) -> None:
    command = [str(BIN / "kubectl-amc"), "get", "configmap", "-m", "cfa,cfb", "-w", "--no-headers"]
    command += ["--kubeconfig", str(members.up.folder / "kubeconfig")]
    watched = proxy("cfb") + "/api/v1/namespaces/default/configmaps"
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for name in ("first", "second"):
                members.up.hub.request("POST", watched, {**CONFIG, "metadata": {"name": name}})
                line = process.stdout.readline()
                assert line.split()[:3] == [name, "cfb", "1"]
            members.up.hub.request("DELETE", f"{watched}/first")
            assert process.stdout.readline().split()[:2] == ["first", "cfb"]
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
        finally:
            process.kill()
    members.up.hub.request("DELETE", f"{watched}/second")


def test_nodes_and_pods_have_figures_where_the_member_tells_them(members: Members) -> None:
    done = members.amc("top", "node", "-m", "cfa,cfb")
    untold = "tells no usage: it does not serve metrics.k8s.io (a metrics-server would)"
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"cluster(cfa): {untold}\ncluster(cfb): {untold}\n"
    crds, metrics = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/metrics.k8s.io/v1beta1"
    for resource in ("nodes", "pods"):
        members.up.hub.request("POST", proxy("cfb") + crds, metrics_kind(resource))
    until("cfb serves them", lambda: members.up.hub.find(f"{proxy('cfb')}{metrics}/pods") is not None)
    until("cfb serves nodes", lambda: members.up.hub.find(f"{proxy('cfb')}{metrics}/nodes") is not None)
    usage = {"cpu": "16", "memory": "64Gi"}
    told = {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "NodeMetrics",
        "metadata": {"name": "node-1"},
        "usage": usage,
    }
    members.up.hub.request("POST", f"{proxy('cfb')}{metrics}/nodes", told)
    containers = [{"name": "a", "usage": {"cpu": "250m", "memory": "1Mi"}}, {"name": "b", "usage": {"cpu": "1"}}]
    of_pod = {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "PodMetrics",
        "metadata": {"name": "p"},
        "containers": containers,
    }
    members.up.hub.request("POST", f"{proxy('cfb')}{metrics}/namespaces/default/pods", of_pod)
    assert members.amc("top", "node", "-m", "cfb").stdout == (
        "NAME     CLUSTER   CPU(cores)   CPU(%)   MEMORY(bytes)   MEMORY(%)\n"
        "node-1   cfb       16000m       25%      65536Mi         25%\n"
    )
    assert members.amc("top", "pod", "-A", "-m", "cfb").stdout == (
        "NAMESPACE   NAME   CLUSTER   CPU(cores)   MEMORY(bytes)\ndefault     p      cfb       1250m        1Mi\n"
    )


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
    body: dict[str, Any] = {
        "a": "true",
        "b": "12",
        "c": "1e3",
        "d": "2026-11-21T11:09:11Z",
        "e": "",
        "f": "two\nlines\n",
        "g": "plain",
        "h": "a: b",
        "i": None,
        "j": [],
        "k": {},
        "l": ["x"],
        "m": "yes",
        "n": 5,
    }
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
