"""Every command explains itself, at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleet.cli import main
from fleet.values.release import running
from tests.cli.hub import BIN, fleet

COMMANDS = (
    "help",
    "up",
    "demo",
    "join",
    "agent",
    "unjoin",
    "cordon",
    "uncordon",
    "drain",
    "clusters",
    "queues",
    "submit",
    "delete",
    "run",
    "jobs",
    "explain",
    "decide",
    "doctor",
    "what-if",
    "replay",
    "api",
    "controllers",
    "sim",
    "status",
    "version",
    "token",
    "orphans",
    "backup",
    "restore",
    "move",
    "clone",
    "wait",
    "hold",
    "release",
    "suspend",
    "resume",
    "cancel",
    "priority",
    "logs",
    "completion",
    "history",
    "show",
    "report",
    "check",
    "sweep",
    "exec",
    "attach",
    "port-forward",
    "top",
    "notifications",
)
HEAVY = ("fastapi", "uvicorn", "sqlalchemy", "numpy", "ortools", "kubernetes", "httpx", "asyncpg", "cryptography")


def test_the_list_of_commands_has_a_line_for_each_that_is_not_cut_off() -> None:
    done = fleet("--help")
    listed = dict(line.strip().split(None, 1) for line in done.stdout.split("Commands:\n")[1].splitlines())
    assert done.returncode == 0
    assert set(listed) == set(COMMANDS)
    assert [text for text in listed.values() if not text.endswith(".") or text.endswith("...")] == []


@pytest.mark.parametrize(
    "command",
    [
        *((name,) for name in COMMANDS),
        ("token", "create"),
        ("orphans", "list"),
        ("orphans", "adopt"),
        ("orphans", "remove"),
        ("history", "forget"),
        ("notifications", "retry"),
    ],
    ids=" ".join,
)
def test_every_command_has_help(command: tuple[str, ...]) -> None:
    done = fleet(*command, "--help")
    assert done.returncode == 0 and "Usage: fleet " + " ".join(command) in done.stdout
    assert (
        command in (("token",), ("orphans",)) or "\n    fleet " + " ".join(command) in done.stdout.split("  Example")[1]
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_is_loaded_alone_is_the_one_of_the_whole_program(command: str) -> None:
    words = [command, "--help"]
    alone, whole = CliRunner().invoke(main.with_commands([command]), words), CliRunner().invoke(main.app, words)
    assert alone.exit_code == 0 and alone.stdout == whole.stdout
    assert "Usage: fleet " + command in alone.stdout


def test_the_list_without_options_is_that_of_the_whole_program() -> None:
    quick, whole = (CliRunner().invoke(made, ["--help"]) for made in (main.with_a_list(), main.app))
    assert quick.exit_code == 0 and quick.stdout == whole.stdout


def test_a_command_loads_no_other() -> None:
    shared = {"main", "logs", "completion", "examples", "failure", "optional", "parsing"}
    assert loaded_by("--version") == shared
    assert loaded_by("help", "gang") == shared | {"helpterm"}


def loaded_by(*words: str) -> set[str]:
    """The modules of the command line that a command loads."""
    code = f"import sys; sys.argv = ['fleet', *{words}]; from fleet.cli.main import main\ntry: main()\n"
    code += "finally: print(*[name for name in sys.modules if name.startswith('fleet.cli.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180, check=False)
    return {name.removeprefix("fleet.cli.") for name in done.stdout.splitlines()[-1].split()}


def test_the_version_is_an_option_and_a_command_that_needs_no_hub(tmp_path: Path) -> None:
    assert (fleet("--version").stdout, fleet("--version").returncode) == (f"fleet {running()}\n", 0)
    alone = fleet("version", "--data-dir", str(tmp_path))
    assert (alone.returncode, alone.stdout) == (0, f"fleet {running()}\n") and "no hub found" in alone.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["get", "--help"]])
def test_the_plugin_has_help(arguments: list[str]) -> None:
    done = fleet(*arguments, program="kubectl-amc")
    assert done.returncode == 0 and done.stdout.startswith("usage: kubectl amc")


def test_a_wrong_option_is_a_usage_error() -> None:
    done = fleet("jobs", "--nonsense")
    assert done.returncode == 2 and "No such option: --nonsense" in done.stderr


def test_a_program_that_is_interrupted_while_it_loads_ends_in_silence() -> None:
    code = "import os, signal, sys; sys.argv = ['/bin/fleet']; import fleet.cli; os.kill(os.getpid(), signal.SIGINT)"
    begin = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    done = subprocess.run(
        [sys.executable, "-c", begin + code], capture_output=True, text=True, timeout=180, check=False
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


LOST_IN_A_CALLBACK = """
import os, signal, sys

class Interrupted:
    def __del__(self):  # Python drops what is raised here, as in the callbacks of its import system
        os.kill(os.getpid(), signal.SIGINT)

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == os.environ["LOST_IN"]:
            Interrupted()

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Finder)
"""


@pytest.mark.parametrize("program", [[str(BIN / "fleet")], [str(BIN / "python"), "-P", "-m", "fleet.cli.main"]])
@pytest.mark.parametrize(
    ("command", "module"), [(["version"], "fleet.cli.version"), (["up", "--listen", ":0"], "fleet.hub.starting")]
)
def test_a_ctrl_c_is_not_lost_while_modules_are_loaded(
    tmp_path: Path, program: list[str], command: list[str], module: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(LOST_IN_A_CALLBACK)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "LOST_IN": module}
    words = [*command, *(["--data-dir", str(tmp_path / "hub")] if command[0] == "up" else [])]
    done = subprocess.run([*program, *words], capture_output=True, text=True, timeout=180, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_an_importer_of_a_command_keeps_its_handler_of_ctrl_c() -> None:
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import fleet.cli.main"
    code += "; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180, check=True)
    assert done.stdout == "True\n"


@pytest.mark.parametrize("module", ["fleet.cli.main", "fleet.amc.main"])
def test_help_loads_none_of_the_heavy_parts(module: str) -> None:
    whole = f"{module}.app" if module == "fleet.cli.main" else f"{module}.parser()"  # all commands
    code = f"import sys, {module}; {whole}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180, check=True)
    assert done.stdout.split() == []
