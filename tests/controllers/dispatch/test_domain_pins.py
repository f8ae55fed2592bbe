"""The nodes that pods are held to by rules about place trees."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fleet.controllers.dispatch.domainpins import DomainPins, new_pins, pins_on, unpinned_from
from fleet.core.model.amounts import NOTHING
from fleet.core.model.chosendomain import ChosenDomain
from fleet.core.model.rule import PlacementRule
from fleet.kinds import interpreter_of
from fleet.members.members import NodeView
from fleet.values.ports import Body
from tests.controllers.world import pytorchjob

SWITCH = PlacementRule("tier-2")
WORKERS = PlacementRule("tier-2", ("worker",))
SOFT = PlacementRule("tier-2", hard=False)


def node(name: str, path: str, **labels: str) -> NodeView:
    """In a domain of tier-2; blocks and racks are levels as well."""
    places = [("tier-2", path), *((level, "/") for level in ("block", "rack") if level in labels)]
    return NodeView(name, tuple(sorted(labels.items())), NOTHING, NOTHING, True, True, tuple(places))


def by_name(*names: str) -> list[Body]:
    return [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names]


def by_label(**labels: str) -> list[Body]:
    return [{"matchExpressions": [{"key": k, "operator": "In", "values": [v]} for k, v in labels.items()]}]


EIGHT = [node(f"te{number}", f"/s6/s{4 + number // 5}") for number in range(1, 9)]
RACKS = [node(f"n{i}", f"/b{i // 4}/r{i // 2 % 2}", block=f"b{i // 4}", rack=f"r{i // 2 % 2}") for i in range(8)]


@pytest.mark.parametrize(
    ("nodes", "domain", "terms"),
    [
        # HyperNodes have no labels: the nodes are named.
        (EIGHT, "/s6/s4", by_name("te1", "te2", "te3", "te4")),
        # One label that the nodes of the domain have, and no other.
        (
            [node("a", "/s", switch="1"), node("b", "/s", switch="1"), node("c", "/t", switch="2")],
            "/s",
            by_label(switch="1"),
        ),
        # Racks of one name in two blocks need both labels.
        (RACKS, "/b1/r0", by_label(block="b1", rack="r0")),
        # A domain that is gone, and one of too many nodes without a label of theirs.
        (EIGHT, "/s6/s9", []),
        ([node(f"n{number}", "/s") for number in range(65)] + [node("o", "/t")], "/s", []),
    ],
)
def test_a_domain_is_named_by_labels_or_else_by_its_nodes(
    nodes: list[NodeView], domain: str, terms: list[Body]
) -> None:
    pins = new_pins((SWITCH,), [ChosenDomain(SWITCH, domain)], nodes).pins
    assert [pin["terms"] for pin in pins] == ([terms] if terms else [])


def test_a_level_that_no_node_has_as_a_label_makes_no_affinity_between_pods() -> None:
    pins = new_pins((SWITCH, PlacementRule("rack")), [ChosenDomain(SWITCH, "/s6/s4")], EIGHT)
    assert pins.by_affinity((SWITCH, PlacementRule("rack"))) == (PlacementRule("rack"),)
    labelled = [node("te1", "/s4", **{"tier-2": "s4"})]
    assert new_pins((SWITCH,), [], labelled).by_affinity((SWITCH,)) == (SWITCH,)


def own_affinity() -> Body:
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [*by_label(zone="a"), *by_name("te1")]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": by_label(disk="ssd")[0]}],
        }
    }


@pytest.mark.parametrize("affinity", [None, own_affinity(), {"podAffinity": {}}])
@pytest.mark.parametrize(
    "chosen",
    [
        (ChosenDomain(SWITCH, "/s6/s4"),),
        (ChosenDomain(WORKERS, "/s6/s5"),),
        (ChosenDomain(SOFT, "/s6/s4"),),
        (ChosenDomain(SWITCH, "/s6/s4"), ChosenDomain(WORKERS, "/s6/s4"), ChosenDomain(SOFT, "/s6/s4")),
    ],
)
def test_pins_are_undone_to_the_last_word(chosen: tuple[ChosenDomain, ...], affinity: Any) -> None:
    """Pinned, read from the copy's annotation, undone: the user's own manifest."""
    job = pytorchjob("a", workers=2)
    for replicas in job["spec"]["pytorchReplicaSpecs"].values():
        if affinity is not None:
            replicas["template"]["spec"]["affinity"] = copy.deepcopy(affinity)
    interpreter = interpreter_of(job["apiVersion"], job["kind"])
    assert interpreter is not None
    pins = new_pins(tuple(one.rule for one in chosen), chosen, EIGHT)
    sent = pins.applied(copy.deepcopy(job), interpreter.templates(job))
    assert sent != job
    sent["metadata"]["annotations"] = pins.annotations
    assert pins_on(sent) == DomainPins(tuple(dict(pin) for pin in pins.pins), pins.trees)
    for template in interpreter.templates(sent):
        unpinned_from(template.template, template.name, pins_on(sent).pins)
    assert sent["spec"] == job["spec"]


def test_a_template_with_many_terms_of_its_own_is_held_by_no_more_pins_than_fit() -> None:
    """The pin of fewer nodes stays, and what is undone is what was applied."""
    job = pytorchjob("a", workers=2)
    spec = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    own = by_name(*(f"n{number}" for number in range(100)))
    spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": own}}}
    interpreter = interpreter_of(job["apiVersion"], job["kind"])
    assert interpreter is not None
    terms = {of: by_name(*(f"te{number}" for number in range(count))) for of, count in (("worker", 2), ("master", 4))}
    pins = DomainPins(
        tuple(
            {"of": of, "hard": True, "terms": terms[name]}
            for name, of in (("master", []), ("worker", ["worker"]), ("master", ["master"]))
        )
    )
    fitting = pins.fitting(interpreter.templates(job))
    assert [(pin["of"], len(pin["terms"])) for pin in fitting.pins] == [(["worker"], 2), (["master"], 4)]
    assert fitting.fitting(interpreter.templates(job)) == fitting
    sent = fitting.applied(copy.deepcopy(job), interpreter.templates(job))
    for template in interpreter.templates(sent):
        unpinned_from(template.template, template.name, fitting.pins)
    assert sent["spec"] == job["spec"]


@pytest.mark.parametrize("value", ["", "[", "{}", '{"pins": [{}], "trees": []}'])
def test_an_annotation_that_cannot_be_read_has_no_pins(value: str) -> None:
    assert pins_on({"metadata": {"annotations": {"fleet.io/pinned-nodes": value}}}) == DomainPins()
