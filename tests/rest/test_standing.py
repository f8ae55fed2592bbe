"""How a job stands, by what is stored of it: one table, one word each."""

from __future__ import annotations

from typing import Any

import pytest

from api.engine.registry import Registry
from fleet.admission.kindfiles import load_kinds
from fleet.rest.models import JobDetail
from fleet.rest.quantities import amounts_of, gpus, quantities
from fleet.rest.standing import StoredJob, charged_amounts, detail, reason_of, state_of
from fleet.rest.states import State
from tests.controllers.world import pytorchjob

KIND = Registry(load_kinds()).need("kubeflow.org", "pytorchjobs")
HERE = [{"name": "cfa", "replicas": 0}]


def binding(status: Any = None, annotations: Any = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "b", "annotations": annotations or {}}, "spec": spec, "status": status or {}}


def unit(phase: str = "", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "u"}, "spec": spec, "status": {"phase": phase}}


def because(code: str) -> dict[str, Any]:
    """A unit that waits for this reason."""
    found = unit("Enqueued")
    found["status"]["reason"] = {"code": code, "numbers": {}}
    return found


def copy(condition: str) -> Any:
    """A binding's status when its member says this of the job."""
    return {"aggregatedStatus": [{"status": {"conditions": [{"type": condition, "status": "True"}]}}]}


def said(type_: str, status: str, reason: str = "R", message: str = "m") -> Any:
    return {"conditions": [{"type": type_, "status": status, "reason": reason, "message": message}]}


TASK = {"fromCluster": "cfa", "reason": "ClusterRemoved", "message": "member cfa is gone"}
SUSPENDED = {"scheduling": True}
TABLE: list[tuple[str, Any, Any, State, str | None, str | None]] = [
    ("no binding", None, None, State.UNCLAIMED, None, "NoPolicy"),
    ("a binding that waits for its unit", binding(suspension=SUSPENDED), None, State.QUEUED, None, None),
    ("a unit in line", binding(suspension=SUSPENDED), unit("Enqueued"), State.QUEUED, None, None),
    ("a unit that backs off", binding(suspension=SUSPENDED), unit("TimeoutBackoff"), State.BACK_OFF, None, None),
    ("a unit that is held", binding(suspension=SUSPENDED), unit("Enqueued", active=False), State.HELD, None, None),
    ("a unit whose job is held", binding(suspension=SUSPENDED), because("Held"), State.HELD, None, "Held"),
    ("no queue", binding(said("Scheduled", "False", "NoClusterFit")), None, State.WAITING, None, "NoClusterFit"),
    ("placed", binding(clusters=HERE), unit("Dequeued"), State.PLACED, "cfa", None),
    ("cannot be sent", binding(said("FullyApplied", "False"), clusters=HERE), None, State.PLACED, "cfa", "R"),
    ("sent", binding(copy("Created"), clusters=HERE), None, State.CREATED, "cfa", None),
    ("running", binding(copy("Running"), clusters=HERE), None, State.RUNNING, "cfa", None),
    ("suspended there", binding(copy("Suspended"), clusters=HERE), None, State.SUSPENDED, "cfa", None),
    ("over", binding(copy("Succeeded"), clusters=HERE), None, State.SUCCEEDED, "cfa", None),
    (
        "over, says the hub",
        binding(said("Finished", "True", "Succeeded"), clusters=HERE),
        None,
        State.SUCCEEDED,
        "cfa",
        None,
    ),
    ("failed", binding(said("Finished", "True", "Failed"), clusters=HERE), None, State.FAILED, "cfa", "JobFailed"),
    (
        "failed, and moves by its policy",
        binding(said("Finished", "True", "Failed"), clusters=HERE, gang=True, failover={"application": {}}),
        None,
        State.FAILED,
        "cfa",
        "StartsAnew",
    ),
    (
        "leaving",
        binding(gracefulEvictionTasks=[TASK], suspension=SUSPENDED),
        unit("Enqueued"),
        State.EVICTING,
        "cfa",
        "ClusterRemoved",
    ),
    ("a binding that a person wrote", {"metadata": {"name": "b"}}, None, State.WAITING, None, None),
]


@pytest.mark.parametrize(("what", "bound", "queued", "state", "where", "code"), TABLE, ids=[row[0] for row in TABLE])
def test_each_standing_has_one_word_one_member_and_at_most_one_reason(
    what: str, bound: Any, queued: Any, state: State, where: str | None, code: str | None
) -> None:
    job = StoredJob(KIND, pytorchjob("one"), bound, queued, "root/a" if queued else None)
    shown = JobDetail.model_validate(detail(job, 4))
    assert (shown.state, shown.member, shown.reason.code if shown.reason else None) == (state, where, code)
    assert shown.position == (4 if state is State.QUEUED else None)


def test_whatever_else_it_is_a_job_that_goes_is_deleting() -> None:
    body = pytorchjob("one")
    body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    for _, bound, queued, *_ in TABLE:
        assert state_of(StoredJob(KIND, body, bound, queued)) is State.DELETING


