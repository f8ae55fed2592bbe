"""Fleet is under the Apache License 2.0, and each of its packages says so."""

from __future__ import annotations

import hashlib
import json
import tomllib
from importlib import metadata

from tests.checkout import ROOT

TEXT = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"  # of the published text, with its appendix


def test_the_licence_is_the_unchanged_text() -> None:
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == TEXT


def test_the_text_is_that_of_other_packages_under_the_same_licence() -> None:
    (other,) = [path for path in metadata.files("absl-py") or () if path.name == "LICENSE"]
    assert other.read_text() == (ROOT / "LICENSE").read_text()


def test_each_package_names_the_licence() -> None:
    projects = [tomllib.loads((ROOT / name / "pyproject.toml").read_text())["project"] for name in (".", "hub")]
    console = json.loads((ROOT / "console" / "package.json").read_text())
    locked = json.loads((ROOT / "console" / "package-lock.json").read_text())["packages"][""]
    assert {*(one["license"] for one in projects), console["license"], locked["license"]} == {"Apache-2.0"}
    assert [one["license-files"] for one in projects] == [["LICENSE"]] * 2
