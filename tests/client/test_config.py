"""The hub that a client finds: by arguments, kubeconfigs with plugins, environment variables, or the pod it runs in."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from fleet.client import BadConfiguration, Fleet, Unauthorized
from tests.cli.hub import Up
from tests.client.conftest import kubeconfig_of


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "FLEET_KUBECONFIG", "FLEET_DATA_DIR", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def _token(up: Up) -> str:
    return str(yaml.safe_load(kubeconfig_of(up).read_text())["users"][0]["user"]["token"])


def _edited(up: Up, path: Path, user: Mapping[str, object], namespace: str = "") -> Path:
    config = yaml.safe_load(kubeconfig_of(up).read_text())
    config["users"][0]["user"] = dict(user)
    if namespace:
        config["contexts"][0]["context"]["namespace"] = namespace
    path.write_text(yaml.safe_dump(config))
    return path


def test_a_kubeconfig_gives_namespace_and_credentials(up: Up, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _edited(up, tmp_path / "config", {"token": _token(up)}, "kube-system")
    monkeypatch.setenv("KUBECONFIG", str(path))
    with Fleet() as fleet:
        assert fleet.namespace == "kube-system" and fleet.status().healthy


def test_a_plugin_of_a_kubeconfig_gives_the_token(up: Up, tmp_path: Path) -> None:
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": _token(up)},
    }
    plugin = {
        "apiVersion": credential["apiVersion"],
        "command": sys.executable,
        "interactiveMode": "Never",
        "args": ["-c", f"print({json.dumps(json.dumps(credential))})"],
    }
    with Fleet(kubeconfig=_edited(up, tmp_path / "config", {"exec": plugin})) as fleet:
        assert [one.name for one in fleet.clusters()] == ["cfa"]


def test_server_token_and_authority_may_be_given(up: Up) -> None:
    config = yaml.safe_load(kubeconfig_of(up).read_text())
    server, ca = config["clusters"][0]["cluster"]["server"], up.folder / "pki" / "ca.crt"
    tokens = iter(["wrong", _token(up)])
    with Fleet(server=server, token=lambda: next(tokens), ca=ca) as fleet:
        with pytest.raises(Unauthorized):
            fleet.status()
        assert fleet.status().healthy
    with Fleet(server=server, token=_token(up), ca=ca.read_bytes()) as fleet:
        assert fleet.status().healthy


def test_a_pod_uses_its_service_account(up: Up, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ca = (up.folder / "pki" / "ca.crt").read_text()
    for name, content in (("token", _token(up)), ("namespace", "team-a"), ("ca.crt", ca)):
        (tmp_path / name).write_text(content)
    monkeypatch.setattr("fleet.client.config.POD_ACCOUNT", tmp_path)
    server = yaml.safe_load(kubeconfig_of(up).read_text())["clusters"][0]["cluster"]["server"]
    host, port = server.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    with Fleet() as fleet:
        assert fleet.namespace == "team-a" and fleet.status().healthy
        (tmp_path / "token").write_text("renewed")
        with pytest.raises(Unauthorized):
            fleet.status()


def test_what_cannot_be_used_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("clusters: []")
    for how, said in (
        ({}, r"no hub found: .*/home/\.fleet/kubeconfig does not exist"),
        ({"kubeconfig": tmp_path / "config"}, "kubeconfig .*config: "),
        ({"server": "http://hub"}, "http://hub: a hub is reached over https:// alone"),
        ({"server": "https://hub", "ca": tmp_path / "none"}, "ca: certificates cannot be read"),
    ):
        with pytest.raises(BadConfiguration, match=said) as refused:
            Fleet(**how)
        assert "\n" not in str(refused.value)
