"""Jobs of other projects as their operators take them, and as they refuse them. Written after what their documentation
shows: each feature of a kind in a small job. The tests in tests/operators ask the real operators about the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Body = dict[str, Any]


@dataclass(frozen=True)
class Example:
    """`field`: the one that a refusal names; "" for a job that is taken. `warned`: the field of a warning."""

    what: str
    body: Body
    field: str = ""
    warned: str = ""


def pod(**spec: Any) -> Body:
    return {"spec": {"containers": [{"name": "main", "image": "example/train"}], **spec}}


def _object(api_version: str, kind: str, spec: Body, name: str = "job") -> Body:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


# -- JobSet


def replicated(name: str, replicas: int = 1, pods: int = 2, **more: Any) -> Body:
    spec = {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": pod(restartPolicy="Never")}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


def jobset(*jobs: Body, name: str = "job", **spec: Any) -> Body:
    listed = list(jobs) or [replicated("leader", pods=1), replicated("workers", 2)]
    return _object("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": listed, **spec}, name)


def failing(*rules: Body, restarts: int = 3) -> Body:
    return jobset(failurePolicy={"maxRestarts": restarts, "rules": list(rules)})


def after(name: str, status: str = "Ready") -> Body:
    return {"dependsOn": [{"name": name, "status": status}]}


FAIL, RESTART = {"action": "FailJobSet"}, {"action": "RestartJobSet"}
JOBSETS = (
    Example("plain", jobset()),
    Example("a rule without a name", failing({**FAIL, "onJobFailureReasons": ["PodFailurePolicy"]})),
    Example(
        "rules for some jobs",
        failing({**FAIL, "targetReplicatedJobs": ["leader"]}, {"action": "RestartJobSetAndIgnoreMaxRestarts"}),
    ),
    Example("named rules", failing({**FAIL, "name": "a_rule"}, {**RESTART, "name": "other:rule_2"})),
    Example("success of one job", jobset(successPolicy={"operator": "Any", "targetReplicatedJobs": ["workers"]})),
    Example("one job after another", jobset(replicated("data"), replicated("train", **after("data", "Complete")))),
    Example("in order", jobset(startupPolicy={"startupPolicyOrder": "InOrder"})),
    Example("a coordinator", jobset(coordinator={"replicatedJob": "workers", "jobIndex": 1, "podIndex": 0})),
    Example("a network", jobset(network={"enableDNSHostnames": True, "subdomain": "net"})),
    Example("a time to live", jobset(ttlSecondsAfterFinished=60, suspend=False)),
    Example("no replicas said", jobset({"name": "one", "template": {"spec": {"template": pod()}}})),
    Example("the first after another", jobset(replicated("a", **after("b")), replicated("b")), "spec.replicatedJobs"),
    Example(
        "after nothing", jobset(replicated("a"), replicated("b", **after("c"))), "spec.replicatedJobs[1].dependsOn"
    ),
    Example(
        "success of no job",
        jobset(successPolicy={"operator": "All", "targetReplicatedJobs": ["nobody"]}),
        "spec.successPolicy.targetReplicatedJobs",
    ),
    Example(
        "a rule for no job",
        failing({**FAIL, "targetReplicatedJobs": ["nobody"]}),
        "spec.failurePolicy.rules[0].targetReplicatedJobs",
    ),
    Example(
        "a reason that is none",
        failing({**FAIL, "onJobFailureReasons": ["Weather"]}),
        "spec.failurePolicy.rules[0].onJobFailureReasons",
    ),
    Example("a rule of a wrong name", failing({**FAIL, "name": "1st"}), "spec.failurePolicy.rules[0].name"),
    Example(
        "two rules of one name",
        failing({**FAIL, "name": "a"}, {**RESTART, "name": "a"}),
        "spec.failurePolicy.rules[0].name",
    ),
    Example("no coordinator", jobset(coordinator={"replicatedJob": "nobody"}), "spec.coordinator.replicatedJob"),
    Example(
        "a coordinator past the last Job",
        jobset(coordinator={"replicatedJob": "workers", "jobIndex": 2}),
        "spec.replicatedJobs[1].replicas",
    ),
    Example(
        "a coordinator past the last pod",
        jobset(coordinator={"replicatedJob": "workers", "podIndex": 2}),
        "spec.replicatedJobs[1].template.spec.completions",
    ),
    Example("a subdomain that is none", jobset(network={"subdomain": "1.net"}), "spec.network.subdomain"),
    Example(
        "a name that is too long for its Jobs",
        jobset(replicated("w" * 30), name="j" * 32),
        "spec.replicatedJobs[0].name",
    ),
    Example(
        "a name that is too long for its pods",
        jobset(replicated("w" * 26), name="j" * 30),
        "spec.replicatedJobs[0].name",
    ),
)


# -- Ray


def group(**more: Any) -> Body:
    return {"rayStartParams": {}, "template": pod(), **more}


def workers(**more: Any) -> Body:
    return group(groupName="workers", replicas=2, minReplicas=1, maxReplicas=4, **more)


def ray(*, head: Body | None = None, worker: Body | None = None, **spec: Any) -> Body:
    return {"headGroupSpec": head or group(), "workerGroupSpecs": [worker or workers()], **spec}


def raycluster(name: str = "job", **spec: Any) -> Body:
    return _object("ray.io/v1", "RayCluster", ray(**spec), name)


def rayjob(cluster: Body | None = None, *, name: str = "job", **spec: Any) -> Body:
    own = {} if "clusterSelector" in spec and cluster is None else {"rayClusterSpec": cluster or ray()}
    return _object("ray.io/v1", "RayJob", {"entrypoint": "python train.py", **own, **spec}, name)


SHARED = {"ray.io/cluster": "shared"}
RAY = (
    Example("a cluster", raycluster()),
    Example("a cluster that Ray scales", raycluster(enableInTreeAutoscaling=True, autoscalerOptions={"version": "v2"})),
    Example("resources of a group", raycluster(worker=workers(resources={"CPU": "4"}))),
    Example("parameters of a group", raycluster(head=group(rayStartParams={"num-cpus": "0"}))),
    Example("a job", rayjob()),
    Example("a job with a template", rayjob(submitterPodTemplate=pod(restartPolicy="Never"), backoffLimit=2)),
    Example("a job of HTTP", rayjob(submissionMode="HTTPMode")),
    Example("an interactive job", rayjob(submissionMode="InteractiveMode")),
    Example("a job in the head", rayjob(submissionMode="SidecarMode")),
    Example("a job with an end", rayjob(shutdownAfterJobFinishes=True, activeDeadlineSeconds=3600)),
    Example("a job on another's cluster", rayjob(clusterSelector=SHARED), warned="spec.clusterSelector"),
    Example(
        "a job on another's cluster with a template",
        rayjob(clusterSelector=SHARED, submitterPodTemplate=pod(restartPolicy="Never")),
        warned="spec.clusterSelector",
    ),
    Example(
        "resources twice",
        raycluster(head=group(resources={"CPU": "4"}, rayStartParams={"num-cpus": "4"})),
        "spec.headGroupSpec.resources",
    ),
    Example(
        "resources of a group twice",
        raycluster(worker=workers(resources={"GPU": "1"}, rayStartParams={"num-gpus": "1"})),
        "spec.workerGroupSpecs[0].resources",
    ),
    Example(
        "labels as a parameter",
        raycluster(head=group(rayStartParams={"labels": "a=b"})),
        "spec.headGroupSpec.rayStartParams",
    ),
    Example(
        "a suspended group that Ray scales",
        raycluster(enableInTreeAutoscaling=True, worker=workers(suspend=True)),
        "spec.workerGroupSpecs[0].suspend",
    ),
    Example("a long name of a cluster", raycluster("c" * 54), "metadata.name"),
    Example("a long name of a job", rayjob(name="j" * 48), "metadata.name"),
    Example(
        "no cluster at all", _object("ray.io/v1", "RayJob", {"entrypoint": "python train.py"}), "spec.rayClusterSpec"
    ),
    Example("another's cluster without a name", rayjob(clusterSelector={"ray.io/other": "x"}), "spec.clusterSelector"),
    Example(
        "another's cluster from the head",
        rayjob(clusterSelector=SHARED, submissionMode="SidecarMode"),
        "spec.submissionMode",
    ),
    Example(
        "retries of an interactive job", rayjob(submissionMode="InteractiveMode", backoffLimit=1), "spec.backoffLimit"
    ),
    Example("fewer retries than none", rayjob(backoffLimit=-1), "spec.backoffLimit"),
    Example("no time at all", rayjob(activeDeadlineSeconds=0), "spec.activeDeadlineSeconds"),
    Example(
        "a template for the head",
        rayjob(submissionMode="SidecarMode", submitterPodTemplate=pod()),
        "spec.submitterPodTemplate",
    ),
    Example(
        "resources of a job twice",
        rayjob(ray(head=group(resources={"CPU": "4"}, rayStartParams={"memory": "4"}))),
        "spec.rayClusterSpec.headGroupSpec.resources",
    ),
)


# -- MPIJob v2beta1, TrainJob, SparkApplication


def mpijob(worker: Body | None = None, *, name: str = "job", **spec: Any) -> Body:
    specs = {"Launcher": {"replicas": 1, "template": pod()}, **({"Worker": worker} if worker else {})}
    return _object("kubeflow.org/v2beta1", "MPIJob", {"mpiReplicaSpecs": specs, **spec}, name)


TWO = {"replicas": 2, "template": pod()}
MPI = (
    Example("two workers", mpijob(TWO, slotsPerWorker=2, runPolicy={"cleanPodPolicy": "Running"})),
    Example("a launcher alone", mpijob()),
    Example("Intel's", mpijob({**TWO, "restartPolicy": "OnFailure"}, mpiImplementation="Intel")),
    Example("the launcher last", mpijob(TWO, launcherCreationPolicy="WaitForWorkersReady")),
    Example("workers without a number", mpijob({"template": pod()}), "spec.mpiReplicaSpecs.Worker.replicas"),
    Example(
        "workers that always restart",
        mpijob({**TWO, "restartPolicy": "Always"}),
        "spec.mpiReplicaSpecs.Worker.restartPolicy",
    ),
    Example("no such implementation", mpijob(TWO, mpiImplementation="LAM"), "spec.mpiImplementation"),
    Example("less than no slots", mpijob(TWO, slotsPerWorker=-1), "spec.slotsPerWorker"),
    Example("a name that begins with a digit", mpijob(TWO, name="1st"), "metadata.name"),
    Example("a name that is too long for its workers", mpijob(TWO, name="j" * 55), "metadata.name"),
)


def trainjob(name: str = "job", **spec: Any) -> Body:
    sized = {"numNodes": 2, "resourcesPerNode": {"requests": {"cpu": "1"}}}
    return _object(
        "trainer.kubeflow.org/v1alpha1", "TrainJob", {"runtimeRef": {"name": "torch"}, "trainer": sized, **spec}, name
    )


TRAIN = (
    Example("two nodes", trainjob()),
    Example("labels", trainjob(labels={"a": "b"}, suspend=False)),
    Example("a name that begins with a digit", trainjob("1st"), "metadata.name"),
)


def spark(**spec: Any) -> Body:
    own = {"type": "Scala", "mode": "cluster", "sparkVersion": "3.5.0", "mainApplicationFile": "local:///a.jar"}
    given = {**own, "driver": {}, "executor": {"instances": 2}, **spec}
    return _object("sparkoperator.k8s.io/v1beta2", "SparkApplication", given)


DYNAMIC = {"enabled": True, "initialExecutors": 1, "maxExecutors": 4}
SPARK = (
    Example("plain", spark()),
    Example("dynamic", spark(dynamicAllocation=DYNAMIC)),
    Example(
        "dynamic without a most",
        spark(dynamicAllocation={"enabled": True}),
        warned="spec.dynamicAllocation.maxExecutors",
    ),
    Example("a template", spark(driver={"template": pod()}), warned="spec.driver.template"),
    Example("a node selector", spark(nodeSelector={"a": "b"})),
    Example("sizes in sparkConf", spark(sparkConf={"spark.executor.memory": "2g"})),
    Example("nodes in sparkConf", spark(sparkConf={"spark.kubernetes.node.selector.a": "b"}), warned="spec.sparkConf"),
    Example(
        "two node selectors", spark(nodeSelector={"a": "b"}, driver={"nodeSelector": {"a": "c"}}), "spec.nodeSelector"
    ),
    Example("memory that is none", spark(executor={"memory": "lots"}), "spec.executor.memory"),
    Example("memory of sparkConf that is none", spark(sparkConf={"spark.driver.memory": "1.5g"}), "spec.sparkConf"),
    Example("instances that are no number", spark(sparkConf={"spark.executor.instances": "many"}), "spec.sparkConf"),
    Example("a template for Spark 2", spark(driver={"template": pod()}, sparkVersion="2.4.5"), "spec.sparkVersion"),
)

EXAMPLES = (*JOBSETS, *RAY, *MPI, *TRAIN, *SPARK)
