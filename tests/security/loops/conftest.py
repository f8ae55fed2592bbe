"""Stories of the controllers run on a loop whose time jumps."""

from __future__ import annotations

from typing import Any

from tests.controllers.fastloop import FastLoop


def pytest_asyncio_loop_factories(config: Any, item: Any) -> dict[str, Any]:
    return {"fast": FastLoop}
