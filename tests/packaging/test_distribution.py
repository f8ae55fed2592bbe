"""What `pip install` gets: an sdist has all that the wheel is built from, and a hub runs from the wheel alone."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cli.hub import Up
from tests.docs.test_docs import ROOT
from tests.packaging.conftest import PAGES


def test_the_wheel_has_the_programs_and_nothing_of_the_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (entries,) = [name for name in names if name.endswith("entry_points.txt")]
        programs = archive.read(entries).decode()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"api", "fleet"}
    assert "fleet = fleet.cli.main:main" in programs
    assert "kubectl-amc = fleet.amc.main:main" in programs
    assert f"{PAGES}/THIRD-PARTY-NOTICES.txt" in names
    assert f"{PAGES}/index.html" in names and any(name.startswith(f"{PAGES}/assets/index-") for name in names)


def test_the_wheel_brings_its_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (about,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        fields = archive.read(about).decode()
        text = archive.read(about.replace("METADATA", "licenses/LICENSE"))
    assert "\nLicense-Expression: Apache-2.0\n" in fields and "\nLicense-File: LICENSE\n" in fields
    assert text == (ROOT / "LICENSE").read_bytes()


@pytest.mark.timeout(300)
def test_a_hub_starts_from_the_wheel_alone(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    monkeypatch.setenv("PYTHONPATH", str(site))
    where = subprocess.run(
        [sys.executable, "-c", "import fleet, api; print(fleet.__file__, api.__file__)"],
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60,
    ).stdout.split()  # fmt: skip
    assert all(Path(path).is_relative_to(site) for path in where)
    up = Up(tmp_path / "hub", "--members", "1")
    try:
        names = [one["metadata"]["name"] for one in up.hub.list("/apis/cluster.karmada.io/v1alpha1/clusters")]
        assert names == ["cfa"]
    finally:
        assert up.stop() == 0, up.errors.read_text()
