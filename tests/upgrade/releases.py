"""The programs of a release: of this checkout, or of a commit of its history, built and installed apart."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.cli.hub import BIN
from tests.packaging.conftest import made

ASKED = """
from fleet.accounts import schema
from fleet.values.release import running
from api.store import migrate
print(running().version, migrate.HEAD, schema.HEAD)
"""


@dataclass(frozen=True)
class Programs:
    """`bin` has `fleet` and the Python that runs it."""

    bin: Path

    @property
    def fleet(self) -> Path:
        return self.bin / "fleet"

    def about(self) -> tuple[str, str, str]:
        """The version, and the newest revision of both schemas."""
        done = subprocess.run(
            [self.bin / "python", "-P", "-c", ASKED], capture_output=True, text=True, check=True, cwd="/"
        )
        version, store, accounts = done.stdout.split()
        return version, store, accounts


OF_THIS_CHECKOUT = Programs(BIN)


def of_ref(ref: str, folder: Path) -> Programs:
    """The programs of a commit or tag, with the packages that its own lock names."""
    source, out = folder / "source", folder / "out"
    source.mkdir(parents=True)
    out.mkdir()
    archive = folder / "source.tar"
    with archive.open("wb") as output:
        done = subprocess.run(["git", "archive", ref], cwd=ROOT, stdout=output, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        pytest.exit(
            f"this clone has no {ref}: git fetch --tags --unshallow, or name another commit: FROM=…", returncode=1
        )
    subprocess.run(["tar", "-xf", archive, "-C", source], check=True)
    projects = [source, *source.glob("hub")]  # the first trees were one distribution
    lock = next(path for path in (source / "deploy/requirements.lock", source / "requirements.lock") if path.exists())
    return Programs(_installed(lock, [made("build_wheel", project, out) for project in projects], folder / "own"))


def _installed(lock: Path, wheels: list[Path], folder: Path) -> Path:
    """The programs of a new environment with these."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
    for words in (["--require-hashes", "-r", str(lock)], ["--no-deps", "--no-index", *map(str, wheels)]):
        done = subprocess.run(
            [folder / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *words],
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, done.stderr
    return folder / "bin"
