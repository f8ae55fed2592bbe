"""`fleet orphans` and its finding of `fleet doctor`: what a restored hub does not know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fleet.amc.client import Client, ServerAnswer
from fleet.cli.datadir import DataDir
from fleet.cli.doctor import unknown_copies
from fleet.cli.failure import Failure
from fleet.cli.hub import HubClient, connect
from fleet.cli.orphans import _named, unknown
from fleet.cli.patient import PatientHub
from fleet.values.kubeconfig.files import load
from tests.cli.hub import Up, fleet, refusal, until


def copy(name: str, **how: str) -> dict[str, str]:
    entry = {"kind": "PyTorchJob", "namespace": "default", "name": name, "uid": f"uid-{name}"}
    return {**entry, "job": f"default/{name}", "since": "2026-01-01T00:00:00Z", **how}


class Stored:
    """A hub's API that holds these ConfigMaps and nothing else."""

    def __init__(self, *records: dict[str, Any]) -> None:
        self.records = records

    def request(self, method: str, path: str, *_: Any, **__: Any) -> ServerAnswer:
        return ServerAnswer(200, {"items": list(self.records)})


def record(member: str, *copies: dict[str, str], count: int | None = None) -> dict[str, Any]:
    data = {"copies": json.dumps(copies), "count": str(len(copies) if count is None else count)}
    meta = {"name": f"unknown-copies-{member}", "namespace": "fleet-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    running = Up(tmp_path_factory.mktemp("orphans") / "hub", "--members", "1")
    try:
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()


def test_a_copy_of_an_undone_past_is_named_and_stays_until_it_is_removed(up: Up) -> None:
    at = ("--data-dir", str(up.folder))
    hub, (kubeconfig,) = connect(None, up.folder, None), (up.folder / "members").glob("*.kubeconfig")
    east = Client(load([kubeconfig]))
    maps = "/api/v1/namespaces/default/configmaps"
    labels = {"fleet.io/hub": DataDir(up.folder).hub_id, "fleet.io/binding": "of-a-binding-that-was-undone"}
    for name, stamp in (("undone", {"fleet.io/sent-on": "a-leader-that-was-undone/7"}), ("leftover", {})):
        meta = {"name": name, "labels": labels, "annotations": {**stamp, "fleet.io/job": "default/b"}}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        assert east.request("POST", maps, body).ok
    until("the hub names it", lambda: bool(unknown(hub)[0]))
    listed = json.loads(fleet("orphans", "list", "-o", "json", *at).stdout)
    (only,) = [{k: entry[k] for k in ("member", "kind", "namespace", "name", "job")} for entry in listed]
    assert only == {
        "member": kubeconfig.stem,
        "kind": "ConfigMap",
        "namespace": "default",
        "name": "undone",
        "job": "default/b",
    }
    told = fleet("doctor", *at)
    assert told.returncode == 1 and "ConfigMap default/undone  (unknown-copy)" in told.stdout
    assert east.request("GET", f"{maps}/leftover").ok, "no orphan goes while an unknown copy is there"

    refused = fleet("orphans", "adopt", "configmap/undone", *at)
    assert refusal(refused) == (
        f'fleet: not adopted: ConfigMap "undone" in {kubeconfig.stem}: only jobs are adopted: create the object on the'
        " hub again, and remove the copy"
    )
    removed = fleet("orphans", "remove", "configmap/undone", "-n", "default", *at)
    assert (removed.returncode, removed.stdout) == (0, f'ConfigMap "undone" removed from {kubeconfig.stem}\n')
    for name in ("undone", "leftover"):
        until(f"{name} is gone", lambda name=name: east.request("GET", f"{maps}/{name}").status == 404)
    assert fleet("doctor", *at).returncode == 0


def test_doctor_names_each_copy_and_the_way_out() -> None:
    hub = HubClient(Stored(record("east", copy("b"), count=3)), "kubeconfig")  # type: ignore[arg-type]
    first, rest = unknown_copies(PatientHub(hub, lambda: 0.0))
    assert (first.check, first.kind, first.namespace, first.name) == ("unknown-copy", "PyTorchJob", "default", "b")
    assert "runs in east" in first.why and "since 2026-01-01T00:00:00Z" in first.why
    assert "fleet orphans adopt pytorchjob/b -n default --member east; or" in first.what_to_do
    assert first.what_to_do.endswith("fleet orphans remove pytorchjob/b -n default --member east")
    assert rest.why == "2 more are there"


def test_what_is_not_there_is_not_removed(up: Up) -> None:
    nowhere = fleet("orphans", "remove", "pytorchjob/nothing", "--data-dir", str(up.folder))
    assert refusal(nowhere) == (
        'fleet: "pytorchjob/nothing" is not KIND/NAME of an unknown copy: see `fleet orphans list`'
    )
    for order in ("remove", "adopt"):
        assert "or say --all" in refusal(fleet("orphans", order, "--data-dir", str(up.folder)))
        assert "no such copy" in refusal(fleet("orphans", order, "--all", "--data-dir", str(up.folder)))
    listed = fleet("orphans", "list", "--data-dir", str(up.folder))
    assert (listed.returncode, listed.stdout, listed.stderr) == (0, "", "No unknown copies\n")


def test_a_name_that_stands_for_two_copies_is_refused() -> None:
    both = [{**copy("b"), "member": "east"}, {**copy("b"), "member": "west"}]
    with pytest.raises(Failure, match="2 times \\(east default, west default\\): say --member and --namespace"):
        _named(both, "pytorchjob/b")
    assert _named(both[:1], "pytorchjob/b") == both[:1]
