"""Views of a hub that lives in the process of its test, whose time jumps; a real database answers on a real clock."""

from __future__ import annotations

import asyncio
from typing import Any

from fleet.simulate.virtual import VirtualLoop as FastLoop
from tests.api.conftest import hub

__all__ = ["hub"]


def pytest_asyncio_loop_factories(config: Any, item: Any) -> dict[str, Any]:
    return {"real": asyncio.new_event_loop} if "database_url" in item.fixturenames else {"fast": FastLoop}
