"""The files of deploy/ name commands, options and files that exist. No container engine and no systemd runs here."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from fleet.cli.main import app
from tests.docs.test_docs import ROOT

DOCKERFILE = ROOT / "deploy" / "Dockerfile"
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))


def parsed(arguments: Sequence[str]) -> dict[str, Any]:
    """The options of a command line after `fleet`; a wrong one raises UsageError."""
    root: Any = typer.main.get_command(app)
    name, command, rest = root.resolve_command(root.make_context("fleet", ["version"]), list(arguments))
    return dict(command.make_context(name, rest).params)


def instructions() -> Iterator[tuple[str, str]]:
    """Each instruction of the Dockerfile with its text."""
    joined = DOCKERFILE.read_text().replace("\\\n", " ")
    for line in joined.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word and not word.startswith("#"):
            yield word, rest.strip()


def options(unit: Path) -> configparser.SectionProxy:
    reader = configparser.ConfigParser(interpolation=None, strict=False)
    reader.optionxform = str  # type: ignore[assignment, method-assign]
    reader.read(unit)
    return reader["Service"]


def test_the_image_gets_all_that_its_steps_need() -> None:
    copied = [word for name, rest in instructions() if name == "COPY" for word in rest.split()[:-1]]
    assert [word for word in copied if not (ROOT / word).exists()] == []
    assert {"pyproject.toml", "setup.py", "distributions.py", "api", "fleet", "hub", "migrations"} <= set(copied)


def test_the_image_starts_a_hub_that_its_health_check_asks() -> None:
    found = dict(instructions())
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
    assert [port.rpartition(":")[2] for port in hub["ports"]] == [dict(instructions())["EXPOSE"]]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_runs_a_command_of_fleet_and_waits_longer_than_it_needs_to_stop(unit: Path) -> None:
    service = options(unit)
    program, *arguments = shlex.split(service["ExecStart"])
    assert Path(program).name == "fleet"
    chosen = parsed(arguments)
    assert int(service["TimeoutStopSec"]) >= chosen.get("drain_seconds", 0) + 15
    assert service["Restart"] == "always"


def test_there_is_a_unit_for_each_process_of_a_hub() -> None:
    assert [unit.name for unit in UNITS] == ["fleet-api.service", "fleet-controllers.service"]
