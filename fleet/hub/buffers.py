"""Large buffers that leave no holes: memory of a process with many TLS connections.

uvloop has a buffer of 256 KiB for each of them, and a read fills only as much of it as it brings. glibc takes such a
buffer from the system at first, so that only pages with content cost memory. When the first one is freed, it raises its
limit, and takes the next ones from its heap. There all pages stay. With 100 members, whose watches are 1,700
connections, that was 300 of 860 MiB.
"""

from __future__ import annotations

import contextlib

M_MMAP_THRESHOLD = -3  # of mallopt(3)
LARGE_BYTES = 128 << 10  # glibc's own limit, which no longer rises once it is set


def keep_apart() -> None:
    """From now on in this process, each large buffer comes from the system, and goes back there. C libraries without
    this setting are left as they are. A process whose answers are large pays for fresh pages with each of them."""
    import ctypes

    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
