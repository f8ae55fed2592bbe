"""One version number: from the tag, else from the file that a release writes; and those who say it."""

from __future__ import annotations

import json
import platform
import subprocess
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version
from prometheus_client import CollectorRegistry, generate_latest

from api.buildinfo import show
from fleet.hub.starting import place_of
from fleet.values.release import NAME, ProgramRelease, described, of, running
from tests.checkout import ROOT


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The directory `fleet` of a checkout with one commit, in which 0.3.0 is the release that was written last."""
    folder = tmp_path / "checkout" / "fleet"
    folder.mkdir(parents=True)
    (folder / NAME).write_text(ProgramRelease("0.3.0", "").document)
    git(folder.parent, "init", "-q")
    git(folder.parent, "add", ".")
    git(folder.parent, "commit", "-q", "-m", "one")
    return folder


def commit_of(package: Path) -> str:
    return git(package, "rev-parse", "--short=12", "HEAD")


def test_the_commit_of_a_tag_has_its_number(package: Path) -> None:
    git(package, "tag", "v0.3.1")
    assert of(package) == ProgramRelease("0.3.1", commit_of(package))
    assert str(of(package)) == f"0.3.1 (commit {commit_of(package)})"


def test_commits_after_a_tag_lie_between_it_and_the_next_release(package: Path) -> None:
    git(package, "tag", "v0.3.1")
    for _ in range(2):
        git(package, "commit", "-q", "--allow-empty", "-m", "more")
    assert of(package) == ProgramRelease(f"0.3.2.dev2+g{commit_of(package)}", commit_of(package))
    assert Version("0.3.1") < Version(of(package).version) < Version("0.3.2")


def test_a_clone_without_tags_has_the_written_number_and_its_commit(package: Path, tmp_path: Path) -> None:
    git(package, "tag", "v0.3.1")
    git(package, "commit", "-q", "--allow-empty", "-m", "more")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{package.parent}", "shallow")
    assert of(tmp_path / "shallow" / "fleet") == ProgramRelease(f"0.3.0+g{commit_of(package)}", commit_of(package))


def test_sources_without_git_have_the_written_number(package: Path, tmp_path: Path) -> None:
    archive = git(package.parent, "archive", "--format=zip", "-o", str(tmp_path / "sources.zip"), "HEAD")
    assert archive == ""
    inside = package.parent / "inside"  # another's checkout around it says nothing about it
    with zipfile.ZipFile(tmp_path / "sources.zip") as sources:
        sources.extractall(inside)
    assert of(inside / "fleet") == ProgramRelease("0.3.0", "")


def test_what_a_build_has_written_counts_more_than_git(package: Path) -> None:
    built = ProgramRelease("0.2.0", "0123456789ab")
    (package / NAME).write_text(built.document)
    assert of(package) == built


@pytest.mark.parametrize("answer", ["", "v1-2-gabc", "v0.3.0rc1-4-gabcdef012345", "fatal: not a repository"])
def test_an_answer_of_git_that_names_no_release_leaves_the_written_number(answer: str) -> None:
    assert described(answer, ProgramRelease("0.3.0", "")) == ProgramRelease("0.3.0", "")


def test_a_checkout_has_no_commit_in_its_file_and_a_number_that_python_orders() -> None:
    assert json.loads((ROOT / "fleet" / NAME).read_text())["commit"] == ""
    assert Version(running().version) >= Version(json.loads((ROOT / "fleet" / NAME).read_text())["version"])


def test_the_wheel_carries_the_number_that_it_is_named_after(wheels: tuple[Path, Path]) -> None:
    wheel, _ = wheels
    with zipfile.ZipFile(wheel) as archive:
        release = ProgramRelease(**json.loads(archive.read(f"fleet/{NAME}")))
    assert wheel.name.split("-")[1] == release.version


def test_the_metric_names_version_commit_and_python() -> None:
    registry = CollectorRegistry()
    show(registry)
    version, commit = running()
    labels = f'commit="{commit}",python="{platform.python_version()}",version="{version}"'
    assert f"fleet_build_info{{{labels}}} 1.0" in generate_latest(registry).decode()


@pytest.mark.parametrize(
    ("address", "place"),
    [
        (None, "embedded"),
        ("", "embedded"),
        ("postgresql://fleet:se@cret@db.example:5433/fleet?password=other", "db.example:5433/fleet"),
        ("postgresql://db.example/fleet", "db.example/fleet"),
        ("postgresql:///fleet?host=/run/postgresql", "/fleet"),
    ],
)
def test_a_database_is_named_without_credentials(address: str | None, place: str) -> None:
    assert place_of(address) == place
