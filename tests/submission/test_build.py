"""Jobs made from requests: what stands where, for each kind."""

from __future__ import annotations

import gzip
from base64 import b64decode
from typing import Any

import pytest

from fleet.admission.operators import OPERATORS
from fleet.kinds.lookup import interpreter_of
from fleet.submission import CodeArchive, InteractiveKind, Mount, Request, RequestFault, build
from fleet.submission.layouts import LAYOUTS, roles_of

GPU = "nvidia.com/gpu"
CODE = CodeArchive(gzip.compress(b"files"))
TEMPLATE: dict[str, Any] = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"labels": {"team": "a"}},
    "spec": {
        "pytorchReplicaSpecs": {
            "Master": {
                "replicas": 1,
                "restartPolicy": "OnFailure",
                "template": {
                    "spec": {
                        "tolerations": [{"key": "gpu", "operator": "Exists"}],
                        "containers": [
                            {"name": "side", "image": "side"},
                            {
                                "name": "pytorch",
                                "image": "base",
                                "args": ["old"],
                                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                                "resources": {"limits": {GPU: 8, "memory": "64Gi"}, "requests": {"cpu": "8"}},
                            },
                        ],
                    }
                },
            }
        }
    },
}


def made(**said: Any) -> dict[str, Any]:
    """The job of a request."""
    return build(Request(**{"name": "train", "image": "i", "command": ["python", "train.py"], **said}))[-1]


