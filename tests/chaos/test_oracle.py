"""The oracle of the fault harness finds what it must find: a verdict of no violations is worth no more than that."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.wellknown import ATTEMPT, LABEL_BINDING, LABEL_HUB
from tests.chaos import load, truth
from tests.chaos.books import Bookkeeper
from tests.chaos.client import Body
from tests.chaos.findings import Findings
from tests.chaos.load import NOTE, Ledger, Load
from tests.chaos.truth import Truth, Wanted

pytestmark = pytest.mark.xdist_group("chaos")

LIMITS = {"vision": {"nvidia.com/gpu": 4}}
PATHS = {"vision": ["vision"]}


@pytest.fixture
def findings(tmp_path: Path) -> Findings:
    return Findings(tmp_path, 1)


@pytest.fixture
def oracle(findings: Findings) -> Truth:
    """One that nobody tells anything but the test."""
    return Truth({}, findings, Wanted({"b1": {"cfa"}}), LIMITS, PATHS)


def copy(name: str, uid: str, *, attempt: int = 1, binding: str = "b1", state: str = "Running") -> Body:
    labels = {LABEL_HUB: "h", LABEL_BINDING: binding, ATTEMPT: str(attempt)}
    return {
        "metadata": {"namespace": "vision", "name": name, "uid": uid, "labels": labels, "resourceVersion": "1"},
        "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 1}}},
        "status": {"conditions": [{"type": state, "status": "True"}]},
    }


def pod(name: str, job: str, *, node: str = "node-0", gpus: int = 1, phase: str = "Running") -> Body:
    return {
        "metadata": {"namespace": "vision", "name": name, "ownerReferences": [{"name": job}]},
        "spec": {"nodeName": node, "containers": [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}]},
        "status": {"phase": phase},
    }


def found(findings: Findings) -> list[tuple[str, str]]:
    return [(entry["rule"], entry["about"]) for entry in findings.found]


def test_a_second_copy_of_one_attempt_is_found(oracle: Truth, findings: Findings) -> None:
    oracle.see_copy("cfa", "ADDED", copy("a", "u1"))
    oracle.see_copy("cfa", "DELETED", copy("a", "u1"))
    assert found(findings) == []
    oracle.see_copy("cfb", "ADDED", copy("a", "u2"))
    assert found(findings) == [("I2", "vision/a")]


def test_a_later_attempt_elsewhere_is_no_second_copy(oracle: Truth, findings: Findings) -> None:
    oracle.see_copy("cfa", "ADDED", copy("a", "u1"))
    oracle.see_copy("cfa", "DELETED", copy("a", "u1"))
    oracle.see_copy("cfb", "ADDED", copy("a", "u2", attempt=2))
    assert found(findings) == []


def test_a_job_that_lives_in_two_members_is_found_once_both_say_so(
    oracle: Truth, findings: Findings, monkeypatch: pytest.MonkeyPatch
) -> None:
    oracle.see_copy("cfa", "ADDED", copy("a", "u1"))
    oracle.see_copy("cfa", "MODIFIED", copy("a", "u1", state="Succeeded"))
    oracle.see_copy("cfb", "ADDED", copy("a", "u2", attempt=2))
    asked: list[set[str]] = []

    def confirmed(job: str, members: set[str]) -> bool:
        asked.append(set(members))
        return True

    monkeypatch.setattr(oracle, "_confirmed", confirmed)
    oracle.look()
    assert asked == [] and found(findings) == []
    oracle.see_pod("cfa", "ADDED", pod("a-0", "a"))
    oracle.look()
    assert asked == [{"cfa", "cfb"}] and found(findings) == [("I2", "vision/a")]


@pytest.mark.parametrize(("bound", "rule"), [("GANG_S", "I1"), ("LAG_S", "I3"), ("ORPHAN_S", "I6")])
def test_what_stays_too_long_is_found(
    oracle: Truth, findings: Findings, monkeypatch: pytest.MonkeyPatch, bound: str, rule: str
) -> None:
    """One of two pods is placed, five GPUs are used of four, and no binding wants the copy."""
    oracle.see_copy("cfa", "ADDED", copy("a", "u1", binding="b2"))
    oracle.see_pod("cfa", "ADDED", pod("a-0", "a", gpus=5))
    oracle.look()
    assert found(findings) == []
    monkeypatch.setattr(truth, bound, -1.0)
    oracle.look()
    assert [rule for rule, _ in found(findings)] == [rule]


def test_a_copy_that_a_binding_wants_is_no_orphan(
    oracle: Truth, findings: Findings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(truth, "ORPHAN_S", -1.0)
    oracle.see_copy("cfa", "ADDED", copy("a", "u1"))
    oracle.look()
    assert found(findings) == []


def job(uid: str, **more: str) -> Body:
    return {"metadata": {"uid": uid, **({"annotations": {NOTE: more["note"]}} if "note" in more else {})}}


@pytest.mark.parametrize(
    ("stored", "problem"),
    [
        pytest.param({}, "it is gone", id="a create that was acknowledged is lost"),
        pytest.param({"a": job("other", note="2")}, "it has uid other", id="another object has its name"),
        pytest.param({"a": job("u", note="1")}, "edit 2 was acknowledged", id="an edit that was acknowledged is lost"),
        pytest.param({"a": job("u", note="2")}, "", id="all is there"),
        pytest.param({"a": job("u", note="3")}, "", id="an edit without an answer happened"),
    ],
)
def test_a_lost_write_is_found(findings: Findings, stored: dict[str, Body], problem: str) -> None:
    ledger = Ledger(created={"a": "u"}, notes={"a": (2, 3)})
    ledger.judge(stored, findings, final=True)
    assert [problem in entry["text"] for entry in findings.found] == ([True] if problem else [])


def test_a_deletion_that_was_acknowledged_and_undone_is_found(findings: Findings) -> None:
    ledger = Ledger(created={"a": "u"}, asked={"a"}, deleted={"a"})
    ledger.judge({}, findings, final=True)
    assert found(findings) == []
    ledger.judge({"a": job("u")}, findings, final=True)
    assert found(findings) == [("I4", "a")]


def test_usage_above_a_max_is_found_also_by_what_is_being_evicted() -> None:
    books = Bookkeeper(LIMITS, PATHS)

    def binding(name: str, **spec: object) -> Body:
        component = {"replicas": 3, "replicaRequirements": {"resourceRequest": {"nvidia.com/gpu": "1"}}}
        return {"metadata": {"namespace": "vision", "name": name}, "spec": {"components": [component], **spec}}

    books.see("ADDED", binding("a", clusters=[{"name": "cfa"}]))
    books.see("MODIFIED", binding("a", gracefulEvictionTasks=[{"fromCluster": "cfa"}]))
    assert books.above == []
    books.see("ADDED", binding("b", clusters=[{"name": "cfb"}]))
    assert books.above == ["vision: 6 of at most 4 nvidia.com/gpu"]


def test_a_finding_keeps_the_history_of_its_object_and_the_faults(findings: Findings, tmp_path: Path) -> None:
    findings.note("a", "created")
    findings.note("faults", "kill api")
    findings.add("I4", "a", "lost")
    findings.add("I4", "a", "lost again")
    [entry] = findings.found
    assert entry["history"][0].endswith("created") and entry["faults"][0].endswith("kill api")
    assert len((tmp_path / "findings.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize("suspend", [True, False])
def test_a_job_whose_suspension_nobody_answered_is_resumed_at_the_end(
    findings: Findings, monkeypatch: pytest.MonkeyPatch, suspend: bool
) -> None:
    users = Load([], 1, 1, lambda: 0.0, findings, dict)
    monkeypatch.setattr(load, "until_answered", lambda ask, stop, fine: None)
    users._suspend("vision/one", suspend)
    assert users.suspended == {"vision/one"}
    monkeypatch.setattr(load, "until_answered", lambda ask, stop, fine: {"kind": "PyTorchJob"})
    users._suspend("vision/one", False)
    assert users.suspended == set()
