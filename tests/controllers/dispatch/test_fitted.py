"""The manifest of a job that asks for more replicas than it has."""

from __future__ import annotations

import copy

from fleet.controllers.dispatch.jobsize import fitted
from fleet.core.model.amounts import NOTHING
from fleet.core.model.unit import Component
from tests.controllers.world import pytorchjob
from tests.kinds.bodies import kind_of

PYTORCHJOB, JOB = kind_of("kubeflow.org/v1", "PyTorchJob"), kind_of("batch/v1", "Job")


def test_replicas_beyond_the_charge_are_left_out_and_the_job_itself_stays_as_it_is() -> None:
    job = pytorchjob("one", workers=5)
    before = copy.deepcopy(job)
    made = fitted(job, PYTORCHJOB, [Component("master", 1, NOTHING), Component("worker", 2, NOTHING)])
    assert made["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 2
    made["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 5
    assert made == before == job


def test_a_job_within_its_charge_is_the_very_body() -> None:
    job = pytorchjob("one", workers=2)
    assert fitted(job, PYTORCHJOB, [Component("master", 1, NOTHING), Component("worker", 9, NOTHING)]) is job


def test_a_batch_job_runs_as_many_pods_at_once_as_it_is_charged() -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    job = {"kind": "Job", "spec": {"parallelism": 9, "completions": 50, "template": template}}
    made = fitted(job, JOB, [Component("main", 4, NOTHING)])
    assert made["spec"] == {"parallelism": 4, "completions": 50, "template": template}


def test_completions_bound_the_pods_of_a_batch_job_and_its_parallelism_is_what_is_taken_down() -> None:
    job = {"kind": "Job", "spec": {"parallelism": 9, "completions": 5, "template": {}}}
    assert fitted(job, JOB, [Component("main", 5, NOTHING)]) is job
    assert fitted(job, JOB, [Component("main", 4, NOTHING)])["spec"]["parallelism"] == 4


def test_another_component_stays_for_the_last_look() -> None:
    more = pytorchjob("one", workers=5)
    assert fitted(more, PYTORCHJOB, [Component("master", 1, NOTHING)]) is more
