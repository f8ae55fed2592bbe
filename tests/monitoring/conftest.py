"""One hub, with Prometheus and Alertmanager beside it, for all tests here that ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cli.hub import Up
from tests.controllers.fastloop import FastLoop
from tests.monitoring.scene import stage, start, watched
from tests.monitoring.watch import Watch


def pytest_asyncio_loop_factories(config: Any, item: Any) -> dict[str, Any]:
    return {"fast": FastLoop}


@pytest.fixture(scope="package")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    running = start(tmp_path_factory.mktemp("monitoring"))
    try:
        yield running
    finally:
        for process in psutil.Process(running.process.pid).children(recursive=True):
            with suppress(psutil.Error):
                process.resume()
        assert running.stop() == 0, running.errors.read_text()


@pytest.fixture(scope="package")
def watch(up: Up, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    folder: Path = tmp_path_factory.mktemp("watch")
    with ExitStack() as stack:
        watch = watched(up, folder, stack)
        stage(up, watch, folder, stack)
        yield watch
