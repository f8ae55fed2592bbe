"""The rules of a gang as its binding keeps them."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.bindings.rules import BadRules, annotations_of, chosen_domain, rules_of
from fleet.core.model.rule import PlacementRule
from fleet.wellknown import ANNOTATION_DOMAIN, ANNOTATION_RULES, ANNOTATION_TOPOLOGY


def binding(**annotations: str) -> dict[str, Any]:
    names = {"topology": ANNOTATION_TOPOLOGY, "domain": ANNOTATION_DOMAIN, "rules": ANNOTATION_RULES}
    return {"metadata": {"name": "a", "annotations": {names[key]: value for key, value in annotations.items()}}}


@pytest.mark.parametrize(
    "rules",
    [
        (),
        (PlacementRule("rack"),),
        (PlacementRule("rack", ("worker",)),),
        (PlacementRule("rack", hard=False),),
        (PlacementRule("block", ("a", "b"), 16, most=32, even=True), PlacementRule("rack", ("a", "b"), 8)),
        (PlacementRule("tier-2"), PlacementRule("tier-1", hard=False)),
    ],
)
def test_rules_are_read_as_they_were_written(rules: tuple[PlacementRule, ...]) -> None:
    written = {name: value for name, value in annotations_of(rules).items() if value}
    assert rules_of({"metadata": {"name": "a", "annotations": written}}) == rules


def test_one_rule_for_the_whole_gang_is_kept_where_versions_before_read_it() -> None:
    assert annotations_of((PlacementRule("rack"),)) == {ANNOTATION_TOPOLOGY: "rack", ANNOTATION_RULES: ""}


def test_other_rules_are_kept_with_the_fields_that_they_set() -> None:
    text = '[{"level":"rack","of":["worker"],"size":8},{"level":"host","hard":false}]'
    rules = (PlacementRule("rack", ("worker",), 8), PlacementRule("host", hard=False))
    assert annotations_of(rules) == {ANNOTATION_TOPOLOGY: "", ANNOTATION_RULES: text}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rack", "must be a JSON list"),
        ('{"level": "rack"}', "must be a JSON list"),
        ("[1]", "[0]: must be a JSON list"),
        ("[{}]", "[0]: must be a JSON list"),
        ('[{"level": 7}]', "[0].level: 7"),
        ('[{"level": "rack"}, {"level": "host", "size": "8"}]', "[1].size: 8"),
        ('[{"level": "rack", "size": true}]', "[0].size: True"),
        ('[{"level": "rack", "of": "worker"}]', "[0].of: worker"),
        ('[{"level": "rack", "of": [1]}]', "[0].of: [1]"),
        ('[{"level": "rack", "near": true}]', "[0].near: True"),
        ("[" + ",".join(['{"level":"rack"}'] * 33) + "]", "at most 32"),
        ('[{"level": "' + "r" * 20_000 + '"}]', "at most 32"),
    ],
)
def test_a_text_that_says_no_rules_is_named(text: str, why: str) -> None:
    with pytest.raises(BadRules) as caught:
        rules_of(binding(rules=text))
    assert f"annotation {ANNOTATION_RULES}" in str(caught.value) and why in str(caught.value)


def test_the_domain_is_a_label_of_the_nodes_and_says_nothing_without_a_rule() -> None:
    assert chosen_domain(binding(topology="rack", domain="r1")) == {"rack": "r1"}
    assert chosen_domain(binding(topology="rack", domain="b1/r1")) == {"rack": "r1"}
    assert chosen_domain(binding(topology="rack")) == {}
    assert chosen_domain(binding(domain="r1")) == {}
    assert chosen_domain(binding(rules='[{"level":"rack","of":["a"]}]', domain="r1")) == {}
    assert rules_of({"metadata": {"name": "a"}}) == ()
