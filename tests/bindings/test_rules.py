"""The rules of a gang as its binding keeps them."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.bindings.rules import annotated, chosen_domain, rules_of
from fleet.core.model.rule import PlacementRule
from fleet.wellknown import ANNOTATION_DOMAIN, ANNOTATION_TOPOLOGY


def binding(**annotations: Any) -> dict[str, Any]:
    names = {"topology": ANNOTATION_TOPOLOGY, "domain": ANNOTATION_DOMAIN}
    return {"metadata": {"name": "a", "annotations": {names[key]: value for key, value in annotations.items()}}}


@pytest.mark.parametrize("rules", [(), (PlacementRule("rack"),)])
def test_rules_are_read_as_they_were_written(rules: tuple[PlacementRule, ...]) -> None:
    assert rules_of(binding(topology=annotated(rules))) == rules


def test_the_domain_is_a_label_of_the_nodes_and_says_nothing_without_a_rule() -> None:
    assert chosen_domain(binding(topology="rack", domain="r1")) == {"rack": "r1"}
    assert chosen_domain(binding(topology="rack")) == {}
    assert chosen_domain(binding(domain="r1")) == {}
    assert rules_of({"metadata": {"name": "a"}}) == ()
