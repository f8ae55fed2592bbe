"""The wheels that the tests of this directory install, and the environments that they install them into."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests import checkout
from tests.checkout import ROOT
from tests.packaging.volume import AS_OTHER, OTHER

PAGES = "fleet/console/static"  # made by make console, and not under version control
BUILD = "import setuptools.build_meta as b, sys; print(getattr(b, sys.argv[1])(sys.argv[2]))"


def made(hook: str, source: Path, into: Path) -> Path:
    """The file that this hook of the build back end makes."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, hook, str(into)], cwd=source, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return into / done.stdout.splitlines()[-1]


@pytest.fixture(scope="package")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The light wheel and the hub's. They are built from the sdist of what is under version control, or is new, and of
    the built console."""
    folder = tmp_path_factory.mktemp("packaging")
    source, unpacked, out = folder / "source", folder / "unpacked", folder / "out"
    checkout.copy(source, without=("tests/",))
    shutil.copytree(ROOT / PAGES, source / PAGES, dirs_exist_ok=True)
    out.mkdir()
    with tarfile.open(made("build_sdist", source, out)) as sdist:
        sdist.extractall(unpacked, filter="data")
    (root,) = unpacked.iterdir()
    for place in (root, root / "hub"):  # of an earlier build in this tree
        (place / "build" / "lib" / "fleet").mkdir(parents=True)
        (place / "build" / "lib" / "fleet" / "moved.py").touch()
    return made("build_wheel", root, out), made("build_wheel", root / "hub", out)


@pytest.fixture(scope="package")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes an environment with these wheels and what they need, as pip would install it, and nothing else; returns its
    folder. The packages that they need are links to those of this environment, whose versions the lock names."""

    def make(*wheels: Path) -> Path:
        folder = tmp_path_factory.mktemp("environment")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "--python",
                str(folder / "bin" / "python"),
                "install",
                "-q",
                "--no-deps",
                "--no-index",
                "--disable-pip-version-check",
                *map(str, wheels),
            ],
            check=True,
            timeout=120,
        )
        site = site_of(folder)
        own = [PathDistribution(path) for path in site.glob("*.dist-info")]
        for one in needed_by(own):
            for name in {file.parts[0] for file in one.files or () if file.parts[0] not in ("..", "__pycache__")}:
                if not (site / name).exists():
                    (site / name).symlink_to(str(one.locate_file(name)))
        return folder

    return make


def site_of(environment: Path) -> Path:
    return Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))


def needed_by(installed: list[PathDistribution]) -> Iterator[Distribution]:
    """All distributions that some need which are installed, themselves not."""
    names = {one.name for one in installed}
    asked: list[tuple[Distribution, str]] = [(one, "") for one in installed]
    seen: set[tuple[str, str]] = set()
    while asked:
        one, extra = asked.pop()
        for requirement in map(Requirement, one.requires or ()):
            marker = requirement.marker
            if requirement.name in names or (marker is not None and not marker.evaluate({"extra": extra})):
                continue
            found = distribution(requirement.name)
            assert found.version in requirement.specifier, (one.name, str(requirement), found.version)
            for wanted in ("", *requirement.extras):
                if (found.name, wanted) not in seen:
                    seen.add((found.name, wanted))
                    asked.append((found, wanted))
            yield found


@pytest.fixture(scope="package")
def light(wheels: tuple[Path, Path], environment: Callable[..., Path]) -> Path:
    """An environment with the light distribution alone."""
    return environment(wheels[0])


@pytest.fixture(scope="package")
def whole(wheels: tuple[Path, Path], environment: Callable[..., Path]) -> Path:
    """An environment with the hub."""
    return environment(*wheels)


def run(environment: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program of an environment, which sees no other: its name, and its arguments."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("FLEET_", "PYTHON", "KUBECONFIG"))
    }
    return subprocess.run(
        [str(environment / "bin" / words[0]), *words[1:]],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd="/",
        env={**kept, **variables},
    )


@pytest.fixture
def volume() -> Iterator[Path]:
    """A folder that only the user of the container may write, as the volume of compose."""
    folder = Path(tempfile.mkdtemp(prefix="fleet-volume-"))
    if AS_OTHER:
        shutil.chown(folder, OTHER)
    yield folder
    shutil.rmtree(folder)
