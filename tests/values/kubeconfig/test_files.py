"""Files of kubeconfigs are read and merged as kubectl does it."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.values.kubeconfig.document import BadKubeconfig
from fleet.values.kubeconfig.files import Access, load


def written(path: Path, context: str = "", **sections: dict[str, Any]) -> Path:
    """A file with these clusters, users and contexts by name."""
    document: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "current-context": context}
    for section, entries in sections.items():
        document[section] = [{"name": name, section[:-1]: entry} for name, entry in entries.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two files that name the same things otherwise, and a third that is not there."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "token").write_text("from-a-file\n")
    first = written(
        tmp_path / "one" / "config",
        clusters={"c": {"server": "https://first:1"}},
        users={"u": {"tokenFile": "token"}},
        contexts={"a": {"cluster": "c", "user": "u", "namespace": "team"}},
    )
    second = written(
        tmp_path / "two" / "config",
        "b",
        clusters={"c": {"server": "https://second:2"}, "d": {"server": "https://d:3"}},
        users={"u": {"token": "second"}, "v": {"username": "ann", "password": "se:cret"}},
        contexts={"a": {"cluster": "d", "user": "v"}, "b": {"cluster": "d", "user": "v"}},
    )
    return [first, tmp_path / "none", second]


@pytest.mark.parametrize("context", [None, "a", "b"])
def test_several_files_mean_what_kubectl_takes_them_for(files: list[Path], context: str | None) -> None:
    chosen = ["--context", context] if context else []
    done = subprocess.run(
        ["kubectl", "config", "view", "--minify", "--raw", "-o", "json", *chosen],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "KUBECONFIG": os.pathsep.join(map(str, files))},
    )
    said = json.loads(done.stdout)
    user = said["users"][0]["user"]
    found = load(files, context=context)
    assert found.server == said["clusters"][0]["cluster"]["server"]
    assert found.namespace == said["contexts"][0]["context"].get("namespace", "default")
    assert found.context == (context or said["current-context"])
    assert found.token == ("from-a-file" if "tokenFile" in user else user.get("token", ""))
    assert found.basic == (f"{user['username']}:{user['password']}" if "username" in user else "")


def test_a_name_with_a_password_is_basic_and_a_token_counts_more(files: list[Path]) -> None:
    assert load(files).credential.authorization == f"Basic {base64.b64encode(b'ann:se:cret').decode()}"
    assert load(files, token="given").credential.authorization == "Bearer given"
    assert load(files, context="a").credential.authorization == "Bearer from-a-file"


def test_every_field_of_a_cluster_is_a_value(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(b"authority")
    cluster = {
        "server": "https://x/",
        "certificate-authority": "ca.crt",
        "tls-server-name": "y",
        "insecure-skip-tls-verify": True,
        "proxy-url": "http://proxy:3128",
    }
    path = written(tmp_path / "config", "a", clusters={"c": cluster}, contexts={"a": {"cluster": "c"}})
    assert load([path]) == Access(
        "https://x", ca=b"authority", insecure=True, server_name="y", proxy="http://proxy:3128", context="a"
    )


@pytest.mark.parametrize(
    ("cluster", "user", "field"),
    [
        ({"insecure-skip-tls-verify": "false"}, {}, "clusters[0].cluster.insecure-skip-tls-verify"),
        ({"tls-server-name": 5}, {}, "clusters[0].cluster.tls-server-name"),
        ({"certificate-authority": ["ca"]}, {}, "clusters[0].cluster.certificate-authority"),
        ({}, {"token": 5}, "users[0].user.token"),
        ({}, {"token": "a\nb"}, "users[0].user.token"),
        ({}, {"tokenFile": "bytes"}, "users[0].user.tokenFile"),
        ({}, {"tokenFile": "\x00"}, "users[0].user.tokenFile"),
        ({}, {"username": True}, "users[0].user.username"),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_field(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], field: str
) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    path = written(
        tmp_path / "config",
        "a",
        clusters={"c": {"server": "https://x", **cluster}},
        users={"u": user},
        contexts={"a": {"cluster": "c", "user": "u"}},
    )
    with pytest.raises(BadKubeconfig) as refused:
        load([path])
    assert refused.value.field == field


def test_a_file_that_is_named_and_missing_is_refused_with_its_field(files: list[Path]) -> None:
    (files[0].parent / "token").unlink()
    with pytest.raises(BadKubeconfig, match=r"users\[0\].user.tokenFile: cannot read .*/token: No such file"):
        load(files, context="a")
