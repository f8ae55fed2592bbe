"""A hub that is restored from a backup while its members work on: nothing that runs is stopped, and people decide."""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from fleet.amc.client import Client
from fleet.cli import orphans
from fleet.cli.joblist import listed
from fleet.values.kubeconfig.files import load
from tests.cli.hub import BIN, Up, fleet, until
from tests.cli.manifests import GPU, TREE, job, policy, written
from tests.conftest import Server, run_apart
from tests.slow import repeated

LIMITS = {GPU: 64}
QUOTA = {
    **TREE,
    "spec": {
        "root": {
            "name": "root",
            "max": LIMITS,
            "min": LIMITS,
            "children": [
                {"name": "a", "max": LIMITS, "min": LIMITS, "namespaces": ["default"]},
            ],
        }
    },
}
PODS = "/api/v1/namespaces/default/pods"
COPIES = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"


@dataclass
class Place:
    """Where a hub keeps its data, before and after; and a member that lives on."""

    first: Path
    second: Path
    member: Client
    kubeconfig: Path
    databases: tuple[tuple[str, ...], tuple[str, ...]]  # options of the two


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of a simulated member that is a process of its own."""
    folder = tmp_path / "member"
    with (tmp_path / "member.log").open("w") as log:
        process = subprocess.Popen(
            [str(BIN / "fleet"), "sim", "--data-dir", str(folder), "--members", "1"], stderr=log, stdout=log
        )
    try:
        until("the member serves", lambda: bool(list((folder / "members").glob("*.kubeconfig"))))
        (kubeconfig,) = (folder / "members").glob("*.kubeconfig")
        yield kubeconfig
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(params=repeated(["embedded", "external"], short=["embedded"]))
def place(request: pytest.FixtureRequest, tmp_path: Path, member: Path, postgres_server: Server) -> Iterator[Place]:
    names = [f"restored_{uuid.uuid4().hex}" for _ in range(2)]
    external = request.param == "external"

    async def execute(statement: str) -> None:
        connection = await asyncpg.connect(postgres_server.dsn_of("postgres"))
        await connection.execute(statement)
        await connection.close()

    options: list[tuple[str, ...]] = [(), ()]
    if external:
        for number, name in enumerate(names):
            run_apart(execute(f"CREATE DATABASE {name}"))
            options[number] = ("--database-url", postgres_server.dsn_of(name))
    yield Place(tmp_path / "first", tmp_path / "second", Client(load([member])), member, (options[0], options[1]))
    if external:
        for name in names:
            run_apart(execute(f"DROP DATABASE {name} WITH (FORCE)"))


def pods(place: Place) -> dict[str, set[str]]:
    """The uids of the pods of each job that run in the member."""
    found: dict[str, set[str]] = {}
    for pod in place.member.request("GET", PODS).body["items"]:
        if (pod.get("status") or {}).get("phase") == "Running":
            name = pod["metadata"]["labels"]["training.kubeflow.org/job-name"]
            found.setdefault(name, set()).add(pod["metadata"]["uid"])
    return found


def states(up: Up) -> dict[str, str]:
    """As `fleet jobs` has them, without a process for each look."""
    return {one["name"]: one["state"] for one in listed(up.hub, "default")[0]}


def at(up: Up) -> tuple[str, str]:
    return "--data-dir", str(up.folder)


def submit(up: Up, tmp_path: Path, *names: str, **first: Any) -> None:
    documents = [*([QUOTA, policy()] if first else []), *(job(name, 4) for name in names)]
    done = fleet("submit", written(tmp_path / f"{names[0]}.yaml", *documents), *at(up))
    assert done.returncode == 0, done.stderr
    for name in names:
        until(f"{name} runs", lambda name=name: states(up).get(name) == "Running")


def unknown(up: Up) -> list[str]:
    return [one["name"] for one in json.loads(fleet("orphans", "list", "-o", "json", *at(up)).stdout)]


def test_what_runs_goes_on_and_people_adopt_or_remove_what_the_backup_does_not_know(
    place: Place, tmp_path: Path
) -> None:
    backup = str(tmp_path / "hub.backup")
    old = Up(place.first, *place.databases[0])
    try:
        joined = fleet("join", "east", "--kubeconfig", str(place.kubeconfig), *at(old))
        assert joined.returncode == 0, joined.stderr
        submit(old, tmp_path, "stays", "finishes", "deleted", first=True)
        made = fleet("backup", backup, *at(old), *place.databases[0])
        assert made.returncode == 0, made.stderr
        submit(old, tmp_path, "later", "unwanted")
        assert fleet("delete", "pytorchjob/deleted", *at(old)).returncode == 0
        finish(place, "finishes")
        until("it is over", lambda: states(old)["finishes"] == "Succeeded")
        until("it is gone", lambda: "deleted" not in pods(place))
    finally:
        assert old.stop() == 0, old.errors.read_text()
    before = pods(place)
    assert set(before) == {"stays", "later", "unwanted"}

    restored = fleet("restore", backup, "--data-dir", str(place.second), *place.databases[1])
    assert restored.returncode == 0, restored.stderr
    new = Up(place.second, *place.databases[1])
    try:
        until("the copies are named", lambda: len(orphans.unknown(new.hub)[0]) == 2)
        assert unknown(new) == ["later", "unwanted"]
        until("what ended has ended", lambda: states(new)["finishes"] == "Succeeded")
        until("what was deleted is a job again, whose copy is lost", lambda: states(new)["deleted"] == "Failed")
        told = fleet("doctor", *at(new))
        assert told.returncode == 1
        assert all(f"PyTorchJob default/{name}  (unknown-copy)" in told.stdout for name in ("later", "unwanted"))
        time.sleep(5)  # a sweep, and more
        assert pods(place) == before, "what ran and was deleted does not run a second time"

        adopted = fleet("orphans", "adopt", "pytorchjob/later", *at(new))
        assert (adopted.returncode, adopted.stdout) == (0, 'PyTorchJob "later" adopted in east\n'), adopted.stderr
        until("it is a job again", lambda: states(new).get("later") == "Running")
        removed = fleet("orphans", "remove", "pytorchjob/unwanted", *at(new))
        assert (removed.returncode, removed.stdout) == (0, 'PyTorchJob "unwanted" removed from east\n')
        until("it is gone", lambda: "unwanted" not in pods(place))
        assert fleet("doctor", *at(new)).returncode == 0
        after = pods(place)
        assert (after["stays"], after["later"]) == (before["stays"], before["later"])

        labels = {"fleet.io/hub": (place.second / "hub-id").read_text().strip(), "fleet.io/binding": "of-nothing"}
        orphan = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "orphan", "labels": labels}}
        maps = "/api/v1/namespaces/default/configmaps"
        assert place.member.request("POST", maps, orphan).ok
        until("orphans go again", lambda: place.member.request("GET", f"{maps}/orphan").status == 404)
        assert fleet("delete", "pytorchjob/later", *at(new)).returncode == 0
        until("an adopted job leaves as any other", lambda: "later" not in pods(place))
    finally:
        assert new.stop() == 0, new.errors.read_text()


def finish(place: Place, name: str) -> None:
    """The training of the job ends in the member: its pods succeed."""
    for pod in place.member.request("GET", PODS).body["items"]:
        if pod["metadata"]["labels"].get("training.kubeflow.org/job-name") == name:
            path = f"{PODS}/{pod['metadata']['name']}"
            body = {"metadata": {"annotations": {"testbed/run-for": "0s"}}}
            done = place.member.request("PATCH", path, body, content_type="application/merge-patch+json")
            assert done.ok, done.message
