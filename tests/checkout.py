"""A copy of this checkout, for tests that build from it or change it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def copy(into: Path, *, without: tuple[str, ...] = ()) -> Path:
    """Copy what is under version control, or is new, but for the paths that begin with one of `without`."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file() and not name.startswith(without):
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, into / name)
    return into
