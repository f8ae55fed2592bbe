"""HyperNodes on the hub: which are refused, with which field, and how an upstream definition takes the seeded one's
place."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.admission.seed import seed
from fleet.members.hypernodes import HyperNodeMember, read_hypernode
from tests.admission.conftest import USER, Body, Hub


def hypernode(name: str = "s0", *, tier: Any = 1, **spec: Any) -> Body:
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, **spec},
    }


def of(kind: str = "Node", **selector: Any) -> Body:
    return {"members": [{"type": kind, "selector": selector}]}


LABELS = {"matchLabels": {"rack": "r1"}}
EXACT = {"name": "te1"}
ONE = "spec.members[0].selector"


@pytest.mark.parametrize(
    ("spec", "field", "says"),
    [
        (of(), ONE, "exactly one of exactMatch, regexMatch, labelMatch"),
        (of(exactMatch=EXACT, labelMatch=LABELS), ONE, "exactly one of"),
        (of("HyperNode", labelMatch=LABELS), f"{ONE}.labelMatch", "chooses nodes by their labels"),
        (of(exactMatch={}), f"{ONE}.exactMatch.name", "must not be empty"),
        (of(regexMatch={"pattern": ""}), f"{ONE}.regexMatch.pattern", "must not be empty"),
        (of(regexMatch={"pattern": "te(1"}), f"{ONE}.regexMatch.pattern", "no regular expression"),
        (of(regexMatch={"pattern": r"(te)\1"}), f"{ONE}.regexMatch.pattern", "no regular expression"),
        (of(regexMatch={"pattern": "a{1000}" * 8}), f"{ONE}.regexMatch.pattern", "too large"),
        (of(regexMatch={"pattern": "a" * 10_001}), f"{ONE}.regexMatch.pattern", "at most 10000 characters"),
        (of(labelMatch={"matchLabels": {"a b": "c"}}), f"{ONE}.labelMatch.matchLabels", "name part"),
        (of(labelMatch={"matchExpressions": [{"key": "a", "operator": "Is"}]}), f"{ONE}.labelMatch", "operator"),
        (of("Rack", exactMatch=EXACT), "spec.members[0].type", "Unsupported value"),
        ({"tier": -1}, "spec.tier", "greater than or equal to 0"),
        ({"tier": "low"}, "spec.tier", "integer"),
    ],
)
async def test_a_hypernode_that_says_no_place_is_refused(hub: Hub, spec: Body, field: str, says: str) -> None:
    refusal = await hub.refused(hypernode(**spec))
    assert any(cause.field.startswith(field) for cause in refusal.causes), refusal.causes
    assert says in " ".join(cause.message for cause in refusal.causes)


async def test_the_three_selectors_are_taken_and_fields_that_fleet_does_not_know_are_kept(hub: Hub) -> None:
    members = [
        {"type": "Node", "selector": {"exactMatch": EXACT, "later": 1}, "weight": 2},
        {"type": "Node", "selector": {"labelMatch": LABELS}},
        {"type": "HyperNode", "selector": {"regexMatch": {"pattern": "^s[12]$"}}},
    ]
    stored = await hub.create(hypernode(tierName="rack", members=members, fabric={"type": "ib"}))
    assert stored["spec"] == {"tier": 1, "tierName": "rack", "members": members, "fabric": {"type": "ib"}}


@pytest.mark.parametrize(
    ("spec", "field", "says"),
    [
        ({"topology": [["rack", "rack"]]}, "spec.topology[0][1]", "listed twice"),
        ({"topology": [["block"], []]}, "spec.topology[1]", "1 to 8 node labels"),
        ({"topology": [["host", "rack"]]}, "spec.topology[0][0]", "must be the finest level"),
        ({"topology": ["rack"]}, "spec.topology[0]", "array"),
        ({"hyperNodeSelector": {"matchLabels": {"a b": "c"}}}, "spec.hyperNodeSelector.matchLabels", "name part"),
    ],
)
async def test_a_cluster_with_a_tree_that_is_none_is_refused(hub: Hub, spec: Body, field: str, says: str) -> None:
    cluster = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "cfa"}}
    refusal = await hub.refused({**cluster, "spec": spec})
    assert field in [cause.field for cause in refusal.causes], refusal.causes
    assert says in " ".join(cause.message for cause in refusal.causes)
    stored = await hub.create({**cluster, "spec": {"topology": [["block", "rack", "kubernetes.io/hostname"]]}})
    assert stored["spec"]["topology"] == [["block", "rack", "kubernetes.io/hostname"]]


def test_a_hypernode_that_no_rule_has_seen_loses_the_members_that_have_a_fault() -> None:
    body = hypernode(members=[{"type": "Node"}, 3, {"type": "Node", "selector": {"exactMatch": EXACT}}])
    found = read_hypernode(body)
    assert (found.level, found.members) == ("tier-1", (HyperNodeMember(True, "te1"),))
    assert found.faults == (
        "HyperNode s0: spec.members[0].selector: must have exactly one of exactMatch, regexMatch, labelMatch",
    )


async def test_an_upstream_definition_takes_the_place_of_the_seeded_one(hub: Hub) -> None:
    crds = hub.objects.registry.need("apiextensions.k8s.io", "customresourcedefinitions")
    name = "hypernodes.topology.volcano.sh"

    def upstream(body: Body) -> Body:
        body["spec"]["names"]["categories"] = ["volcano"]
        return body

    await hub.objects.change(crds, "", name, upstream, USER)
    await seed(hub.objects)
    stored = await hub.objects.get(crds, "", name)
    assert stored["spec"]["names"]["categories"] == ["volcano"]
