"""Commands that end in their midst: killed at a chosen request and given again, or stopped by Ctrl-C at a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.cli.creating import within
from tests.cli.hub import BIN, Up, fleet, until
from tests.cli.manifests import QUOTA, job, policy, short, written
from tests.slow import repeated

WITHIN_S = 120.0
JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
MAPS = "/api/v1/namespaces/default/configmaps"
# `fleet` that is killed, as by kill -9, before its Nth request that changes something is sent.
KILLED = """
import os, signal, sys
from fleet.amc.client import Client
from fleet.cli.main import main
left, sent = int(sys.argv.pop(1)), Client.request
def request(self, method, *words, **more):
    global left
    if method != "GET":
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return sent(self, method, *words, **more)
Client.request = request
main()
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("short")
    running = Up(folder / "hub", "--members", "1", "--nodes", "2")
    try:
        done = run(running, "submit", written(folder / "a.yaml", QUOTA, policy()))
        assert done.returncode == 0, done.stderr
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()


def run(up: Up, *words: str) -> subprocess.CompletedProcess[str]:
    at = words.index("--") if "--" in words else len(words)
    return fleet(*words[:at], "--data-dir", str(up.folder), *words[at:])


def killed(up: Up, requests: int, *words: str) -> None:
    """The command, with so many requests that change something."""
    at = words.index("--") if "--" in words else len(words)
    line = [sys.executable, "-c", KILLED, str(requests), *words[:at], "--data-dir", str(up.folder), *words[at:]]
    done = subprocess.run(line, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == -9, (done.stdout, done.stderr)


def uids(up: Up, sweep: str) -> dict[str, str]:
    found = up.hub.list(JOBS, labelSelector=f"fleet.io/sweep={sweep}")
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in found}


@pytest.mark.parametrize(
    "requests", repeated([1, 3, 5], short=["3"])
)  # after the code, within the jobs, before the code belongs to them
def test_a_sweep_that_was_killed_is_completed_by_the_same_command(up: Up, tmp_path: Path, requests: int) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    name = f"tune{requests}"
    words = (
        "run",
        "--name",
        name,
        "--image",
        "i",
        "--gpus",
        "1",
        "--sweep",
        "lr=1..4",
        "--code",
        str(tmp_path),
        "--",
        "python",
        "train.py",
    )
    killed(up, requests, *words)
    before = uids(up, name)
    assert len(before) == requests - 1
    if before and requests < 5:
        told = run(up, "sweep", name).stderr
        assert f"sweep {name} ends at job 2 of 4: the others are deleted, or were never made" in told
    done = run(up, *words)
    code = up.hub.find(f"{MAPS}/{name}-code")
    assert code is not None
    assert {one["uid"] for one in code["metadata"]["ownerReferences"]} == set(uids(up, name).values())
    assert sorted(uids(up, name)) == [f"{name}-{number}" for number in range(1, 5)]
    assert uids(up, name).items() >= before.items()
    if requests < 5:
        assert done.returncode == 0, done.stderr
        made = [line.split(",")[0].split(";")[0] for line in done.stdout.splitlines()]
        assert made == [
            f"pytorchjob/{name}-{number} {'was there' if number < requests else 'created'}" for number in range(1, 5)
        ]
    else:
        assert done.returncode == 1 and "already exists, as this command makes it" in done.stderr
    assert run(up, "sweep", name).stderr == ""
    run(up, "cancel", "-l", f"fleet.io/sweep={name}")


def test_a_job_with_another_manifest_is_no_job_of_an_earlier_try(up: Up) -> None:
    words = ("run", "--name", "mine", "--image", "i", "--array", "0-1")
    assert run(up, *words, "--", "a").returncode == 0
    first = uids(up, "mine")
    done = run(up, *words, "--", "b")
    assert done.returncode == 1 and '"mine-0" already exists' in done.stderr
    assert "as this command makes it" not in done.stderr and uids(up, "mine") == first
    run(up, "cancel", "-l", "fleet.io/sweep=mine")


def test_an_object_is_within_another_that_has_all_its_fields() -> None:
    asked: dict[str, Any] = {"a": [{"b": "1"}], "c": {"d": None}}
    assert within(asked, {"a": [{"b": "1", "default": True}], "c": {"d": None, "e": 1}, "f": 2})
    for other in ({"a": [{"b": "2"}], "c": {"d": None}}, {"a": [], "c": {"d": None}}, {"a": [{"b": "1"}]}, {}, None):
        assert not within(asked, other)


def test_manifests_whose_submission_was_killed_are_submitted_again(up: Up, tmp_path: Path) -> None:
    names = [f"doc-{number}" for number in range(4)]
    path = written(tmp_path / "a.yaml", *(job(name, 1) for name in names))
    killed(up, 2, "submit", path)
    before = {name: (up.hub.find(f"{JOBS}/{name}") or {}).get("metadata", {}).get("uid") for name in names}
    assert [name for name, uid in before.items() if uid] == names[:2]
    done = run(up, "submit", path)
    assert [line.split(",")[0].split()[-1] for line in done.stdout.splitlines()] == [
        "applied",
        "applied",
        "created",
        "created",
    ]
    after = {name: (up.hub.find(f"{JOBS}/{name}") or {})["metadata"]["uid"] for name in names}
    assert all(after[name] == before[name] for name in names[:2])
    run(up, "cancel", *names)


