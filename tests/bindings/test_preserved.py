"""The state that an eviction keeps: what rules find in a status, and the names that it travels under."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.bindings.preserved import VALUE_MAX, environment, keep, labels, preserve, state_of, variable
from fleet.values.ports import Body

LABEL = "example.com/step"


def binding(path: str, status: Any = None, part: str = "application") -> Body:
    rules = [{"aliasLabelName": LABEL, "jsonPath": path}]
    copies = [] if status is None else [{"clusterName": "cfa", "status": status}]
    return {
        "metadata": {},
        "spec": {"failover": {part: {"statePreservation": {"rules": rules}}}},
        "status": {"aggregatedStatus": copies},
    }


@pytest.mark.parametrize(
    ("path", "status", "value"),
    [
        pytest.param("{.step}", {"step": "s7"}, "s7", id="a text is taken as it is"),
        pytest.param("{ .step }", {"step": 7}, "7", id="a number is written out"),
        pytest.param("{.done}", {"done": True}, "true", id="a truth value is written as in JSON"),
        pytest.param("{.a.b[0].c}", {"a": {"b": [{"c": "x"}]}}, "x", id="a path goes down lists"),
        pytest.param("{.a[*].c}", {"a": [{"c": "x"}, {"c": "y"}]}, "x y", id="several values stand side by side"),
        pytest.param("{.a}", {"a": {"k": 1}}, '{"k":1}', id="an object is written as JSON"),
        pytest.param("{.status.step}", {"step": "s7"}, "s7", id="a path may name the status itself"),
    ],
)
def test_a_rule_reads_the_status_of_the_copy(path: str, status: Any, value: str) -> None:
    assert preserve(binding(path, status)).values == {LABEL: value}


@pytest.mark.parametrize(
    ("path", "status", "why"),
    [
        pytest.param("{.step}", {"other": 1}, "leads to nothing", id="a status without the value"),
        pytest.param("{.step}", None, "leads to nothing", id="a copy without a status"),
        pytest.param("{step", {"step": 1}, "must start with a dot", id="a path that is none"),
        pytest.param("{.step}", {"step": "x" * (VALUE_MAX + 1)}, "at most 2048", id="a value that is too long"),
    ],
)
def test_a_rule_without_a_value_is_told_and_keeps_the_value_of_an_earlier_attempt(
    path: str, status: Any, why: str
) -> None:
    body = binding(path, status)
    keep(body, {LABEL: "old"})
    found = preserve(body)
    assert found.values == {LABEL: "old"}
    assert [why in trouble for trouble in found.troubles] == [True]


def test_a_lost_member_asks_the_rules_for_clusters_and_else_those_for_the_application() -> None:
    for part in ("application", "cluster"):
        assert preserve(binding("{.step}", {"step": 1}, part), lost=True).values == {LABEL: "1"}


def test_a_value_that_fits_no_label_stays_a_variable() -> None:
    found = preserve(binding("{.path}", {"path": "s3://bucket/a b"}))
    assert labels(found.values) == {}
    assert environment(found.values) == {"FLEET_STATE_STEP": "s3://bucket/a b"}
    assert len(found.troubles) == 1


def test_the_state_stands_on_the_binding() -> None:
    body = binding("{.step}")
    assert keep(body, {LABEL: "7"})
    assert not keep(body, {LABEL: "7"})
    assert state_of(body) == {LABEL: "7"}
    body["metadata"]["annotations"]["fleet.io/preserved-state"] = "no json"
    assert state_of(body) == {}


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("job-id", "FLEET_STATE_JOB_ID"),
        ("application.karmada.io/failover-jobid", "FLEET_STATE_FAILOVER_JOBID"),
        ("x/a.b_c", "FLEET_STATE_A_B_C"),
    ],
)
def test_a_label_names_its_variable(label: str, name: str) -> None:
    assert variable(label) == name


@pytest.mark.parametrize("label", ["fleet.io/attempt", "quota.scheduling.alibabacloud.com/name", "a b", ""])
def test_a_rule_fills_no_label_that_the_hub_or_a_queue_reads(label: str) -> None:
    body = binding("{.step}", {"step": "7"})
    body["spec"]["failover"]["application"]["statePreservation"]["rules"][0]["aliasLabelName"] = label
    assert preserve(body).values == {}
