"""Hubs to hurt: one for each test that kills something, one shared by those that only edit."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.chaos.parts import all_of
from tests.e2e.hub import Hub, Kubectl, World

MEMBERS = ("cfa", "cfb", "cfc")
StartHub = Callable[..., World]


@pytest.fixture
def start_hub(tmp_path: Path) -> Iterator[StartHub]:
    """`start_hub(*arguments)` is a hub of this test's own; with no arguments three simulated members. Whatever the test
    did to it, nothing of it runs afterwards."""
    data = tmp_path / "hub"

    def start(*arguments: str, members: tuple[str, ...] = MEMBERS) -> World:
        hub = Hub(data, *(arguments or ("--members", str(len(members)))))
        hub.start()
        return World("simulated", hub, Kubectl(hub.kubeconfig), members)

    try:
        yield start
    finally:
        end(data)


@pytest.fixture(scope="package")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One hub with three simulated members for the tests that leave it whole."""
    hub = Hub(tmp_path_factory.mktemp("chaos") / "hub", "--members", str(len(MEMBERS)))
    hub.start()
    try:
        yield World("simulated", hub, Kubectl(hub.kubeconfig), MEMBERS)
    finally:
        assert hub.stop() == 0, hub.log()


def end(data: Path) -> None:
    """Stop what runs on the data directory: the supervisor first, then whatever is left."""
    for number in (signal.SIGCONT, signal.SIGINT, signal.SIGKILL):
        processes = all_of(data)
        if number == signal.SIGINT:
            processes = processes[:1]
        for process in processes:
            with suppress(psutil.Error, ProcessLookupError):
                os.kill(process.pid, number)
        if number != signal.SIGCONT:
            psutil.wait_procs(all_of(data), timeout=20)
