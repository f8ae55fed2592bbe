"""Where tests put their files: in memory, where there is enough of it.

A hub makes some seventy MB, and a database waits for its disk at each commit. How durable a commit is no test can see:
what is killed is a process and never the machine. Benchmarks keep to the disk, since waiting for it is what they
measure.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import psutil

MEMORY = Path("/dev/shm")
NEEDED = 8 << 30  # bytes; twice what a whole run on six workers had at once
FOR_PROCESSES = 8 << 30  # bytes of memory beside it, for what the tests start


def use() -> None:
    """Let this process and those that it starts make their temporary files in memory, unless TMPDIR says where."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return
    if shutil.disk_usage(MEMORY).free >= NEEDED and psutil.virtual_memory().available >= NEEDED + FOR_PROCESSES:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # it is looked for anew
