"""One job as many: sweeps, arrays, and what a job starts after."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from fleet.submission.request import RequestFault
from fleet.submission.series import MOST, Series, array, expanded, product, variable

CONTAINER = {
    "name": "c",
    "command": ["train", "--lr={lr}", "--json", '{"a": 1}'],
    "args": ["{seed}", 3],
    "env": [{"name": "FLEET_SWEEP_LR", "value": "old"}, {"name": "OTHER", "value": "stays"}],
}
POD = {"containers": [CONTAINER], "initContainers": [{"name": "i", "command": ["get", "{seed}"]}]}
JOBS = (
    {"pytorchReplicaSpecs": {"Worker": {"template": {"spec": POD}}}},
    {"template": {"spec": POD}},
    {"tasks": [{"replicas": 2, "template": {"spec": POD}}]},
)


def job(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "train", **metadata}, "spec": copy.deepcopy(spec)}


@pytest.mark.parametrize("spec", JOBS, ids=["replica types", "one template", "a list of tasks"])
def test_a_sweep_is_the_product_of_its_parameters(spec: dict[str, Any]) -> None:
    whole = job(spec, labels={"team": "a"})
    before = copy.deepcopy(whole)
    found = expanded(whole, Series(sweep=["lr=0.1,0.01", "seed=1..2"], at_most=3))
    assert whole == before
    assert [body["metadata"]["name"] for body in found] == ["train-1", "train-2", "train-3", "train-4"]
    third = found[2]["metadata"]
    assert third["labels"] == {"team": "a", "fleet.io/sweep": "train"}
    assert third["annotations"]["fleet.io/at-most"] == "3"
    assert json.loads(third["annotations"]["fleet.io/sweep-values"]) == {"lr": "0.01", "seed": "1"}
    text = json.dumps(found[2]["spec"])
    assert '["train", "--lr=0.01", "--json", "{\\"a\\": 1}"]' in text and '["1", 3]' in text and '["get", "1"]' in text
    env = [
        {"name": "OTHER", "value": "stays"},
        {"name": "FLEET_SWEEP_LR", "value": "0.01"},
        {"name": "FLEET_SWEEP_SEED", "value": "1"},
    ]
    assert json.dumps(env) in text and json.dumps(env[1:]) in text


def test_an_array_has_its_number_in_each_job() -> None:
    found = expanded(job(JOBS[1]), Series(array="0-2,7%2"))
    assert [body["metadata"]["name"] for body in found] == ["train-0", "train-1", "train-2", "train-7"]
    assert {"name": "FLEET_ARRAY_INDEX", "value": "7"} in found[3]["spec"]["template"]["spec"]["containers"][0]["env"]
    assert found[3]["metadata"]["annotations"]["fleet.io/at-most"] == "2"
    assert array("1,4,4") == ([{"index": "1"}, {"index": "4"}], None)


def test_a_parameter_has_a_variable_that_a_shell_can_read() -> None:
    assert variable("opt.weight-decay") == "FLEET_SWEEP_OPT_WEIGHT_DECAY"
    assert list(product(["lr=0.1,0.1,1e-3", "s=-1..1"]))[:2] == [{"lr": "0.1", "s": "-1"}, {"lr": "0.1", "s": "0"}]


def test_the_jobs_before_it_stand_on_each_job() -> None:
    (alone,) = expanded(job(JOBS[1]), Series(after=["prepare", "get:any"]))
    assert alone["metadata"]["annotations"] == {"fleet.io/after": "prepare,get:any"}
    both = expanded(job(JOBS[1]), Series(array="0-1", after=["prepare"]))
    assert [one["metadata"]["annotations"]["fleet.io/after"] for one in both] == ["prepare", "prepare"]
    assert expanded(job(JOBS[1]), Series()) == [job(JOBS[1])]


@pytest.mark.parametrize(
    ("series", "part", "why"),
    [
        (Series(sweep=["lr"]), "sweep", "lr: is not of the form lr=0.1,0.01 or seed=1..5"),
        (Series(sweep=["1lr=2"]), "sweep", "1lr=2: is not of the form"),
        (Series(sweep=["lr=1,,2"]), "sweep", "lr=1,,2: a value is missing"),
        (Series(sweep=["seed=5..1"]), "sweep", "seed=5..1: 5..1 is no range upwards"),
        (Series(sweep=["lr=1", "lr=2"]), "sweep", "lr: is given twice"),
        (Series(sweep=["lr=1", "LR=2"]), "sweep", "lr, LR: two of these have the same variable"),
        (Series(sweep=["a=1..100", "b=1..11"]), "sweep", f"makes more than {MOST} jobs"),
        (Series(sweep=["a=1..999999999"]), "sweep", f"makes more than {MOST} jobs"),
        (Series(array="0-999999999"), "array", f"makes more than {MOST} jobs"),
        (Series(array="9-0"), "array", "9-0: is not of the form 0-9, 1,4,7 or 0-99%4"),
        (Series(array="a"), "array", "a: is not of the form"),
        (Series(array="0-9%0"), "array", "0-9%0: %0 is no number of jobs at once"),
        (Series(array="0-9", sweep=["a=1"]), "array", "not over both"),
        (Series(at_most=2), "at-most", "is about a sweep or an array"),
        (Series(array="0-9", at_most=0), "at-most", "0 is less than 1"),
    ],
)
def test_what_makes_no_series_says_why(series: Series, part: str, why: str) -> None:
    with pytest.raises(RequestFault) as wrong:
        expanded(job(JOBS[1]), series)
    assert wrong.value.part == part and why in wrong.value.why
