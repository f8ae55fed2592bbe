"""Waiting for what a process prints, with a bound."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable


async def expect_line(process: subprocess.Popen[str], text: str, timeout: float = 20.0) -> str:
    """The first line of the process that holds `text`; fails after `timeout` seconds."""
    assert process.stdout is not None

    def read() -> str:
        assert process.stdout is not None
        for line in process.stdout:
            if text in line:
                return line
        return ""

    task = asyncio.create_task(asyncio.to_thread(read))
    done, _ = await asyncio.wait({task}, timeout=timeout)
    if not done:
        process.kill()  # ends the reading thread
    line = await task
    assert line, f"the process never printed {text!r}"
    return line


async def eventually(condition: Callable[[], bool], what: str, timeout: float = 10.0) -> None:
    """Wait until the condition holds; fails after `timeout` seconds."""
    for _ in range(int(timeout / 0.01)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"it never came true: {what}")
