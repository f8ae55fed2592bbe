"""`fleet what-if`: of a file, and of a hub that runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleet.cli.failure import Failure
from fleet.cli.main import app
from fleet.cli.whatif import what_if
from fleet.cli.whatif_remote import WhatIfOptions
from fleet.cli.whatif_table import source_in_words
from fleet.core.model.cause import Cause, CauseCode, left_out
from fleet.hub.whatif_edits import from_file, makers
from fleet.kinds import INTERPRETERS
from tests.cli.hub import Up, fleet, refusal, until
from tests.cli.manifests import GPU, job, policy, written
from tests.simulate.declarations import DECLARED, widget

CASE = {
    "version": 1,
    "now": 1000,
    "tree": {"root/a": {"max": {GPU: 16}, "namespaces": ["default"]}},
    "units": [
        {
            "id": "first",
            "name": "default/first",
            "leaf": "root/a",
            "gang": "2x8",
            "member": "m",
            "placed_at": 0,
            "walltime_s": 3600,
        },
        {"id": "next", "name": "default/next", "leaf": "root/a", "gang": "1x8", "enqueued_at": 500},
    ],
    "members": [{"name": "m", "region": "eu", "nodes": [{"count": 2, GPU: 8, "cpu": "96", "memory": "800Gi"}]}],
}


@pytest.fixture
def case(tmp_path: Path) -> str:
    path = tmp_path / "case.json"
    path.write_text(json.dumps(CASE))
    return str(path)


def asked(*words: str) -> str:
    done = CliRunner().invoke(app, ["what-if", *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def rows(*words: str) -> dict[str, dict[str, Any]]:
    found = json.loads(asked(*words, "-o", "json"))
    return {row["job"]: row for row in found["rows"]}


def test_the_table_says_who_when_and_why(case: str) -> None:
    lines = asked(case, "--set", f"root/a.max.{GPU}=24", "--add-member", "n=1x8").splitlines()
    assert lines[0].split() == ["JOB", "CHANGE", "BEFORE", "AFTER", "START", "REASON"]
    assert lines[1].split(maxsplit=2) == [
        "default/next",
        "starts",
        "waits: QuotaExhausted   starts in n   now, was in 43m",
    ]
    assert lines[2:] == ["jobs that wait: 1, then 0", "answer: backfill (no solver was asked)"]


def test_causes_are_told_in_words_that_do_not_name_our_own_algorithms() -> None:
    racks = left_out("domain_variables")
    assert source_in_words("cp-sat", ()) == "cp-sat"
    as_good = source_in_words("greedy", (Cause(CauseCode.AS_GOOD), racks))
    assert as_good == "backfill (the solver found nothing better; the model has no racks)"
    assert source_in_words("greedy", (Cause(CauseCode.BETTER),)) == "backfill (backfill is better)"


def test_a_job_that_waits_in_a_full_fleet_is_told_who_uses_it_and_what_would_start_it(
    case: str, tmp_path: Path
) -> None:
    lines = asked(case, "--submit", written(tmp_path / "job.yaml", job("probe"))).splitlines()
    assert lines[1].split()[:4] == ["default/probe", "waits", "-", "waits:"]
    assert lines[2:-2] == [
        "default/probe waits all the same",
        "  Used in root/a by:",
        "    root/a: 1 job, 16 nvidia.com/gpu",
        "  Would not start it: more quota, fewer replicas, a higher priority",
    ]


def test_jobs_of_which_no_more_is_said_are_counted(case: str, tmp_path: Path) -> None:
    jobs = [job(f"probe-{number}") for number in range(5)]
    lines = asked(case, "--submit", written(tmp_path / "jobs.yaml", *jobs), "--no-times").splitlines()
    assert "3 of 5 jobs that wait all the same are shown" in lines


def test_a_job_that_an_edit_does_not_start_says_why_though_nothing_changes(case: str) -> None:
    lines = asked(case, "--priority", "next=5").splitlines()
    assert lines[:2] == [
        "nothing would be otherwise",
        "default/next waits all the same: insufficient unused quota for nvidia.com/gpu in root/a: requested 8, used 16,"
        " max 16; 8 more needed. Waits for jobs there to finish.",
    ]


def test_an_edit_without_consequences_says_so(case: str) -> None:
    assert asked(case, "--add-member", "n=1x8").splitlines()[0] == "nothing would be otherwise"


def test_a_manifest_becomes_the_unit_that_the_hub_would_make(case: str, tmp_path: Path) -> None:
    path = written(tmp_path / "job.yaml", job("new"))
    row = rows(case, "--submit", path)["default/new"]
    assert (row["change"], row["leaf"], row["after"]["reason"]["code"]) == ("waits", "root/a", "QuotaExhausted")
    assert rows(case, "--submit", path, "-n", "other")["other/new"]["after"]["reason"]["code"] == "NoQueue"


def test_policies_and_priority_classes_beside_a_job_count(case: str, tmp_path: Path) -> None:
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 7}
    mine = job("new")
    mine["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["priorityClassName"] = "urgent"
    more = ("--set", f"root/a.max.{GPU}=24", "--add-member", "n=1x8")
    found = rows(case, *more, "--submit", written(tmp_path / "job.yaml", mine, urgent))
    assert (found["default/new"]["change"], found["default/new"]["after"]["member"]) == ("starts", "n")
    assert "default/next" not in found  # the urgent one is first, and takes what the edit brought
    eu = policy(
        clusterAffinity={
            "fieldSelector": {
                "matchExpressions": [
                    {"key": "region", "operator": "In", "values": ["eu"]},
                ]
            }
        }
    )
    bound = rows(case, *more, "--submit", written(tmp_path / "job.yaml", mine, urgent, eu))
    assert bound["default/new"]["change"] == "waits"
    assert bound["default/next"]["after"]["member"] == "n"


def test_a_declaration_beside_a_job_of_its_kind_counts(case: str, tmp_path: Path) -> None:
    try:
        path = written(tmp_path / "widget.yaml", DECLARED, widget("new"))
        found = rows(case, "--submit", path, "--add-member", "n=2x8", "--set", f"root/a.max.{GPU}=64")
        assert found["default/new"]["change"] == "starts"
        broken = {**DECLARED, "spec": {**DECLARED["spec"], "suspend": "]["}}
        with pytest.raises(Failure, match=r"WorkloadInterpreter widgets\.example\.com: spec\.suspend"):
            asked(case, "--submit", written(tmp_path / "broken.yaml", broken, widget("new")))
    finally:
        INTERPRETERS.declare(())


def test_a_decision_record_is_as_good_as_a_snapshot(case: str, tmp_path: Path) -> None:
    snapshot = {key: value for key, value in CASE.items() if key != "now"}
    record = {"version": 1, "kind": "Decision", "now": 1000, "seed": 1, "snapshot": snapshot, "plan": {"version": 1}}
    (tmp_path / "record.json").write_text(json.dumps(record))
    assert asked(str(tmp_path / "record.json"), "--drain", "m") == asked(case, "--drain", "m")


def test_a_member_may_be_described_in_a_file(case: str, tmp_path: Path) -> None:
    path = written(tmp_path / "member.yaml", {"name": "n", "nodes": [{"count": 3, GPU: 8}]})
    assert rows(case, "--add-member", path, "--fail-over", "m")["default/first"]["after"]["member"] == "n"


def test_another_tree_is_an_elasticquotatree(case: str, tmp_path: Path) -> None:
    child = {"name": "a", "namespaces": ["default"], "max": {GPU: 24}}
    tree = {
        "apiVersion": "scheduling.sigs.k8s.io/v1beta1",
        "kind": "ElasticQuotaTree",
        "metadata": {"name": "t"},
        "spec": {"root": {"name": "root", "children": [child]}},
    }
    path = written(tmp_path / "tree.yaml", tree)
    assert rows(case, "--tree", path, "--scale", "m=+1")["default/next"]["change"] == "starts"


def test_edits_are_made_in_the_order_of_the_help(case: str) -> None:
    each: dict[str, Any] = {field.name: ["x"] for field in fields(WhatIfOptions)}
    choices = WhatIfOptions(**{**each, "tree": Path("x"), "namespace": ""})
    made = [text.partition(" ")[0] for text, _ in makers(choices, from_file(Path(case)))]
    options = ["--" + name.rstrip("_").replace("_", "-") for name in signature(what_if).parameters]
    assert [option for option in options if option in made] == made


def test_a_cordoned_member_takes_no_new_job_and_keeps_its_own(case: str) -> None:
    found = rows(case, "--cordon", "m", "--remove", "first")
    assert {name: row["after"]["state"] for name, row in found.items()} == {
        "default/first": "Absent",
        "default/next": "Waits",
    }
    assert found["default/next"]["after"]["reason"]["code"] == "NoMemberAllowed"


def test_a_job_of_another_namespace_is_pointed_out(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_text(json.dumps({**CASE, "units": [{"id": "1", "name": "vision/one", "gang": "1x8"}]}))
    with pytest.raises(Failure, match="no job one waits or runs in namespace default; there is vision/one"):
        asked(str(path), "--hold", "one")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--drain", "x"], "--drain x: there is no member x; there are: m"),
        (["--cordon", "x"], "--cordon x: there is no member x; there are: m"),
        (["--priority", "next=2147483648000"], "the priority is not between -2147483648 and 2147483647"),
        (["--move", "next=root/b"], "--move next=root/b: the quota tree has no node root/b; did you mean root/a?"),
        (["--move", "next=root"], "--move next=root: root is no leaf of the quota tree"),
        (["--lose", "x"], "--lose x: there is no member x"),
        (["--set", "foo"], "--set foo: is not of the form"),
        (["--set", "root/q.max.cpu=1"], "--set root/q.max.cpu=1: the quota tree has no node root/q"),
        (["--set", "root/a.max.cpu=1e99"], "larger than any amount"),
        (["--set", "root/a.max.cpu=-1"], "must not be negative"),
        (["--scale", "m=3"], "--scale m=3: is not of the form"),
        (["--scale", "m/7=+1"], "has no pool 7"),
        (["--add-member", "m=1x8"], "--add-member m=1x8: member m is there already"),
        (["--add-member", "nowhere.yaml"], "nowhere.yaml: is neither"),
        (["--priority", "next"], "--priority next: is not of the form JOB=5"),
        (["--priority", "nobody=5"], "no job nobody waits or runs in namespace default"),
        (["--hold", "team/next"], "no job team/next waits or runs"),
        (["--hold", "first"], "does not wait"),
        (["--submit", "nowhere.yaml"], "cannot read nowhere.yaml"),
        (["--tree", "/dev/null", "--drain", "m"], "/dev/null is empty: no object in it"),
        (["--drain", "m", "--runs-for", "soon"], "--runs-for soon: is no duration"),
        ([], "nothing to try"),
    ],
)
def test_an_option_that_is_wrong_is_named(case: str, words: list[str], says: str) -> None:
    with pytest.raises(Failure) as refused:
        asked(case, *words)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("documents", "says"),
    [
        ([policy()], "holds no job"),
        ([job("first")], "job default/first is there already"),
        ([job("new"), {**policy(), "spec": {"resourceSelectors": []}}], "no policy selects PyTorchJob default/new"),
        ([{**job("new"), "spec": 7}], "cannot be read"),
    ],
)
def test_a_manifest_that_would_become_no_unit_is_refused(
    case: str, tmp_path: Path, documents: list[dict[str, Any]], says: str
) -> None:
    named = [{**document, "kind": document["kind"]} for document in documents]
    if says.endswith("already"):
        snapshot = json.loads(Path(case).read_text())
        snapshot["units"][0]["needs_kind"] = "kubeflow.org/PyTorchJob"
        Path(case).write_text(json.dumps(snapshot))
    with pytest.raises(Failure) as refused:
        asked(case, "--submit", written(tmp_path / "job.yaml", *named))
    assert says in str(refused.value)


def test_a_snapshot_that_is_bad_is_refused_with_its_field(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"version": 1, "units": [{"id": "a", "gang": 3}]}')
    with pytest.raises(Failure, match=r"bad\.json: units\[0\]\.gang"):
        asked(str(tmp_path / "bad.json"), "--drain", "m")


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A hub with one member of one node, full."""
    folder = tmp_path_factory.mktemp("busy")
    running = Up(folder / "hub", "--members", "1", "--nodes", "1", "--gpus", "8")
    try:
        unqueued = policy()
        del unqueued["spec"]["suspension"]
        done = fleet("submit", written(folder / "policy.yaml", unqueued, job("one")), *at(running))
        assert done.returncode == 0, done.stderr
        path = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings/one-pytorchjob"
        until("the job is placed", lambda: bool((running.hub.find(path) or {"spec": {}})["spec"].get("clusters")))
        until(
            "the snapshot says so", lambda: '"Placed"' in str(running.hub.find("/fleet/v1/snapshot")).replace("'", '"')
        )
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()


