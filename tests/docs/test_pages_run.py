"""The commands of the guides, run as their readers run them, on a real hub with two simulated members.

The output that a page shows is compared without times, ages and addresses. What is not run stands with its reason in
`tests/docs/not_run.py`, so that no command is left out in silence.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml

from tests.cli.hub import BIN, Up
from tests.docs.not_run import ANOTHER_RUN, BY_CHANCE, NOT_RUN
from tests.docs.page_worlds import WORLDS, World
from tests.docs.shown import Command, commands, missing
from tests.docs.test_docs import ROOT
from tests.testbed.build import parts

HOW_TO = ROOT / "docs" / "how-to"
WITHIN_S = 150.0  # until the hub has done what the page shows
READS = (
    "fleet jobs",
    "fleet queues",
    "fleet clusters",
    "fleet logs",
    "fleet top",
    "fleet doctor",
    "fleet check",
    "kubectl get",
)


def shown(page: str) -> list[Command]:
    return list(commands((HOW_TO / page).read_text()))


def excused(page: str, command: Command) -> bool:
    return any(fnmatchcase(command.line, pattern) for pattern in NOT_RUN.get(page, {}))


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    running = Up(tmp_path_factory.mktemp("pages") / "hub", "--members", "2")
    try:
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()


class Reader:
    """A shell in an empty folder, with a kubeconfig whose context is in the world's namespace."""

    def __init__(self, up: Up, folder: Path, world: World) -> None:
        self._folder = folder
        config = yaml.safe_load((up.folder / "kubeconfig").read_text())
        config["contexts"][0]["context"]["namespace"] = world.namespace
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(config))
        kubectl = parts().binary("kubectl")
        clean = {name: value for name, value in os.environ.items() if not name.startswith("FLEET_")}
        self._environment = clean | {"KUBECONFIG": str(kubeconfig), "PATH": f"{BIN}:{kubectl.parent}:{clean['PATH']}"}
        for name, text in world.files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)

    def run(self, line: str, stdin: str = "y\n") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", line], input=stdin, cwd=self._folder, env=self._environment, capture_output=True, text=True,
            timeout=2 * WITHIN_S, check=False,
        )  # fmt: skip

    def check(self, command: Command, *, compared: bool) -> str:
        """What differs from the page; "" for nothing. A command that only reads is repeated for a while."""
        deadline = time.monotonic() + WITHIN_S
        while True:
            done = self.run(command.line)
            said = done.stdout + done.stderr
            lacking = missing(command.output or (), said) if compared else []
            failed = done.returncode != 0 and command.output is None
            if not (lacking or failed):
                return ""
            if not command.line.startswith(READS) or time.monotonic() > deadline:
                return f"$ {command.line}\nstatus {done.returncode}, lacks {lacking} in:\n{said}"
            time.sleep(0.2)


@pytest.mark.parametrize("page", sorted(WORLDS))
def test_every_command_of_the_page_does_what_the_page_shows(up: Up, tmp_path: Path, page: str) -> None:
    world = WORLDS[page]
    reader = Reader(up, tmp_path, world)
    applied = reader.run("kubectl apply -f -", yaml.safe_dump_all(world.objects))
    assert applied.returncode == 0, applied.stderr
    states = {**dict.fromkeys(world.running, "started"), **dict.fromkeys(world.finished, "finished")}
    for name, state in states.items():
        waited = reader.run(f"fleet wait {name} --for {state} --timeout 150")
        assert waited.returncode == 0, waited.stderr
    if world.later:
        applied = reader.run("kubectl apply -f -", yaml.safe_dump_all(world.later))
        assert applied.returncode == 0, applied.stderr
    asked = [command for command in shown(page) if not excused(page, command)]
    differing = [reader.check(command, compared=command.line not in BY_CHANCE) for command in asked]
    cleared = reader.run("kubectl delete pytorchjobs --all --all-namespaces --timeout=150s")
    assert cleared.returncode == 0, cleared.stderr
    told = "\n".join(text for text in differing if text)
    assert asked != [] and told == "", told


def test_a_line_that_a_command_does_not_print_is_found() -> None:
    said = "NAME   AGE\none    3m2s\ntwo    1d\n"
    assert missing(("NAME AGE", "one    28m", "…", "two 5s"), said) == []
    assert missing(("two 5s", "one 28m"), said) == ["one 28m"]
    assert missing(("one 28m Running",), said) == ["one 28m Running"]


def test_every_page_with_commands_is_run_here_or_named_with_its_reason() -> None:
    pages = {page.name for page in HOW_TO.glob("*.md") if shown(page.name)}
    assert pages == WORLDS.keys() | ANOTHER_RUN.keys() and WORLDS.keys().isdisjoint(ANOTHER_RUN)
    assert [where for where in ANOTHER_RUN.values() if not (ROOT / where).exists()] == []


def test_every_command_that_is_not_run_is_still_on_its_page() -> None:
    assert NOT_RUN.keys() <= WORLDS.keys()
    gone = [
        (page, pattern)
        for page, patterns in NOT_RUN.items()
        for pattern in patterns
        if not any(fnmatchcase(command.line, pattern) for command in shown(page))
    ]
    lines = {command.line for page in WORLDS for command in shown(page)}
    assert (gone, BY_CHANCE - lines) == ([], set())
