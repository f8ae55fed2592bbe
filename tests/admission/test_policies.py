"""Policies: what would never do what its author means is refused, with the field named."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.admission.conftest import Body, Hub
from tests.admission.policies import JOBS, MAPS, gang, policy

GANG = "spec.placement.replicaScheduling.customSchedulingType"


def affinity(name: str, **more: Any) -> Body:
    return {"affinityName": name, **more}


def preserving(*rules: tuple[str, str]) -> Body:
    """A policy with these rules of statePreservation: label and path."""
    entries = [{"aliasLabelName": label, "jsonPath": path} for label, path in rules]
    return policy(failover={"application": {"statePreservation": {"rules": entries}}}, propagateDeps=True)


REFUSED = [
    pytest.param(policy(resourceSelectors=[]), "spec.resourceSelectors", id="no selectors"),
    pytest.param(policy(resourceSelectors=[{"apiVersion": "v1"}]), "spec.resourceSelectors[0].kind", id="no kind"),
    pytest.param(policy(resourceSelectors=[JOBS]), GANG, id="a job without a placement"),
    pytest.param(
        policy(
            resourceSelectors=[MAPS, JOBS], placement={"replicaScheduling": {"replicaSchedulingType": "Duplicated"}}
        ),
        GANG,
        id="a job that would be split or copied",
    ),
    pytest.param(policy(resourceSelectors=[{"apiVersion": "batch/v1", "kind": "Job"}]), GANG, id="a batch Job"),
    pytest.param(policy(placement={"replicaScheduling": {"customSchedulingType": "Herd"}}), GANG, id="no such type"),
    pytest.param(
        policy(placement={"replicaScheduling": {"replicaSchedulingType": "Split"}}),
        "spec.placement.replicaScheduling.replicaSchedulingType",
        id="no such replica type",
    ),
    pytest.param(
        policy(placement={"clusterAffinity": {}, "clusterAffinities": [affinity("a")]}),
        "spec.placement.clusterAffinities",
        id="both affinities",
    ),
    pytest.param(
        policy(placement={"clusterAffinities": [affinity("a"), affinity("a")]}),
        "spec.placement.clusterAffinities[1].affinityName",
        id="two groups of one name",
    ),
    pytest.param(
        policy(
            placement={
                "clusterAffinity": {
                    "fieldSelector": {"matchExpressions": [{"key": "planet", "operator": "In", "values": ["x"]}]}
                }
            }
        ),
        "spec.placement.clusterAffinity.fieldSelector.matchExpressions[0].key",
        id="no such field",
    ),
    pytest.param(
        policy(
            placement={"clusterAffinity": {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}}
        ),
        "spec.placement.clusterAffinity.labelSelector.matchExpressions[0].values",
        id="In without values",
    ),
    pytest.param(policy(conflictResolution="Merge"), "spec.conflictResolution", id="no such resolution"),
    pytest.param(
        policy(failover={"application": {"purgeMode": "Now"}}, propagateDeps=True),
        "spec.failover.application.purgeMode",
        id="no such purge mode",
    ),
    pytest.param(
        preserving(("fleet.io/attempt", "{.a}")),
        "spec.failover.application.statePreservation.rules[0].aliasLabelName",
        id="a label of the hub",
    ),
    pytest.param(
        preserving(("x.io/a b", "{.a}")),
        "spec.failover.application.statePreservation.rules[0].aliasLabelName",
        id="a label that cannot be",
    ),
    pytest.param(
        preserving(("x.io/a", "{.a}"), ("y.io/a", "{.b}")),
        "spec.failover.application.statePreservation.rules[1].aliasLabelName",
        id="a variable twice",
    ),
    pytest.param(
        preserving(("x.io/a", "a")),
        "spec.failover.application.statePreservation.rules[0].jsonPath",
        id="a path that is none",
    ),
    pytest.param(
        preserving(*((f"x.io/a{number}", "{.a}") for number in range(17))),
        "spec.failover.application.statePreservation.rules",
        id="too many rules",
    ),
    pytest.param(
        policy(failover={"application": {"purgeMode": "Directly"}}),
        "spec.propagateDeps",
        id="failover that would leave dependencies behind",
    ),
    pytest.param(
        policy(resourceSelectors=[{**MAPS, "namespace": "other"}]),
        "spec.resourceSelectors[0].namespace",
        id="another namespace",
    ),
    pytest.param(
        policy(suspension={"dispatching": True, "dispatchingOnClusters": {"clusterNames": ["a"]}}),
        "spec.suspension.dispatchingOnClusters",
        id="both suspensions",
    ),
    pytest.param(
        policy(placement={"spreadConstraints": [{"spreadByField": "region", "minGroups": 3, "maxGroups": 2}]}),
        "spec.placement.spreadConstraints[0].minGroups",
        id="more groups than allowed",
    ),
]


@pytest.mark.parametrize(("body", "field"), REFUSED)
async def test_what_cannot_work_is_refused_and_names_its_field(hub: Hub, body: Body, field: str) -> None:
    refusal = await hub.refused(body)
    assert refusal.code == 422
    assert field in [cause.field for cause in refusal.causes], refusal.causes


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(policy(), id="objects without pods"),
        pytest.param(policy(resourceSelectors=[JOBS], **gang()), id="a gang"),
        pytest.param(
            policy(
                resourceSelectors=[JOBS],
                **gang(
                    clusterAffinities=[
                        affinity("a", clusterNames=["m"]),
                        affinity("b", labelSelector={"matchLabels": {"x": "y"}}),
                    ]
                ),
            ),
            id="ordered members",
        ),
        pytest.param(
            policy(
                resourceSelectors=[JOBS],
                propagateDeps=True,
                suspension={"scheduling": True},
                failover={"application": {"decisionConditions": {"tolerationSeconds": 30}, "purgeMode": "Immediately"}},
                **gang(),
            ),
            id="the walk-through's, in the older spelling",
        ),
        pytest.param(
            policy(propagateDeps=True, failover={"application": {"purgeMode": "Graciously"}}), id="older still"
        ),
        pytest.param(
            policy(
                priority=3,
                preemption="Always",
                dependentOverrides=["o"],
                activationPreference="Lazy",
                schedulePriority={"priorityClassSource": "KubePriorityClass", "priorityClassName": "high"},
                placement={
                    "clusterTolerations": [{"key": "k", "operator": "Exists"}],
                    "replicaScheduling": {
                        "replicaDivisionPreference": "Weighted",
                        "weightPreference": {
                            "staticWeightList": [{"targetCluster": {"clusterNames": ["m"]}, "weight": 2}]
                        },
                    },
                },
            ),
            id="what Karmada knows",
        ),
    ],
)
async def test_what_users_write_is_taken_whole(hub: Hub, body: Body) -> None:
    stored = await hub.create(deepcopy(body))
    for field, value in body["spec"].items():
        assert _within(value, stored["spec"][field]), field


def _within(part: object, whole: object) -> bool:
    """Whether nothing of `part` was pruned; defaults may have come in."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and _within(value, whole[key]) for key, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) == len(whole) and all(_within(a, b) for a, b in zip(part, whole, strict=True))
    return part == whole


