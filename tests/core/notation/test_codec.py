"""Snapshots by hand, bad documents, and records that replay whatever became of the solver."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fleet.core.decide import BadSnapshot, decide
from fleet.core.model.cause import Cause, CauseCode
from fleet.core.model.member import Member
from fleet.core.model.plan import Answer
from fleet.core.model.unit import Phase
from fleet.core.notation.codec import decode_snapshot, encode_record, encode_snapshot, loads, now_of, replay
from fleet.core.placement.problem import Problem, VictimProblem
from fleet.core.quota.tree import QuotaNode, QuotaTree
from fleet.core.snapshot import Snapshot, SnapshotChanges
from fleet.core.solver.cpsat import CpSat
from tests.builders import GPU, NOW, member, snapshot, tree, unit
from tests.core.notation.documents import BY_HAND
from tests.core.solver.traps import TRAP


def test_a_case_written_by_hand_decides() -> None:
    world = decode_snapshot(loads(BY_HAND))
    assert [p.member for p in decide(world, now=NOW, seed=1, solver=None).placements] == ["x"]
    assert world.units["a"].components[0].requests["cpu"] == 500
    assert world.units["a"].name == "a"


def changed(path: list[Any], value: object) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(BY_HAND)
    at: Any = document
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ([], "document"),
        (changed(["version"], 9), "version"),
        (changed(["kind"], "Plan"), "kind"),
        (changed(["unit"], []), "unit"),
        (changed(["units"], {}), "units"),
        (changed(["units", 0], 7), "units[0]"),
        (changed(["units", 0, "prio"], 7), "units[0].prio"),
        (changed(["units", 0, "priority"], "high"), "units[0].priority"),
        (changed(["units", 0, "priority"], True), "units[0].priority"),
        (changed(["units", 0, "phase"], "Gone"), "units[0].phase"),
        (changed(["units", 0, "components", 0, "requests", "cpu"], "many"), "units[0].components[0].requests[cpu]"),
        (changed(["units", 0, "components", 0, "requests", "cpu"], 0.5), "units[0].components[0].requests[cpu]"),
        (changed(["units", 0, "components", 0], {"name": "w"}), "units[0].components[0].replicas"),
        (changed(["members", 0, "pools", 0, "free"], [[{}]]), "members[0].pools[0].free[0]"),
        (changed(["members"], [{"name": "x"}, {"name": "x"}]), "members"),
        (changed(["tree", "nodes"], []), "tree.nodes"),
        (changed(["tree", "nodes", "root/ml"], 3), "tree.nodes[root/ml]"),
        (changed(["tree", "nodes", "root/ml", "limit"], {}), "tree.nodes[root/ml].limit"),
        (changed(["config"], {"solve_limit_s": "long"}), "config.solve_limit_s"),
    ],
)
def test_a_bad_document_is_refused_with_its_field(document: object, field: str) -> None:
    with pytest.raises(BadSnapshot) as refused:
        decode_snapshot(document)
    assert refused.value.problems[0][0] == field


@pytest.mark.parametrize("text", ["", "{", '{"version": NaN}', "[" * 100_000])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(BadSnapshot):
        loads(text)


def test_a_name_that_stands_twice_in_one_object_is_refused_by_name() -> None:
    """The second would silently replace the first: a limit that somebody wrote would be none."""
    with pytest.raises(BadSnapshot, match="root/a"):
        loads('{"version": 1, "tree": {"root/a": {"max": {"cpu": 1}}, "root/b": {}, "root/a": {}}}')


@pytest.mark.parametrize("seconds", ["1e400", "-1e400", "1e300"])
@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"version": 1, "units": [{"id": "a", "gang": "1x1", "enqueued_at": AT}]}', "units[0].enqueued_at"),
        ('{"version": 1, "config": {"claim_s": AT}}', "config.claim_s"),
        ('{"version": 1, "now": AT}', "now"),
    ],
)
def test_a_time_that_no_clock_shows_is_refused(text: str, field: str, seconds: str) -> None:
    with pytest.raises(BadSnapshot) as refused:
        document = loads(text.replace("AT", seconds))
        now_of(document, decode_snapshot(document))
    assert refused.value.problems[0][0] == field


ROOT = QuotaNode("root", "root", None)


@pytest.mark.parametrize(
    ("world", "field"),
    [
        (
            Snapshot(
                QuotaTree("root", {"root": ROOT, "b": QuotaNode("b", "b", "c"), "c": QuotaNode("c", "c", "b")}),
            ),
            "tree.nodes[b].parent",
        ),
        (Snapshot(units={"b": unit("a").value}), "units[b].id"),
        (Snapshot(units={"a": replace(unit("a").value, phase=Phase.PLACED)}), "units[a].member"),
        (Snapshot(members={"b": Member("a")}), "members[b].name"),
        (snapshot(member("x").nodes(-3)), "members[x].pools[0].free"),
    ],
)
def test_a_snapshot_that_contradicts_itself_is_a_typed_error(world: Snapshot, field: str) -> None:
    with pytest.raises(BadSnapshot) as refused:
        decide(world, now=NOW, seed=1, solver=None)
    assert refused.value.problems[0][0] == field


class Failing:
    def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer:
        raise MemoryError


class Late:
    """Gives its answer, and word that it was cut off."""

    def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer:
        late = Cause(CauseCode.LATE, {"limit_s": limit_s})
        return replace(CpSat().solve(problem, seed=seed, limit_s=limit_s), cause=late)


@pytest.mark.parametrize("solver", [None, CpSat(), Failing(), Late()])
def test_a_decision_replays_whatever_became_of_the_solver(solver: Any) -> None:
    plan = decide(TRAP, now=NOW, seed=3, solver=solver)
    record = json.loads(json.dumps(encode_record(TRAP, plan, now=NOW, seed=3)))
    assert replay(record) == plan


def test_a_replay_can_ask_another_solver() -> None:
    plan = decide(TRAP, now=NOW, seed=3, solver=None)
    record = encode_record(TRAP, plan, now=NOW, seed=3)
    assert replay(record, solver=CpSat()).certificate.shipped == "cp-sat"


def test_a_record_without_its_seed_is_refused() -> None:
    record = encode_record(TRAP, decide(TRAP, now=NOW, seed=3, solver=None), now=NOW, seed=3)
    del record["seed"]
    with pytest.raises(BadSnapshot, match="seed: is missing"):
        replay(record)


def test_defaults_are_left_out() -> None:
    document = encode_snapshot(snapshot(unit("a"), member("x")))
    assert document["members"] == [{"name": "x"}]
    assert set(document["units"][0]) == {"id", "name", "components", "enqueued_at"}


def test_changes_leave_the_old_snapshot_alone() -> None:
    before = snapshot(unit("a"), unit("b"), member("x"))
    after = before.apply(
        SnapshotChanges(
            put_units=(unit("c").value, unit("a").priority(3).value),
            removed_units=("b", "nobody"),
            put_members=(member("y").value,),
            removed_members=("x",),
            tree=tree(ml={}),
            new_tree=True,
        )
    )
    assert (sorted(after.units), after.units["a"].priority, list(after.members)) == (["a", "c"], 3, ["y"])
    assert (sorted(before.units), before.units["a"].priority, list(before.members)) == (["a", "b"], 0, ["x"])
    assert (before.tree, after.tree) == (None, tree(ml={}))


def test_changes_give_the_same_plan_as_a_snapshot_made_whole() -> None:
    whole = snapshot(unit("a").gpus(4), unit("b").gpus(8), member("x").nodes(1), tree(ml={"max": {GPU: 4}}))
    grown = Snapshot().apply(SnapshotChanges(put_units=tuple(whole.units.values()), tree=whole.tree, new_tree=True))
    grown = grown.apply(SnapshotChanges(put_members=tuple(whole.members.values())))
    assert grown == whole
