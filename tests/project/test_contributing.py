"""The commands of CONTRIBUTING.md, run in a checkout of their own."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import checkout
from tests.checkout import ROOT
from tests.docs.reader import asked, shown
from tests.docs.shown import missing

PAGE = "../../CONTRIBUTING.md"
NEEDED_BY_SETUP = ("pyproject.toml", "hub/pyproject.toml", "hub/requirements.txt", "requirements.lock")
WHO = {f"GIT_{role}_{field}": "a@example.com" for role in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")}
OF_A_TEST = ("FLEET_", "GIT_", "MAKE", "PYTEST_")


@pytest.fixture
def run(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Runs a command in a copy of what is under version control, or is new, with a history of its own."""
    checkout.copy(tmp_path)
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    for name in NEEDED_BY_SETUP:
        os.utime(tmp_path / name, (0, 0))  # newer ones would make a target install the copy into this .venv
    clean = {name: value for name, value in os.environ.items() if not name.startswith(OF_A_TEST)}
    environment = clean | WHO | {"PYTHONPATH": str(tmp_path)}

    def execute(line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", line],
            cwd=tmp_path,
            env=environment,
            text=True,
            timeout=280,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    begun = execute("git init -q -b main . && git add -A && git commit -qm first")
    assert begun.returncode == 0, begun.stdout
    return execute


@pytest.mark.slow  # `.ci/run` runs lint and the tests; the tests beside this one know the targets
def test_every_command_of_the_page_does_what_the_page_shows(
    run: Callable[[str], subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    own = (ROOT / ".venv/.installed").stat().st_mtime_ns
    for command in asked(PAGE):
        done = run(command.line)
        assert done.returncode == 0, f"$ {command.line}\n{done.stdout}"
        assert missing(command.output or (), done.stdout) == [], command.line
    assert run("git status --porcelain").stdout == "", "a command of the page leaves something behind"
    assert (ROOT / ".venv/.installed").stat().st_mtime_ns == own
    assert "\n- A job that waits names the queue that it waits in.\n" in (tmp_path / "CHANGELOG.md").read_text()
    assert [path.name for path in (tmp_path / "changelog").iterdir()] == ["README.md"]


def test_every_target_that_the_page_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {word for command in shown(PAGE) if command.line.startswith("make ") for word in command.line.split()[1:]}
    named |= set(re.findall(r"`make ([a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text()))
    assert {name for name in named if "=" not in name} - targets == set()


def test_the_readme_and_the_list_of_pages_lead_to_it() -> None:
    assert "(CONTRIBUTING.md)" in (ROOT / "README.md").read_text()
    assert "(../CONTRIBUTING.md)" in (ROOT / "docs" / "README.md").read_text()
