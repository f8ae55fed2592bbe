"""`fleet demo` for a person who watches: numbered steps, what to try next, and a hub that stays until Ctrl-C."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from fleet.hub.demo import ENDS
from fleet.hub.demo_story import STORY
from tests.checkout import ROOT
from tests.cli.hub import BIN, fleet, processes_of, refusal
from tests.slow import repeated

pytestmark = [pytest.mark.xdist_group("demo"), pytest.mark.timeout(600)]  # one whole demo for most of them

WITHIN_S = 240.0
STEP = re.compile(r"^── Step (\d+) of (\d+) · (.+) · (\d+) s ──$", re.MULTILINE)


class Demo:
    """A running `fleet demo`, whose folder is made in a folder of the test."""

    def __init__(self, folder: Path, *options: str, terminal: int | None = None) -> None:
        self.said = ""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("FLEET_") and k != "KUBECONFIG"}
        self.process = subprocess.Popen(
            [str(BIN / "fleet"), "demo", *options],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdout=subprocess.PIPE if terminal is None else terminal,
            env=environment | {"TMPDIR": str(folder), "TERM": "xterm"},
        )

    def read_until(self, text: str, source: int) -> None:
        """Read what it prints up to this text."""
        deadline = time.monotonic() + WITHIN_S
        while text not in self.said:
            assert time.monotonic() < deadline, self.said
            if select.select([source], [], [], 0.5)[0]:
                chunk = os.read(source, 65536).decode()
                assert chunk, self.said
                self.said += chunk


def to_try(said: str) -> list[str]:
    """The commands that the end of a demo proposes."""
    listed = said.partition("Three things to try next:\n")[2].partition("\n\n")[0]
    return [re.split("   +", line.strip())[0] for line in listed.splitlines()]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Demo]:
    """A whole demo whose hub stays, run once for the tests of this file and stopped by Ctrl-C. What it says to paste
    and to try has been done by then."""
    folder = tmp_path_factory.mktemp("demo")
    demo = Demo(folder, "--keep", "--listen", "127.0.0.1:0")
    try:
        assert demo.process.stdout is not None
        demo.read_until("removes all of it.", demo.process.stdout.fileno())
        (export,) = re.findall(r"^ +export (.+)$", demo.said, re.MULTILINE)
        script = "\n".join([f"set -ex; export {export}", *(f"timeout 30 {one}" for one in to_try(demo.said))])
        tried = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=100, cwd=ROOT)
        assert tried.returncode == 0, tried
    finally:
        demo.process.send_signal(signal.SIGINT)
        rest, _ = demo.process.communicate(timeout=90)
    demo.said += rest.decode()
    return folder, demo


def test_the_demo_numbers_its_steps_and_says_the_seconds(kept: tuple[Path, Demo]) -> None:
    steps = STEP.findall(kept[1].said)
    count = len(STORY) + 2
    assert [(int(number), int(of)) for number, of, _, _ in steps] == [(n + 1, count) for n in range(count)]
    assert [title for _, _, title, _ in steps][1:-1] == list(STORY)
    seconds = [int(one[3]) for one in steps]
    assert seconds == sorted(seconds)
    assert "\r" not in kept[1].said and "\x1b" not in kept[1].said


def test_ctrl_c_stops_the_hub_that_stays_and_leaves_nothing_behind(kept: tuple[Path, Demo]) -> None:
    folder, demo = kept
    assert demo.process.returncode == 0 and "nothing is left running" in demo.said
    assert processes_of(folder) == [] and list(folder.iterdir()) == []


def test_the_demo_that_stays_ends_with_three_things_to_try(kept: tuple[Path, Demo]) -> None:
    assert len(to_try(kept[1].said)) == 3


@pytest.mark.parametrize("how", repeated(ENDS, short={"SIGTERM"}, name=lambda how: how.name))
def test_a_demo_that_is_stopped_while_its_hub_starts_leaves_nothing_behind(tmp_path: Path, how: signal.Signals) -> None:
    ours, theirs = pty.openpty()
    demo = Demo(tmp_path, terminal=theirs)
    os.close(theirs)
    demo.read_until("Step 1 of", ours)
    demo.process.send_signal(how)
    assert demo.process.wait(90) in (1, 130)
    os.close(ours)
    assert processes_of(tmp_path) == [] and list(tmp_path.iterdir()) == []


IN_BETWEEN = """
import os, signal, subprocess, sys
from pathlib import Path
from fleet.hub.demo import ENDS, running_hub

class Interrupted(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        os.kill(os.getpid(), int(sys.argv[2]))

subprocess.Popen = Interrupted
for number in ENDS:
    signal.signal(number, signal.default_int_handler)
with running_hub(Path(sys.argv[1])):
    pass
"""


@pytest.mark.parametrize("how", repeated(ENDS, short={"SIGINT"}, name=lambda how: how.name))
def test_a_demo_that_is_stopped_the_moment_its_hub_is_there_leaves_no_process(
    tmp_path: Path, how: signal.Signals
) -> None:
    command = [str(BIN / "python"), "-c", IN_BETWEEN, str(tmp_path), str(int(how))]
    errors = tmp_path.with_suffix(".errors")
    with errors.open("w") as file:  # not a pipe, which a hub that is left behind would hold open
        subprocess.run(command, stderr=file, timeout=100)
    assert processes_of(tmp_path) == []
    assert "KeyboardInterrupt" in errors.read_text()


def test_a_terminal_shows_that_a_step_goes_on(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    demo = Demo(tmp_path, terminal=theirs)
    os.close(theirs)
    demo.read_until("step 2 of 11: kubectl apply", ours)
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(90) == 130
    os.close(ours)


def test_a_port_that_another_hub_has_is_told_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refusal(fleet("demo", "--keep", "--listen", f"127.0.0.1:{port}", TMPDIR=str(tmp_path)))
    assert said.startswith(
        f"fleet: cannot listen on 127.0.0.1:{port}: Address already in use, by process {os.getpid()} ("
    )
    assert list(tmp_path.iterdir()) == []
