"""What-if: each edit does what it says, nobody else is touched, and the times are those of the runs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.core.check import check
from fleet.core.decide import BadSnapshot, decide
from fleet.core.foresee.edits import (
    AddMember,
    BadEdit,
    CordonMember,
    DrainMember,
    Edit,
    Hold,
    LoseMember,
    MoveTo,
    Prioritize,
    Remove,
    ReplaceTree,
    Resize,
    Scale,
    SetLimit,
    Submit,
    edited,
)
from fleet.core.foresee.forward import by_walltime
from fleet.core.foresee.history import History, PastUnit
from fleet.core.foresee.whatif import drawn
from fleet.core.model.cause import Cause, CauseCode
from fleet.core.model.difference import UnitState, Verdict
from fleet.core.model.member import TAINT_DRAIN, Taint
from fleet.core.model.reason import Code
from fleet.core.model.unit import Phase, Seat
from fleet.core.quota.tree import QuotaTree
from fleet.core.snapshot import Config, Snapshot
from fleet.core.solver.cpsat import CpSat
from tests.builders import GPU, NOW, UnitBuilder, amounts, member, snapshot, tree, unit
from tests.core.foresee.comparison import asked, running
from tests.worlds import worlds


def said(world: Snapshot, *edits: Edit, **how: object) -> dict[str, Verdict]:
    found = asked(world, *edits, **how)
    return {row.unit.id: row.verdict for row in found.rows}


FULL = snapshot(running("a"), running("b", hours=2), unit("big").gpus(8, pods=2), member("x").nodes(2))
"""Member x is full; `big` wants both its nodes."""


def test_another_member_starts_who_waited_for_room() -> None:
    found = asked(FULL, AddMember(member("y").nodes(2).value))
    [row] = found.rows
    assert (row.unit.id, row.verdict, row.after.member) == ("big", Verdict.STARTS, "y")
    assert row.before.reason is not None and row.before.reason.code is Code.NO_MEMBER_FITS
    assert row.before.when is not None and row.before.when.p50 == pytest.approx(NOW + 7200 - 600)
    assert row.after.when is not None and row.after.when.p50 == NOW


def test_the_jobs_of_a_drained_member_start_elsewhere_or_wait() -> None:
    found = asked(FULL, AddMember(member("y").nodes(1).value), DrainMember("x"))
    assert {row.unit.id: row.verdict for row in found.rows} == {
        "a": Verdict.MOVES,
        "b": Verdict.STOPS,
        "big": Verdict.LATER,
    }
    assert all(unit.member is None for unit in found.snapshot.units.values())


def test_no_new_job_starts_in_a_cordoned_member_until_it_is_uncordoned() -> None:
    world = snapshot(running("a"), unit("next").gpus(8), member("x").nodes(2))
    assert said(world, CordonMember("x")) == {"next": Verdict.WAITS}
    assert said(edited(world, [CordonMember("x")]), CordonMember("x", cordoned=False)) == {"next": Verdict.STARTS}
    drained = snapshot(unit("next").gpus(8), member("x").nodes(2).having(taints=(Taint(TAINT_DRAIN, "", "NoExecute"),)))
    assert said(drained, CordonMember("x", cordoned=False)) == {"next": Verdict.STARTS}


def test_the_jobs_of_a_lost_member_stay_where_they_are_and_keep_their_quota() -> None:
    world = snapshot(
        running("a").queue("root/q"),
        unit("next").gpus(8).queue("root/q"),
        member("x").nodes(1),
        member("y").nodes(1),
        tree(q={"max": {GPU: 8}}),
    )
    found = asked(world, LoseMember("x"))
    by_id = {row.unit.id: row for row in found.rows}
    assert by_id["a"].verdict is Verdict.UNREACHABLE
    assert by_id["a"].after.reason is not None and by_id["a"].after.reason.code is Code.MEMBER_UNREACHABLE
    assert found.after.reasons["next"].code is Code.QUOTA_EXHAUSTED
    assert by_id["next"].verdict is Verdict.LATER  # nobody knows when `a` ends now


def test_jobs_whose_policy_says_so_leave_a_lost_member() -> None:
    world = snapshot(running("a"), running("b"), member("x").nodes(2), member("y").nodes(2))
    assert said(world, LoseMember("x", frozenset({"a"}))) == {"a": Verdict.MOVES, "b": Verdict.UNREACHABLE}
    assert said(world, LoseMember("x", None)) == {"a": Verdict.MOVES, "b": Verdict.MOVES}


def test_more_quota_starts_who_waited_for_it() -> None:
    world = snapshot(unit("a").gpus(8).queue("root/q"), member("x").nodes(1), tree(q={"max": {GPU: 4}}))
    assert said(world, SetLimit("root/q", "max", GPU, 8)) == {"a": Verdict.STARTS}
    assert said(world, SetLimit("root/q", "max", GPU, None)) == {"a": Verdict.STARTS}
    assert said(world, SetLimit("root/q", "max", GPU, 7)) == {}


def test_a_misspelt_resource_is_answered_with_the_likely_name_and_a_new_one_is_taken() -> None:
    world = snapshot(unit("a").gpus(8).queue("root/q"), member("x").nodes(1), tree(q={"max": {GPU: 4}}))
    for misspelt in ("nvidia.com/gpus", "gpu"):
        with pytest.raises(BadEdit, match=f"has or asks for {misspelt}; did you mean {GPU}"):
            asked(world, SetLimit("root/q", "max", misspelt, 8))
    assert said(world, SetLimit("root/q", "max", "example.com/licence", 8)) == {}


def test_less_quota_makes_wait_who_would_start() -> None:
    world = snapshot(unit("a").gpus(8).queue("root/q"), member("x").nodes(1), tree(q={}))
    assert said(world, SetLimit("root/q", "max", GPU, 4)) == {"a": Verdict.WAITS}
    assert said(world, ReplaceTree(None)) == {"a": Verdict.WAITS}


def test_a_submitted_job_comes_first_in_the_answer_with_who_it_displaces() -> None:
    world = snapshot(unit("a").gpus(8), member("x").nodes(1))
    found = asked(world, Submit(unit("new").gpus(8).priority(9).value))
    assert [(row.unit.id, row.verdict) for row in found.rows] == [("new", Verdict.STARTS), ("a", Verdict.WAITS)]
    assert found.rows[0].before.state is UnitState.ABSENT


def test_reclaim_is_foreseen_with_who_leaves_and_when_it_starts_again() -> None:
    world = snapshot(
        running("a1").queue("root/a"),
        running("a2").queue("root/a"),
        member("x").nodes(2),
        tree(a={"min": {GPU: 8}}, b={"min": {GPU: 8}}),
        Config(reclaim=True, protection_s=0),
    )
    mine = unit("b").gpus(8).queue("root/b").having(walltime_s=60.0)
    found = asked(world, Submit(mine.value))
    leaving = next(row for row in found.rows if row.verdict is Verdict.LEAVES)
    waits = next(row for row in found.rows if row.unit.id == "b")
    assert waits.after.reason is not None and waits.after.reason.code is Code.ROOM_CLAIMED
    assert waits.after.when is not None and leaving.after.when is not None
    assert NOW < waits.after.when.p50 < leaving.after.when.p50 < NOW + 600


def test_nodes_more_and_fewer() -> None:
    assert said(FULL, Scale("x", 0, 2)) == {"big": Verdict.STARTS}
    spare = snapshot(unit("a").gpus(8), member("x").nodes(1))
    assert said(spare, Scale("x", 0, -1)) == {"a": Verdict.WAITS}


def test_nodes_that_a_pool_names_twice_are_counted_together() -> None:
    made = member("x").nodes(1).value
    (vector, _) = made.pools[0].free[0]
    twice = replace(made, pools=(replace(made.pools[0], free=((vector, 1), (vector, 2))),))
    world = Snapshot(members={"x": twice})
    assert edited(world, [Scale("x", 0, 1)]).members["x"].pools[0].free == ((vector, 4),)
    assert edited(world, [Scale("x", 0, -2)]).members["x"].pools[0].free == ((vector, 1),)


def test_nodes_that_somebody_is_on_the_way_to_are_not_empty() -> None:
    """As in a file by hand, which says who runs where and not on which nodes."""
    world = snapshot(unit("a").gpus(8, pods=2).runs_in("x", visible=0), member("x").nodes(3))
    assert edited(world, [Scale("x", 0, -1)]).members["x"].pools[0].free[0][1] == 2
    with pytest.raises(BadEdit, match="member x needs these nodes for default/a"):
        edited(world, [Scale("x", 0, -2)])


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (Resize("a", "master", 1), "has no master; it has: worker"),
        (Resize("a", "worker", 0), "is not between 1 and"),
    ],
)
def test_a_size_that_a_job_cannot_have_is_refused(edit: Resize, says: str) -> None:
    with pytest.raises(BadEdit, match=says):
        edited(snapshot(unit("a"), member("x").nodes(1)), [edit])


def test_what_a_person_does_to_a_job() -> None:
    rivals = snapshot(unit("a").gpus(8).since(90), unit("b").gpus(8), member("x").nodes(1))
    assert said(rivals, Prioritize("b", 5)) == {"a": Verdict.WAITS, "b": Verdict.STARTS}
    assert said(rivals, Hold("a")) == {"a": Verdict.WAITS, "b": Verdict.STARTS}
    assert said(rivals, Remove("a")) == {"a": Verdict.REMOVED, "b": Verdict.STARTS}
    queues = snapshot(unit("a").queue("root/p"), member("x").nodes(1), tree(p={"jobs": 0}, q={}))
    assert said(queues, MoveTo("a", "root/q")) == {"a": Verdict.STARTS}
    held = snapshot(unit("a").having(held=True), member("x").nodes(1))
    assert said(held, Hold("a", held=False)) == {"a": Verdict.STARTS}
    large = snapshot(unit("a").gpus(8, pods=2), member("x").nodes(1))
    assert said(large, Resize("a", "worker", 1)) == {"a": Verdict.STARTS}


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (AddMember(member("x").value), "member x is there already"),
        (CordonMember("z"), "there is no member z"),
        (DrainMember("z"), "there is no member z"),
        (LoseMember("z"), "there is no member z"),
        (Scale("x", 3, 1), "has no pool 3"),
        (Scale("x", 0, -5), "has 2 empty nodes, not 5"),
        (SetLimit("root/q", "max", GPU, 1), "there is no quota tree"),
        (Submit(unit("a").value), "is there already"),
        (Remove("nobody"), "there is no job nobody"),
        (Prioritize("a", 1), "does not wait: it runs in x"),
        (Prioritize("big", 2**31), "is not between -2147483648 and 2147483647"),
        (MoveTo("big", "root/q"), "there is no quota tree"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused(edit: Edit, says: str) -> None:
    with pytest.raises(BadEdit, match=says):
        edited(FULL, [edit])


def test_limits_that_contradict_themselves_are_refused() -> None:
    world = snapshot(tree(q={"min": {GPU: 8}}))
    for edit in (SetLimit("root/q", "max", GPU, 4), SetLimit("root/z", "max", GPU, 4), SetLimit("root", "top", GPU, 1)):
        with pytest.raises(BadEdit):
            edited(world, [edit])


@pytest.mark.parametrize(
    ("leaf", "says"),
    [
        ("root/spech", "the quota tree has no node root/spech; did you mean root/speech?"),
        ("speech", "the quota tree has no node speech; did you mean root/speech?"),
        ("elsewhere", "the quota tree has no node elsewhere; it has: root, root/speech, root/vision"),
        ("root", "root is no leaf of the quota tree: jobs wait in leaves alone"),
    ],
)
def test_a_job_moves_to_a_leaf_of_the_tree_alone(leaf: str, says: str) -> None:
    world = snapshot(unit("a").queue("root/vision"), member("x").nodes(1), tree(vision={}, speech={}))
    with pytest.raises(BadEdit) as refused:
        edited(world, [MoveTo("a", leaf)])
    assert (str(refused.value), refused.value.field) == (says, "leaf")


def test_a_limit_of_the_root_is_its_min_and_its_max_as_a_hub_demands_it() -> None:
    world = snapshot(unit("a").gpus(8).queue("root/q"), member("x").nodes(1), tree(q={}))
    assert world.tree is not None
    root = replace(world.tree.nodes["root"], min={GPU: 4, "cpu": 1000}, max={GPU: 4, "cpu": 1000})
    given = QuotaTree("root", {**world.tree.nodes, "root": root})
    for limit in ("min", "max"):
        after = edited(replace(world, tree=given), [SetLimit("root", limit, GPU, 8)]).tree
        assert after is not None
        assert after.nodes["root"].min == after.nodes["root"].max == {GPU: 8, "cpu": 1000}
    free = edited(world, [SetLimit("root", "max", GPU, 8)]).tree  # a tree by hand, whose root promises nothing
    assert free is not None and (free.nodes["root"].min, free.nodes["root"].max) == ({}, {GPU: 8})


def test_a_tree_that_is_none_is_a_bad_snapshot() -> None:
    with pytest.raises(BadSnapshot):
        asked(FULL, ReplaceTree(QuotaTree("root", {})))


def test_who_waits_for_work_without_a_walltime_has_no_time() -> None:
    world = snapshot(running("a").having(walltime_s=None), unit("b").gpus(8), member("x").nodes(1))
    found = asked(world, Prioritize("b", 3), Submit(unit("c").gpus(8).value))
    assert {row.unit.id: row.after.when for row in found.rows} == {"c": None}
    guessed = asked(world, Submit(unit("c").gpus(8).value), runs=(by_walltime(3600.0),))
    assert [row.after.when.p50 for row in guessed.rows if row.after.when] == [NOW + 3000 + 3600]


def test_times_drawn_from_a_past_are_ranges() -> None:
    past = [
        PastUnit(unit(f"p{n}").gpus(8).value, NOW - 9000, NOW - 9000, NOW - 9000 + 700 + 100 * n) for n in range(30)
    ]
    world = snapshot(running("a").having(walltime_s=None), member("x").nodes(1))
    runs = [drawn(History(past, NOW), 1, number) for number in range(9)]
    [row] = asked(world, Submit(unit("b").gpus(8).value), runs=runs).rows
    assert row.after.when is not None
    when = row.after.when
    assert NOW < when.p10 < when.p50 < NOW + 4000 and when.p50 < when.p90 < math.inf  # one in some lasts longer


def test_what_takes_too_long_is_told_as_far_as_it_was_run() -> None:
    found = asked(FULL, Scale("x", 0, 2), Submit(unit("c").gpus(8).value), enough=lambda: True)
    assert {row.unit.id: row.after.when is not None for row in found.rows} == {"big": True, "c": False}
    assert NOW <= found.until < NOW + 60
    whole = asked(FULL, Scale("x", 0, 2), Submit(unit("c").gpus(8).value))
    assert all(row.after.when is not None for row in whole.rows)
    assert asked(FULL, Scale("x", 0, 1), runs=()).no_times == "no times were asked for"


def test_the_solver_is_asked_when_it_is_given() -> None:
    found = asked(FULL, Submit(unit("c").gpus(8).value), solver=CpSat())
    assert all(Cause(CauseCode.NOT_ASKED) not in plan.certificate.causes for plan in (found.before, found.after))


def test_seats_of_a_drained_member_are_left() -> None:
    seat = Seat("n1", 0, amounts(cpu=1), amounts(gpu=8))
    mine = running("a").having(seats=(seat,), visible=(("worker", 1),))
    left = edited(snapshot(mine, member("x").nodes(1)), [DrainMember("x")]).units["a"]
    assert (left.phase, left.seats, left.visible, left.attempts) == (Phase.WAITING, (), (), 1)


def test_a_job_that_is_removed_leaves_its_seats_to_who_waits() -> None:
    """The inventory shows what its pods leave free, its seats what they hold; another sits beside it."""
    shared = member("x").nodes(1, free_gpu=0)
    free = shared.value.pools[0].free[0][0]

    def sits(name: str) -> UnitBuilder:
        made = unit(name).gpus(4).runs_in("x")
        return made.having(seats=(Seat("n1", 0, free, made.value.components[0].requests),))

    world = snapshot(sits("a"), sits("b"), unit("big").gpus(8), unit("small").gpus(4), shared)
    assert said(world, Remove("a")) == {"a": Verdict.REMOVED, "small": Verdict.STARTS}
    assert said(world, Remove("a"), Remove("b"), Remove("small"))["big"] is Verdict.STARTS


@settings(max_examples=40, deadline=None)
@given(worlds())
def test_an_edit_that_changes_nothing_makes_no_difference(world: Snapshot) -> None:
    assert asked(world, ReplaceTree(world.tree)).rows == ()


@settings(max_examples=40, deadline=None)
@given(worlds(), st.sampled_from(("x", "y", "z")))
def test_the_answer_is_what_deciding_the_edited_fleet_gives(world: Snapshot, name: str) -> None:
    edit = DrainMember(name) if name in world.members else AddMember(member(name).nodes(2).value)
    found = asked(world, edit, runs=())
    after = decide(edited(world, [edit]), now=NOW, seed=1, solver=None)
    assert found.after == after
    starting = {row.unit.id for row in found.rows if row.after.state is UnitState.STARTS}
    assert starting <= {placement.unit for placement in after.placements}


@st.composite
def questions(draw: st.DrawFn) -> tuple[Snapshot, list[Edit]]:
    """A small fleet and edits of what it has, and of what it has not."""
    world = draw(worlds())
    names, jobs = st.sampled_from([*world.members, "nowhere"]), st.sampled_from([*world.units, "nobody"])
    nodes = st.sampled_from([*(world.tree.nodes if world.tree is not None else ()), "root/none"])
    amount = st.sampled_from((None, 0, 4, 16))
    one: st.SearchStrategy[Edit] = st.one_of(
        st.builds(CordonMember, names, st.booleans()),
        st.builds(DrainMember, names),
        st.builds(LoseMember, names, st.sampled_from((frozenset(), None))),
        st.just(AddMember(member("new").nodes(2).value)),
        st.builds(Scale, names, st.integers(0, 2), st.integers(-2, 3)),
        st.builds(SetLimit, nodes, st.sampled_from(("min", "max")), st.sampled_from((GPU, "cpu")), amount),
        st.builds(Remove, jobs),
        st.builds(Hold, jobs, st.booleans()),
        st.builds(Prioritize, jobs, st.integers(-1, 9)),
        st.builds(MoveTo, jobs, nodes),
        st.builds(Resize, jobs, st.just("worker"), st.integers(0, 3)),
        st.just(Submit(unit("new").gpus(4, pods=2).value)),
    )
    return world, draw(st.lists(one, min_size=1, max_size=4))


@settings(max_examples=60, deadline=None)
@given(questions())
def test_any_question_is_refused_or_answered_soundly(question: tuple[Snapshot, list[Edit]]) -> None:
    world, edits = question
    try:
        found = asked(world, *edits, runs=(by_walltime(3600.0),))
    except BadEdit as error:
        assert str(error)
        return
    assert check(found.snapshot, found.after, now=NOW) == ()
    assert len({row.unit.id for row in found.rows}) == len(found.rows)
    starts = [row.after.when.p50 for row in found.rows if row.after.when is not None]
    assert all(start >= NOW for start in starts)
