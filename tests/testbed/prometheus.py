"""Builds Prometheus and Alertmanager from their Go modules, once, each with its tool: promtool, amtool.

`python -m tests.testbed.prometheus` prints the folder of the binaries. Versions and digests are fixed here; the
modules' own go.sum files fix all the rest. Prometheus is built without service discovery, whose clients of clouds are
most of its source: tests name their targets. Its own pages are left out too.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from pathlib import Path

from tests.testbed.build import cache_folder, find_go, locked, run_go, say

# Module, version, its digest as in a go.sum, the commands.
MODULES = (
    (
        "github.com/prometheus/prometheus",
        "v0.305.0",
        "h1:UO/LsM32/E9yBDtvQj8tN+WwhbyWKR10lO35vmFLx0U=",
        ("prometheus", "promtool"),
    ),
    (
        "github.com/prometheus/alertmanager",
        "v0.28.1",
        "h1:BK5pCoAtaKg01BYRUJhEDV1tqJMEtYBGzPw8QdvnnvA=",
        ("alertmanager", "amtool"),
    ),
)
NO_DISCOVERY = "// Package plugins registers no service discovery.\npackage plugins\n"


def prometheus_binaries() -> Path:
    """The folder with the four binaries, built on the first call on a machine."""
    digest = hashlib.sha256(repr((MODULES, NO_DISCOVERY)).encode()).hexdigest()[:16]
    root = cache_folder() / f"prometheus-{digest}"
    done = root / "complete"
    if not done.exists():
        root.mkdir(parents=True, exist_ok=True)
        with locked(root / "lock"):
            if not done.exists():
                _build(root)
                done.write_text("built\n")
    return root


def _build(root: Path) -> None:
    go = find_go()
    begin = time.monotonic()
    for module, version, digest, commands in MODULES:
        say(begin, f"building {module} {version} (a cold build takes some minutes)")
        with tempfile.TemporaryDirectory(dir=root) as folder:
            found = json.loads(run_go([go, "mod", "download", "-json", f"{module}@{version}"], Path(folder), go, {}))
            if found["Sum"] != digest:
                raise SystemExit(f"test bed: {module} {version} has the digest {found['Sum']}, and not {digest}")
            source = _copied(Path(found["Dir"]), Path(folder) / "source")
            for plugin in source.glob("plugins/*.go"):
                plugin.unlink()
                (source / "plugins" / "plugins.go").write_text(NO_DISCOVERY)
            packages = [f"./cmd/{command}" for command in commands]
            run_go([go, "build", "-mod=readonly", "-ldflags", "-s -w", "-o", f"{root}/", *packages], source, go, {})
    say(begin, f"ready in {root}")


def _copied(module: Path, to: Path) -> Path:
    """A copy that can be changed and removed: Go's cache of modules is read-only."""
    shutil.copytree(module, to, copy_function=shutil.copyfile)
    for folder, _, _ in os.walk(to):
        Path(folder).chmod(0o755)
    return to


if __name__ == "__main__":
    print(prometheus_binaries())
