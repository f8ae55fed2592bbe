"""No bound ends the search silently: the certificate names each that was met."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fleet.core.decide import decide
from fleet.core.model.bounds import BOUNDS
from fleet.core.notation import codec
from fleet.core.solver.cpsat import CpSat
from tests.bench.exact import NOW as THEN
from tests.bench.exact import world
from tests.builders import GPU, NOW, member, snapshot, tree, unit


def test_the_certificate_names_the_bands_that_the_model_does_not_have() -> None:
    waiting = [unit(f"u{i:02}").gpus(5 + 3 * (i % 2)).priority(i) for i in range(14)]
    plan = decide(snapshot(*waiting, member("x").nodes(3)), now=NOW, seed=1, solver=CpSat())
    assert "no bands below the first 12" in plan.certificate.why
    assert "bands" in plan.certificate.bounds


def test_what_is_optimal_in_a_part_of_the_question_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.core.placement.linked.classes.BOUNDS", replace(BOUNDS, bands=1))
    high, low = unit("high").gpus(8, pods=2).priority(1), unit("low").gpus(8, pods=2)
    plan = decide(snapshot(high, low, member("x").nodes(1)), now=NOW, seed=1, solver=CpSat())
    assert plan.certificate.why == "optimal: no other gang could start; the model has no bands below the first 1"


def test_the_certificate_names_the_end_of_a_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.core.placement.linked.classes.BOUNDS", replace(BOUNDS, links=1))
    line = [unit(f"u{i}").gpus(1 + i).queue("root/ml").since(99 - i) for i in range(3)]
    others = [unit("other").gpus(8).queue("root/o").since(10), unit("young").gpus(8).queue("root/o")]
    world = snapshot(*line, *others, member("x").nodes(1), tree(ml={"policy": "Block", "max": {GPU: 4}}, o={}))
    certificate = decide(world, now=NOW, seed=1, solver=CpSat()).certificate
    assert "no queue root/ml behind" in certificate.why
    assert "links" in certificate.bounds


def test_the_certificate_names_the_last_answer_and_the_record_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.core.placement.linked.improve.BOUNDS", replace(BOUNDS, answers=1))
    snapshot = world(3)
    snapshot = replace(snapshot, config=replace(snapshot.config, solve_limit_s=60.0))
    plan = decide(snapshot, now=THEN, seed=1, solver=CpSat())
    assert plan.certificate.why.endswith("the solver was asked 1 times, and a part of each answer did not pack")
    assert "answers" in plan.certificate.bounds
    record = json.loads(json.dumps(codec.encode_record(snapshot, plan, now=THEN, seed=1)))
    assert codec.replay(record) == plan


def test_the_certificate_names_nodes_that_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.core.placement.linked.decode.BOUNDS", replace(BOUNDS, node_variables=10))
    plan = decide(world(3), now=THEN, seed=1, solver=CpSat())
    assert "the model takes no more of its nodes" in plan.certificate.why
    assert "node_variables" in plan.certificate.bounds


@pytest.mark.parametrize(
    "module,bound,most",
    [
        ("rows", "slot_sizes", 4),
        ("decode", "packings", 0),
        ("decode", "packed_again", 10),
        ("decode", "members_anew", 0),
        ("improve", "variables", 0),
    ],
)
def test_the_certificate_names_each_bound_of_the_search(
    module: str, bound: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"fleet.core.placement.linked.{module}.BOUNDS", replace(BOUNDS, **{bound: most}))
    snapshot = world(8)
    snapshot = replace(snapshot, config=replace(snapshot.config, solve_limit_s=60.0))
    assert bound in decide(snapshot, now=THEN, seed=1, solver=CpSat()).certificate.bounds