def test_the_priority_that_a_person_gave_the_unit_is_the_one_it_has() -> None:
    bound = binding(suspension=SUSPENDED, schedulePriority={"priority": 3})
    for given, has in ((None, 3), (0, 0), (7, 7)):
        queued = unit("Enqueued") if given is None else unit("Enqueued", priority=given)
        assert detail(StoredJob(KIND, pytorchjob("one"), bound, queued, "root/a"), 1)["priority"] == has


def test_why_it_was_evicted_stands_beside_why_it_waits() -> None:
    queued = unit("Enqueued")
    evicted, admitted = ({"type": type_, "status": "True", "reason": "R"} for type_ in ("Evicted", "Admitted"))
    queued["status"]["conditions"] = [admitted, evicted]
    bound = binding(said("Scheduled", "False"), suspension=SUSPENDED)
    shown = detail(StoredJob(KIND, pytorchjob("one"), bound, queued, "root/a"), 1)
    assert [condition["type"] for condition in shown["conditions"]] == ["Scheduled", "Evicted"]


def test_failed_attempts_are_told_and_an_unreadable_annotation_counts_as_none() -> None:
    text = '[{"member": "cfa", "at": 1000000000, "reason": "ApplicationFailure"}, {"member": "cfb"}]'
    for annotation, failures in (
        (text, [("cfa", "2001-09-09T01:46:40Z", "ApplicationFailure"), ("cfb", None, "")]),
        ("[1]", []),
        ("{", []),
        ('[{"at": "never"}]', []),
        ('[{"at": 1e300}]', []),
    ):
        shown = JobDetail.model_validate(
            detail(StoredJob(KIND, pytorchjob("one"), binding(annotations={"fleet.io/failures": annotation})), None)
        )
        assert [(f.member, f.at, f.reason) for f in shown.failures] == failures, annotation


def test_the_checks_of_a_reserved_job_are_told_with_their_answers_and_none_of_a_job_that_is_not() -> None:
    checks = [
        {"name": "budget", "state": "Ready", "message": "paid", "lastTransitionTime": "2026-11-23T05:00:00Z"},
        {"name": "fleet.io/room", "state": "Pending"},
    ]
    reserved = unit("Reserved")
    reserved["status"]["admissionChecks"] = checks
    bound = binding(suspension=SUSPENDED)
    shown = JobDetail.model_validate(detail(StoredJob(KIND, pytorchjob("one"), bound, reserved, "root/a"), None))
    assert shown.state == State.RESERVED
    assert [tuple(check.model_dump().values()) for check in shown.checks] == [
        ("budget", "Ready", "paid", "2026-11-23T05:00:00Z"),
        ("fleet.io/room", "Pending", "", None),
    ]
    reserved["status"]["phase"] = "Enqueued"
    assert detail(StoredJob(KIND, pytorchjob("one"), bound, reserved, "root/a"), None)["checks"] == []


def test_a_reserved_job_that_starts_at_its_smallest_is_charged_for_that() -> None:
    pods = [
        {"name": "master", "count": 1, "requests": {"cpu": "1"}},
        {"name": "worker", "count": 8, "requests": {"cpu": "500m", "nvidia.com/gpu": "2"}},
    ]
    reserved = unit("Reserved", podSet=pods, resource={"cpu": "5", "nvidia.com/gpu": "16"})
    times = {"since": "2026-11-23T05:00:00Z", "until": "2026-11-23T05:10:00Z"}
    nomination = {"member": "cfa", "bindingGeneration": 1, **times}
    reserved["status"]["nomination"] = nomination
    assert charged_amounts(reserved) == {"cpu": 5000, "nvidia.com/gpu": 16}
    reserved["status"]["nomination"] = {**nomination, "replicas": {"worker": 3}}
    assert charged_amounts(reserved) == {"cpu": 2500, "nvidia.com/gpu": 6}


def test_amounts_are_shown_as_kubernetes_writes_them_and_nonsense_counts_as_nothing() -> None:
    amounts = amounts_of({"cpu": "1500m", "memory": "1536Mi", "nvidia.com/gpu": 2, "amd.com/gpu": "1", "pods": "7"})
    assert quantities(amounts) == {
        "amd.com/gpu": "1",
        "cpu": "1500m",
        "memory": "1536Mi",
        "nvidia.com/gpu": "2",
        "pods": "7",
    }
    assert quantities({"cpu": 2000, "memory": 2**40, "ephemeral-storage": 1000}) == {
        "cpu": "2",
        "ephemeral-storage": "1000",
        "memory": "1Ti",
    }
    assert gpus(amounts) == 3
    assert amounts_of({"cpu": "lots"}) == {} == amounts_of(None)


@pytest.mark.parametrize(
    ("selected_by", "text"),
    [
        ("", "no policy takes it: no PropagationPolicy or ClusterPropagationPolicy selects it"),
        (
            "ClusterPropagationPolicy jobs",
            "ClusterPropagationPolicy jobs selects it and has not taken it yet; if that lasts, its events say why",
        ),
    ],
)
def test_a_job_without_a_binding_says_whether_a_policy_selects_it(selected_by: str, text: str) -> None:
    reason = reason_of(StoredJob(KIND, pytorchjob("p"), selected_by=selected_by), State.UNCLAIMED)
    assert reason is not None and reason["text"] == text
