"""What kubectl get shows: cells by path, and the words of the built-in printers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.engine.columns import COMPUTED, cells, column_definitions, columns_of
from api.engine.kind import Kind
from api.engine.registry import Registry
from fleet.admission.kindfiles import load_kinds
from fleet.values.durations import age, human
from fleet.values.jsonpath import BadPath, compile_path, find

# Examples are few and small; a loaded machine must not make them fail.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

Body = dict[str, Any]
KINDS = Registry(load_kinds())
CREATED = "2026-01-01T00:00:00Z"
NOW = 1767225600.0 + 224  # 3m44s later
META = {"name": "a", "creationTimestamp": CREATED}


def shown(group: str, resource: str, body: Body) -> dict[str, Any]:
    """The row as kubectl would print it, by column name."""
    kind = KINDS.need(group, resource)
    row = cells(kind, {"metadata": META, **body}, NOW)
    return {column.name: cell for column, cell in zip(columns_of(kind), row, strict=True)}


def always(kind: Kind) -> list[str]:
    return [c["name"].upper() for c in column_definitions(kind) if c["priority"] == 0]


@pytest.mark.parametrize(
    ("group", "resource", "header"),
    [
        ("kubeflow.org", "pytorchjobs", "NAME STATE AGE"),
        ("scheduling.x-k8s.io", "queues", "NAME AGE"),
        ("work.karmada.io", "resourcebindings", "NAME SCHEDULED FULLYAPPLIED AGE"),
        ("", "pods", "NAME READY STATUS RESTARTS AGE"),
        ("", "nodes", "NAME STATUS ROLES AGE VERSION"),
        ("", "events", "LAST SEEN TYPE REASON OBJECT MESSAGE"),
        ("", "namespaces", "NAME STATUS AGE"),
        ("", "secrets", "NAME TYPE DATA AGE"),
        ("batch", "jobs", "NAME STATUS COMPLETIONS DURATION AGE"),
        ("coordination.k8s.io", "leases", "NAME HOLDER AGE"),
        ("", "services", "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE"),
    ],
)
def test_the_header_is_what_users_know(group: str, resource: str, header: str) -> None:
    assert " ".join(always(KINDS.need(group, resource))) == header


def test_every_computed_column_has_its_function_and_every_path_compiles() -> None:
    for kind in KINDS:
        for column in columns_of(kind):
            if column.compute:
                assert column.compute in COMPUTED
            else:
                assert compile_path(column.json_path)


def test_an_object_with_nothing_but_a_name_is_shown_for_every_kind() -> None:
    for kind in KINDS:
        row = cells(kind, {"metadata": META}, NOW)
        assert len(row) == len(column_definitions(kind)) and "a" in row


def test_the_state_of_a_job_is_its_last_condition() -> None:
    conditions = [{"type": "Queuing"}, {"type": "Created"}, {"type": "Running"}]
    assert shown("kubeflow.org", "pytorchjobs", {"status": {"conditions": conditions}}) == {
        "Name": "a",
        "State": "Running",
        "Age": "3m44s",
    }
    assert shown("kubeflow.org", "pytorchjobs", {})["State"] is None


def test_a_batch_job_that_is_suspended_says_so_before_it_says_that_it_waits() -> None:
    queuing, suspended = ({"type": each, "status": "True"} for each in ("Queuing", "Suspended"))
    for conditions, status in (([queuing], "Queuing"), ([queuing, suspended], "Suspended")):
        assert shown("batch", "jobs", {"status": {"conditions": conditions}})["Status"] == status


def test_a_binding_shows_its_conditions_by_type() -> None:
    conditions = [{"type": "FullyApplied", "status": "False"}, {"type": "Scheduled", "status": "True"}]
    row = shown("work.karmada.io", "resourcebindings", {"status": {"conditions": conditions}})
    assert (row["Scheduled"], row["FullyApplied"]) == ("True", "False")


def pod(*containers: Body, spec: Body | None = None, **status: Any) -> Body:
    names = [{"name": f"c{i}"} for i in range(len(containers) or 1)]
    return {"spec": {"containers": names, **(spec or {})}, "status": {"containerStatuses": list(containers), **status}}


RUNNING = {"ready": True, "state": {"running": {}}}
WAITING = {
    "ready": False,
    "restartCount": 3,
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "lastState": {"terminated": {"finishedAt": "2026-01-01T00:03:00Z"}},
}
DONE = {"ready": False, "state": {"terminated": {"reason": "Completed", "exitCode": 0}}}
SIDECAR = {"initContainers": [{"name": "s", "restartPolicy": "Always"}]}
INIT = {"initContainers": [{"name": "i"}, {"name": "k"}]}


@pytest.mark.parametrize(
    ("body", "ready", "status", "restarts"),
    [
        pytest.param(pod(phase="Pending"), "0/1", "Pending", "0", id="not scheduled"),
        pytest.param(pod(RUNNING, RUNNING, phase="Running"), "2/2", "Running", "0", id="running"),
        pytest.param(pod(RUNNING, WAITING, phase="Running"), "1/2", "CrashLoopBackOff", "3 (44s ago)", id="crashing"),
        pytest.param(pod(DONE, phase="Succeeded"), "0/1", "Completed", "0", id="completed"),
        pytest.param(
            pod({"state": {"terminated": {"exitCode": 3}}}, phase="Failed"),
            "0/1",
            "ExitCode:3",
            "0",
            id="failed without a reason",
        ),
        pytest.param(
            pod({"state": {"terminated": {"exitCode": 137, "signal": 9}}}, phase="Failed"),
            "0/1",
            "Signal:9",
            "0",
            id="killed",
        ),
        pytest.param(pod(phase="Failed", reason="Evicted"), "0/1", "Evicted", "0", id="evicted"),
        pytest.param(
            pod(
                RUNNING,
                spec=SIDECAR,
                phase="Running",
                initContainerStatuses=[{"name": "s", "started": True, "ready": True}],
            ),
            "2/2",
            "Running",
            "0",
            id="with a sidecar",
        ),
        pytest.param(
            pod(
                spec=INIT,
                phase="Pending",
                initContainerStatuses=[
                    {"name": "i", "state": {"terminated": {"exitCode": 0}}},
                    {"name": "k", "state": {"running": {}}},
                ],
            ),
            "0/1",
            "Init:1/2",
            "0",
            id="initialising",
        ),
        pytest.param(
            pod(
                spec=INIT,
                phase="Pending",
                initContainerStatuses=[
                    {"name": "i", "restartCount": 2, "state": {"waiting": {"reason": "ErrImagePull"}}}
                ],
            ),
            "0/1",
            "Init:ErrImagePull",
            "2",
            id="an init container that cannot start",
        ),
    ],
)
def test_a_pod_is_shown_as_kubectl_shows_it(body: Body, ready: str, status: str, restarts: str) -> None:
    row = shown("", "pods", body)
    assert (row["Ready"], row["Status"], row["Restarts"]) == (ready, status, restarts)


def test_a_pod_that_goes_is_terminating() -> None:
    body = pod(RUNNING, phase="Running")
    body["metadata"] = {**META, "deletionTimestamp": CREATED}
    assert shown("", "pods", body)["Status"] == "Terminating"


def test_a_nodes_status_and_roles() -> None:
    body = {
        "metadata": {**META, "labels": {"node-role.kubernetes.io/gpu": "", "node-role.kubernetes.io/control": ""}},
        "spec": {"unschedulable": True},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    row = shown("", "nodes", body)
    assert (row["Status"], row["Roles"]) == ("Ready,SchedulingDisabled", "control,gpu")
    assert shown("", "nodes", {})["Status"] == "Unknown"


def test_events_of_both_groups_read_alike() -> None:
    old = {
        "involvedObject": {"kind": "PyTorchJob", "name": "j"},
        "lastTimestamp": CREATED,
        "message": "m\n",
        "source": {"component": "default-scheduler"},
    }
    new = {
        "regarding": {"kind": "PyTorchJob", "name": "j"},
        "eventTime": CREATED,
        "note": "m",
        "reportingController": "default-scheduler",
        "series": {"count": 4},
    }
    first, second = shown("", "events", old), shown("events.k8s.io", "events", new)
    for column in ("Last Seen", "Object", "Message", "Source"):
        assert first[column] == second[column], column
    assert (first["Object"], first["Message"], first["Last Seen"]) == ("pytorchjob/j", "m", "3m44s")
    assert (first["Count"], second["Count"]) == (1, 4)


@pytest.mark.parametrize(
    ("status", "word", "duration"),
    [
        ({}, "Running", ""),
        ({"startTime": CREATED}, "Running", "3m44s"),
        (
            {
                "startTime": CREATED,
                "completionTime": "2026-01-01T00:01:00Z",
                "succeeded": 2,
                "conditions": [{"type": "Complete", "status": "True"}],
            },
            "Complete",
            "60s",
        ),
        ({"conditions": [{"type": "Suspended", "status": "True"}]}, "Suspended", ""),
    ],
)
def test_a_batch_jobs_status_and_duration(status: Body, word: str, duration: str) -> None:
    row = shown("batch", "jobs", {"spec": {"completions": 2}, "status": status})
    assert (row["Status"], row["Duration"]) == (word, duration)
    assert row["Completions"] == f"{status.get('succeeded', 0)}/2"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-0.5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (224, "3m44s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (13000, "3h36m"),
        (86400, "24h"),
        (172800, "2d"),
        (180000, "2d2h"),
        (15 * 86400, "15d"),
        (730 * 86400, "2y"),
        (800 * 86400, "2y70d"),
        (4000 * 86400, "10y"),
    ],
)
def test_ages_are_written_as_kubectl_writes_them(seconds: float, text: str) -> None:
    assert human(seconds) == text


@UNHURRIED
@given(st.text(max_size=30))
def test_an_age_of_anything_is_a_text(timestamp: str) -> None:
    assert age(timestamp, NOW)


BODY = {"a": {"b.c/d": 1, "list": [{"t": "x", "n": 1}, {"t": "y", "n": 2}], "flag": True}}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.list[-1:].n", [2]),
        (".a.list[0].n", [1]),
        (".a.list[5].n", []),
        (".a.list[*].n", [1, 2]),
        ('.a.list[?(@.t=="y")].n', [2]),
        (".a.list[?(@.t=='z')].n", []),
        (".a.b\\.c/d", [1]),
        (".a['b.c/d']", [1]),
        ("{.a.flag}", [True]),
        ("$.a.flag", [True]),
        (".a.none.of.it", []),
        (".a.list[0:1].t", ["x"]),
        ('.a.list[?(@.t!="y")].n', [1]),
    ],
)
def test_a_path_leads_to_its_values(path: str, found: list[object]) -> None:
    assert find(BODY, path) == found


@pytest.mark.parametrize("path", ["a", ".a[", ".a[?(@.x>1)]", ".a..b", ".[x]", "(.a)"])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(BadPath):
        compile_path(path)