async def test_a_policy_under_its_other_group_is_the_same_object(hub: Hub) -> None:
    body = {**policy(resourceSelectors=[JOBS]), "apiVersion": "policy.karmada.io/v1alpha1"}
    assert (await hub.refused(body)).causes[0].field == GANG


async def test_a_cluster_wide_policy_may_name_any_namespace(hub: Hub) -> None:
    body = {**policy(resourceSelectors=[{**MAPS, "namespace": "other"}]), "kind": "ClusterPropagationPolicy"}
    assert (await hub.create(body))["spec"]["resourceSelectors"][0]["namespace"] == "other"


FIELD = "spec.overrideRules[0].overriders.fieldOverrider[0]"


def inside(entry: Body) -> Body:
    return {"overrideRules": [{"overriders": {"fieldOverrider": [entry]}}]}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, "spec.overrideRules"),
        (
            {"overrideRules": [{"overriders": {"plaintext": [{"path": "spec", "operator": "add", "value": 1}]}}]},
            "spec.overrideRules[0].overriders.plaintext[0].path",
        ),
        (
            {"overrideRules": [{"overriders": {"imageOverrider": [{"component": "Name", "operator": "add"}]}}]},
            "spec.overrideRules[0].overriders.imageOverrider[0].component",
        ),
        (inside({"fieldPath": "data", "json": [{"subPath": "/a", "operator": "remove"}]}), f"{FIELD}.fieldPath"),
        (
            inside({"fieldPath": "/metadata/annotations/a", "json": [{"subPath": "a", "operator": "remove"}]}),
            f"{FIELD}.json[0].subPath",
        ),
        (
            inside({"fieldPath": "/metadata/annotations/a", "yaml": [{"subPath": "/a", "operator": "add"}]}),
            f"{FIELD}.yaml[0].value",
        ),
        (
            inside(
                {
                    "fieldPath": "/metadata/annotations/a",
                    "yaml": [{"subPath": "/a", "operator": "remove"}],
                    "json": [{"subPath": "/a", "operator": "remove"}],
                }
            ),
            FIELD,
        ),
        (inside({"fieldPath": "/metadata/annotations/a"}), FIELD),
        (
            {"overrideRules": [{"overriders": {}}], "overriders": {"labelsOverrider": [{"operator": "add"}]}},
            "spec.overriders",
        ),
        ({"overrideRules": [{"overriders": {}}], "targetCluster": {"clusterNames": ["a"]}}, "spec.targetCluster"),
        ({"targetCluster": {"clusterNames": ["a"]}}, "spec.overrideRules"),
        (
            {"overriders": {"plaintext": [{"path": "spec", "operator": "add", "value": 1}]}},
            "spec.overriders.plaintext[0].path",
        ),
    ],
)
async def test_an_override_that_cannot_work_names_its_field(hub: Hub, spec: Body, field: str) -> None:
    body = {
        "apiVersion": "policy.one.alibabacloud.com/v1alpha1",
        "kind": "OverridePolicy",
        "metadata": {"name": "o"},
        "spec": spec,
    }
    refusal = await hub.refused(body)
    assert refusal.code == 422 and field in [cause.field for cause in refusal.causes], refusal.causes
