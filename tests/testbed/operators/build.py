"""Builds controllers and schedulers of other projects from Go modules, each once, into a folder of its own.

What is built is fixed by the go.mod and go.sum of the folder that has the name. The cache folder carries the digest of
the two files and of the line of `SOURCES`, so one changed version builds one thing again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonpatch
import yaml

from tests.testbed.build import Parts, cache_folder, find_go, locked, module_folder, run_go, say

HERE = Path(__file__).parent
Body = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """A Go module, and what a member needs of its files: `objects` are patterns of YAML files with definitions,
    webhooks and settings. `patches` is what its kustomization changes in them: a file of JSON patches by kind."""

    module: str
    objects: tuple[str, ...]
    patches: Mapping[str, str] = field(default_factory=dict)


SOURCES: dict[str, Source] = {
    "koordinator": Source(
        "github.com/koordinator-sh/koordinator", ("config/crd/bases/*.yaml", "config/manager/scheduler-config.yaml")
    ),
    "coscheduling": Source(
        "sigs.k8s.io/scheduler-plugins",
        ("config/crd/bases/scheduling.x-k8s.io_podgroups.yaml", "manifests/coscheduling/scheduler-config.yaml"),
    ),
    "volcano": Source("volcano.sh/volcano", ("config/crd/*/bases/*.yaml",)),
    "kueue": Source(
        "sigs.k8s.io/kueue",
        (
            "config/components/crd/bases/*.yaml",
            "config/components/webhook/manifests.yaml",
            "config/components/manager/controller_manager_config.yaml",
        ),
    ),
    "jobset": Source(
        "sigs.k8s.io/jobset",
        ("config/components/crd/bases/*.yaml", "config/components/webhook/manifests.yaml"),
        {
            "MutatingWebhookConfiguration": "config/components/webhook/patches/mutating-patch.yaml",
            "ValidatingWebhookConfiguration": "config/components/webhook/patches/validating-patch.yaml",
        },
    ),
    "lws": Source(
        "sigs.k8s.io/lws",
        ("config/crd/bases/leaderworkerset*.yaml", "config/webhook/manifests.yaml"),
        {
            "MutatingWebhookConfiguration": "config/webhook/mutating-patch.yaml",
            "ValidatingWebhookConfiguration": "config/webhook/validating-patch.yaml",
        },
    ),
    "mpi": Source("github.com/kubeflow/mpi-operator", ("manifests/base/kubeflow.org_mpijobs.yaml",)),
    "kuberay": Source("github.com/ray-project/kuberay/ray-operator", ("config/crd/bases/*.yaml",)),
    "trainer": Source(
        "github.com/kubeflow/trainer/v2",
        ("manifests/base/crds/trainer*.yaml", "manifests/base/webhook/manifests.yaml"),
        {"ValidatingWebhookConfiguration": "manifests/base/webhook/patch.yaml"},
    ),
}


def built(name: str) -> Parts:
    """The binaries of one, as Go names them, and its objects in one file; built on the first call on a machine."""
    root = cache_folder() / f"{name}-{_digest(name)}"
    done = root / "complete"
    if not done.exists():
        root.mkdir(parents=True, exist_ok=True)
        with locked(root / "lock"):
            if not done.exists():
                _build(name, Parts(root))
                done.write_text("built\n")
    return Parts(root)


def objects(name: str) -> list[Body]:
    """The objects of its module's files, patched as its kustomization does."""
    found: list[Body] = json.loads(built(name).manifest("objects.json").read_text())
    return found


def _digest(name: str) -> str:
    digest = hashlib.sha256(repr(SOURCES[name]).encode())
    for file in ("go.mod", "go.sum"):
        digest.update((HERE / name / file).read_bytes())
    return digest.hexdigest()[:16]


def _build(name: str, parts: Parts) -> None:
    go = find_go()
    begin = time.monotonic()
    say(begin, f"building {name} (a cold build takes some minutes)")
    target = {"GOBIN": str(parts.root / "bin")}
    run_go([go, "install", "-mod=readonly", "-ldflags", "-s -w", "tool"], HERE / name, go, target)
    source = SOURCES[name]
    folder = module_folder(source.module, HERE / name, go)
    paths = [path for pattern in source.objects for path in sorted(folder.glob(pattern))]
    bodies = [body for path in paths for body in yaml.load_all(path.read_bytes(), yaml.CSafeLoader) if body]
    for kind, file in source.patches.items():
        patch = yaml.load((folder / file).read_bytes(), yaml.CSafeLoader)
        bodies = [jsonpatch.apply_patch(body, patch) if body["kind"] == kind else body for body in bodies]
    (parts.root / "manifests").mkdir(exist_ok=True)
    parts.manifest("objects.json").write_text(json.dumps(bodies, default=str))
    say(begin, f"{name} is ready in {parts.root}")
