"""Builds clients of other people from Go modules, each once, into a folder of its own beside the test bed.

`python -m tests.clients.build` prints the binaries. `go` is our own program on client-go, controller-runtime and Flux's
library; `helm`, `karmadactl` and `k9s` are these programs as they are. What is built is fixed by the files of the
folder that has the name. `-mod=readonly` compares each module with its hash there, and asks no checksum database.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

from tests.testbed.build import cache_folder, find_go, locked, run_go, say

HERE = Path(__file__).parent
PACKAGES = {
    "go": ".",
    "helm": "helm.sh/helm/v3/cmd/helm",
    "karmadactl": "github.com/karmada-io/karmada/cmd/karmadactl",
    "k9s": "github.com/derailed/k9s",
}


def client(name: str) -> Path:
    """The binary, built on the first call on a machine."""
    root = cache_folder() / f"client-{name}-{_digest(name)}"
    binary = root / name
    if not binary.exists():
        root.mkdir(parents=True, exist_ok=True)
        with locked(root / "lock"):
            if not binary.exists():
                _build(name, binary)
    return binary


def _build(name: str, binary: Path) -> None:
    go = find_go()
    begin = time.monotonic()
    say(begin, f"building the client {name} (a cold build takes some minutes)")
    half = binary.with_suffix(".half")
    run_go([go, "build", "-mod=readonly", "-ldflags", "-s -w", "-o", str(half), PACKAGES[name]], HERE / name, go, {})
    half.replace(binary)
    say(begin, f"{binary} is ready")


def _digest(name: str) -> str:
    digest = hashlib.sha256(PACKAGES[name].encode())
    for path in sorted((HERE / name).glob("*")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    for one in PACKAGES:
        print(client(one))
