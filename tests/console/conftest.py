from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.console.hub import World, console_hub


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with console_hub(tmp_path) as made:
        yield made
