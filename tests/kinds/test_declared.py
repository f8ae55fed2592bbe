"""Every kind that Fleet ships keeps the same contract, read from its declaration."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.kinds import INTERPRETERS, Interpreter, interpreter_of
from fleet.kinds.declaration import flaws_of
from fleet.kinds.lookup import shipped
from fleet.values.quantity import BadQuantity
from fleet.values.untyped import at
from tests.kinds.bodies import CASES, SPARK, Body, Case, kind_of, pods

HUB = {"fleet.io/hub": "h", "fleet.io/binding": "b"}
ALL = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}.{case.api_version.rpartition('/')[0]}")


def reader(case: Case) -> Interpreter:
    found = interpreter_of(case.api_version, case.kind)
    assert found is not None
    return found


def test_there_is_a_job_of_every_kind_that_is_shipped() -> None:
    assert {(c.api_version.rpartition("/")[0], c.kind) for c in CASES} == set(shipped()) == set(INTERPRETERS)


@ALL
def test_a_shipped_declaration_has_no_flaw(case: Case) -> None:
    assert flaws_of(_spec(case)) == []


def _spec(case: Case) -> Body:
    from importlib.resources import files

    import yaml

    group = case.api_version.rpartition("/")[0]
    texts = [entry.read_text() for entry in files("fleet.kinds").joinpath("declared").iterdir()]
    specs: list[Body] = [yaml.safe_load(text)["spec"] for text in texts]
    return next(spec for spec in specs if spec["target"] == {"group": group, "kind": case.kind})


@ALL
def test_components_have_their_replicas_and_requests(case: Case) -> None:
    found = reader(case).components(case.body)
    assert tuple((c.name, c.replicas, c.requests["nvidia.com/gpu"]) for c in found) == case.components


@ALL
def test_templates_say_where_they_stand(case: Case) -> None:
    templates = reader(case).templates(case.body)
    if not case.paths:
        assert not any(template.own for template in templates)
        return
    assert tuple(template.path for template in templates) == case.paths
    for template in templates:
        found: Any = case.body
        for step in template.steps:
            found = found[step]
        assert found is template.template


@ALL
def test_the_state_follows_the_status(case: Case) -> None:
    interpreter = reader(case)
    none: tuple[Body | None, ...] = (None, {})
    assert [str(interpreter.state(status).state) for _, status in case.states] == [state for state, _ in case.states]
    assert {str(interpreter.state(status).state) for status in none} == {"Unknown"}


@pytest.mark.parametrize(
    ("api_version", "kind", "told"),
    [
        ("kubeflow.org/v1", "PyTorchJob", {"message": "it was active longer than specified deadline"}),
        ("kubeflow.org/v1", "MPIJob", {"message": "it was active longer than specified deadline"}),
        ("batch/v1", "Job", {"reason": "DeadlineExceeded"}),
    ],
)
def test_a_job_whose_time_is_over_is_not_tried_again(api_version: str, kind: str, told: Body) -> None:
    def again(**condition: str) -> bool:
        failed = {"type": "Failed", "status": "True", **condition}
        return kind_of(api_version, kind).retryable({"metadata": {}, "status": {"conditions": [failed]}})

    assert not again(**told) and again(reason="BackoffLimitExceeded", message="it failed") and again()


@ALL
def test_suspension_changes_one_field_and_can_be_taken_back(case: Case) -> None:
    interpreter, body = reader(case), case.body
    before = repr(body)
    assert interpreter.suspend_field == case.suspend
    suspended = interpreter.suspend(body, True)
    assert repr(body) == before and not interpreter.suspended(body)
    if not case.suspend:
        assert suspended is body
        return
    assert interpreter.suspended(suspended) and at(suspended, *case.suspend.split(".")) is True
    assert not interpreter.suspended(interpreter.suspend(suspended, False))
    assert interpreter.components(suspended) == interpreter.components(body)


@ALL
def test_a_member_gets_the_job_with_its_pods_marked(case: Case) -> None:
    interpreter, body = reader(case), case.body
    before = repr(body)
    stamped = interpreter.stamp(body, HUB, {"fleet.io/job": "team/j"})
    assert repr(body) == before
    assert set(stamped) == {"apiVersion", "kind", "metadata", "spec"} and "uid" not in stamped["metadata"]
    assert interpreter.components(stamped) == interpreter.components(body)
    templates = interpreter.templates(stamped)
    for template in templates:
        labels = template.template.get("metadata", {}).get("labels", {})
        expected = {**HUB, "fleet.io/component": template.name} if template.marked else {}
        assert {key: value for key, value in labels.items() if key.startswith("fleet.io/")} == expected
    # A kind whose pods carry no labels of the job has a label of its own controller by which they are known.
    assert interpreter.pod_labels.name or all(template.marked for template in templates)


def test_what_a_kind_names_travels_with_its_jobs() -> None:
    spark = {"apiVersion": "sparkoperator.k8s.io/v1beta2", "metadata": {"namespace": "team"}, "spec": SPARK}
    found = kind_of("sparkoperator.k8s.io/v1beta2", "SparkApplication").dependencies(spark)
    assert found == {("ServiceAccount", "team", "spark")}
    more = {
        "sparkConfigMap": "conf",
        "driver": {"configMaps": [{"name": "a", "path": "/a"}]},
        "executor": {"secrets": [{"name": "b", "path": "/b", "secretType": "Generic"}]},
    }
    found = kind_of("sparkoperator.k8s.io/v1beta2", "SparkApplication").dependencies({**spark, "spec": more})
    assert found == {("ConfigMap", "team", "conf"), ("ConfigMap", "team", "a"), ("Secret", "team", "b")}
    volumes = [
        {"mountPath": "/data", "volumeClaimName": "data"},
        {"mountPath": "/made", "volumeClaimName": "made", "volumeClaim": {}},
        {"mountPath": "/new", "volumeClaim": {}},
    ]
    job = {"metadata": {"namespace": "team"}, "spec": {"volumes": volumes, "tasks": [{"template": pods()}]}}
    found = kind_of("batch.volcano.sh/v1alpha1", "Job").dependencies(job)
    assert found == {("PersistentVolumeClaim", "team", "data")}


def test_spark_requests_are_what_spark_asks_for() -> None:
    reader = kind_of("sparkoperator.k8s.io/v1beta2", "SparkApplication")

    def memory(**spec: Any) -> list[int]:
        body = {"apiVersion": "sparkoperator.k8s.io/v1beta2", "metadata": {}, "spec": {**SPARK, **spec}}
        return [component.requests["memory"] >> 20 for component in reader.components(body)]

    assert memory() == [512 + 384, 4096 + 1638]  # 40 % of the memory of a Python executor, at least 384 MiB
    assert memory(type="Scala") == [512 + 384, 4096 + 409]
    assert memory(memoryOverheadFactor="0.5")[1] == 4096 + 2048
    assert memory(executor={"memory": "1g", "memoryOverhead": "512m"}) == [512 + 384, 1024 + 512]
    dynamic = {"enabled": True, "maxExecutors": 9}
    body = {"metadata": {}, "spec": {**SPARK, "dynamicAllocation": dynamic}}
    assert [component.replicas for component in reader.components(body)] == [1, 9]


EXECUTORS = {
    "spark.executor.instances": "8",
    "spark.executor.memory": "20g",
    "spark.kubernetes.executor.request.cores": "4",
    "spark.memory.offHeap.enabled": "true",
    "spark.memory.offHeap.size": "10g",
    "spark.executor.resource.gpu.amount": "2",
    "spark.executor.resource.gpu.vendor": "nvidia.com",
}
DRIVER = {"spark.driver.cores": "2", "spark.driver.memory": "4g", "spark.driver.memoryOverhead": "1g"}
GIB = 1 << 30


@pytest.mark.parametrize(
    ("spec", "replicas", "cpu", "memory", "gpus"),
    [
        pytest.param({"sparkConf": EXECUTORS}, 8, 4000, 32 * GIB, 2, id="all of sparkConf"),
        pytest.param(
            {"sparkConf": EXECUTORS, "executor": {"instances": 3, "memory": "10g", "cores": 7}},
            3,
            4000,
            21 * GIB,
            2,
            id="a field wins over its key",
        ),
        pytest.param(
            {"sparkConf": EXECUTORS, "executor": {"coreRequest": "1500m"}},
            8,
            1500,
            32 * GIB,
            2,
            id="the field of the request wins",
        ),
        pytest.param({"sparkConf": {"spark.executor.cores": "3"}}, 1, 3000, (1 << 30) + (384 << 20), 0, id="cores"),
        pytest.param(
            {
                "sparkConf": {
                    "spark.dynamicAllocation.enabled": "true",
                    "spark.dynamicAllocation.maxExecutors": "9",
                    "spark.executor.instances": "2",
                }
            },
            9,
            1000,
            (1 << 30) + (384 << 20),
            0,
            id="the most of a dynamic allocation",
        ),
        pytest.param(
            {
                "sparkConf": {"spark.dynamicAllocation.maxExecutors": "9"},
                "dynamicAllocation": {"enabled": True, "maxExecutors": 5},
            },
            5,
            1000,
            (1 << 30) + (384 << 20),
            0,
            id="the field of the most wins",
        ),
        pytest.param(
            {"sparkConf": {"spark.kubernetes.memoryOverheadFactor": "1"}, "memoryOverheadFactor": "0.5"},
            1,
            1000,
            2 * GIB,
            0,
            id="the operator writes the factor before sparkConf",
        ),
        pytest.param(
            {"sparkConf": {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "1073741824"}},
            1,
            1000,
            2 * GIB + (384 << 20),
            0,
            id="off the heap in bytes",
        ),
    ],
)
def test_spark_executors_are_sized_by_their_fields_and_else_by_spark_conf(
    spec: Body, replicas: int, cpu: int, memory: int, gpus: int
) -> None:
    reader = kind_of("sparkoperator.k8s.io/v1beta2", "SparkApplication")
    (_, executor) = reader.components({"metadata": {}, "spec": {"type": "Scala", "driver": {}, "executor": {}, **spec}})
    asked = executor.requests
    assert (executor.replicas, asked["cpu"], asked["memory"]) == (replicas, cpu, memory)
    assert asked["nvidia.com/gpu"] == gpus


def test_the_memory_of_python_counts_in_executors_of_python_applications() -> None:
    reader = kind_of("sparkoperator.k8s.io/v1beta2", "SparkApplication")
    conf = {**DRIVER, "spark.executor.pyspark.memory": "2g", "spark.executor.memoryOverheadFactor": "1"}
    spec = {"type": "Python", "driver": {}, "executor": {}, "sparkConf": conf}
    driver, executor = reader.components({"metadata": {}, "spec": spec})
    assert (driver.requests["cpu"], driver.requests["memory"]) == (2000, 5 * GIB)
    assert executor.requests["memory"] == 4 * GIB


def test_a_job_may_say_its_size_by_annotation() -> None:
    train = kind_of("trainer.kubeflow.org/v1alpha1", "TrainJob")

    def job(size: str = "", **spec: Any) -> Body:
        return {"metadata": {"annotations": {"fleet.io/size": size} if size else {}}, "spec": spec}

    assert train.components(job()) == train.components(job(trainer={"numNodes": 2})) == ()
    assert [(c.replicas, c.requests["cpu"]) for c in train.components(job("replicas=3,cpu=500m"))] == [(3, 500)]
    assert [c.replicas for c in train.components(job("cpu=1", trainer={"numNodes": 2}))] == [1]
    for wrong in ("4", "cpu", "cpu=1,cpu=2", "replicas=0,cpu=1", "replicas=2", "cpu=-1", "cpu=lots"):
        with pytest.raises(BadQuantity):
            train.components(job(wrong))


def test_components_of_one_name_get_names_of_their_own() -> None:
    groups = [{"groupName": "head", "replicas": 1, "template": pods()}]
    body = {"metadata": {}, "spec": {"headGroupSpec": {"template": pods(0)}, "workerGroupSpecs": groups}}
    assert [c.name for c in kind_of("ray.io/v1", "RayCluster").components(body)] == ["head", "head-1"]


def test_a_leader_worker_set_without_leaders_template_has_workers_alone() -> None:
    body = {"metadata": {}, "spec": {"replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": pods()}}}
    found = kind_of("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet").components(body)
    assert [(c.name, c.replicas) for c in found] == [("worker", 6)]


def test_pods_that_come_and_go_are_not_waited_for_at_once() -> None:
    workflow = kind_of("argoproj.io/v1alpha1", "Workflow")
    spark = kind_of("sparkoperator.k8s.io/v1beta2", "SparkApplication")
    assert not workflow.together("main") and not spark.together("executor") and spark.together("driver")


def test_a_kind_without_conditions_gets_none() -> None:
    volcano = kind_of("batch.volcano.sh/v1alpha1", "Job")
    assert volcano.condition("Queuing", "True", "Enqueued", "", "2026-01-01T00:00:00Z") == {}
    argo = kind_of("argoproj.io/v1alpha1", "Workflow").condition("Queuing", "True", "Enqueued", "m", "t")
    assert argo == {"type": "Queuing", "status": "True", "message": "m"}
