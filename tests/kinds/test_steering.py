"""Fields of a job that steer controllers: times to live and managers are the hub's, and all else travels as it is."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.kinds import Interpreter, interpreter_of
from fleet.kinds.declaration import flaws_of
from fleet.kinds.lookup import shipped
from fleet.kinds.paths import with_part
from fleet.values.untyped import at
from fleet.wellknown import MANAGED_BY
from tests.kinds.bodies import CASES, Body, Case

PAGE = Path(__file__).parents[2] / "docs/reference/kinds.md"
ENDLESS = {"Deployment", "LeaderWorkerSet", "RayCluster", "StatefulSet"}
# The kinds whose running copies keep the field: their controllers start a job anew for a change, or refuse it.
STAYS = {("sparkoperator.k8s.io", "SparkApplication"), ("batch.volcano.sh", "Job")}


def reader(case: Case) -> Interpreter:
    found = interpreter_of(case.api_version, case.kind)
    assert found is not None
    return found


def target(case: Case) -> tuple[str, str]:
    return case.api_version.rpartition("/")[0], case.kind


def with_field(case: Case, field: str, value: Any) -> Body:
    return with_part(case.body, tuple(field.split(".")), value)


TIMES = [(case, field) for case in CASES for field in reader(case).times_to_live]
MANAGED = [case for case in CASES if reader(case).managed_by_field]


def named(value: Any) -> str:
    return f"{value.kind}.{target(value)[0]}" if isinstance(value, Case) else str(value)


def test_every_kind_that_ends_has_a_time_to_live() -> None:
    assert {case.kind for case in CASES if not reader(case).times_to_live} == ENDLESS
    assert {case.kind for case in CASES if not reader(case).ends} == ENDLESS


@pytest.mark.parametrize(("case", "field"), TIMES, ids=named)
def test_no_member_gets_a_time_to_live(case: Case, field: str) -> None:
    job = with_field(case, field, 0)
    manifest = reader(case).stamp(job, {"fleet.io/hub": "h"}, {})
    assert at(manifest, *field.split(".")) is None
    assert at(job, *field.split(".")) == 0, "the hub's own object is left as it is"


@pytest.mark.parametrize(("case", "field"), TIMES, ids=named)
def test_a_copy_that_runs_at_an_upgrade_loses_the_field_where_its_controller_bears_that(case: Case, field: str) -> None:
    there = with_field(case, field, 30)
    manifest = reader(case).stamp(with_field(case, field, 60), {}, {}, member_copy=there)
    assert at(manifest, *field.split(".")) == (30 if target(case) in STAYS else None)


@pytest.mark.parametrize("case", MANAGED, ids=named)
def test_the_name_of_the_hub_as_manager_stays_on_the_hub_and_that_of_the_kinds_controller_travels(case: Case) -> None:
    interpreter, field = reader(case), reader(case).managed_by_field
    manifest = interpreter.stamp(with_field(case, field, MANAGED_BY), {}, {})
    assert at(manifest, *field.split(".")) is None
    for own in shipped()[target(case)].declaration.managed_by.own:
        job = with_field(case, field, own)
        assert interpreter.manager(job) == ""
        assert at(interpreter.stamp(job, {}, {}), *field.split(".")) == own
    assert interpreter.manager(with_field(case, field, "kueue.x-k8s.io/multikueue")) == "kueue.x-k8s.io/multikueue"


def test_what_steers_the_scheduler_of_the_member_travels_as_it_is() -> None:
    for case in CASES:
        job = case.body
        job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q", "ray.io/scheduler-name": "volcano"}
        job["spec"] = {**job["spec"], "schedulerName": "volcano", "queue": "research"}
        manifest = reader(case).stamp(job, {}, {})
        assert job["metadata"]["labels"].items() <= manifest["metadata"]["labels"].items()
        assert (manifest["spec"]["schedulerName"], manifest["spec"]["queue"]) == ("volcano", "research")


def lives(api_version: str, kind: str, spec: Body, status: Body | None = None) -> int | None:
    interpreter = interpreter_of(api_version, kind)
    assert interpreter is not None
    return interpreter.lives_s({"metadata": {"name": "j"}, "spec": spec, "status": status or {}})


def test_a_job_lives_as_long_as_it_says_of_this_end() -> None:
    assert lives("batch/v1", "Job", {"ttlSecondsAfterFinished": 0}) == 0
    assert lives("batch/v1", "Job", {}) is None
    assert lives("batch/v1", "Job", {"ttlSecondsAfterFinished": -1}) is None
    assert lives("batch/v1", "Job", {"ttlSecondsAfterFinished": "soon"}) is None
    assert lives("kubeflow.org/v1", "PyTorchJob", {"runPolicy": {"ttlSecondsAfterFinished": 9}}) == 9
    strategy = {"ttlStrategy": {"secondsAfterCompletion": 3, "secondsAfterFailure": 2, "secondsAfterSuccess": 1}}
    argo = "argoproj.io/v1alpha1"
    assert lives(argo, "Workflow", strategy, {"phase": "Succeeded"}) == 1
    assert lives(argo, "Workflow", strategy, {"phase": "Error"}) == 2
    assert lives(argo, "Workflow", {"ttlStrategy": {"secondsAfterCompletion": 3}}, {"phase": "Failed"}) == 3


def test_the_cluster_of_a_rayjob_lives_as_long_as_the_job_after_its_end() -> None:
    """KubeRay writes a zero that nobody has named; then the cluster goes at once, by KubeRay, and the job stays."""
    ray = interpreter_of("ray.io/v1", "RayJob")
    assert ray is not None
    at_once: Body = {"shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": 0}
    assert lives("ray.io/v1", "RayJob", at_once) is None
    assert ray.stamp({"metadata": {"name": "j"}, "spec": at_once}, {}, {})["spec"]["shutdownAfterJobFinishes"] is True
    later = {**at_once, "ttlSecondsAfterFinished": 600}
    assert lives("ray.io/v1", "RayJob", later) == 600
    assert ray.stamp({"metadata": {"name": "j"}, "spec": later}, {}, {})["spec"] == {}


def test_the_flaws_of_such_fields_name_them() -> None:
    said = yaml.safe_load(files("fleet.kinds").joinpath("declared/job.yaml").read_text())["spec"]
    said["timeToLive"] = [{"path": "status.ttl", "when": "item.n > 0"}]
    said["managedBy"] = {"path": "nonsense"}
    assert [flaw.field for flaw in flaws_of(said)] == [
        "spec.timeToLive[0].when",
        "spec.timeToLive[0].path",
        "spec.managedBy.path",
    ]


def test_the_page_has_the_fields_of_every_kind() -> None:
    section = PAGE.read_text().partition("### Fields that steer controllers")[2].partition("\n### ")[0]
    told = {tuple(cell.strip() for cell in line.strip("|").split("|")) for line in section.splitlines() if "`" in line}
    for (group, kind), interpreter in shipped().items():
        [row] = [row for row in told if len(row) == 4 and row[0] == f"`{group}`" and kind in row[1].split(", ")]
        fields = [f"`{field}`" for field in interpreter.times_to_live]
        assert row[2] == (", ".join(fields) or "-"), kind
        assert row[3].startswith(f"`{interpreter.managed_by_field}`" if interpreter.managed_by_field else "-"), kind
        for own in interpreter.declaration.managed_by.own:
            assert f"`{own}`" in row[3], kind
