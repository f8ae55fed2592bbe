"""Which policy an object follows: the rules as tables."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.admission.selecting import best_policy, policy_reference
from fleet.bindings.matching import labels_match
from fleet.values.ports import Body
from tests.controllers.world import policy, pytorchjob

KIND: dict[str, Any] = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}
BY_NAME = [{**KIND, "name": "one"}]
BY_LABEL = [{**KIND, "labelSelector": {"matchLabels": {"team": "a"}}}]


def job() -> Body:
    body = pytorchjob("one")
    body["metadata"]["labels"] = {"team": "a"}
    return body


def cluster_policy(name: str, **spec: Any) -> Body:
    body = policy(name, **spec)
    del body["metadata"]["namespace"]
    return body


@pytest.mark.parametrize(
    ("policies", "winner"),
    [
        pytest.param([policy("b"), policy("a")], "a", id="equal ones go by name"),
        pytest.param([policy("a"), policy("b", priority=1)], "b", id="higher priority first"),
        pytest.param([policy("a"), policy("b", resourceSelectors=BY_LABEL)], "b", id="labels before kind"),
        pytest.param(
            [policy("a", resourceSelectors=BY_LABEL), policy("b", resourceSelectors=BY_NAME)],
            "b",
            id="name before labels",
        ),
        pytest.param([cluster_policy("a", priority=9), policy("b")], "b", id="the namespace before the cluster"),
        pytest.param([policy("a", namespace="team-b")], None, id="another namespace's policy is none"),
    ],
)
def test_the_policy_that_an_object_follows(policies: list[Body], winner: str | None) -> None:
    found = best_policy(job(), policies)
    assert (found["metadata"]["name"] if found else None) == winner


def test_a_claim_holds_against_a_better_policy_unless_that_preempts() -> None:
    first, better = policy("first"), policy("better", priority=5)
    assert best_policy(job(), [first, better], policy_reference(first)) is first
    preempting = policy("better", priority=5, preemption="Always")
    assert best_policy(job(), [first, preempting], policy_reference(first)) is preempting


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ({"key": "a", "operator": "In", "values": ["1"]}, True),
        ({"key": "a", "operator": "NotIn", "values": ["1"]}, False),
        ({"key": "b", "operator": "NotIn", "values": ["1"]}, True),
        ({"key": "b", "operator": "Exists"}, False),
        ({"key": "b", "operator": "DoesNotExist"}, True),
    ],
)
def test_label_expressions(expression: dict[str, Any], matches: bool) -> None:
    assert labels_match({"matchExpressions": [expression]}, {"a": "1"}) is matches
