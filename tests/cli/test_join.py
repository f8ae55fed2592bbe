"""`fleet join` looks before it stores: whatever is wrong is one line, and nothing of it is kept."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from fleet.amc.client import Client
from fleet.amc.get import CLUSTERS
from fleet.amc.kubeconfig import load
from fleet.cli.joining import SECRETS
from tests.cli.hub import BIN, Up, fleet, refusal, until


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of a member that nobody has joined yet."""
    folder = tmp_path_factory.mktemp("sim")
    sim = subprocess.Popen([str(BIN / "fleet"), "sim", "--members", "1", "--data-dir", str(folder)])
    try:
        path = folder / "members" / "cfa.kubeconfig"
        until("the member serves", path.exists)
        yield path
    finally:
        sim.terminate()
        sim.wait(20)


def changed(kubeconfig: Path, folder: Path, *path: str | int, to: object) -> Path:
    """A copy with one field changed."""
    document = yaml.safe_load(kubeconfig.read_text())
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    copy = folder / "kubeconfig"
    copy.write_text(yaml.safe_dump(document))
    return copy


def join(up: Up, name: str, kubeconfig: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return fleet("join", name, "--kubeconfig", str(kubeconfig), "--data-dir", str(up.folder), *more)


def stored(up: Up) -> list[str]:
    return [item["metadata"]["name"] for path in (CLUSTERS, SECRETS) for item in up.hub.list(path)]


def test_a_simulated_member_is_reached_over_tls_and_with_its_token_alone(kubeconfig: Path) -> None:
    access = load([kubeconfig])
    assert access.server.startswith("https://") and access.ca and not access.insecure
    assert Client(access).get("/api/v1/nodes").status == 200
    assert Client(replace(access, token="")).get("/api/v1/nodes").status in (401, 403)
    assert {path.stat().st_mode & 0o777 for path in kubeconfig.parent.iterdir()} == {0o600}


def test_what_is_wrong_is_one_line_and_nothing_is_stored(up: Up, kubeconfig: Path, tmp_path: Path) -> None:
    server = ("clusters", 0, "cluster", "server")
    assert refusal(join(up, "m", changed(kubeconfig, tmp_path, *server, to="http://127.0.0.1:1"))) == (
        "fleet: cannot join m: no answer from http://127.0.0.1:1: connection refused"
    )
    assert "does not accept the credentials of user admin" in refusal(
        join(up, "m", changed(kubeconfig, tmp_path, "users", 0, "user", "token", to="wrong"))
    )
    assert 'context "nope" does not exist' in refusal(join(up, "m", kubeconfig, "--context", "nope"))
    assert "No such file" in refusal(join(up, "m", tmp_path / "missing"))
    assert "gets its credentials from a program" in refusal(
        join(up, "m", changed(kubeconfig, tmp_path, "users", 0, "user", to={"exec": {"command": "x"}}))
    )
    (tmp_path / "text").write_text("a: [")
    assert "is not YAML" in refusal(join(up, "m", tmp_path / "text"))
    assert "is no name for a member" in refusal(join(up, "No_Name", kubeconfig))
    assert "not KEY=VALUE" in refusal(join(up, "m", kubeconfig, "--label", "x"))
    assert stored(up) == []


def test_joining_twice_changes_the_member_and_a_second_name_is_refused(up: Up, kubeconfig: Path) -> None:
    first = join(up, "one", kubeconfig, "--label", "tier=gold", "--region", "north")
    assert (first.returncode, first.stdout, first.stderr) == (0, "one joined\n", "")
    assert join(up, "one", kubeconfig, "--label", "tier=silver").returncode == 0
    cluster = up.hub.find(f"{CLUSTERS}/one")
    assert cluster is not None
    assert cluster["metadata"]["labels"] == {"tier": "silver"} and cluster["spec"]["region"] == "north"
    assert refusal(join(up, "two", kubeconfig)) == "fleet: this cluster is joined already, as one"
    assert stored(up) == ["one", "member-one"]

    listed = fleet("clusters", "--data-dir", str(up.folder)).stdout.splitlines()
    assert listed[0].split()[:4] == ["NAME", "STATE", "MODE", "VERSION"]
    assert listed[1].split()[:5] == ["one", "ready", "Push", "v1.36.3", "4/4"]

    left = fleet("unjoin", "one", "--data-dir", str(up.folder))
    assert (left.returncode, left.stdout) == (0, "one has left\n")
    assert stored(up) == []
    assert 'no member "one"' in refusal(fleet("unjoin", "one", "--data-dir", str(up.folder)))
