"""Taking a member out of service and back, on a real hub with simulated members."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.amc.client import ServerAnswer
from fleet.amc.get import CLUSTERS
from fleet.bindings.draining import drain_taint
from fleet.cli.clusters import LIST, line, record
from fleet.cli.cordon import CORDON, TRIES_MAX, edit_taints, with_cordon
from fleet.cli.hub import HubClient, HubRefusal
from fleet.cli.options import Output
from fleet.cli.output import show
from tests.cli.hub import BIN, Up, place, refusal, run, seen, until
from tests.cli.manifests import FIXED, GPU, QUOTA, job, policy, written

FOREIGN = {"key": "maintenance", "value": "disk", "effect": "NoSchedule"}
MERGE = "application/merge-patch+json"


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """Three jobs in cfa, which alone is open: `low` and `fixed`, and `later`, the latest in the queue."""
    running = Up(tmp_path / "hub", "--members", "2", "--nodes", "2")
    try:
        assert run(running, "cordon", "cfb").stdout == "cfb cordoned\n"
        for number, one in enumerate((job("low"), job("fixed", **FIXED), job("later"))):
            file = written(tmp_path / f"{number}.yaml", QUOTA, policy(), one)
            assert run(running, "submit", file).returncode == 0
            name = one["metadata"]["name"]
            if number < 2:
                until(f"{name} runs", lambda name=name: place(running, name) == ("Running", "cfa"))
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()


def taints(up: Up, name: str) -> list[dict[str, Any]]:
    cluster = up.hub.find(f"{CLUSTERS}/{name}") or {}
    return [{k: v for k, v in one.items() if k != "timeAdded"} for one in cluster["spec"].get("taints") or []]


def state(up: Up, name: str) -> str:
    return str(
        next(one for one in json.loads(run(up, "clusters", "-o", "json").stdout) if one["name"] == name)["state"]
    )


def test_a_member_is_cordoned_drained_and_opened_again(up: Up) -> None:
    # No new job starts in a cordoned member: cfa has room for two, and cfb is cordoned.
    until("it is looked at", lambda: seen(up, "later")["reason"] != "")
    assert place(up, "later") == ("Queued", "")
    again = run(up, "cordon", "cfb", "cfb", "cfc")
    assert (again.returncode, again.stdout) == (1, "cfb was cordoned already\n")
    assert again.stderr.startswith('fleet: no member "cfc"; did you mean cf') and state(up, "cfb") == "ready, cordoned"
    head, *lines = run(up, "clusters").stdout.splitlines()
    assert head == "NAME   STATE             NODES   GPUS   GPUS USED   TAINTS   MESSAGE"
    assert lines[1] == "cfb    ready, cordoned   2/2     16     0           -        -"

    # A dry run lists, and changes nothing.
    dry = run(up, "drain", "cfa", "--dry-run", "-o", "json")
    assert dry.returncode == 0 and taints(up, "cfa") == []
    assert json.loads(dry.stdout) == [
        {"member": "cfa", "job": "default/low", "priority": 0, "does": "leaves", "why": ""},
        {"member": "cfa", "job": "default/fixed", "priority": None, "does": "stays", "why": "it is not preemptible"},
    ]
    assert refusal(run(up, "drain", "cfa", "cfx")).startswith('fleet: no member "cfx"; did you mean cf')
    assert taints(up, "cfa") == []

    # Jobs that may not be evicted stay, and the exit status says so.
    up.hub.request("PATCH", f"{CLUSTERS}/cfa", {"spec": {"taints": [FOREIGN]}}, content_type=MERGE)
    done = run(up, "drain", "cfa")
    assert done.returncode == 1 and done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[0] == "cfa cordoned; its jobs leave, at most 60 a minute"
    assert lines[-2:] == [
        "cfa: no more jobs leave; 1 stays: default/fixed (it is not preemptible)",
        "fleet: drained of all but 1: default/fixed in cfa (it is not preemptible)",
    ]
    assert place(up, "low")[0] == "Queued" and place(up, "fixed") == ("Running", "cfa")
    assert state(up, "cfa") == "ready, draining"
    (row,) = [row for row in run(up, "clusters").stdout.splitlines() if row.startswith("cfa ")]
    assert "   maintenance=disk:NoSchedule   no more jobs leave; 1 stays: default/fixed (it is " in row

    # --force has them leave, too.
    forced = run(up, "drain", "cfa", "--force", "-o", "json")
    assert forced.returncode == 0, forced.stderr
    assert json.loads(forced.stdout) == [{"member": "cfa", "drained": True, "staying": []}]
    assert state(up, "cfa") == "ready, drained"
    assert [one["key"] for one in taints(up, "cfa")] == [
        "maintenance",
        "cluster.karmada.io/unschedulable",
        "fleet.io/drain",
    ]

    # The way back takes exactly that away.
    opened = run(up, "uncordon", "cfa", "cfb")
    assert opened.stdout.splitlines() == [
        "cfa uncordoned, its drain has ended; still tainted: maintenance=disk:NoSchedule",
        "cfb uncordoned",
    ]
    assert (taints(up, "cfa"), taints(up, "cfb")) == ([FOREIGN], [])
    assert run(up, "uncordon", "cfb").stdout == "cfb was not cordoned\n"
    for name in ("low", "fixed"):
        until(f"{name} runs in cfb", lambda name=name: place(up, name) == ("Running", "cfb"))
    assert "Draining" not in str((up.hub.find(f"{CLUSTERS}/cfa") or {})["status"]["conditions"])


def test_an_interrupted_drain_says_that_the_hub_goes_on_and_so_it_does(up: Up) -> None:
    up.hub.request("PATCH", f"{CLUSTERS}/cfa", {"spec": {"taints": []}}, content_type=MERGE)
    with subprocess.Popen(
        [str(BIN / "fleet"), "drain", "cfa", "--force", "--per-minute", "1", "--data-dir", str(up.folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ},
        # Where the tests run in the background, a child inherits a SIGINT that is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as command:
        assert command.stderr is not None
        said = command.stderr.readline() + command.stderr.readline()
        assert "cfa cordoned; its jobs leave, at most 1 a minute\ncfa: " in said
        command.send_signal(signal.SIGINT)
        _, rest = command.communicate(timeout=60)
        assert command.returncode == 130
    assert rest.splitlines()[-1] == (
        "fleet: cfa stays cordoned, and the hub goes on draining; fleet uncordon cfa ends that"
    )
    late = run(up, "drain", "cfa", "--force", "--per-minute", "4", "--timeout", "0")
    assert late.returncode == 124 and "fleet: cfa is not drained after 0 s: " in late.stderr, late.stderr
    until("both have left", lambda: {place(up, "low")[0], place(up, "fixed")[0]} == {"Queued"})


def told(taints: list[dict[str, Any]], reason: str, message: str) -> dict[str, Any]:
    """A member that is ready, with these taints and this state of its drain."""
    ready, drain = {"type": "Ready", "status": "True"}, {"type": "Draining", "reason": reason, "message": message}
    drain["status"] = "True" if reason == "WaitsForWork" else "False"
    return {"metadata": {"name": "cfa"}, "spec": {"taints": taints}, "status": {"conditions": [ready, drain]}}


def test_a_line_of_a_member_says_that_it_is_cordoned() -> None:
    shown = record({"metadata": {"name": "cfa"}, "spec": {"taints": [CORDON]}})
    assert (shown["state"], shown["ready"], shown["cordoned"], shown["draining"]) == (
        "not ready, cordoned",
        False,
        True,
        False,
    )


def test_a_line_of_a_member_that_is_drained_says_how_far_it_is() -> None:
    taints = [CORDON, drain_taint(60, force=False)]
    leaves = record(told(taints, "WaitsForWork", "1 to leave, 0 leaving"))
    assert (leaves["state"], leaves["message"]) == ("ready, draining", "1 to leave, 0 leaving")
    stays = record(told(taints, "JobsStay", "no more jobs leave; 1 stays: a/b (it is not preemptible)"))
    assert (stays["state"], stays["draining"], stays["drained"]) == ("ready, draining", True, False)
    empty = record(told(taints, "Drained", "no more jobs leave"))
    assert (empty["state"], empty["draining"], empty["drained"]) == ("ready, drained", False, True)
    assert empty["message"] == "" and "fleet.io/drain=60-per-minute:NoExecute" in empty["taints"]
    assert line(told(taints, "Drained", ""))["taints"] == ""
    ended = record(told([], "Drained", "no more jobs leave"))
    assert (ended["state"], ended["message"]) == ("ready", "")


def test_names_of_some_length_fit_eighty_columns_and_wide_shows_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = told([CORDON], "", "")
    cluster["metadata"]["name"] = "prod-eu-west-1"
    cluster["spec"]["apiEndpoint"] = "https://prod-eu-west-1.example.org:6443"
    room = {"allocatable": {GPU: "4096"}, "allocated": {GPU: "4000"}}
    cluster["status"] |= {"resourceSummary": room, "nodeSummary": {"readyNum": 512, "totalNum": 512}}
    show([line(cluster)], LIST.columns, Output.table)
    assert [len(said) for said in capsys.readouterr().out.splitlines() if len(said) > 80] == []
    show([line(cluster)], LIST.wide, Output.table)
    assert "https://prod-eu-west-1.example.org:6443" in capsys.readouterr().out


class _Busy:
    """A hub whose Cluster somebody else writes before each of our writes, `times` times."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.taints: list[dict[str, Any]] = []
        self.version = 1

    def request(self, method: str, path: str, body: Any = None, **how: Any) -> ServerAnswer:
        if method == "GET":
            cluster = {
                "metadata": {"name": "cfa", "resourceVersion": str(self.version)},
                "spec": {"taints": self.taints},
            }
            return ServerAnswer(200, cluster, b"{}")
        if self.times:
            self.times -= 1
            self.version += 1
            self.taints = [*self.taints, {**FOREIGN, "key": f"other-{self.version}"}]
        if body["metadata"]["resourceVersion"] != str(self.version):
            return ServerAnswer(409, {"message": "the object has been modified"}, b"{}")
        self.taints = body["spec"]["taints"]
        return ServerAnswer(200, {}, b"{}")


def test_a_taint_that_is_written_meanwhile_stays() -> None:
    client = _Busy(TRIES_MAX - 1)
    edit_taints(HubClient(client, "here"), "cfa", with_cordon)  # type: ignore[arg-type]
    assert [one["key"] for one in client.taints] == ["other-2", "other-3", "other-4", "other-5", CORDON["key"]]


def test_a_cluster_that_never_rests_is_given_up() -> None:
    client = _Busy(TRIES_MAX)
    with pytest.raises(HubRefusal, match="modified"):
        edit_taints(HubClient(client, "here"), "cfa", with_cordon)  # type: ignore[arg-type]
