"""An administrator who knows Karmada types karmadactl on a hub with two simulated members."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator

import pytest
import yaml

from tests.clients.build import client
from tests.clients.walkthrough import JOB, MEMBERS, OBJECTS, WAITING, second_waits, started
from tests.e2e.hub import Output, World

AGE = r"(?:\d+[smhd]){1,2}"
PODS = [f"{JOB}-master-0", f"{JOB}-worker-0", f"{JOB}-worker-1"]
CUSTOMIZATION = {
    "apiVersion": "config.karmada.io/v1alpha1",
    "kind": "ResourceInterpreterCustomization",
    "metadata": {"name": "a"},
    "spec": {
        "target": {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"},
        "customizations": {"replicaResource": {"luaScript": "function GetReplicas(obj) return 3, {} end"}},
    },
}


class Karmadactl:
    """karmadactl, as the administrator of one hub. `member`: where the first job runs; `other`: the other one."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(world.hub.kubeconfig),
            "HOME": str(world.hub.folder),
        }
        self.member = self.other = ""

    def try_run(self, *words: str, stdin: str | None = None) -> Output:
        done = subprocess.run(
            [str(client("karmadactl")), *words],
            env=self._environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        return Output(done.returncode, done.stdout, done.stderr)

    def run(self, *words: str, stdin: str | None = None) -> str:
        done = self.try_run(*words, stdin=stdin)
        assert done.code == 0, f"karmadactl {' '.join(words)}: {done.out}\n{done.err}"
        return done.out

    def table(self, *words: str) -> list[str]:
        """The lines of `get`, sorted below the header; one blank between the cells, and AGE for an age."""
        header, *rows = self.run("get", *words).splitlines()
        return [re.sub(rf"\b{AGE}\b", "AGE", re.sub(" +", " ", row).rstrip()) for row in (header, *sorted(rows))]

    def refused(self, *words: str, stdin: str | None = None) -> str:
        done = self.try_run(*words, stdin=stdin)
        assert done.code == 1, f"karmadactl {' '.join(words)}: {done.out}\n{done.err}"
        return done.err


@pytest.fixture(scope="module")
def karmadactl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Karmadactl]:
    with started(tmp_path_factory.mktemp("karmadactl")) as world:
        found = Karmadactl(world)
        made = found.run("apply", "-f", "-", stdin=yaml.safe_dump_all(OBJECTS))
        assert [line.split("/")[1] for line in made.splitlines()] == [
            "elasticquotatree created",
            "gang created",
            f"{JOB} created",
        ]
        found.member = second_waits(world)
        (found.other,) = set(MEMBERS) - {found.member}
        yield found


def test_get_lists_the_hub_its_members_and_both(karmadactl: Karmadactl) -> None:
    member = karmadactl.member
    assert karmadactl.table("clusters") == [
        "NAME CLUSTER VERSION MODE READY AGE ADOPTION",
        "cfa Karmada v1.36.3 Push True AGE -",
        "cfb Karmada v1.36.3 Push True AGE -",
    ]
    on_hub = [f"{WAITING} Karmada Queuing AGE -", f"{JOB} Karmada Running AGE -"]
    assert karmadactl.table("pytorchjobs") == ["NAME CLUSTER STATE AGE ADOPTION", *on_hub]
    # Karmada's label decides about ADOPTION, and the hub sets its own: N says nothing of the job.
    in_member = f"{JOB} {member} Running AGE N"
    assert karmadactl.table("pytorchjobs", "--operation-scope=members") == [
        "NAME CLUSTER STATE AGE ADOPTION",
        in_member,
    ]
    both = karmadactl.table("pytorchjobs", "--operation-scope=all")
    assert [row.rpartition(" ")[0] for row in both[1:]] == [row.rpartition(" ")[0] for row in (*on_hub, in_member)]
    for scope in (("-s", "members"), ("-s", "members", "-C", member), ("-s", "all", "-C", member)):
        assert karmadactl.table("pods", *scope) == [
            "NAME CLUSTER READY STATUS RESTARTS AGE",
            *(f"{pod} {member} 1/1 Running 0 AGE" for pod in PODS),
        ]
    assert "No resources found" in karmadactl.try_run("get", "pods", "-s", "members", "-C", karmadactl.other).err
    assert {row.split()[1] for row in karmadactl.table("nodes", "-s", "members")[1:]} == set(MEMBERS)
    assert "clusters don't exist: nope" in karmadactl.refused("get", "pods", "-s", "members", "-C", "nope")
    assert len(karmadactl.table("queues", "-n", "kube-queue")) == 3


def test_describe_and_logs_look_into_a_member(karmadactl: Karmadactl) -> None:
    member = karmadactl.member
    events = karmadactl.run("describe", "pytorchjob", JOB).split("Events:\n", 1)[1]
    assert f"Successfully applied to cluster {member}" in events and "ScheduleBindingSucceed" in events
    there = ("--operation-scope=members", f"--cluster={member}")
    assert f"fleet.io/job: default/{JOB}" in karmadactl.run("describe", "pytorchjob", JOB, *there)
    assert re.search(r"^Status: +Running$", karmadactl.run("describe", "pod", PODS[0], *there), re.M)
    line = f"{PODS[0]}/pytorch: Running in the simulated cluster {member}\n"
    assert karmadactl.run("logs", PODS[0], "-C", member) == line
    assert line in karmadactl.run("logs", "-l", f"training.kubeflow.org/job-name={JOB}", "-C", member)


