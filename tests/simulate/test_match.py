"""Which nodes the simulated scheduler likes."""

from __future__ import annotations

from collections import Counter

from fleet.simulate.match import liking, needs_of, why_not_here
from fleet.values.ports import Body


def node(name: str, **labels: str) -> Body:
    return {"metadata": {"name": name, "labels": labels}}


def test_a_preference_names_nodes_by_label_or_by_name() -> None:
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["te1"]}]}
    by_label = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}
    liked = [{"weight": 100, "preference": by_name}, {"weight": 10, "preference": by_label}]
    needs = needs_of({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": liked}}})
    nodes = [node("te1", rack="r1"), node("te2", rack="r1"), node("te3")]
    assert [liking(needs, one, Counter()) for one in nodes] == [110, 10, 0]


def test_a_required_term_without_a_word_matches_no_node() -> None:
    terms: Body = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
    needs = needs_of({"affinity": {"nodeAffinity": terms}})
    assert why_not_here(needs, node("te1")) == "node(s) didn't match Pod's node affinity/selector"
