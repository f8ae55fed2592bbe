"""The job kinds of other projects: a small job of each, and what is to be seen of it in its status."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.operators.jobs import Body, pod_template
from tests.testbed.member import RealMember

TRAINER = "trainer.kubeflow.org"
REPLICATED = {"leader": (1, 1), "workers": (2, 2)}  # of the JobSet: replicas, and pods of each
Told = Callable[[Body], bool]  # asks the status


def condition(kind: str, status: str, reason: str) -> Told:
    """Whether a status has the condition."""

    def holds(body: Body) -> bool:
        return any(
            (one["type"], one["status"], one.get("reason", "")) == (kind, status, reason)
            for one in body.get("conditions", [])
        )

    return holds


def never(_status: Body) -> bool:
    return False


def nothing(_name: str, _template: Body) -> Sequence[tuple[str, Body]]:
    return ()


@dataclass(frozen=True)
class Kind:
    """`body` makes an object of the kind, without its metadata, from its name and a pod's template. `selector` finds
    its pods, `{name}` standing for its name; `labels` are the keys of further labels on all of them. A kind without
    `suspend` cannot be suspended, and one without `succeeded` runs until it is deleted. `needs`: paths and bodies of
    what a member has before such a job comes."""

    kind: str
    api: str
    resource: str
    operator: str
    body: Callable[[str, Body], Body]
    pods: int
    running: Told
    selector: str = ""
    labels: frozenset[str] = frozenset()
    suspend: tuple[str, ...] = ()  # the field
    suspended: Told = never
    succeeded: Told = never
    failed: Told = never
    on_hub: Told | None = None  # what a hub shows of a running one, where that is not what its member shows
    needs: Callable[[str, Body], Sequence[tuple[str, Body]]] = nothing
    container: str = "main"
    restart: str = "Never"

    @property
    def ends(self) -> bool:
        return self.succeeded is not never

    @property
    def path(self) -> str:
        return f"/apis/{self.api}/namespaces/default/{self.resource}"

    def template(self, run_for: str = "", exit_code: int = 0) -> Body:
        template = pod_template(1, name=self.container, run_for=run_for, exit_code=exit_code)
        template["spec"]["restartPolicy"] = self.restart
        return template

    def job(self, name: str, *, run_for: str = "", exit_code: int = 0) -> Body:
        return {**self.body(name, self.template(run_for, exit_code)), "metadata": {"name": name}}

    def suspension(self, value: bool) -> Body:
        """A merge patch."""
        *outer, last = self.suspend
        patch: Body = {last: value}
        for key in reversed(outer):
            patch = {key: patch}
        return patch


def prepare(kind: Kind, member: RealMember, name: str, run_for: str = "", exit_code: int = 0) -> None:
    """What the administrator of a member makes before a job of this name comes."""
    for path, body in kind.needs(name, kind.template(run_for, exit_code)):
        member.post(path, body)


# -- bodies


def jobset(_name: str, template: Body) -> Body:
    """A leader and two groups of two workers."""

    def jobs(pods: int) -> Body:
        return {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": template}

    replicated = [
        {"name": name, "replicas": replicas, "template": {"spec": jobs(pods)}}
        for name, (replicas, pods) in REPLICATED.items()
    ]
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {"replicatedJobs": replicated}}


def all_ready(status: Body) -> bool:
    """A JobSet has no condition that says so: the counts of its jobs do."""
    ready = {one["name"]: one["ready"] for one in status.get("replicatedJobsStatus", [])}
    return ready == {name: replicas for name, (replicas, _) in REPLICATED.items()}


def mpijob(_name: str, template: Body) -> Body:
    """A launcher, which ends the job, and two workers, which only wait for it."""
    waiting = {**template, "metadata": {}}
    replicas = {"Launcher": {"replicas": 1, "template": template}, "Worker": {"replicas": 2, "template": waiting}}
    policy = {"backoffLimit": 0, "cleanPodPolicy": "Running"}
    spec = {"slotsPerWorker": 1, "runPolicy": policy, "mpiReplicaSpecs": replicas}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "spec": spec}


def raycluster(_name: str, template: Body) -> Body:
    """A head and two workers."""

    def group() -> Body:
        return {"rayStartParams": {}, "template": {**template, "metadata": {}}}

    workers = {**group(), "groupName": "workers", "replicas": 2, "minReplicas": 2, "maxReplicas": 2}
    spec = {"rayVersion": "2.46.0", "headGroupSpec": group(), "workerGroupSpecs": [workers]}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": spec}


def rayjob(_name: str, template: Body) -> Body:
    """A cluster, and the pod that submits the job, which ends it."""
    submitter = {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}
    spec = {
        "entrypoint": "python train.py",
        "backoffLimit": 0,
        "submitterConfig": {"backoffLimit": 0},
        "submitterPodTemplate": submitter,
        "shutdownAfterJobFinishes": True,  # without it, a RayJob cannot be suspended
        "rayClusterSpec": raycluster("", template)["spec"],
    }
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "spec": spec}


def says(deployment: str, job: str = "") -> Told:
    """A RayJob has no conditions: two words say how far it is."""

    def holds(status: Body) -> bool:
        return (status.get("jobDeploymentStatus", ""), status.get("jobStatus", "")) == (deployment, job)

    return holds


def trainjob(name: str, template: Body) -> Body:
    """Three nodes of a runtime of its name. The template is the runtime's, not the job's."""
    amounts = template["spec"]["containers"][0]["resources"]
    spec = {"runtimeRef": {"name": name}, "trainer": {"numNodes": 3, "resourcesPerNode": amounts}}
    return {"apiVersion": f"{TRAINER}/v1alpha1", "kind": "TrainJob", "spec": spec}


def runtime(name: str, template: Body) -> Sequence[tuple[str, Body]]:
    labels = {f"{TRAINER}/trainjob-ancestor-step": "trainer"}
    job = {"metadata": {"labels": labels}, "spec": {"backoffLimit": 0, "template": template}}
    policy = {"numNodes": 1, "torch": {"numProcPerNode": "auto"}}
    spec = {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": [{"name": "node", "template": job}]}}}
    kind = {"apiVersion": f"{TRAINER}/v1alpha1", "kind": "ClusterTrainingRuntime"}
    return ((f"/apis/{TRAINER}/v1alpha1/clustertrainingruntimes", {**kind, "metadata": {"name": name}, "spec": spec}),)


def says_nothing(status: Body) -> bool:
    """A TrainJob that runs has no condition that says so, and this version leaves its counts empty."""
    return "jobsStatus" not in status and not any(one["status"] == "True" for one in status.get("conditions", []))


def leaderworkerset(_name: str, template: Body) -> Body:
    """Two groups of a leader and a worker."""
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}
    return {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "spec": spec}


def volcanojob(_name: str, template: Body) -> Body:
    """A leader and two workers. Volcano's webhook, which would write the scheduler into it, does not run."""
    tasks = [{"name": name, "replicas": count, "template": template} for name, count in (("leader", 1), ("workers", 2))]
    spec = {"schedulerName": "volcano", "minAvailable": 3, "tasks": tasks}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": spec}


