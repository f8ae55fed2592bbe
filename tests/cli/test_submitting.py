"""Submitting, checking and sweeping as a user does: a real hub with a simulated member of 16 GPUs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.cli.failure import Failure
from fleet.cli.series import Goal, goal_of
from fleet.submission import Series
from tests.cli.hub import Up, fleet, refusal, until
from tests.cli.manifests import QUOTA, job, policy, short, written

JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    running = Up(tmp_path_factory.mktemp("submitting") / "hub", "--members", "1", "--nodes", "2")
    try:
        done = run(running, "submit", written(running.folder / "set-up.yaml", QUOTA, policy()))
        assert done.returncode == 0, done.stderr
        first = written(running.folder / "first.yaml", job("first"))
        until("its queue and its member are known", lambda: run(running, "check", first).returncode == 0)
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()


def run(up: Up, *words: str) -> subprocess.CompletedProcess[str]:
    return fleet(*words, "--data-dir", str(up.folder))


def echoing(name: str, words: str) -> dict[str, Any]:
    body = job(name, 1)
    container = body["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    container["command"] = ["echo", words]
    return body


def state(up: Up, name: str) -> str:
    return str((up.hub.find(f"/fleet/v1/jobs/default/PyTorchJob/{name}") or {}).get("state"))


def test_documents_that_are_refused_do_not_stop_the_others(up: Up, tmp_path: Path) -> None:
    typo = {**job("typo"), "kind": "PytorchJob"}
    bad = job("bad")
    bad["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = -1
    folder = tmp_path / "jobs"
    folder.mkdir()
    written(folder / "a.yaml", typo, bad, short("good"))
    (folder / "b.yml").write_text("- a\n")
    (folder / "read.me").write_text("not read")
    done = run(up, "submit", str(folder), str(tmp_path / "none.yaml"))
    assert (done.returncode, done.stdout) == (1, "pytorchjob.kubeflow.org/good created, in queue root/a\n")
    unread, missing, kind, refused = done.stderr.splitlines()
    assert unread.startswith(f"fleet: {folder}/b.yml: document 1 is no object")
    assert missing == f"fleet: cannot read {tmp_path}/none.yaml: No such file or directory"
    assert 'kind "PytorchJob"' in kind and kind.endswith("did you mean PyTorchJob of kubeflow.org/v1?")
    assert "replicas" in refused and "bad" in refused


def test_a_job_that_is_over_runs_again_when_that_is_said(up: Up, tmp_path: Path) -> None:
    path = written(tmp_path / "a.yaml", short("again"))
    assert run(up, "submit", path, "--dry-run", "-o", "name").stdout == "pytorchjob.kubeflow.org/again\n"
    assert up.hub.find(f"{JOBS}/again") is None
    first = json.loads(run(up, "submit", path, "-o", "json").stdout)
    until("it is over", lambda: state(up, "again") == "Succeeded")
    told = run(up, "submit", path).stdout
    assert told == "pytorchjob.kubeflow.org/again applied, finished (Succeeded); --replace runs it again\n"
    told = run(up, "submit", path, "--replace").stdout
    assert told == "pytorchjob.kubeflow.org/again replaced, in queue root/a\n"
    assert (up.hub.find(f"{JOBS}/again") or {})["metadata"]["uid"] != first["metadata"]["uid"]


def test_a_job_that_would_not_be_taken_keeps_the_one_that_it_is_to_replace(up: Up, tmp_path: Path) -> None:
    path = written(tmp_path / "a.yaml", short("kept"))
    first = json.loads(run(up, "submit", path, "-o", "json").stdout)
    until("it is over", lambda: state(up, "kept") == "Succeeded")
    wrong, typo = short("kept"), short("kept")
    wrong["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = -1
    typo["spec"]["pytorchReplicaSpecs"]["Worker"]["replica"] = 1
    itself = {**short("kept"), "metadata": {"name": "kept", "annotations": {"fleet.io/after": "kept"}}}
    for body, why in ((wrong, "must be between 0"), (typo, "unknown field"), (itself, "cannot start after itself")):
        done = run(up, "submit", written(tmp_path / "b.yaml", body), "--replace")
        assert (done.returncode, done.stdout) == (1, "") and why in done.stderr, done.stderr
    told = run(up, "submit", path, "--replace", "--dry-run").stdout
    assert told == "pytorchjob.kubeflow.org/kept replaced (dry run)\n"
    assert (up.hub.find(f"{JOBS}/kept") or {})["metadata"]["uid"] == first["metadata"]["uid"]
    assert state(up, "kept") == "Succeeded"


def test_json_objects_after_each_other_are_submitted_like_documents(up: Up, tmp_path: Path) -> None:
    path = tmp_path / "two.json"
    path.write_text("\n".join(json.dumps(short(name)) for name in ("js-a", "js-b")))
    told = run(up, "submit", str(path)).stdout.splitlines()
    assert [line.split()[:2] for line in told] == [[f"pytorchjob.kubeflow.org/js-{one}", "created,"] for one in "ab"]


@pytest.mark.parametrize("value", ["yes", "8"])
def test_a_value_that_yaml_takes_for_no_text_is_told_with_the_way_out(up: Up, tmp_path: Path, value: str) -> None:
    body = short("quotes")
    container = body["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "A", "value": "VALUE"}]
    path = tmp_path / "a.yaml"
    path.write_text(yaml.safe_dump(body).replace("VALUE", value))
    said = refusal(run(up, "submit", str(path)))
    assert said.endswith("(YAML reads yes, no, on, off, true, false and numbers as no text: put the value in quotes)")


def test_a_job_starts_after_others(up: Up, tmp_path: Path) -> None:
    path = written(tmp_path / "a.yaml", short("train-model"))
    assert run(up, "submit", written(tmp_path / "c.yaml", short("before"))).returncode == 0
    assert run(up, "submit", path, "--after", "prepare", "--after", "before:any").returncode == 0
    asked = "/fleet/v1/jobs/default/PyTorchJob/train-model"
    until("it says so", lambda: "WaitsForJobs" in str(up.hub.find(asked)))
    explained = run(up, "explain", "train-model").stdout
    assert "no job prepare is there yet  (WaitsForJobs)" in explained
    assert "not estimated: it starts after other jobs" in explained and "Would" not in explained
    assert run(up, "submit", written(tmp_path / "b.yaml", short("prepare"))).returncode == 0
    until("it ran after that", lambda: state(up, "train-model") == "Succeeded")


def test_a_sweep_is_listed_and_ends_at_its_goal(up: Up, tmp_path: Path) -> None:
    path = written(tmp_path / "a.yaml", echoing("tune", "step 1 loss={lr} acc=0.5"))
    done = run(up, "submit", path, "--sweep", "lr=0.3,0.2", "--array", "0-1")
    assert refusal(done) == "fleet: --array: a job is swept over parameters or over an array, not over both"
    swept = ("--sweep", "lr=0.5,0.2,0.1", "--sweep", "seed=1", "--at-most", "2")
    assert run(up, "submit", path, *swept).stdout.splitlines() == [
        f"pytorchjob.kubeflow.org/tune-{number} created, in queue root/a" for number in (1, 2, 3)
    ]
    until("two run", lambda: [state(up, f"tune-{n}") for n in (1, 2, 3)] == ["Running", "Running", "Queued"])
    head, *rows = run(up, "sweep", "tune", "--lowest", "loss").stdout.splitlines()
    assert head.split() == ["NAME", "STATE", "LR", "SEED", "LOSS", "MEMBER", "REASON"]
    assert [row.split()[:5] for row in rows] == [
        ["tune-2", "Running", "0.2", "1", "0.2"],
        ["tune-1", "Running", "0.5", "1", "0.5"],
        ["tune-3", "Queued", "0.1", "1", "-"],
    ]
    assert rows[2].endswith("  sweep tune runs at most 2 at once")
    head, row = run(up, "sweep").stdout.splitlines()
    assert (head.split(), row.split(maxsplit=3)) == (
        ["NAME", "JOBS", "AT", "MOST", "STATES"],
        ["tune", "3", "2", "2 Running, 1 Queued"],
    )
    (listed,) = json.loads(run(up, "sweep", "--highest", "loss", "-o", "json").stdout)
    best = "tune-1 (lr=0.5, seed=1) loss=0.5"
    assert listed == {
        "name": "tune",
        "jobs": 3,
        "at_most": 2,
        "states": {"Running": 2, "Queued": 1},
        "best": best,
    }
    assert "--until is about one sweep" in refusal(run(up, "sweep", "--until", "loss<0.3"))
    assert run(up, "sweep", "-n", "kube-public").stderr == "No sweeps: fleet run --sweep or --array makes one\n"
    done = run(up, "sweep", "tune", "--until", "loss<0.3")
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            "tune-2 (lr=0.2, seed=1) loss=0.2: loss<0.3 is reached",
            "pytorchjob/tune-3 cancelled",
            "pytorchjob/tune-1 cancelled",
        ],
    )
    assert 'no sweep "nope" in namespace default' in refusal(run(up, "sweep", "nope"))


def members_of(told: dict[str, Any]) -> list[tuple[str, bool, str]]:
    return [(one["name"], one["fits"], (one["reason"] or {}).get("code", "")) for one in told["members"]]


def test_a_check_says_what_would_become_of_a_job(up: Up, tmp_path: Path) -> None:
    bad = job("bad")
    bad["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = -1
    path = written(tmp_path / "a.yaml", job("fits"), job("large", 9), bad)
    until("nobody waits for the jobs before", lambda: checked(up, tmp_path)["verdict"] == "starts")
    done = run(up, "check", path)
    assert done.returncode == 1
    fits, large, refused = done.stdout.split("\n\n")
    assert fits.splitlines()[:3] == [
        "pytorchjob/fits: starts at once, in cfa",
        "  Policy:   PropagationPolicy default/p",
        "  Queue:    root/a",
    ]
    assert large.startswith("pytorchjob/large: never starts as things are\n")
    assert large.splitlines()[-1].split()[:2] == ["cfa", "no"] and "a pod asks for 9" in large
    assert refused.startswith("pytorchjob/bad: is refused: ") and "replicas" in refused
    assert up.hub.find(f"{JOBS}/fits") is None
    up.hub.request("DELETE", f"{JOBS}/tune-2", missing=True)
    run(up, "submit", written(tmp_path / "b.yaml", job("fills1"), job("fills2")))
    until("the member is full", lambda: state(up, "fills2") == "Running")
    full = [("cfa", False, "NoMemberFits")]
    until("it is known", lambda: members_of(checked(up, tmp_path)) == full)
    assert checked(up, tmp_path)["verdict"] == "waits"
    for name in ("fills1", "fills2"):
        up.hub.request("DELETE", f"{JOBS}/{name}")
    other = {**job("alone"), "metadata": {"name": "alone", "namespace": "kube-public"}}
    [nobody] = json.loads(run(up, "check", written(tmp_path / "c.yaml", other), "-o", "json").stdout)
    assert (nobody["verdict"], nobody["policy"]) == ("never", None) and "no policy selects" in nobody["why"]


def checked(up: Up, tmp_path: Path) -> dict[str, Any]:
    done = run(up, "check", written(tmp_path / "d.yaml", job("late")), "-o", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)[0]
    return found


@pytest.mark.parametrize(
    ("text", "log", "best", "reached"),
    [
        ("loss<0.1", "loss=0.3\nloss: 0.07\nloss=0.2", 0.07, True),
        ("loss<=1e-3", "loss=1E-3", 1e-3, True),
        ("loss<1", "val_loss=0.5 loss=1", 1.0, False),
        ("acc >= 0.9", "acc=.91 acc=0.2", 0.91, True),
        ("acc>0.9", "nothing", None, False),
    ],
)
def test_a_goal_is_looked_for_in_a_log(text: str, log: str, best: float | None, reached: bool) -> None:
    goal = goal_of(text)
    assert goal is not None and goal.best(log) == best
    assert (best is not None and goal.reached(best)) is reached


def test_arena_finds_the_kinds_that_it_asks_for(up: Up) -> None:
    """It looks for the definition of a kind before it lists the jobs of it: tests/api/test_arena.py has the rest."""
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    kinds = ("pytorchjobs", "tfjobs", "mpijobs")
    assert all(up.hub.find(f"{definitions}/{kind}.kubeflow.org") for kind in kinds)


def test_a_goal_needs_a_bound_and_a_sweep() -> None:
    assert goal_of("") is None and str(Goal("loss", "<", 0.1)) == "loss<0.1"
    with pytest.raises(Failure, match=r"--until loss: is not of the form loss<0.1"):
        goal_of("loss")
    with pytest.raises(Failure, match="is about a sweep or an array"):
        goal_of("loss<1", Series())