def at(up: Up) -> tuple[str, str]:
    return "--data-dir", str(up.folder)


def test_a_hub_is_asked_without_anything_being_submitted(busy: Up, tmp_path: Path) -> None:
    path = written(tmp_path / "two.yaml", job("two"))
    waits = fleet("what-if", "--submit", path, *at(busy))
    assert waits.returncode == 0, waits.stderr
    assert "default/two   waits" in waits.stdout
    more = fleet("what-if", "--submit", path, "--add-member", "new=1x8", "-o", "json", *at(busy))
    [row] = json.loads(more.stdout)["rows"]
    assert (row["job"], row["change"], row["after"]["member"]) == ("default/two", "starts", "new")
    assert busy.hub.find("/apis/kubeflow.org/v1/namespaces/default/pytorchjobs/two") is None


def test_the_jobs_of_a_member_of_the_hub_wait_when_it_is_drained(busy: Up) -> None:
    name = busy.hub.list("/apis/cluster.karmada.io/v1alpha1/clusters")[0]["metadata"]["name"]
    assert "default/one   stops" in fleet("what-if", "--drain", name, *at(busy)).stdout
    assert "default/one   unreachable" in fleet("what-if", "--lose", name, *at(busy)).stdout


def test_a_manifest_that_the_hub_would_refuse_is_refused_with_its_field(busy: Up, tmp_path: Path) -> None:
    bad = job("two")
    bad["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = "many"
    done = fleet("what-if", "--submit", written(tmp_path / "bad.yaml", bad), *at(busy))
    assert "replicas" in refusal(done)


def test_without_a_hub_the_refusal_says_what_to_do(tmp_path: Path) -> None:
    assert "no hub found" in refusal(fleet("what-if", "--drain", "m", "--data-dir", str(tmp_path / "none")))
