"""What each page takes for granted when it shows its commands: objects on the hub, and files beside the reader."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.docs.shown import FENCE, commands
from tests.e2e.manifests import Manifest, gang_policy, leaf, pytorchjob, quota_tree

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to"


@dataclass(frozen=True)
class World:
    """`namespace`: of the reader's context; `running`, `finished`: jobs that have come so far at the first command;
    `later`: objects that are made after that."""

    namespace: str = "default"
    objects: tuple[Manifest, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    running: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()
    later: tuple[Manifest, ...] = ()


def namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def job(name: str, *, gpus: int = 8) -> Manifest:
    """Of one pod, which runs until it is deleted."""
    return pytorchjob(name, workers=0, gpus=gpus)


def of_two() -> Manifest:
    """A master without requests but its GPU, and a worker with them."""
    made = pytorchjob("train", workers=1)
    worker = yaml.safe_load(yaml.safe_dump(made["spec"]["pytorchReplicaSpecs"]["Worker"]))
    worker["template"]["spec"]["containers"][0]["resources"]["limits"] |= {"cpu": 2, "memory": "4Gi"}
    made["spec"]["pytorchReplicaSpecs"]["Worker"] = worker
    return made


def away(server: str) -> str:
    """A kubeconfig of a hub that does not run."""
    return yaml.safe_dump({
        "apiVersion": "v1", "kind": "Config", "current-context": "away",
        "contexts": [{"name": "away", "context": {"cluster": "away", "user": "away"}}],
        "clusters": [{"name": "away", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "away", "user": {"token": "none"}}],
    })  # fmt: skip


def sized(tree: Manifest, gpus: int) -> Manifest:
    """The tree over so many GPUs."""
    for which in ("min", "max"):
        tree["spec"]["root"][which] = {**tree["spec"]["root"][which], "nvidia.com/gpu": gpus}
    return tree


def shown_files(page: str) -> dict[str, str]:
    """The files that a page shows with `cat`."""
    found = commands((HOW_TO / page).read_text())
    return {one.line[4:]: "\n".join(one.output or ()) for one in found if one.line.startswith("cat ")}


def template_of(page: str) -> Manifest:
    """The ConfigMap that a page shows."""
    blocks = [
        yaml.safe_load(block) for language, block in FENCE.findall((HOW_TO / page).read_text()) if language == "yaml"
    ]
    return next(body for body in blocks if body["kind"] == "ConfigMap")


def within(name: str, manifest: Manifest) -> Manifest:
    """The object in another namespace than the reader's."""
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": name}}


LISTS = World(
    namespace="vision",
    objects=(
        namespace("vision"), namespace("speech"),
        sized(quota_tree(
            leaf("vision", "vision", **{"kube-queue/max-jobs": 2, "nvidia.com/gpu": 16}),
            leaf("speech", "speech", **{"nvidia.com/gpu": 16}),
        ), 16),
        gang_policy(queue=True), job("one"), job("two"), job("three"),
    ),
    files={"away.kubeconfig": away("https://127.0.0.1:1")},
    running=("one", "two"),
)  # fmt: skip
SHELLS = World(
    namespace="team-a", objects=(namespace("team-a"), gang_policy(), of_two()), running=("train",),
)  # fmt: skip
PAST = World(namespace="past", objects=(namespace("past"), gang_policy(), job("train-4")), running=("train-4",))
FILES = World(
    objects=(
        namespace("batch"), quota_tree(leaf("a", "default", "batch")), gang_policy("jobs", queue=True),
        within("batch", gang_policy("jobs", queue=True)), within("batch", pytorchjob("prep", workers=0, run_for="1s")),
    ),
    files={
        "jobs/prep.yaml": yaml.safe_dump(within("batch", pytorchjob("prep", workers=0, run_for="1s"))),
        "jobs/train.yaml": yaml.safe_dump(within("batch", job("train", gpus=1))),
        "job.yaml": yaml.safe_dump(job("train", gpus=1)), "big.yaml": yaml.safe_dump(job("big", gpus=16)),
        "train.yaml": yaml.safe_dump(job("train", gpus=1)),
    },
    finished=("prep -n batch",),
)  # fmt: skip
TOLD = World(
    namespace="vision",
    objects=(
        namespace("vision"), gang_policy(),
        {
            "apiVersion": "v1", "kind": "Secret", "type": "fleet.io/notification", "metadata": {"name": "chat-hook"},
            "stringData": {"url": "https://127.0.0.1/hook"},
        },
        {
            "apiVersion": "config.fleet.io/v1alpha1", "kind": "NotificationReceiver", "metadata": {"name": "chat"},
            "spec": {
                "selector": {}, "events": ["Started", "Succeeded", "Failed", "Evicted"],
                "webhook": {"format": "Slack", "urlFrom": {"name": "chat-hook", "key": "url"}},
            },
        },
        job("train"),
    ),
    running=("train",),
)  # fmt: skip
WAITS = World(
    namespace="waits",
    objects=(
        namespace("waits"), quota_tree(leaf("child-2", "waits", **{"kube-queue/max-jobs": 1})),
        gang_policy(queue=True), pytorchjob("pytorch-test"),
    ),
    files=shown_files("find-out-why-a-job-waits.md"), running=("pytorch-test",),
    later=(pytorchjob("pytorch-second"),),
)  # fmt: skip
RUNS = World(
    namespace="runs",
    objects=(
        namespace("runs"), quota_tree(leaf("a", "runs")), gang_policy(queue=True), template_of("run-a-job.md"),
    ),
)  # fmt: skip
WORLDS = {
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
}
