"""The database's disk is full: writes are refused and say why, reads go on, and with space again everything goes on."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.client import JOBS, Body, Client, Refused
from tests.chaos.conftest import StartHub
from tests.chaos.disk import Disk
from tests.chaos.work import delete_all, expect_all, set_up, states
from tests.cli.hub import fleet
from tests.e2e.manifests import leaf, pytorchjob

pytestmark = pytest.mark.xdist_group("chaos")

MAPS = "/api/v1/namespaces/a/configmaps"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Made before the hub, so that it goes after it."""
    disk = Disk(tmp_path / "hub")
    disk.mount()
    yield disk
    disk.unmount()


def big(number: int) -> Body:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"big-{number}"}}
    return {**body, "data": {"noise": os.urandom(200_000).hex()}}


def test_a_full_disk_refuses_writes_with_a_reason_and_loses_nothing(disk: Disk, start_hub: StartHub) -> None:
    world = start_hub("--members", "1", members=("cfa",))
    client = Client(world.hub.kubeconfig, timeout_s=60)
    set_up(client, leaf("a", "a"))
    client.post(JOBS.format("a"), pytorchjob("before", workers=1))
    expect_all(world, client, ["a/before"], "Running")
    disk.fill()
    acknowledged: list[str] = []
    refusal = None
    end = time.monotonic() + 60
    while refusal is None:
        assert time.monotonic() < end, "the disk never filled: the test shows nothing"
        number = len(acknowledged)
        try:
            client.post(MAPS, big(number))
        except Refused as refused:
            refusal = refused
        else:
            acknowledged.append(f"big-{number}")
    assert refusal.code == 503, refusal
    assert refusal.status["kind"] == "Status" and "no disk space left" in refusal.status["message"], refusal.status
    assert states(client) == {"a/before": "Running"}, "reads go on"
    assert {body["metadata"]["name"] for body in client.items(MAPS)} >= set(acknowledged)

    if disk.mounted:
        doctor = fleet("doctor", "-o", "json", "--data-dir", str(world.hub.folder))
        assert [one["name"] for one in json.loads(doctor.stdout) if one["check"] == "disk"] == [
            str(world.hub.folder / "postgres")
        ], doctor.stdout + doctor.stderr

    disk.free()

    def writes() -> bool:
        try:
            client.post(JOBS.format("a"), pytorchjob("after", workers=1, run_for="1s"))
        except Refused as refused:
            return refused.code == 409
        return True

    world.until("writes are taken again", writes)
    expect_all(world, client, ["a/after"], "Succeeded")
    expect_all(world, client, ["a/before"], "Running")
    assert {body["metadata"]["name"] for body in client.items(MAPS)} >= set(acknowledged), "acknowledged, and lost (I4)"

    def recorded() -> set[tuple[str, str]]:
        return {(job["name"], job["state"]) for job in client.get("/fleet/v1/history", namespace="a")["items"]}

    world.until("the history goes on", lambda: recorded() == {("before", "Running"), ("after", "Succeeded")})
    delete_all(world, client)
    assert world.hub.stop() == 0, world.hub.log()
