"""The backlog: an index that is handed on is the one that would be made anew, and what is alike really is."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.core.decide import decide
from fleet.core.model.amounts import Amounts
from fleet.core.model.rule import PlacementRule
from fleet.core.model.unit import (
    AffinityGroup,
    Claim,
    Component,
    ElasticSizes,
    Nomination,
    Phase,
    Seat,
    Toleration,
    Unit,
)
from fleet.core.snapshot import Snapshot, SnapshotChanges
from fleet.core.snapshot.backlog import Backlog, is_odd, lot_key
from tests.builders import NOW, member, snapshot, tree, unit
from tests.worlds import units, worlds

many = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


def said(backlog: Backlog) -> list[object]:
    """All that a backlog says."""
    lots = {key: (list(map(id, lot.units)), list(lot.ids), lot.gang) for key, lot in backlog.lots.items()}
    return [lots, backlog.odd, backlog.holding, backlog.holders, backlog.unseen, backlog.sized, backlog.wrong]


@st.composite
def changes(draw: st.DrawFn) -> SnapshotChanges:
    numbers = st.lists(st.integers(0, 12), max_size=4, unique=True)
    put = [draw(units(number)).value for number in draw(numbers)]
    return SnapshotChanges(
        put_units=tuple(put),
        removed_units=tuple(f"u{number}" for number in draw(numbers)),
        tree=tree(a={"attributes": {"fleet.io/user-max": '{"nvidia.com/gpu": 4}'}}),
        new_tree=draw(st.sampled_from((False, False, False, True))),
    )


@many
@given(worlds(), st.lists(changes(), min_size=1, max_size=4))
def test_an_index_that_is_handed_on_is_the_one_that_would_be_made_anew(
    world: Snapshot, steps: list[SnapshotChanges]
) -> None:
    for step in steps:
        before = said(world.backlog)
        after = world.apply(step)
        assert said(after.backlog) == said(Backlog.of(after.tree, after.units))
        assert said(world.backlog) == before == said(Backlog.of(world.tree, world.units))
        follower = Snapshot(after.tree, dict(after.units), after.members, after.config).following(world)
        assert said(follower.backlog) == said(after.backlog)
        world = after


@many
@given(worlds(), changes())
def test_a_plan_does_not_depend_on_how_its_snapshot_came_about(world: Snapshot, step: SnapshotChanges) -> None:
    assert world.backlog
    after = world.apply(step)
    again = {key: after.units[key] for key in reversed(list(after.units))}
    anew = Snapshot(after.tree, again, {name: after.members[name] for name in sorted(after.members)}, after.config)
    assert anew == after
    plans = [decide(there, now=NOW, seed=1, solver=None) for there in (after, anew)]
    assert plans[0] == plans[1]


def test_units_alike_wait_by_turn_whenever_they_came() -> None:
    world = snapshot(*(unit(f"u{i}").since(i % 7) for i in range(40)))
    assert world.backlog
    late = tuple(unit(f"v{i}").since(i % 7).value for i in range(3))
    (lot,) = world.apply(SnapshotChanges(put_units=late, removed_units=("u7", "u3"))).backlog.lots.values()
    assert list(lot.units) == sorted(lot.units, key=lambda u: (u.enqueued_at, u.name, u.id))
    assert len(lot.units) == 41


ALIKE: dict[str, Any] = {  # another value for each field that a decision asks a waiting unit about
    "components": (Component("worker", 2, Amounts.of({"cpu": 1})),),
    "leaf": "root/b",
    "priority": 3,
    "preemptible": False,
    "affinity_groups": (AffinityGroup("g", frozenset({"x"})),),
    "tolerations": (Toleration("k"),),
    "needs_kind": "g/K",
    "excluded": frozenset({"x"}),
    "avoid": frozenset({"y"}),
    "preferences": (("x", 1),),
    "rules": (PlacementRule("rack"),),
    "sizes": ElasticSizes((Component("worker", 2, Amounts()),), (("worker", 1),)),
    "held": True,
    "suspended": True,
}
ODD: dict[str, Any] = {
    "backoff_until": 1.0,
    "claim": Claim("x", 1.0),
    "head": Nomination("x", 1.0, 2.0),
}
TURN = {"id", "name", "enqueued_at"}
OF_THE_HELD = {"held_why", "after", "waits_turn", "release_helps"}
NOT_ASKED = {  # of a waiting unit that is not odd
    "created_at",
    "member",
    "placed_at",
    "share_until",
    "visible",
    "failed_why",
    "attempts",
    "seats",
    "checkpoint_at",
    "generation",
    "phase",
    "leaving_at",
    "leaving_s",
}
EACH_IS_ASKED = {"user", "walltime_s"}


def test_every_field_of_a_unit_makes_its_kind_its_turn_or_makes_it_odd_or_is_not_asked() -> None:
    known = (ALIKE.keys(), ODD.keys(), TURN, OF_THE_HELD, NOT_ASKED, EACH_IS_ASKED)
    assert sorted(name for names in known for name in names) == sorted(field.name for field in fields(Unit))


def test_units_that_differ_in_what_is_asked_are_not_alike() -> None:
    plain = unit("a").queue("root/a").value
    for name, value in ALIKE.items():
        assert lot_key(replace(plain, **{name: value})) != lot_key(plain), name
    for name, value in ODD.items():
        assert is_odd(replace(plain, **{name: value})), name
    held = replace(plain, held=True)
    values: tuple[dict[str, Any], ...] = ({"held_why": "full"}, {"after": True}, {"waits_turn": True})
    for other in (replace(held, **value) for value in (*values, {"release_helps": False})):
        assert lot_key(other) != lot_key(held)
    assert lot_key(replace(plain, user="alice", walltime_s=1.0)) == lot_key(replace(plain, user="bob"))


def test_equal_snapshots_are_equal_whether_or_not_they_were_indexed() -> None:
    one, two = (snapshot(unit("a"), member("x").nodes(1)) for _ in range(2))
    assert one.backlog.lots
    assert one == two
    assert replace(one, units={}).backlog.lots == {}


def test_pods_that_the_inventory_does_not_show_are_known() -> None:
    whole, half = unit("a").gpus(1, pods=2).runs_in("x"), unit("b").gpus(1, pods=2).runs_in("x", visible=1)
    backlog = snapshot(whole, half.having(seats=(Seat("n", 0, Amounts(), Amounts()),)), member("x").nodes(1)).backlog
    assert list(backlog.unseen) == ["b"]
    assert [held.count for held in backlog.holders.values()] == [2]
    assert all(u.phase is Phase.PLACED for u in backlog.holding.values())