def test_a_job_whose_replacement_was_killed_after_its_deletion_runs_again(up: Up, tmp_path: Path) -> None:
    body = short("again", finalizers=["example.com/stays"])
    path = written(tmp_path / "a.yaml", body)
    assert run(up, "submit", path).returncode == 0
    first = (up.hub.find(f"{JOBS}/again") or {})["metadata"]["uid"]
    assert run(up, "wait", "again", "--timeout", "90").returncode == 0
    run(up, "cancel", "again")  # as --replace does before it waits for the finalizer
    assert "deletionTimestamp" in (up.hub.find(f"{JOBS}/again") or {})["metadata"]
    assert "it is being deleted: --replace waits for that, and runs it again" in run(up, "submit", path).stdout
    whole = [str(BIN / "fleet"), "submit", path, "--replace", "--data-dir", str(up.folder)]
    with subprocess.Popen(whole, stdout=subprocess.PIPE, text=True) as process:
        patch = {"metadata": {"finalizers": None}}
        up.hub.request("PATCH", f"{JOBS}/again", patch, content_type="application/merge-patch+json")
        told, _ = process.communicate(timeout=WITHIN_S)
    assert (process.returncode == 0 and "again replaced" in told) or "again created" in told
    assert (up.hub.find(f"{JOBS}/again") or {})["metadata"]["uid"] != first
    up.hub.request("PATCH", f"{JOBS}/again", patch, content_type="application/merge-patch+json")
    run(up, "cancel", "again")


# -- Ctrl-C


class Terminal:
    """`fleet` at a terminal of its own, where a byte 3 is Ctrl-C."""

    def __init__(self, up: Up, *words: str) -> None:
        self.ours, self.theirs = pty.openpty()
        self.before = termios.tcgetattr(self.theirs)
        self.read = ""
        at = words.index("--") if "--" in words else len(words)
        line = [str(BIN / "fleet"), *words[:at], "--data-dir", str(up.folder), *words[at:]]
        theirs = self.theirs
        self.process = subprocess.Popen(
            line,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(theirs, termios.TIOCSCTTY, 0),
        )

    def until(self, text: str) -> None:
        deadline = time.monotonic() + WITHIN_S
        while text not in self.read:
            assert time.monotonic() < deadline, self.read
            assert self.process.poll() is None or self._more(), (self.process.returncode, self.read)
            self._more()

    def _more(self) -> bool:
        if not select.select([self.ours], [], [], 0.2)[0]:
            return False
        self.read += os.read(self.ours, 1 << 16).decode(errors="replace")
        return True

    def ctrl_c(self) -> str:
        """What stands on the terminal after Ctrl-C; the command has ended with 130, and left the terminal clean."""
        os.write(self.ours, b"\x03")
        deadline = time.monotonic() + WITHIN_S
        while self.process.poll() is None:
            self._more()
            assert time.monotonic() < deadline, self.read
        while self._more():
            pass
        assert (self.process.returncode, "Traceback" in self.read) == (130, False), self.read
        assert termios.tcgetattr(self.theirs)[:4] == self.before[:4]
        assert self.read.count("\x1b[?25l") == self.read.count("\x1b[?25h"), self.read
        return self.read

    def close(self) -> None:
        self.process.kill()
        self.process.wait(WITHIN_S)
        os.close(self.ours)
        os.close(self.theirs)


@pytest.fixture(scope="module")
def waits(up: Up) -> str:
    """A job that waits for good."""
    assert run(up, "run", "--name", "waits", "--image", "i", "--gpus", "64", "--", "a").returncode == 0
    return "waits"


@pytest.mark.parametrize(
    ("words", "shown", "said"),
    [
        (("wait", "waits"), "pytorchjob/waits: Queued", ""),
        (("jobs", "-w"), "waits", ""),
        (("top", "-w"), "cfa", ""),
        (("top", "--by", "queue", "-w"), "root", ""),
        (("queues", "-w"), "root", ""),
        (
            ("run", "--name", "by-run", "--image", "i", "--gpus", "64", "--wait", "--", "a"),
            "by-run: Queued",
            "pytorchjob/by-run goes on; fleet cancel by-run stops it",
        ),
        (
            (
                "run",
                "--name",
                "by-sweep",
                "--image",
                "i",
                "--gpus",
                "64",
                "--array",
                "0-1",
                "--until",
                "a<1",
                "--",
                "a",
            ),
            "0 of 2 over",
            "sweep by-sweep goes on; fleet cancel -l fleet.io/sweep=by-sweep stops its jobs",
        ),
    ],
)
def test_ctrl_c_ends_with_130_and_a_clean_terminal(
    up: Up, waits: str, words: tuple[str, ...], shown: str, said: str
) -> None:
    terminal = Terminal(up, *words)
    try:
        terminal.until(shown)
        assert said in terminal.ctrl_c()
    finally:
        terminal.close()


def test_ctrl_c_while_a_submission_waits_tells_what_was_submitted(up: Up, tmp_path: Path) -> None:
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "nobody-takes"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "i"}]}}},
    }
    last = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "submitted-last"}}
    terminal = Terminal(up, "submit", written(tmp_path / "a.yaml", body, last))
    try:
        until("all is stored", lambda: up.hub.find(f"{MAPS}/submitted-last") is not None)
        told = terminal.ctrl_c()
        assert "job.batch/nobody-takes created" in told
        assert "cut short after the objects above; the same command submits the rest" in told
    finally:
        terminal.close()


def test_ctrl_c_ends_the_logs_of_several_pods_that_go_on(up: Up) -> None:
    assert run(up, "run", "--name", "many", "--image", "i", "--workers", "3", "--", "sleep", "1d").returncode == 0
    assert run(up, "wait", "many", "--for", "started", "--timeout", "90").returncode == 0
    terminal = Terminal(up, "logs", "many", "-f")
    try:
        terminal.until("[many-worker-1]")
        terminal.ctrl_c()
    finally:
        terminal.close()
        run(up, "cancel", "many")
