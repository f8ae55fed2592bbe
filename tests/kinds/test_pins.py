"""What the pods of a gang get so that their member's scheduler keeps its rules, and how that is undone."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fleet.core.model.rule import PlacementRule
from fleet.kinds import interpreter_of
from fleet.kinds.interpreter import Interpreter
from fleet.kinds.pins import pinned, unpinned
from fleet.wellknown import LABEL_BINDING
from tests.kinds.placed import EXCLUSIVE, job, jobset, kind_of, volcano

RACK = "topology.kubernetes.io/rack"
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
OWN = {LABEL_BINDING: "b"}
Body = dict[str, Any]


def both() -> Body:
    return job(PS={}, Worker={})


def affinities(body: Body) -> dict[str, Any]:
    """By component, those of its pods that have any."""
    interpreter = kind_of(body)
    found = {template.name: template.template["spec"].get("affinity") for template in interpreter.templates(body)}
    return {name: affinity for name, affinity in found.items() if affinity is not None}


def together(level: str = RACK, *of: str) -> Body:
    expressions = [{"key": "fleet.io/component", "operator": "In", "values": list(of)}]
    return {
        "labelSelector": {"matchLabels": OWN, **({"matchExpressions": expressions} if of else {})},
        "topologyKey": level,
    }


def test_pods_require_each_others_rack_and_prefer_the_one_with_room() -> None:
    body = both()
    theirs: Body = {"podAffinity": {REQUIRED: [{"topologyKey": "theirs"}]}}
    body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["affinity"] = theirs
    before = copy.deepcopy(body)
    found = affinities(pinned(body, kind_of(body), [PlacementRule(RACK)], {RACK: "r7"}, OWN))
    there = {"matchExpressions": [{"key": RACK, "operator": "In", "values": ["r7"]}]}
    assert found["ps"] == {
        "podAffinity": {REQUIRED: [together()]},
        "nodeAffinity": {PREFERRED: [{"weight": 100, "preference": there}]},
    }
    assert found["worker"]["podAffinity"] == {REQUIRED: [{"topologyKey": "theirs"}, together()]}
    assert body == before


def test_pods_of_components_require_each_other_alone() -> None:
    rule = PlacementRule(RACK, ("worker",))
    assert affinities(pinned(both(), kind_of(both()), [rule], {}, OWN)) == {
        "worker": {"podAffinity": {REQUIRED: [together(RACK, "worker")]}}
    }


def test_a_preference_stays_one() -> None:
    rule = PlacementRule(RACK, hard=False)
    liked = {"podAffinity": {PREFERRED: [{"weight": 100, "podAffinityTerm": together()}]}}
    assert affinities(pinned(both(), kind_of(both()), [rule], {}, OWN)) == {"ps": liked, "worker": liked}


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        pytest.param(both(), PlacementRule(RACK, size=2), id="parts"),
        pytest.param(both(), PlacementRule(RACK, size=1, most=1), id="a cap"),
        pytest.param(both(), PlacementRule("tier-1"), id="a tier, which is no label"),
        pytest.param(volcano({"highestTierName": RACK}), PlacementRule(RACK), id="what the member's Volcano reads"),
        pytest.param(
            jobset({EXCLUSIVE: RACK}), PlacementRule(RACK, ("driver",), 1, most=1), id="what the member's JobSet reads"
        ),
    ],
)
def test_what_a_pod_template_cannot_say_or_the_member_reads_itself_changes_nothing(
    body: Body, rule: PlacementRule
) -> None:
    assert pinned(body, kind_of(body), [rule], {}, OWN) is body


def test_a_batch_job_has_its_template_elsewhere_and_may_have_no_rack_to_prefer() -> None:
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": {"spec": {}}}}
    changed = pinned(body, batch(), [PlacementRule(RACK)], {}, {"a": "b"})
    assert list(changed["spec"]["template"]["spec"]["affinity"]) == ["podAffinity"]


def batch() -> Interpreter:
    interpreter = interpreter_of("batch/v1", "Job")
    assert interpreter is not None
    return interpreter


@pytest.mark.parametrize(
    "rules",
    [
        [PlacementRule(RACK)],
        [PlacementRule(RACK, ("worker",))],
        [PlacementRule(RACK, hard=False)],
        [PlacementRule("block"), PlacementRule(RACK, ("worker",)), PlacementRule("host", hard=False)],
        [PlacementRule(RACK, size=2)],
    ],
)
@pytest.mark.parametrize("theirs", [False, True], ids=["nothing else", "beside the user's own"])
def test_every_form_is_undone_to_the_manifest_of_the_user(rules: list[PlacementRule], theirs: bool) -> None:
    body = both()
    if theirs:
        liked = {"weight": 1, "preference": {"matchExpressions": [{"key": RACK, "operator": "In", "values": ["r1"]}]}}
        apart = {"podAffinityTerm": {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "k"}, "weight": 1}
        own = {
            "podAffinity": {REQUIRED: [{"topologyKey": RACK}], PREFERRED: [apart]},
            "nodeAffinity": {PREFERRED: [liked]},
        }
        for spec in body["spec"]["tfReplicaSpecs"].values():
            spec["template"]["spec"]["affinity"] = copy.deepcopy(own)
    before = copy.deepcopy(body)
    sent = copy.deepcopy(pinned(body, kind_of(body), rules, {RACK: "r7"}, OWN))
    for template in kind_of(sent).templates(sent):
        unpinned(template.template)
    assert sent == before


def test_the_domain_is_found_again() -> None:
    sent = copy.deepcopy(pinned(both(), kind_of(both()), [PlacementRule(RACK)], {RACK: "r7"}, OWN))
    assert {unpinned(template.template) for template in kind_of(sent).templates(sent)} == {"r7"}
    assert affinities(sent) == {}
