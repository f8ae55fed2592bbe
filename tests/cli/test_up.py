"""`fleet up`: first and second start, what goes wrong, and what is left when it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from fleet.hub.up import _listening
from tests.cli.hub import Up, fleet, processes_of, refusal, until
from tests.e2e.manifests import pytorchjob
from tests.slow import repeated

EXAMPLES = Path(__file__).parents[2] / "examples" / "walkthrough"
PODS_IN_CFA = "/apis/cluster.karmada.io/v1alpha1/clusters/cfa/proxy/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def keep_something(up: Up) -> None:
    up.hub.request("POST", CONFIG_MAPS, {"metadata": {"name": "kept"}, "data": {"a": "b"}})


def is_kept(up: Up) -> bool:
    found = up.hub.find(f"{CONFIG_MAPS}/kept")
    return found is not None and found["data"] == {"a": "b"}


def test_the_first_start_makes_everything_and_the_second_keeps_it(tmp_path: Path) -> None:
    folder = tmp_path / "hub"
    first = Up(folder)
    kubeconfig = (folder / "kubeconfig").read_text()
    keep_something(first)
    assert first.stop() == 0
    assert len(first.out) == 1
    address = re.fullmatch(
        rf"ready  (https://127\.0\.0\.1:\d+)  kubeconfig={folder}/kubeconfig  members=0  \(\d+\.\d s\)\n", first.out[0]
    )
    assert address and f"server: {address[1]}\n" in kubeconfig
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    private = [path for path in (*folder.glob("*"), *(folder / "pki").glob("*")) if path.is_file()]
    assert {path.name for path in private} >= {"kubeconfig", "tokens.csv", "secrets.key", "ca.key", "server.key"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}

    second = Up(folder)
    assert is_kept(second)
    assert second.stop() == 0
    again = (folder / "kubeconfig").read_text()
    assert re.sub("server: .*", "", again) == re.sub("server: .*", "", kubeconfig)


def test_a_job_in_a_simulated_member_runs_on_after_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "hub"
    first = Up(folder, "--members", "1")
    files = [str(EXAMPLES / f"{name}.yaml") for name in ("quota-tree", "policy-gang-queue")]
    endless = tmp_path / "job.yaml"  # that of the examples ends after half a minute
    endless.write_text(yaml.safe_dump(pytorchjob("endless")))
    done = fleet("submit", *files, str(endless), "--data-dir", str(folder))
    assert done.returncode == 0, done.stderr

    def job() -> dict[str, Any]:
        [one] = json.loads(fleet("jobs", "-o", "json", "--data-dir", str(folder)).stdout)
        return dict(one)

    def pods(up: Up) -> set[str]:
        return {pod["metadata"]["uid"] for pod in up.hub.list(PODS_IN_CFA)}

    until("it runs", lambda: job()["state"] == "Running")
    running = pods(first)
    assert first.stop() == 0 and len(running) == 3
    second = Up(folder, "--members", "1")
    until("the member is there", lambda: "1 of 1 ready" in fleet("status", "--data-dir", str(folder)).stdout)
    assert (job()["state"], job()["attempt"], job()["member"]) == ("Running", 1, "cfa")
    assert pods(second) == running
    assert second.stop() == 0


def test_ctrl_c_and_sigterm_leave_nothing_running(tmp_path: Path) -> None:
    folder = tmp_path / "hub"
    for how in (signal.SIGINT, signal.SIGTERM):
        up = Up(folder, "--members", "1") if how is signal.SIGINT else Up(folder)
        assert processes_of(folder)
        assert up.stop(how) == 0
        assert processes_of(folder) == []


@pytest.mark.parametrize("parts", repeated(["the supervisor", "all of Fleet"], short=["all of Fleet"]))
def test_after_kill_9_the_others_end_and_the_next_start_has_everything(tmp_path: Path, parts: str) -> None:
    folder = tmp_path / "hub"
    up = Up(folder)
    keep_something(up)
    processes = processes_of(folder) if parts == "all of Fleet" else []
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # it went with one that was killed before it
            if process.name() != "postgres":
                process.kill()
    up.process.kill()
    up.process.wait(10)
    until("no process of the hub is left", lambda: not processes_of(folder))
    again = Up(folder)
    assert is_kept(again)
    assert again.stop() == 0


@pytest.mark.parametrize("name", ["api", "controllers"])
def test_a_child_that_is_killed_is_started_again(up: Up, name: str) -> None:
    killed = up.child(name)
    killed.kill()
    killed.wait(10)
    until(f"{name} runs again", lambda: any(name in child.cmdline() for child in _children(up)))
    up.hub.request("GET", "/readyz")  # waits in the socket's queue while the API starts
    assert f"{name} ended with signal SIGKILL; starting it again" in up.errors.read_text()


def _children(up: Up) -> list[psutil.Process]:
    return psutil.Process(up.process.pid).children()


def test_a_second_one_on_the_same_directory_names_the_first(up: Up) -> None:
    said = refusal(fleet("up", "--data-dir", str(up.folder), "--listen", "127.0.0.1:0"))
    assert said == f"fleet: {up.folder} is in use by another `fleet up` (pid {up.process.pid})"


def test_a_port_in_use_is_one_line_and_starts_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "hub"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = fleet("up", "--data-dir", str(folder), "--listen", f"127.0.0.1:{port}")
    assert done.returncode == 1 and done.stdout == ""
    why = done.stderr.splitlines()[-1]
    assert why.startswith(
        f"fleet: cannot listen on 127.0.0.1:{port}: Address already in use, by process {os.getpid()} ("
    )
    assert why.endswith("): stop that program or hub, or give another --listen")
    assert processes_of(folder) == []


def test_a_long_command_that_has_the_port_ends_with_an_ellipsis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.hub.up.PROGRAM_CHARACTERS_MAX", 5)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "…): stop that program" in _listening(taken.getsockname()[1])


@pytest.mark.parametrize("listen", ["nonsense", "127.0.0.1:", "127.0.0.1:99999"])
def test_an_address_that_is_none_is_refused(tmp_path: Path, listen: str) -> None:
    assert refusal(fleet("up", "--data-dir", str(tmp_path), "--listen", listen)) == (
        f"fleet: --listen {listen}: not HOST:PORT"
    )


def test_a_data_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = refusal(fleet("up", "--data-dir", str(tmp_path / "file" / "hub")))
    assert "cannot use" in said and "Not a directory" in said


def test_commands_that_find_no_hub_say_where_they_looked(tmp_path: Path) -> None:
    for command in (
        ["jobs"],
        ["clusters"],
        ["queues"],
        ["explain", "x"],
        ["unjoin", "x"],
        ["delete", "pod/x"],
        ["token", "create", "ann"],
    ):
        assert f"{tmp_path}/kubeconfig does not exist" in refusal(fleet(*command, "--data-dir", str(tmp_path)))
    assert "no data directory of a hub" in refusal(fleet("controllers", "--data-dir", str(tmp_path)))
