"""Kubeconfigs that are taken, and others that are refused with the field named."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.members.kubeconfig import read_kubeconfig
from fleet.members.relay import client_from_kubeconfig
from fleet.values.kubeconfig.document import BadKubeconfig


def config(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> str:
    return yaml.safe_dump(
        {
            "current-context": "m",
            "contexts": [{"name": "m", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster or {"server": "https://127.0.0.1:6443"}}],
            "users": [{"name": "u", "user": {"token": "t"} if user is None else user}],
        }
    )


def test_a_token_and_the_server_are_taken() -> None:
    client = client_from_kubeconfig(config())
    assert str(client.base_url) == "https://127.0.0.1:6443"
    assert client.headers["authorization"] == "Bearer t"


def test_a_user_name_and_password_are_taken() -> None:
    client = client_from_kubeconfig(config(user={"username": "ann", "password": "secret"}))
    assert client.headers["authorization"] == "Basic " + base64.b64encode(b"ann:secret").decode()


@pytest.mark.parametrize(
    ("text", "field"),
    [
        pytest.param("{", "", id="not YAML"),
        pytest.param("[]", "", id="not a mapping"),
        pytest.param("{}", "current-context", id="no context"),
        pytest.param(config(cluster={"server": "ftp://x"}), "clusters[0].cluster.server", id="no URL"),
        pytest.param(
            config(cluster={"server": "https://x", "certificate-authority": "/etc/ca.crt"}),
            "clusters[0].cluster.certificate-authority",
            id="a file of the hub's machine",
        ),
        pytest.param(
            config(cluster={"server": "https://x", "certificate-authority-data": "%%%"}),
            "clusters[0].cluster.certificate-authority-data",
            id="not base64",
        ),
        pytest.param(
            config(cluster={"server": "https://x", "certificate-authority-data": "aGVsbG8="}),
            "clusters[0].cluster.certificate-authority-data",
            id="no certificate",
        ),
        pytest.param(config(user={"tokenFile": "/run/token"}), "users[0].user.tokenFile", id="a token file"),
        pytest.param(config(user={"exec": {"command": "aws"}}), "users[0].user.exec", id="a program"),
        pytest.param(config(user={"auth-provider": {"name": "oidc"}}), "users[0].user.auth-provider", id="a provider"),
        pytest.param(
            config(user={"client-certificate-data": "aGVsbG8="}), "users[0].user.client-key-data", id="half a pair"
        ),
        pytest.param(config(cluster={"server": "https://x:y"}), "clusters[0].cluster.server", id="no port"),
        pytest.param(
            config(cluster={"server": "https://x", "proxy-url": "socks5://y"}),
            "clusters[0].cluster.proxy-url",
            id="no proxy that can be used",
        ),
        pytest.param(config(user={}), "users[0].user", id="no credentials"),
        pytest.param(config(user={"token": "t", "as": "root"}), "users[0].user.as", id="impersonation"),
    ],
)
def test_what_cannot_be_used_names_the_field(text: str, field: str) -> None:
    with pytest.raises(BadKubeconfig) as refused:
        read_kubeconfig(text)
    assert refused.value.field == field


def test_nothing_of_the_credentials_is_left_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    data = base64.b64encode(b"not a certificate").decode()
    text = config(user={"client-certificate-data": data, "client-key-data": data})
    for _ in range(2):  # the second load must not be pointed at files that the first removed
        with pytest.raises(BadKubeconfig) as refused:
            client_from_kubeconfig(text)
        assert refused.value.field == "users[0].user.client-certificate-data"
    assert list(tmp_path.iterdir()) == []
