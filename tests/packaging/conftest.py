"""The wheel that the tests of this directory install."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.docs.test_docs import ROOT

PAGES = "api/console/static"  # made by make console, and not under version control
BUILD = "import setuptools.build_meta as b, sys; print(getattr(b, sys.argv[1])(sys.argv[2]))"


def made(hook: str, source: Path, into: Path) -> Path:
    """The file that this hook of the build back end makes."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, hook, str(into)], cwd=source, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return into / done.stdout.splitlines()[-1]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built from the sdist of what is under version control, or is new, and of the built console."""
    folder = tmp_path_factory.mktemp("packaging")
    source, unpacked, out = folder / "source", folder / "unpacked", folder / "out"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    pages = [path.relative_to(ROOT).as_posix() for path in (ROOT / PAGES).rglob("*")]
    for name in (*listed.stdout.splitlines(), *pages):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    out.mkdir()
    with tarfile.open(made("build_sdist", source, out)) as sdist:
        sdist.extractall(unpacked, filter="data")
    (root,) = unpacked.iterdir()
    return made("build_wheel", root, out)
