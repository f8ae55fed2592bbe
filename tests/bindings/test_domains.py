"""The chosen domains of a binding, in its annotation and back."""

from __future__ import annotations

import pytest

from fleet.bindings.domains import chosen_of, within, written
from fleet.core.model.chosendomain import ChosenDomain
from fleet.core.model.matching import pool_takes
from fleet.core.model.member import Pool, places_of
from fleet.core.model.rule import PlacementRule
from fleet.core.model.unit import Component
from fleet.wellknown import ANNOTATION_DOMAIN, ANNOTATION_TOPOLOGY
from tests.builders import amounts

RACK = PlacementRule("rack")
WORKERS = PlacementRule("rack", ("worker",))
SLICES = PlacementRule("rack", ("worker",), size=4)
GANG = (Component("leader", 1, amounts(gpu=8)), Component("worker", 8, amounts(gpu=8)))


def test_a_single_rule_for_the_whole_gang_has_its_domain_in_plain_words() -> None:
    assert written((RACK,), (ChosenDomain(RACK, "r1"),)) == "r1"
    annotations = {ANNOTATION_TOPOLOGY: "rack", ANNOTATION_DOMAIN: "r1"}
    assert chosen_of({"metadata": {"annotations": annotations}}) == (ChosenDomain(RACK, "r1"),)


def test_other_rules_are_listed_with_their_parts() -> None:
    assert written((SLICES,), (ChosenDomain(SLICES, "/b1/r1", 2),)) == '[[0,"/b1/r1",2]]'
    assert written((), ()) == ""


@pytest.mark.parametrize("value", ["[", '[[7,"r1",1]]', '[["r1"]]', "[3]"])
def test_an_annotation_that_cannot_be_read_names_no_domain(value: str) -> None:
    assert chosen_of({"metadata": {"annotations": {ANNOTATION_TOPOLOGY: "rack", ANNOTATION_DOMAIN: value}}}) == ()


@pytest.mark.parametrize(
    ("chosen", "takes"),
    [
        (ChosenDomain(RACK, "/b1/r1"), [True, True]),
        (ChosenDomain(RACK, "/b2/r1"), [False, False]),
        (ChosenDomain(RACK, "r1"), [True, True]),  # the label
        (ChosenDomain(WORKERS, "/b2/r1"), [True, False]),
        (ChosenDomain(SLICES, "/b2/r1"), [True, True]),  # some parts of them are there, others elsewhere
    ],
)
def test_pods_that_were_sent_to_a_domain_use_its_nodes_alone(chosen: ChosenDomain, takes: list[bool]) -> None:
    pool = Pool((("block", "b1"), ("rack", "r1")), places=places_of([("block", "b1"), ("rack", "r1")]))
    assert [pool_takes(pool, part.claim) for part in within(GANG, (chosen,))] == takes
