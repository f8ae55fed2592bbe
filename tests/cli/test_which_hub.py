"""Which hub a command asks: the options, the environment, kubectl's own configuration, and servers that are no hub."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fleet.client.config import kubeconfig_files
from tests.cli.hub import Up, fleet, refusal
from tests.cli.manifests import job, written


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    running = Up(tmp_path_factory.mktemp("which") / "hub", "--members", "1", "--nodes", "1")
    try:
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("FLEET_KUBECONFIG", "FLEET_DATA_DIR", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def touched(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def kubeconfigs(kubeconfig: Path | None, data_dir: Path | None, context: str | None) -> tuple[list[Path], bool]:
    return kubeconfig_files(kubeconfig, data_dir, context, os.environ)


def test_what_is_said_for_the_command_wins_and_a_data_directory_is_the_fallback(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, theirs = home / ".fleet" / "kubeconfig", home / ".kube" / "config"
    assert kubeconfigs(None, None, None) == ([own], True)  # neither is there: the message names the first
    touched(theirs)
    assert kubeconfigs(None, None, None) == ([theirs], False)
    touched(own)
    assert kubeconfigs(None, None, None) == ([own], True)
    assert kubeconfigs(None, None, "other") == ([theirs], False)
    monkeypatch.setenv("FLEET_DATA_DIR", "/d")
    assert kubeconfigs(None, None, None) == ([Path("/d/kubeconfig")], True)
    monkeypatch.setenv("KUBECONFIG", "/a:/b")
    assert kubeconfigs(None, None, None) == ([Path("/a"), Path("/b")], False)
    monkeypatch.setenv("FLEET_KUBECONFIG", "/k")
    assert kubeconfigs(None, None, None) == ([Path("/k")], False)
    assert kubeconfigs(None, Path("/e"), None) == ([Path("/e/kubeconfig")], True)
    assert kubeconfigs(Path("/f"), Path("/e"), None) == ([Path("/f")], False)


def test_files_of_kubeconfig_merge_and_the_context_gives_the_namespace(up: Up, tmp_path: Path) -> None:
    whole = yaml.safe_load((up.folder / "kubeconfig").read_text())
    contexts = [
        {"name": name, "context": {"cluster": "fleet", "user": "admin", "namespace": name}}
        for name in ("team", "other")
    ]
    first, second = tmp_path / "contexts", tmp_path / "clusters"
    first.write_text(yaml.safe_dump({"contexts": contexts, "current-context": "team"}))
    second.write_text(yaml.safe_dump({**whole, "current-context": "fleet"}))
    kubeconfig = f"{first}:{tmp_path}/missing:{second}"
    assert fleet("jobs", KUBECONFIG=kubeconfig).stderr == "No jobs in team namespace\n"
    assert fleet("jobs", "--context", "other", KUBECONFIG=kubeconfig).stderr == "No jobs in other namespace\n"
    assert fleet("jobs", "-n", "mine", KUBECONFIG=kubeconfig).stderr == "No jobs in mine namespace\n"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    done = fleet("submit", written(tmp_path / "job.yaml", namespace, job("one")), KUBECONFIG=kubeconfig)
    assert done.returncode == 0, done.stderr
    assert up.hub.find("/apis/kubeflow.org/v1/namespaces/team/pytorchjobs/one") is not None
    assert fleet("explain", "one", KUBECONFIG=kubeconfig).stdout.startswith("PyTorchJob team/one: ")
    assert fleet("delete", "pytorchjob/one", KUBECONFIG=kubeconfig).returncode == 0


@pytest.mark.parametrize("command", [("jobs",), ("submit",), ("delete", "configmap/a"), ("clusters",), ("queues",)])
def test_a_server_that_is_no_hub_is_named_with_the_file_and_left_alone(
    up: Up, tmp_path: Path, command: tuple[str, ...]
) -> None:
    [member] = (up.folder / "members").glob("*.kubeconfig")
    words = (*command, written(tmp_path / "job.yaml", job("one"))) if command == ("submit",) else command
    said = refusal(fleet(*words, KUBECONFIG=str(member)))
    server = yaml.safe_load(member.read_text())["clusters"][0]["cluster"]["server"]
    assert said.startswith(f"fleet: {server} is no Fleet hub (context ") and f" of {member}): name the hub with" in said


def test_a_hub_that_is_away_is_named_with_a_way_to_check(up: Up, tmp_path: Path) -> None:
    away = yaml.safe_load((up.folder / "kubeconfig").read_text())
    away["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    path = tmp_path / "away"
    path.write_text(yaml.safe_dump(away))
    assert refusal(fleet("jobs", "--kubeconfig", str(path))) == (
        f"fleet: the hub does not answer ({path}): no answer from https://127.0.0.1:9: connection refused; is it"
        " running? curl -k https://127.0.0.1:9/readyz tells"
    )
