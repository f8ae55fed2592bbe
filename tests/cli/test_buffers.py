from __future__ import annotations

import subprocess
import sys

# As with connections that come and go: their buffers are used whole once, then by one page each.
PROGRAM = """
import sys
import psutil
from fleet.hub.buffers import keep_apart
if sys.argv[1] == "apart":
    keep_apart()
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
SIZE = 256 << 10
libc.free(libc.malloc(SIZE))
before = psutil.Process().memory_info().rss
first = [libc.malloc(SIZE) for _ in range(200)]
last = libc.malloc(100_000)  # lies above them, and keeps the heap from shrinking
for buffer in first:
    ctypes.memset(buffer, 1, SIZE)
for buffer in first:
    libc.free(buffer)
for _ in range(200):
    ctypes.memset(libc.malloc(SIZE), 1, 1000)
print((psutil.Process().memory_info().rss - before) >> 20)
"""


def mib_of(way: str) -> int:
    done = subprocess.run([sys.executable, "-c", PROGRAM, way], capture_output=True, text=True, timeout=120, check=True)
    return int(done.stdout)


def test_buffers_that_are_used_by_a_page_each_cost_a_page_each() -> None:
    assert mib_of("apart") <= 5
    assert mib_of("as it comes") >= 45