def pods(job: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The spec of the pods of each replica type."""
    return {role.name: role.pod["spec"] for role in roles_of(job)}


def container(job: dict[str, Any], role: str = "Master") -> dict[str, Any]:
    last: dict[str, Any] = pods(job)[role]["containers"][-1]
    return last


def test_one_worker_is_a_master_alone() -> None:
    assert made(gpus=8) == {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train"},
        "spec": {
            "runPolicy": {"cleanPodPolicy": "Running"},
            "pytorchReplicaSpecs": {
                "Master": {
                    "restartPolicy": "Never",
                    "replicas": 1,
                    "template": {
                        "spec": {
                            "containers": [
                                {
                                    "name": "pytorch",
                                    "image": "i",
                                    "command": ["python", "train.py"],
                                    "resources": {"limits": {GPU: "8"}},
                                }
                            ]
                        }
                    },
                }
            },
        },
    }


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("workers", [1, 4])
def test_each_kind_has_so_many_workers_with_so_many_gpus(kind: str, workers: int) -> None:
    job = made(kind=kind, workers=workers, gpus=8, cpu="4")
    interpreter = interpreter_of(job["apiVersion"], kind)
    assert interpreter is not None
    components = interpreter.components(job)
    gpus = {c.name: c.replicas * dict(c.requests).get(GPU, 0) for c in components}
    assert sum(gpus.values()) == 8 * workers, gpus
    assert sum(c.replicas for c in components) == workers + (kind == "MPIJob")
    assert interpreter.walltime_s(made(kind=kind, time_s=60)) == 60
    operator = OPERATORS.get(kind)
    if operator is not None:
        assert set(job["spec"][operator.field]) <= set(operator.types or ("Worker",))
        assert {spec["containers"][0]["name"] for spec in pods(job).values()} <= {operator.container or "mpi"}


def test_the_launcher_of_mpi_runs_the_command_and_has_no_gpus() -> None:
    job = made(kind="MPIJob", workers=2, gpus=8)
    launcher, worker = container(job, "Launcher"), container(job, "Worker")
    assert launcher["command"] == ["python", "train.py"] and GPU not in str(launcher["resources"])
    assert "command" not in worker and worker["resources"] == {"limits": {GPU: "8"}}


def test_a_batch_job_of_several_is_indexed() -> None:
    spec = made(kind="Job", workers=3, time_s=60)["spec"]
    assert (spec["parallelism"], spec["completions"], spec["completionMode"]) == (3, 3, "Indexed")
    assert spec["activeDeadlineSeconds"] == 60 and spec["template"]["spec"]["restartPolicy"] == "Never"


def test_all_that_was_said_stands_in_every_pod() -> None:
    job = made(
        workers=2,
        cpu="8",
        memory="64Gi",
        resources={"rdma/hca": "1"},
        env={"LR": "0.1"},
        secrets=["hub"],
        mounts=[Mount("data", "/data", read_only=True)],
        node_selector={"gpu": "h100"},
        time_s=43200,
        queue="vision",
        priority="high",
        topology="rack",
        preferred_topology="host@worker",
        labels={"sweep": "lr"},
        annotations={"fleet.io/hold": "true", "note": "x"},
        namespace="team",
    )
    assert job["metadata"] == {
        "name": "train",
        "namespace": "team",
        "labels": {"sweep": "lr", "quota.scheduling.alibabacloud.com/name": "vision"},
        "annotations": {
            "fleet.io/hold": "true",
            "fleet.io/required-topology": "rack",
            "fleet.io/preferred-topology": "host@worker",
            "note": "x",
        },
    }
    assert job["spec"]["runPolicy"]["activeDeadlineSeconds"] == 43200
    for role in roles_of(job):
        assert role.pod["metadata"] == {"labels": {"sweep": "lr"}, "annotations": {"note": "x"}}
        spec = role.pod["spec"]
        assert (spec["nodeSelector"], spec["priorityClassName"]) == ({"gpu": "h100"}, "high")
        assert spec["volumes"] == [{"name": "mount-0", "persistentVolumeClaim": {"claimName": "data"}}]
        [one] = spec["containers"]
        assert one["volumeMounts"] == [{"name": "mount-0", "mountPath": "/data", "readOnly": True}]
        assert one["env"] == [{"name": "LR", "value": "0.1"}] and one["envFrom"] == [{"secretRef": {"name": "hub"}}]
        assert one["resources"] == {"requests": {"cpu": "8"}, "limits": {"memory": "64Gi", "rdma/hca": "1"}}


def test_code_travels_in_a_config_map_that_the_pods_name() -> None:
    config_map, job = build(Request(name="train", image="i", command=["python", "t.py"], workers=2, code=CODE))
    assert config_map["metadata"] == {"name": "train-code", "labels": {"fleet.io/code-of": "train"}}
    assert b64decode(config_map["binaryData"]["code.tar.gz"]) == CODE.archive
    reader = interpreter_of(job["apiVersion"], job["kind"])
    assert reader is not None and ("ConfigMap", "", "train-code") in reader.dependencies(job)
    for spec in pods(job).values():
        [unpacker], [one] = spec["initContainers"], spec["containers"]
        assert unpacker["image"] == "i" and unpacker["command"][-2:] == ["-C", "/workspace"]
        assert one["workingDir"] == "/workspace" and [m["mountPath"] for m in one["volumeMounts"]] == ["/workspace"]


def test_a_template_keeps_all_that_was_not_said() -> None:
    job = made(template=TEMPLATE, image="", gpus=4, env={"B": "3"}, workers=3, labels={"x": "y"})
    assert job["metadata"] == {"name": "train", "labels": {"team": "a", "x": "y"}}
    specs = job["spec"]["pytorchReplicaSpecs"]
    assert {name: spec["replicas"] for name, spec in specs.items()} == {"Master": 1, "Worker": 2}
    assert specs["Master"]["template"] == specs["Worker"]["template"]
    assert pods(job)["Worker"]["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert container(job) == {
        "name": "pytorch",
        "image": "base",
        "command": ["python", "train.py"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}],
        "resources": {"limits": {GPU: "4", "memory": "64Gi"}, "requests": {"cpu": "8"}},
    }
    assert GPU not in str(container(made(template=TEMPLATE, gpus=0))["resources"])
    assert TEMPLATE["spec"]["pytorchReplicaSpecs"].keys() == {"Master"}


def test_a_template_may_name_all_but_the_job() -> None:
    job = build(Request(name="again", template=TEMPLATE))[-1]
    assert {**job, "metadata": None} == {**TEMPLATE, "metadata": None}


@pytest.mark.parametrize("what", InteractiveKind)
def test_an_interactive_job_has_one_pod_and_two_limits(what: InteractiveKind) -> None:
    job = build(Request(name="dev", image="i", interactive=what, idle_s=600))[-1]
    assert job["spec"]["runPolicy"]["activeDeadlineSeconds"] == 8 * 3600
    one = container(job)
    assert "600" in " ".join([*one["command"], *(e["value"] for e in one.get("env", ()))])
    assert (one.get("tty"), one.get("stdin")) == ((True, True) if what is InteractiveKind.SHELL else (None, None))
    asked = made(interactive=what, command=["zsh"], time_s=60)
    assert container(asked)["command"] == ["zsh"] and asked["spec"]["runPolicy"]["activeDeadlineSeconds"] == 60


@pytest.mark.parametrize(
    ("said", "part", "why"),
    [
        ({"name": "Train"}, "name", "lower-case"),
        ({"name": "9"}, "name", "begin with a letter"),
        ({"name": "a" * 64}, "name", "is 64 characters long, of at most 63"),
        ({"name": "a" * 60}, "name", "at most 54 for this PyTorchJob"),
        ({"gpus": -1}, "gpus", "-1 is less than 0"),
        ({"workers": 0}, "workers", "0 is less than 1"),
        ({"cpu": "many"}, "cpu", "many is no amount"),
        ({"memory": "64GB"}, "memory", "such as 64Gi"),
        ({"resources": {"a": ""}}, "resource", "a=: nothing is no amount"),
        ({"env": {"a b": ""}}, "env", '"a b" is no'),
        ({"mounts": [Mount("c", "data")]}, "mount", '"data" is no absolute path'),
        ({"mounts": [Mount("c", "/d"), Mount("d", "/d/")]}, "mount", "already"),
        ({"mounts": [Mount("c", "/workspace")], "code": CODE}, "mount", "already"),
        ({"code": CodeArchive(b"x" * (2**20 + 1))}, "code", "1048577 bytes"),
        ({"kind": "Jobs"}, "kind", "none of PyTorchJob"),
        ({"image": ""}, "image", "is missing"),
        ({"command": []}, "command", "is missing"),
        ({"kind": "MPIJob", "command": []}, "command", "is missing"),
        ({"interactive": InteractiveKind.SHELL, "workers": 2}, "workers", "a shell has one pod"),
        ({"template": {"kind": "RayJob"}}, "template", "its job is a RayJob"),
        ({"template": {"kind": "Job"}}, "template", "holds no Job of batch/v1"),
        (
            {"template": {"kind": "Job", "apiVersion": "batch/v1", "spec": {"template": [3]}}},
            "template",
            "its manifest cannot be read",
        ),
        ({"template": TEMPLATE, "kind": "TFJob"}, "kind", "TFJob is not the kind of the template, PyTorchJob"),
    ],
)
def test_what_cannot_be_names_its_part(said: dict[str, Any], part: str, why: str) -> None:
    with pytest.raises(RequestFault) as wrong:
        made(**said)
    assert wrong.value.part == part and why in wrong.value.why
