"""A set-up that cannot go on says in one line why, and what to do; one that was interrupted goes on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import ROOT

OLD = """#!/bin/sh
exec {python} -c 'import sys; sys.version_info = (3, 10, 4); exec(sys.argv[1])' "$2"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the set-up reads."""
    for name in ("console", "fleet/rest", "hub"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "hub/pyproject.toml", "hub/requirements.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def refused(checkout: Path, python: str = sys.executable, **environment: str) -> str:
    """The one line of a set-up that did not succeed."""
    done = subprocess.run(
        ["make", f"PYTHON={python}", ".venv/.installed"],
        cwd=checkout,
        capture_output=True,
        text=True,
        timeout=120,
        env={k: v for k, v in os.environ.items() if not k.startswith("PIP_")} | environment,
    )
    assert done.returncode != 0 and not (checkout / ".venv" / ".installed").exists()
    lines = [line for line in done.stderr.splitlines() if not line.startswith(("make", "setting up"))]
    assert len(lines) == 1, done.stderr
    return lines[0]


UNREACHABLE = {"PIP_INDEX_URL": "http://127.0.0.1:9", "PIP_RETRIES": "1", "PIP_CONFIG_FILE": os.devnull}


def no_network(said: str) -> bool:
    return said.startswith("no network: pip cannot reach its package index (Connection refused). Connect this machine")


def test_an_older_python_is_told_which_one_is_needed(checkout: Path) -> None:
    old = checkout / "python3.10"
    old.write_text(OLD.format(python=sys.executable))
    old.chmod(0o755)
    said = refused(checkout, str(old))
    assert said == f"Fleet needs Python 3.11 or newer, and {old} is 3.10: make PYTHON=python3.x"


def test_a_python_that_is_not_there_is_one_line(checkout: Path) -> None:
    assert refused(checkout, "python3.999").startswith("no program python3.999: install Python 3.11 or newer")


def test_no_network_is_one_line_that_says_what_to_do(checkout: Path) -> None:
    said = refused(checkout, **UNREACHABLE)
    assert no_network(said) and "PIP_INDEX_URL" in said


def test_another_fault_of_pip_is_its_last_line(checkout: Path) -> None:
    (checkout / "requirements.lock").write_text("no such requirement\n")
    assert ".venv/pip.log: " in refused(checkout)


def test_an_environment_that_is_half_made_is_made_anew(checkout: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", checkout / ".venv"], check=True, timeout=60)
    (checkout / ".venv" / "half").touch()
    assert no_network(refused(checkout, **UNREACHABLE))
    assert not (checkout / ".venv" / "half").exists()


def test_the_commands_without_make_are_those_of_make() -> None:
    shown = re.findall(r"^\.venv/bin/python -m (pip install .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    made = re.findall(r"python -m (pip install [^|>\n]*)", (ROOT / "Makefile").read_text())
    quiet = r" (-qq?|--quiet|--disable-pip-version-check|--no-index|2)(?= |$)"
    assert len(shown) == 2 and shown == [re.sub(quiet, "", line.strip()).strip() for line in made[:2]]
