"""The database's disk is full: writes are refused and say why, reads go on, and with space again everything goes on.

As root the database stands on a small file system of its own that a ballast file fills. For any other user, the
database's processes may write no file beyond its present size, which PostgreSQL meets in the same places.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.chaos.client import JOBS, Body, Client, Refused
from tests.chaos.conftest import StartHub
from tests.chaos.parts import process_of
from tests.chaos.work import delete_all, expect_all, set_up, states
from tests.e2e.manifests import leaf, pytorchjob

pytestmark = pytest.mark.xdist_group("chaos")

MIB = 1 << 20
MAPS = "/api/v1/namespaces/a/configmaps"


class Disk:
    """Where the database's files are. `fill` leaves no room, `free` gives it back."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._place = data / "postgres"
        self._ballast = self._place / "ballast"
        self._mounted = False

    def mount(self) -> None:
        self._place.mkdir(parents=True)
        if os.geteuid() != 0:
            return
        command = ["mount", "-t", "tmpfs", "-o", "size=192m,mode=0700", "tmpfs", str(self._place)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self._mounted = done.returncode == 0  # in a container root may not

    def unmount(self) -> None:
        if self._mounted:
            subprocess.run(["umount", "-l", str(self._place)], check=True)

    def fill(self) -> None:
        if not self._mounted:
            self._limit(str(17 * MIB))  # files of the write-ahead log have 16, and go on
            return
        with self._ballast.open("wb", buffering=0) as ballast, suppress(OSError):
            while True:
                ballast.write(b"\0" * (64 * 1024))

    def free(self) -> None:
        if self._mounted:
            self._ballast.unlink()
        else:
            self._limit("unlimited")

    def _limit(self, size: str) -> None:
        postmaster = process_of(self._data, "postgres")
        assert postmaster is not None
        owner = postmaster.uids().real, postmaster.gids().real
        # Only its own user may do this: root in a container lacks the capability.
        prefix = (
            [] if os.geteuid() else ["setpriv", f"--reuid={owner[0]}", f"--regid={owner[1]}", "--clear-groups", "--"]
        )
        for process in (postmaster, *postmaster.children()):
            command = [*prefix, "prlimit", f"--pid={process.pid}", f"--fsize={size}:unlimited"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0 or not process.is_running(), done.stderr


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
    acknowledged, refusal = [], None
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
    delete_all(world, client)
    assert world.hub.stop() == 0, world.hub.log()
