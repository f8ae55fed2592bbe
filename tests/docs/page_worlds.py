"""The worlds of the pages: objects on the hub, and files beside the reader."""

from __future__ import annotations

import yaml

from tests.docs import worlds_of_admins, worlds_of_jobs
from tests.docs.world import (
    GONE,
    Meanwhile,
    World,
    example,
    job,
    moved,
    namespace,
    shown_files,
    shown_object,
    sized,
    within,
)
from tests.e2e.manifests import Manifest, gang_policy, leaf, pytorchjob, quota_tree


def of_two() -> Manifest:
    """A master without requests but its GPU, and a worker with them."""
    made = pytorchjob("train", workers=1)
    worker = yaml.safe_load(yaml.safe_dump(made["spec"]["pytorchReplicaSpecs"]["Worker"]))
    worker["template"]["spec"]["containers"][0]["resources"]["limits"] |= {"cpu": 2, "memory": "4Gi"}
    made["spec"]["pytorchReplicaSpecs"]["Worker"] = worker
    return made


def away(server: str) -> str:
    """A kubeconfig of a hub that does not run."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "away",
            "contexts": [{"name": "away", "context": {"cluster": "away", "user": "away"}}],
            "clusters": [{"name": "away", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "away", "user": {"token": "none"}}],
        }
    )


LISTS = World(
    namespace="vision",
    objects=(
        namespace("vision"),
        namespace("speech"),
        sized(
            quota_tree(
                leaf("vision", "vision", **{"kube-queue/max-jobs": 2, "nvidia.com/gpu": 16}),
                leaf("speech", "speech", **{"nvidia.com/gpu": 16}),
            ),
            16,
        ),
        gang_policy(queue=True),
        job("one"),
        job("two"),
        job("three"),
    ),
    files={"away.kubeconfig": away("https://127.0.0.1:1")},
    running=("one", "two"),
)
SHELLS = World(
    namespace="team-a",
    objects=(namespace("team-a"), gang_policy(), of_two()),
    running=("train",),
)
PAST = World(namespace="past", objects=(namespace("past"), gang_policy(), job("train-4")), running=("train-4",))
FILES = World(
    objects=(
        namespace("batch"),
        quota_tree(leaf("a", "default", "batch")),
        gang_policy("jobs", queue=True),
        within("batch", gang_policy("jobs", queue=True)),
        within("batch", pytorchjob("prep", workers=0, run_for="1s")),
    ),
    files={
        "jobs/prep.yaml": yaml.safe_dump(within("batch", pytorchjob("prep", workers=0, run_for="1s"))),
        "jobs/train.yaml": yaml.safe_dump(within("batch", job("train", gpus=1))),
        "job.yaml": yaml.safe_dump(job("train", gpus=1)),
        "big.yaml": yaml.safe_dump(job("big", gpus=16)),
        "train.yaml": yaml.safe_dump(job("train", gpus=1)),
    },
    finished=("prep -n batch",),
)
TOLD = World(
    namespace="vision",
    objects=(
        namespace("vision"),
        gang_policy(),
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "fleet.io/notification",
            "metadata": {"name": "chat-hook"},
            "stringData": {"url": "https://127.0.0.1/hook"},
        },
        {
            "apiVersion": "config.fleet.io/v1alpha1",
            "kind": "NotificationReceiver",
            "metadata": {"name": "chat"},
            "spec": {
                "selector": {},
                "events": ["Started", "Succeeded", "Failed", "Evicted"],
                "webhook": {"format": "Slack", "urlFrom": {"name": "chat-hook", "key": "url"}},
            },
        },
        job("train"),
    ),
    running=("train",),
)
WAITS = World(
    objects=(example("quota-tree.yaml"), gang_policy(queue=True), pytorchjob("pytorch-test")),
    files=shown_files("find-out-why-a-job-waits.md"),
    running=("pytorch-test",),
    meanwhile=(
        Meanwhile(objects=(pytorchjob("pytorch-second"),)),
        Meanwhile("fleet explain pytorch-too-large", objects=(example("too-large.yaml"),)),
        Meanwhile(
            "fleet explain failing",
            shell=GONE,
            objects=(
                gang_policy(queue=True, failover=moved(tolerationSeconds=0, backoffLimit=1)),
                pytorchjob("failing", run_for="1s", exit_code=1),
            ),
        ),
    ),
)
RUNS = World(
    namespace="runs",
    objects=(
        namespace("runs"),
        quota_tree(leaf("a", "runs")),
        gang_policy(queue=True),
        shown_object("run-a-job.md", "ConfigMap"),
    ),
)
WORLDS = {
    **worlds_of_jobs.WORLDS,
    **worlds_of_admins.WORLDS,
    "find-out-why-a-job-waits.md": WAITS,
    "run-a-job.md": RUNS,
    "submit-check-and-sweep.md": FILES,
    "get-told.md": TOLD,
    "use-the-command-line.md": LISTS,
    "logs-and-shells.md": SHELLS,
    "report-usage.md": PAST,
    "keep-a-history.md": PAST,
    "incidents.md": PAST,
    "run-in-production.md": PAST,
    "upgrade.md": PAST,
}
