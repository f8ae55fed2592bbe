"""Helm installs, upgrades, rolls back and uninstalls a chart on a hub with a simulated member."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.build import client
from tests.e2e.hub import Hub, Kubectl, Output

CHART = Path(__file__).parent / "chart"
SPACE = "team-a"
CREATED = ("PyTorchJob", "Dataset", "ConfigMap")


class Helm:
    """Helm and kubectl, as users of one hub."""

    def __init__(self, hub: Hub) -> None:
        self.kubectl = Kubectl(hub.kubeconfig)
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(hub.kubeconfig),
            "HOME": str(hub.folder),
            "HELM_NAMESPACE": SPACE,
        }

    def try_run(self, *words: str) -> Output:
        done = subprocess.run(
            [str(client("helm")), *words],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        return Output(done.returncode, done.stdout, done.stderr)

    def run(self, *words: str) -> str:
        done = self.try_run(*words)
        assert done.code == 0, f"helm {' '.join(words)}: {done.out}\n{done.err}"
        return done.out

    def history(self) -> list[tuple[int, str, str]]:
        found: list[dict[str, Any]] = json.loads(self.run("history", "train", "-o", "json"))
        return [(row["revision"], row["status"], row["description"]) for row in found]

    def image(self) -> str:
        job = self.kubectl.get("pytorchjob", "train", "-n", SPACE)
        container = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
        return str(container["image"])


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Helm]:
    hub = Hub(tmp_path_factory.mktemp("helm") / "hub", "--members", "1")
    hub.start()
    try:
        yield Helm(hub)
    finally:
        assert hub.stop() == 0, hub.log()


def test_a_chart_lives_its_life_on_a_hub(helm: Helm) -> None:
    shown = helm.run("install", "train", str(CHART), "--create-namespace", "--wait", "--wait-for-jobs", "--timeout=3m")
    assert "STATUS: deployed" in shown
    assert helm.kubectl.get("dataset", "train", "-n", SPACE)["spec"] == {"path": "/data"}
    hook = helm.kubectl.get("job", "train-post-install", "-n", SPACE)
    assert {c["type"]: c["status"] for c in hook["status"]["conditions"]}["Complete"] == "True"
    assert "Phase:          Succeeded" in helm.run("test", "train", "--timeout=3m")

    dry = helm.run("upgrade", "train", str(CHART), "--set", "image=train:2", "--dry-run=server")
    assert 'members: "1"' in dry and "STATUS: pending-upgrade" in dry
    assert helm.image() == "train:1"
    helm.run("upgrade", "train", str(CHART), "--set", "image=train:2,gpus=8", "--wait", "--timeout=3m")
    assert helm.image() == "train:2"
    failed = helm.try_run(
        "upgrade", "train", str(CHART), "--set", "image=train:3,workers=-1", "--atomic", "--timeout=3m"
    )
    assert failed.code == 1 and "has been rolled back due to atomic being set" in failed.err
    assert helm.image() == "train:2"
    helm.run("rollback", "train", "1", "--wait", "--timeout=3m")
    assert helm.image() == "train:1"
    history = helm.history()
    assert [(number, status) for number, status, _ in history] == [
        (1, "superseded"),
        (2, "superseded"),
        (3, "failed"),
        (4, "superseded"),
        (5, "deployed"),
    ]
    assert [row[2] for row in history[3:]] == ["Rollback to 2", "Rollback to 1"]
    assert [row["name"] for row in json.loads(helm.run("list", "-o", "json"))] == ["train"]

    helm.run("uninstall", "train", "--wait", "--timeout=3m")
    for kind in CREATED:
        assert helm.kubectl.items(kind, "-n", SPACE, "-l", "app.kubernetes.io/managed-by=Helm") == []
    assert helm.kubectl.get("crd", "datasets.clients.example.org")["kind"] == "CustomResourceDefinition"


def test_an_atomic_install_that_is_refused_leaves_nothing(helm: Helm) -> None:
    words = ("install", "bad", str(CHART), "--create-namespace", "--atomic", "--timeout=3m", "--set", "workers=-1")
    done = helm.try_run(*words)
    assert done.code == 1 and "has been uninstalled due to atomic being set" in done.err
    assert json.loads(helm.run("list", "--all", "-o", "json")) == []
    assert helm.kubectl.try_run("get", "pytorchjob", "bad", "-n", SPACE).code == 1
