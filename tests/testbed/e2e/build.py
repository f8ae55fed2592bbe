"""Builds Kubernetes' own end-to-end tests from their Go module, once: the specs that speak to an API server.

`python -m tests.testbed.e2e.build` prints the path of the binary. The version is that of the test bed's kube-apiserver;
main.go, go.mod and go.sum beside this file fix all the rest. Most of the packages are those of the kube-apiserver, so
Go compiles them once for both.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

from tests.testbed.build import KUBERNETES, VERSION_STAMP, cache_folder, find_go, locked, run_go, say

HERE = Path(__file__).parent


def e2e_binary() -> Path:
    """The binary, built on the first call on a machine."""
    root = cache_folder() / f"e2e-{_digest()}"
    binary = root / "e2e"
    if not binary.exists():
        root.mkdir(parents=True, exist_ok=True)
        with locked(root / "lock"):
            if not binary.exists():
                _build(binary)
    return binary


def _build(binary: Path) -> None:
    go = find_go()
    begin = time.monotonic()
    say(begin, f"building Kubernetes' end-to-end tests {KUBERNETES} (a cold build takes some minutes)")
    half = binary.with_suffix(".half")
    run_go([go, "build", "-mod=readonly", "-ldflags", f"-s -w {VERSION_STAMP}", "-o", str(half), "."], HERE, go, {})
    half.replace(binary)
    say(begin, f"{binary} is ready")


def _digest() -> str:
    digest = hashlib.sha256(VERSION_STAMP.encode())
    for name in ("main.go", "go.mod", "go.sum"):
        digest.update((HERE / name).read_bytes())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    print(e2e_binary())