def is_phase(phase: str) -> Told:
    return lambda status: bool(status.get("state", {}).get("phase") == phase)


# -- the table

JOBSET = Kind(
    "JobSet",
    "jobset.x-k8s.io/v1alpha2",
    "jobsets",
    "jobset",
    jobset,
    pods=5,
    selector="jobset.sigs.k8s.io/jobset-name={name}",
    labels=frozenset(
        {
            "jobset.sigs.k8s.io/jobset-uid",
            "jobset.sigs.k8s.io/replicatedjob-name",
            "jobset.sigs.k8s.io/job-index",
            "jobset.sigs.k8s.io/job-key",
            "jobset.sigs.k8s.io/restart-attempt",
            "batch.kubernetes.io/job-name",
            "batch.kubernetes.io/job-completion-index",
        }
    ),
    running=all_ready,
    suspend=("spec", "suspend"),
    suspended=condition("Suspended", "True", "SuspendedJobs"),
    succeeded=condition("Completed", "True", "AllJobsCompleted"),
    failed=condition("Failed", "True", "FailedJobs"),
)
MPIJOB = Kind(
    "MPIJob",
    "kubeflow.org/v2beta1",
    "mpijobs",
    "mpi",
    mpijob,
    pods=3,
    selector="training.kubeflow.org/job-name={name}",
    labels=frozenset({"training.kubeflow.org/job-role", "training.kubeflow.org/operator-name"}),
    running=condition("Running", "True", "MPIJobRunning"),
    suspend=("spec", "runPolicy", "suspend"),
    suspended=condition("Suspended", "True", "MPIJobSuspended"),
    succeeded=condition("Succeeded", "True", "MPIJobSucceeded"),
    failed=condition("Failed", "True", "BackoffLimitExceeded/"),  # the launcher pod's reason follows, here none
)
RAYJOB = Kind(
    "RayJob",
    "ray.io/v1",
    "rayjobs",
    "kuberay",
    rayjob,
    pods=4,  # no label of its pods has a RayJob's name
    running=says("Running", "RUNNING"),
    suspend=("spec", "suspend"),
    suspended=says("Suspended"),
    succeeded=says("Complete", "SUCCEEDED"),
    failed=says("Failed", "FAILED"),
)
RAYCLUSTER = Kind(
    "RayCluster",
    "ray.io/v1",
    "rayclusters",
    "kuberay",
    raycluster,
    pods=3,
    selector="ray.io/cluster={name}",
    labels=frozenset({"ray.io/group", "ray.io/node-type", "ray.io/is-ray-node"}),
    running=lambda status: status.get("state") == "ready",
    suspend=("spec", "suspend"),
    suspended=lambda status: status.get("state") == "suspended",
)
TRAINJOB = Kind(
    "TrainJob",
    f"{TRAINER}/v1alpha1",
    "trainjobs",
    "trainer",
    trainjob,
    pods=3,
    selector="jobset.sigs.k8s.io/jobset-name={name}",
    labels=frozenset(
        {
            "jobset.sigs.k8s.io/jobset-uid",
            "jobset.sigs.k8s.io/replicatedjob-name",
            "batch.kubernetes.io/job-name",
            "batch.kubernetes.io/job-completion-index",
        }
    ),
    running=says_nothing,
    on_hub=condition("Running", "True", "PodsRunning"),
    suspend=("spec", "suspend"),
    suspended=condition("Suspended", "True", "Suspended"),
    succeeded=condition("Complete", "True", "AllJobsCompleted"),
    failed=condition("Failed", "True", "FailedJobs"),
    needs=runtime,
    container="node",
)
LEADERWORKERSET = Kind(
    "LeaderWorkerSet",
    "leaderworkerset.x-k8s.io/v1",
    "leaderworkersets",
    "lws",
    leaderworkerset,
    pods=4,
    selector="leaderworkerset.sigs.k8s.io/name={name}",
    labels=frozenset(
        f"leaderworkerset.sigs.k8s.io/{key}"
        for key in (
            "name",
            "group-index",
            "group-key",
            "worker-index",
            "template-revision-hash",
        )
    ),
    running=condition("Available", "True", "AllGroupsReady"),
    restart="Always",
)
VOLCANOJOB = Kind(  # needs Volcano's scheduler, which is no operator of the bed
    "Job",
    "batch.volcano.sh/v1alpha1",
    "jobs",
    "volcano",
    volcanojob,
    pods=3,
    selector="volcano.sh/job-name={name}",
    labels=frozenset({"volcano.sh/task-spec"}),
    running=is_phase("Running"),
    succeeded=is_phase("Completed"),
    failed=is_phase("Failed"),
)
KINDS = (JOBSET, MPIJOB, RAYJOB, RAYCLUSTER, TRAINJOB, LEADERWORKERSET)
