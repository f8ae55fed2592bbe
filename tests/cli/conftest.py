"""One hub without members for the tests that only ask it things."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.hub import Up


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    running = Up(tmp_path_factory.mktemp("cli") / "hub")
    try:
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()