def test_exec_and_attach_reach_a_pod_by_the_hub_and_by_its_member(karmadactl: Karmadactl) -> None:
    words = ("--", "echo", "hello")
    there = ("--operation-scope=members", f"--cluster={karmadactl.member}")
    said = f"echo hello in the simulated cluster {karmadactl.member}"
    assert said in karmadactl.run("exec", PODS[0], *words)
    assert said in karmadactl.run("exec", PODS[0], *there, *words)
    assert "in the simulated cluster" in karmadactl.run("attach", PODS[0], *there)
    assert "not found" in karmadactl.refused("exec", "nothing", *there, *words)


def test_cordon_and_taint_keep_jobs_out_of_a_member(karmadactl: Karmadactl) -> None:
    other = karmadactl.other

    def taints() -> list[tuple[str, str]]:
        body = json.loads(karmadactl.run("get", "cluster", other, "-o", "json"))
        return [(taint["key"], taint["effect"]) for taint in body["spec"].get("taints", [])]

    assert karmadactl.run("cordon", other) == f"{other} cluster cordoned\n"
    assert taints() == [("cluster.karmada.io/unschedulable", "NoSchedule")]
    assert karmadactl.run("cordon", other) == f"{other} cluster already cordoned\n"
    assert karmadactl.run("uncordon", other) == f"{other} cluster uncordoned\n"
    assert taints() == []
    assert karmadactl.run("taint", "clusters", other, "team=a:NoSchedule") == f"cluster/{other} tainted\n"
    assert taints() == [("team", "NoSchedule")]
    assert karmadactl.run("taint", "clusters", other, "team:NoSchedule-") == f"cluster/{other} untainted\n"
    assert taints() == []


def test_apply_makes_a_policy_that_brings_an_object_to_members(karmadactl: Karmadactl) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": {"a": "b"}}
    world, path = karmadactl.world, "/api/v1/namespaces/default/configmaps"

    def places() -> list[str]:
        return [member for member, name in world.copies(path) if name == "shared"]

    made = karmadactl.run("apply", "-f", "-", "-C", karmadactl.other, stdin=json.dumps(body))
    assert re.fullmatch(r"configmap/shared created\npropagationpolicy\.policy\.karmada\.io/shared-\w+ created\n", made)
    world.until("it is in one member", lambda: places() == [karmadactl.other])
    karmadactl.run("apply", "-f", "-", "--all-clusters", stdin=json.dumps(body))
    world.until("it is in both members", lambda: places() == list(MEMBERS))
    assert karmadactl.run("label", "configmap", "shared", "team=a") == "configmap/shared labeled\n"
    assert karmadactl.run("annotate", "configmap", "shared", "note=b") == "configmap/shared annotated\n"
    karmadactl.run("patch", "configmap", "shared", "--type=merge", "-p", '{"data": {"a": "c"}}')
    stored = world.kubectl.get("configmap", "shared")
    assert (stored["data"], stored["metadata"]["labels"]["team"]) == ({"a": "c"}, "a")
    karmadactl.run("delete", "configmap", "shared")
    world.until("it has left the members", lambda: places() == [])


def test_the_kinds_of_hub_and_member_are_told(karmadactl: Karmadactl) -> None:
    assert "Which members are candidates" in karmadactl.run("explain", "propagationpolicy.spec.placement")
    here = karmadactl.run("api-resources")
    assert re.search(r"^clusters .*cluster\.karmada\.io/v1alpha1 +false +Cluster$", here, re.M)
    there = karmadactl.run("api-resources", "--operation-scope=members", f"--cluster={karmadactl.member}")
    assert "PyTorchJob" in there and "cluster.karmada.io" not in there
    assert "work.karmada.io/v1alpha2" in karmadactl.run("api-versions").split()
    checked = karmadactl.run("interpret", "--check", "-f", "-", stdin=json.dumps(CUSTOMIZATION))
    assert re.search(r"InterpretReplica: +PASS", checked)


def test_what_needs_a_karmada_is_refused_in_words(karmadactl: Karmadactl) -> None:
    said = karmadactl.refused("apply", "-f", "-", stdin=json.dumps(CUSTOMIZATION))
    assert 'no matches for kind "ResourceInterpreterCustomization"' in said
    assert f"cluster({karmadactl.member}): metrics API not available" in karmadactl.refused("top", "pods")
    proxy = f"/apis/cluster.karmada.io/v1alpha1/clusters/{karmadactl.other}/proxy/api/v1/namespaces/default/configmaps"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "legacy"}}
    karmadactl.world.kubectl.run("create", "--raw", proxy, "-f", "-", stdin=json.dumps(body))
    said = karmadactl.refused("promote", "configmap", "legacy", "-C", karmadactl.other)
    assert "work.karmada.io/conflict-resolution" in said and "belongs to another control plane" in said
