"""`fleet exec`, `attach`, `port-forward`, `top` and `logs` for a job of three pods in a simulated member."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import termios
import time
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from fleet.amc.get import proxy
from fleet.cli import main
from fleet.cli.top import members, of_models
from tests.cli.amc_objects import job as pytorchjob
from tests.cli.amc_objects import metrics_kind, pod_template
from tests.cli.hub import BIN, Up, refusal, until
from tests.cli.manifests import QUOTA, policy, written
from tests.cli.shells import run

WITHIN_S = 60.0
POD_LINE = "train-{}/pytorch: Running in the simulated cluster cfa\n"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("shells")
    running = Up(folder / "hub", "--members", "1")
    try:
        body: dict[str, Any] = pytorchjob("train")
        body["spec"]["pytorchReplicaSpecs"]["Worker"] = {"replicas": 2, "template": pod_template()}
        done = run(running, "submit", written(folder / "jobs.yaml", QUOTA, policy(), body))
        assert done.returncode == 0, done.stderr
        assert run(running, "wait", "train", "--for", "started", "--timeout", "90").returncode == 0
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()


def test_exec_prints_what_the_command_prints_and_ends_as_it_does(up: Up) -> None:
    done = run(up, "exec", "train", "--", "nvidia-smi", "-L")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "train-master-0/pytorch: nvidia-smi -L in the simulated cluster cfa\n"
    done = run(up, "exec", "train", "--rank", "2", "--", "sh", "-c", "exit 3")
    assert (done.returncode, done.stdout.split("/")[0]) == (3, "train-worker-1")
    done = run(up, "exec", "train", "-i", "--pod", "train-worker-0", "--", "sh", stdin="said\nexit 4\n")
    assert done.returncode == 4 and done.stdout.endswith("cfa\nsaid\nexit 4\n")
    done = run(up, "exec", "train", "-i", "--", "cat", stdin="to the end\n")
    assert done.returncode == 0 and done.stdout.endswith("cfa\nto the end\n")


def test_what_cannot_be_run_is_one_line(up: Up) -> None:
    assert "its pods are train-master-0 (rank 0), train-worker-0 (rank 1)" in refusal(
        run(up, "exec", "train", "--rank", "7", "--", "ls")
    )
    assert 'has no pod "nope"' in refusal(run(up, "exec", "train", "--pod", "nope", "--", "ls"))
    assert "container no is not valid" in refusal(run(up, "exec", "train", "-c", "no", "--", "ls"))
    assert 'no job "gone"' in refusal(run(up, "attach", "gone"))
    assert "is no pair of ports" in refusal(run(up, "port-forward", "train", "80:x"))


def test_a_terminal_is_raw_while_it_runs_and_restored_after_it(up: Up) -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    command = [str(BIN / "fleet"), "exec", "train", "-it", "--data-dir", str(up.folder), "--", "sh"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
        try:
            assert "sh in the simulated cluster" in _read_until(ours, "cluster cfa")
            assert termios.tcgetattr(theirs)[3] & termios.ECHO == 0
            os.write(ours, b"\x03 typed\n")  # Ctrl-C is the command's, and does not end this program
            assert "\x03 typed" in _read_until(ours, "typed")
            process.send_signal(signal.SIGTERM)
            assert process.wait(WITHIN_S) == 128 + signal.SIGTERM
        finally:
            process.kill()
    assert termios.tcgetattr(theirs)[:4] == before[:4]
    os.close(ours)
    os.close(theirs)


def _read_until(descriptor: int, text: str) -> str:
    read, deadline = "", time.monotonic() + WITHIN_S
    while text not in read:
        assert time.monotonic() < deadline, read
        if select.select([descriptor], [], [], 1.0)[0]:
            read += os.read(descriptor, 4096).decode()
    return read


def test_several_ports_lead_into_a_pod(up: Up) -> None:
    command = [str(BIN / "fleet"), "port-forward", "train", ":80", ":8080", "--data-dir", str(up.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for remote in ("80", "8080"):
                line = process.stdout.readline()
                found = re.fullmatch(rf"Forwarding from 127\.0\.0\.1:(\d+) -> {remote}\n", line)
                assert found is not None, line
                for text in (b"once", b"again"):
                    with socket.create_connection(("127.0.0.1", int(found[1])), timeout=WITHIN_S) as there:
                        there.sendall(text)
                        assert there.recv(100) == text
            process.send_signal(signal.SIGINT)
            assert process.wait(WITHIN_S) == 130
        finally:
            process.kill()


def test_the_log_of_a_job_is_that_of_all_its_pods_with_their_names(up: Up) -> None:
    merged = [f"[train-{pod}] {POD_LINE.format(pod)}" for pod in ("master-0", "worker-0", "worker-1")]
    assert run(up, "logs", "train").stdout == "".join(merged)
    command = [str(BIN / "fleet"), "logs", "train", "-f", "--since", "1h", "--data-dir", str(up.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as followed:
        try:
            assert followed.stdout is not None
            assert sorted(followed.stdout.readline() for _ in merged) == merged
            followed.send_signal(signal.SIGINT)
            assert followed.wait(WITHIN_S) == 130
        finally:
            followed.kill()
    assert run(up, "logs", "train", "--rank", "1").stdout == POD_LINE.format("worker-0")
    assert run(up, "logs", "train", "--role", "worker", "--index", "1").stdout == POD_LINE.format("worker-1")
    assert "is no duration" in refusal(run(up, "logs", "train", "--since", "lately"))


def test_top_shows_the_members_or_the_pods_of_a_job(up: Up) -> None:
    lines = [line.split() for line in run(up, "top").stdout.splitlines()]
    assert lines[0][:6] == ["MEMBER", "STATE", "GPU", "GPUS", "USED", "FREE"]
    assert lines[1][:7] == ["cfa", "ready", "nvidia.com/gpu", "32", "3", "29", "9%"]
    told = [line.split() for line in run(up, "top", "--by", "model").stdout.splitlines()]
    assert told == [
        ["MODEL", "GPUS", "USED", "FREE", "USED", "%", "FRAGMENTED", "CORDONED", "MEMBERS"],
        ["unknown", "32", "3", "29", "9%", told[1][5], "0", "cfa"],
    ]
    told = [line.split() for line in run(up, "top", "--by", "queue").stdout.splitlines()]
    assert told[0] == ["QUEUE", "USED", "MIN", "MAX", "USED", "%", "WAITING", "RUNNING"]
    assert told[1][:6] == ["root", "3", "64", "64", "4%", "0"]
    done = run(up, "top", "train")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 4
    assert done.stderr == "fleet: cfa does not serve metrics.k8s.io, so it tells no usage\n"
    there = proxy("cfa") + "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"
    up.hub.request(
        "POST", proxy("cfa") + "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", metrics_kind("pods")
    )
    until("metrics are served", lambda: up.hub.find(there) is not None)
    pod = up.hub.find(proxy("cfa") + "/api/v1/namespaces/default/pods/train-worker-1")
    assert pod is not None
    usage = [{"name": "pytorch", "usage": {"cpu": "1500m", "memory": "3Gi"}}]
    metadata = {"name": "train-worker-1", "labels": pod["metadata"]["labels"]}
    body = {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics", "metadata": metadata, "containers": usage}
    up.hub.request("POST", there, body)
    done = run(up, "top", "train", "-o", "json")
    used = {record["pod"]: (record["cpu"], record["memory"]) for record in json.loads(done.stdout)}
    assert (done.returncode, done.stderr) == (0, "")
    assert used == {"train-master-0": ("", ""), "train-worker-0": ("", ""), "train-worker-1": ("1500m", "3072Mi")}


def test_members_have_a_line_for_each_model_of_gpu() -> None:
    member = {
        "name": "a",
        "ready": False,
        "jobs": {"Running": 2},
        "free": {},
        "gpus": [],
        "allocatable": {"cpu": "8", "nvidia.com/gpu": "8", "amd.com/gpu": "4"},
        "allocated": {"nvidia.com/gpu": "2", "amd.com/gpu": "9"},
    }
    assert [(one["gpu"], one["gpus"], one["used"], one["free"], one["used_%"]) for one in members(member)] == [
        ("amd.com/gpu", 4, 4, 0, "100%"),
        ("nvidia.com/gpu", 8, 2, 6, "25%"),
    ]


def test_gpus_of_a_node_that_is_not_ready_are_neither_used_nor_free() -> None:
    rows = [{"model": "A100", "allocated": 2, "free": 6, "fragmented": 6, "cordoned": 8}]
    total = {"nvidia.com/gpu": "16"}
    member = {
        "name": "a",
        "ready": True,
        "jobs": {},
        "free": {},
        "allocatable": total,
        "allocated": total,
        "gpus": rows,
    }
    columns = ("gpus", "used", "free", "used_%", "cordoned")
    assert [tuple(one[column] for column in columns) for one in members(member)] == [(16, 2, 6, "25%", 8)]


def test_gpus_of_one_model_are_summed_over_the_members() -> None:
    def row(model: str, allocated: int, free: int, fragmented: int = 0, cordoned: int = 0) -> dict[str, Any]:
        counts = {"allocated": allocated, "free": free, "fragmented": fragmented, "cordoned": cordoned}
        return {"model": model, **counts}

    fleet: list[dict[str, Any]] = [
        {"name": "a", "gpus": [row("A100", 6, 2, 2), row("H100", 0, 8)]},
        {"name": "b", "gpus": [row("A100", 0, 0, cordoned=8)]},
        {"name": "c", "gpus": []},
    ]
    columns = ("model", "gpus", "used", "free", "used_%", "fragmented", "cordoned", "members")
    assert [tuple(one[column] for column in columns) for one in of_models(fleet)] == [
        ("A100", 16, 6, 2, "75%", 2, 8, "a,b"),
        ("H100", 8, 0, 8, "0%", 0, 0, "a"),
    ]


ROLES = ("viewer", "view", "edit", "job-submitter")
MAY = {"viewer", "view", "edit", "job-submitter"}
MAY_WRITE = {"edit", "job-submitter"}
VERBS: tuple[tuple[tuple[str, ...], set[str]], ...] = (
    (("logs", "train"), MAY),
    (("top", "train"), MAY),
    (("exec", "train", "--", "true"), MAY_WRITE),
    (("attach", "train"), MAY_WRITE),
    (("hold", "own"), MAY_WRITE),
    (("suspend", "own"), MAY_WRITE),
    (("resume", "own"), MAY_WRITE),
    (("release", "own"), MAY_WRITE),
    (("clone", "own", "more"), MAY_WRITE),
    (("priority", "5", "own"), set()),
    (("hold", "queue/root"), set()),
    (("cancel", "own"), MAY_WRITE),
)


@pytest.fixture(scope="module")
def users(up: Up) -> dict[str, str]:
    """A kubeconfig for each role in the namespace."""
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
    found = {}
    for role in ROLES:
        subject = {"kind": "User", "name": f"of-{role}", "apiGroup": "rbac.authorization.k8s.io"}
        reference = {"kind": "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io"}
        body = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"of-{role}"},
            "subjects": [subject],
            "roleRef": reference,
        }
        up.hub.request("POST", rbac, body)
        made = run(up, "token", "create", f"of-{role}", "-n", "default", "-o", "kubeconfig")
        assert made.returncode == 0, made.stderr
        path = up.folder.parent / f"{role}.kubeconfig"
        path.write_text(made.stdout)
        found[role] = str(path)
    return found


@pytest.mark.parametrize("role", ROLES)
def test_each_verb_asks_for_its_own_right(up: Up, users: dict[str, str], role: str) -> None:
    own, more = f"own-{role}", f"more-{role}"
    assert run(up, "clone", "train", own).returncode == 0
    for words, roles in VERBS:
        at = words.index("--") if "--" in words else len(words)
        named = [{"own": own, "more": more}.get(word, word) for word in words]
        asked = [*named[:at], "--kubeconfig", users[role], *named[at:]]
        done = CliRunner().invoke(main.with_commands([words[0]]), asked)
        told = f"{done.output} {done.exception}"
        assert (done.exit_code == 0) == (role in roles), (words, told)
        assert role in roles or " cannot " in told, (words, told)
