"""Which policy wins, which members a placement allows, what a back-off is: the rules as tables."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.admission.selecting import best_policy, labels_match, policy_claim
from fleet.bindings.binding import charged
from fleet.bindings.failures import Failure, backoff_until
from fleet.controllers.cluster.matching import Candidate, duplicated_to
from fleet.controllers.dispatch.overrides import image_changed
from fleet.ports import Body
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
    assert best_policy(job(), [first, better], policy_claim(first)) is first
    preempting = policy("better", priority=5, preemption="Always")
    assert best_policy(job(), [first, preempting], policy_claim(first)) is preempting


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


def test_a_taint_keeps_newcomers_out_and_not_who_is_there() -> None:
    taint = {"key": "maintenance", "effect": "NoSchedule"}
    clusters = [Candidate("cfa", {}, {}), Candidate("cfb", {}, {}, [taint])]
    assert duplicated_to({}, clusters, ()) == ["cfa"]
    assert duplicated_to({}, clusters, ["cfb"]) == ["cfa", "cfb"]
    assert duplicated_to({"clusterTolerations": [{"operator": "Exists"}]}, clusters, ()) == ["cfa", "cfb"]


def test_the_back_off_doubles_from_one_second_to_five_minutes() -> None:
    failures = [Failure("cfa", 100.0, "GangNotWhole") for _ in range(12)]
    pauses = [(backoff_until(failures[:count]) or 0) - 100 for count in range(1, 12)]
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert backoff_until([Failure("cfa", 100.0, "MemberUnreachable", backoff=False)]) is None


def test_a_status_that_is_not_there_never_counts_as_over() -> None:
    binding: Body = {"metadata": {}, "spec": {"clusters": [{"name": "cfa"}]}, "status": {"aggregatedStatus": []}}
    assert charged(binding, [])
    binding["status"]["conditions"] = [{"type": "Finished", "status": "True", "reason": "Succeeded"}]
    assert not charged(binding, [])


@pytest.mark.parametrize(
    ("image", "entry", "changed"),
    [
        ("train:1", {"component": "Registry", "operator": "add", "value": "r.example"}, "r.example/train:1"),
        ("r.example/a/train:1", {"component": "Registry", "operator": "remove"}, "a/train:1"),
        ("localhost:5000/train", {"component": "Tag", "operator": "add", "value": "2"}, "localhost:5000/train:2"),
        ("a/train:1", {"component": "Repository", "operator": "replace", "value": "b/run"}, "b/run:1"),
        ("train@sha256:ab", {"component": "Tag", "operator": "replace", "value": "sha256:cd"}, "train@sha256:cd"),
    ],
)
def test_images_change_by_their_parts(image: str, entry: dict[str, str], changed: str) -> None:
    assert image_changed(image, entry) == changed
