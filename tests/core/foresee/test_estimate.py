"""When a waiting unit will start: durations and arrivals out of the past, ranges, and what cannot be said."""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random
from statistics import NormalDist

import pytest

from fleet.core.decide import decide
from fleet.core.foresee import estimate as estimating
from fleet.core.foresee.estimate import (
    BeyondHorizon,
    Estimate,
    NeverStarts,
    NotEstimated,
    ScoredEstimate,
    _near,
    estimate,
    estimates,
    of_runs,
    stretched,
)
from fleet.core.foresee.explanation import document, explain
from fleet.core.foresee.history import DAY_S, Durations, History, PastUnit, devices
from fleet.core.foresee.position import Position, first_in_line, position
from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Member, Pool
from fleet.core.model.reason import Code
from fleet.core.model.tier import Tier
from fleet.core.model.unit import Nomination
from fleet.core.snapshot import Config, Snapshot
from fleet.kinds import named_kind
from fleet.simulate.replay.trace import TraceJob, gang
from fleet.simulate.replay.world import Arrivals, units
from tests.bench.estimates import replay
from tests.builders import GPU, NOW, UnitBuilder, member, snapshot, tree, unit

HOUR = 3600.0
NOTHING = History((), NOW)


def ran(name: str, seconds: float, *, ago: float = DAY_S, gpus: int = 8, leaf: str | None = None) -> PastUnit:
    """Submitted and started `ago` seconds before now."""
    like = unit(name).gpus(gpus).queue(leaf).value
    return PastUnit(like, NOW - ago, NOW - ago, NOW - ago + seconds)


def full(*waiting: UnitBuilder, walltime_s: float = HOUR) -> Snapshot:
    """One node, taken by a unit that has run for ten minutes."""
    running = unit("runs").gpus(8).runs_in("m").having(placed_at=NOW - 600, walltime_s=walltime_s)
    return snapshot(member("m").nodes(1, free_gpu=0), running, *waiting)


def test_a_unit_that_starts_at_once_starts_now() -> None:
    world = snapshot(member("m").nodes(1), unit("u"))
    assert estimate(world, "u", NOTHING, now=NOW) == Estimate(NOW, NOW, NOW, 1)


def test_who_waits_for_one_job_starts_when_that_may_end() -> None:
    said = estimate(full(unit("u").gpus(8)), "u", NOTHING, now=NOW)
    assert isinstance(said, Estimate) and said.samples == 20
    assert NOW < said.p10 < said.p50 < (said.p90 or math.inf) <= NOW + 3000 + 60


def test_who_stands_behind_others_starts_later() -> None:
    ahead = unit("ahead").gpus(8).since(120).having(walltime_s=HOUR)
    world = full(ahead, unit("u").gpus(8))
    first, second = estimate(world, "ahead", NOTHING, now=NOW), estimate(world, "u", NOTHING, now=NOW)
    assert isinstance(first, Estimate) and isinstance(second, Estimate)
    assert first.p50 < second.p50 and first.p10 < second.p10


def test_without_walltimes_the_history_of_the_leaf_decides() -> None:
    world = snapshot(
        member("m").nodes(1, free_gpu=0),
        tree(a={}),
        unit("runs").gpus(8).queue("root/a").runs_in("m").having(placed_at=NOW - 60),
        unit("u").gpus(8).queue("root/a"),
    )

    def median(lasted: float) -> float:
        pasts = [ran(f"past{n}", lasted * (1 + n / 40), leaf="root/a", ago=DAY_S + n * 60) for n in range(40)]
        said = estimate(world, "u", History(pasts, NOW), now=NOW, samples=8)
        assert isinstance(said, Estimate)
        return said.p50 - NOW

    assert median(600) < 1500 < 3000 < median(6000)


def test_the_same_question_has_the_same_answer() -> None:
    world = full(unit("u").gpus(8))
    assert estimate(world, "u", NOTHING, now=NOW, seed=3) == estimate(world, "u", NOTHING, now=NOW, seed=3)


@pytest.mark.parametrize(
    ("world", "code"),
    [
        (snapshot(member("m").nodes(1), unit("u").gpus(8, pods=2)), Code.TOO_LARGE),
        (snapshot(member("m").nodes(1), unit("u").having(held=True)), Code.HELD),
        (snapshot(member("m").nodes(1), tree(a={"max": {GPU: 4}}), unit("u").gpus(8).queue("root/a")), None),
        (snapshot(member("m").nodes(1).not_ready(), unit("u")), Code.MEMBER_NOT_READY),
    ],
)
def test_who_cannot_start_as_things_are_never_does(world: Snapshot, code: Code | None) -> None:
    said = estimate(world, "u", NOTHING, now=NOW)
    assert isinstance(said, NeverStarts) and said.reason.code is (code or Code.QUOTA_EXHAUSTED)


STRICT, BIG = tree(a={"policy": "Block"}), unit("big").gpus(8, pods=3).queue("root/a").since(900)
BELOW = tree(p={"max": {GPU: 12}}, p__a={"max": {GPU: 16}})


@pytest.mark.parametrize(
    ("world", "code"),
    [
        (snapshot(member("m").nodes(1), STRICT, BIG, unit("u").queue("root/a")), Code.BEHIND_IN_QUEUE),
        (
            snapshot(
                member("m").nodes(2, free_gpu=4),
                BELOW,
                unit("runs").gpus(4).queue("root/p/a").runs_in("m"),
                unit("u")
                .gpus(8, pods=2)
                .queue("root/p/a"),  # runs away with all of root/p/a, and is too much for root/p
            ),
            Code.QUOTA_EXHAUSTED,
        ),
        (snapshot(member("m").nodes(1, free_gpu=0), unit("u").gpus(8)), Code.NO_MEMBER_FITS),  # nobody knows by whom
    ],
)
def test_who_would_not_start_if_all_others_ended_and_nobody_came_never_does(world: Snapshot, code: Code) -> None:
    daily = [ran(f"past{n}", HOUR, ago=DAY_S - n * 600, gpus=1) for n in range(140)]
    said = estimate(world, "u", History(daily, NOW), now=NOW, horizon_s=2 * DAY_S)
    assert isinstance(said, NeverStarts) and said.reason.code is code


def test_who_waits_for_its_turn_starts_after_those_ahead() -> None:
    """How many of a queue are considered is not the core's to know: in the runs all are."""
    turn = unit("u").gpus(8).having(held=True, waits_turn=True, held_why="root/a considers its first job only")
    said = estimate(full(unit("first").gpus(8).since(900).having(walltime_s=HOUR), turn), "u", NOTHING, now=NOW)
    assert isinstance(said, Estimate) and NOW < said.p10 < NOW + HOUR < (said.p90 or 0.0) < NOW + 2 * HOUR


def test_work_that_is_over_its_walltime_ends_nobody_knows_when() -> None:
    over = [NOTHING.runs_s(Random(n), unit("w").having(walltime_s=100.0).value, 150.0) for n in range(400)]
    assert 150.0 < min(over) < 165.0 and max(over) < 1000.0
    assert sum(length < 200.0 for length in over) == pytest.approx(200, abs=30)  # half: for as long as it is over it


def test_work_that_ends_after_the_horizon_is_beyond_it() -> None:
    said = estimate(full(unit("u").gpus(8), walltime_s=10 * DAY_S), "u", NOTHING, now=NOW, horizon_s=HOUR, samples=6)
    assert said == BeyondHorizon(NOW + HOUR, 6)


def test_an_estimate_that_takes_too_long_is_none() -> None:
    said = estimate(full(unit("u").gpus(8)), "u", NOTHING, now=NOW, enough=lambda: True)
    assert isinstance(said, NotEstimated) and "too long" in said.why


def test_a_draw_passes_on_from_what_has_not_ended_to_what_lasted_longer() -> None:
    like = Durations([(10.0, True), (20.0, False), (30.0, True)])
    drawn = [like.draw(Random(n), 0.0) for n in range(600)]
    assert {10.0, 30.0} == set(drawn)
    assert 150 < drawn.count(10.0) < 250  # a third; two thirds lasted longer than what was seen of the second
    assert {like.draw(Random(n), 10.0) for n in range(20)} == {30.0}
    assert like.draw(Random(1), 30.0) is None


def test_a_duration_is_always_longer_than_what_has_passed() -> None:
    history = History([ran(f"past{n}", 60.0 * (n + 1)) for n in range(30)], NOW)
    of = unit("u").gpus(8).value
    for ago in (0.0, 59.0, 600.0, 5000.0):
        assert all(history.runs_s(Random(n), of, ago) > ago for n in range(50))
    walled = unit("w").having(walltime_s=100.0).value
    assert all(50.0 < history.runs_s(Random(n), walled, 50.0) <= 100.0 for n in range(50))
    assert all(history.runs_s(Random(n), walled, 200.0) > 200.0 for n in range(50))


def test_what_was_not_known_yet_is_not_drawn_from() -> None:
    later = PastUnit(unit("x").gpus(8).value, NOW - 50, NOW - 40, NOW + 5)
    history = History([later, PastUnit(unit("y").value, NOW + 1)], NOW)
    assert [past.unit.id for past in history.pasts] == ["x"] and history.ended_jobs == 0


def test_arrivals_come_at_the_hours_of_past_days_in_order() -> None:
    pasts = [ran(f"day{day}", 60.0, ago=day * DAY_S - 6 * HOUR) for day in range(1, 6)]
    pasts.append(ran("first", 60.0, ago=5 * DAY_S))
    history = History(pasts, NOW)
    coming = history.arrivals(Random(1))
    first = [next(coming) for _ in range(10)]
    assert [at for at, _ in first] == sorted(at for at, _ in first)
    assert all(at >= NOW for at, _ in first)
    assert {round((at - NOW) % DAY_S / HOUR) % 24 for at, _ in first} <= {0, 6}
    assert list(NOTHING.arrivals(Random(1))) == []


def test_a_stretched_range_would_have_held_four_fifths() -> None:
    said = Estimate(NOW + 1000, NOW + 2000, NOW + 4000, 20)
    rng = Random(5)
    scores = [rng.gauss(0.0, 2.0) for _ in range(300)]
    wider = stretched(said, NOW, scores)
    assert wider.p90 is not None and wider.p10 < said.p10 < said.p50 == wider.p50 < 4000 + NOW < wider.p90
    assert stretched(said, NOW, scores[:10]) == said  # too few to learn from
    narrower = stretched(said, NOW, [score / 8 for score in scores])
    assert narrower.p90 is not None and said.p10 < narrower.p10 < said.p50 < narrower.p90 < NOW + 4000


def test_scores_are_one_at_the_ends_of_a_range() -> None:
    said = Estimate(NOW + 1000, NOW + 2000, NOW + 4000, 20)
    for started, score in ((NOW + 4000, 1.0), (NOW + 2000, 0.0), (NOW + 1000, -1.0)):
        assert ScoredEstimate(said, NOW, started).score == pytest.approx(score)


def test_ranges_that_never_held_are_stretched_to_the_horizon_and_no_further() -> None:
    said = Estimate(NOW + 1000, NOW + 1001, NOW + 1002, 20)
    missed = [ScoredEstimate(said, NOW, NOW + start).score for start in (0.0, 2_000_000.0) * 100]
    wider = stretched(Estimate(NOW + 1000, NOW + 20_000, NOW + 400_000, 20), NOW, missed)
    assert wider == Estimate(NOW, NOW + 20_000, None, 20)
    further = stretched(Estimate(NOW, NOW + 1, NOW + 2_000_000, 20), NOW, missed)
    assert further == Estimate(NOW, NOW + 1, None, 20)  # and no number is too large


def test_ranges_that_held_as_they_say_stay_as_they_are() -> None:
    said = Estimate(NOW + 1000, NOW + 2000, NOW + 4000, 20)
    normal = NormalDist(0.0, 1.0 / NormalDist().inv_cdf(0.9))
    same = stretched(said, NOW, [normal.inv_cdf((n + 0.5) / 400) for n in range(400)])
    assert same.p90 is not None and (same.p10, same.p90) == pytest.approx((said.p10, said.p90), abs=20.0)
    few = stretched(said, NOW, [normal.inv_cdf((n + 1) / 21) for n in range(20)])
    assert few.p90 is not None and (few.p10, few.p90) == pytest.approx((said.p10, said.p90), abs=30.0)


def test_runs_are_told_one_by_one_and_make_the_estimate() -> None:
    runs: list[Mapping[str, float]] = []
    said = estimates(full(unit("u").gpus(8)), ["u"], NOTHING, now=NOW, samples=6, on_run=runs.append)["u"]
    starts = sorted(run["u"] for run in runs)
    assert isinstance(said, Estimate) and said == of_runs(starts, NOW) and said.samples == len(starts) == 6
    assert said.p10 < starts[0] < said.p50 < starts[-1] < (said.p90 or 0.0)  # of six, the ends lie beyond


def test_an_end_beyond_the_horizon_is_none() -> None:
    starts = [NOW + days * DAY_S for days in (1.0, 2.0, 4.0, 8.0, 16.0, 29.0)]
    said = of_runs(starts, NOW)
    assert isinstance(said, Estimate) and said.p90 is None and NOW < said.p10 < starts[0]
    assert of_runs([NOW] * 5, NOW) == Estimate(NOW, NOW, NOW, 5)
    assert of_runs([NOW, NOW, *[math.inf] * 3], NOW) == BeyondHorizon(NOW + 30 * DAY_S, 5)


def test_those_with_a_guarantee_are_ahead_however_late_they_came() -> None:
    """Behind 520 jobs that borrow come five within their leaf's guarantee: all five go first, up to an hour each."""
    jobs = [unit(f"like-it{n:03}").gpus(8).queue("root/c").since(600).having(walltime_s=HOUR) for n in range(520)]
    entitled = [unit(f"g{n}").gpus(8).queue("root/b").since(60 - n).having(walltime_s=HOUR) for n in range(5)]
    runs = unit("runs").gpus(8).runs_in("m").having(placed_at=NOW - 600, walltime_s=HOUR)
    mine = unit("u").gpus(8).queue("root/a").since(900)
    leaves = tree(a={}, b={"min": {GPU: 8}}, c={})
    no_heads = Config(head_after_s=0)
    world = snapshot(member("m").nodes(1, free_gpu=0), leaves, runs, mine, *jobs, *entitled, no_heads)
    plan = decide(world, now=NOW, seed=0, solver=None)
    assert (found := position(world, plan, "u")) is not None and found.ahead >= 1
    alike = [PastUnit(unit(f"past{n}").value, NOW - 1, NOW - 1 - HOUR, NOW - 1) for n in range(40)]
    said = estimate(world, "u", History(alike, NOW), now=NOW, samples=5)
    assert isinstance(said, Estimate) and said.p10 > NOW + 1.2 * HOUR


def test_a_head_behind_many_others_keeps_its_room_in_every_run() -> None:
    """The jobs behind one that is asked about are left out, but not those whom the decider keeps room for."""
    world = snapshot(
        member("m").nodes(2, free_gpu=4),
        unit("runs").gpus(4).runs_in("m").having(placed_at=NOW - 600, walltime_s=HOUR),
        *(unit(f"small{n:03}").priority(-1).gpus(8).since(600) for n in range(600)),
        unit("head").priority(-2).gpus(8, pods=2).since(9000).having(head=Nomination("m", NOW - 600, NOW - 600)),
        unit("u").gpus(8),
    )
    plan = decide(world, now=NOW, seed=0, solver=None)
    near = _near(world, plan, ["u"])
    assert near is not None and "head" in near.units and len(near.units) < 520


def test_a_run_that_was_cut_short_says_how_far_it_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimating, "_EVENTS", 300)
    many = [ran(f"past{n}", 60.0, ago=DAY_S - n * 60, gpus=1) for n in range(1400)]
    said = estimate(full(unit("u").gpus(8), walltime_s=9 * DAY_S), "u", History(many, NOW), now=NOW, samples=5)
    assert isinstance(said, BeyondHorizon) and NOW + HOUR < said.horizon < NOW + DAY_S


def test_what_starts_with_the_next_decision_is_not_improved() -> None:
    world = snapshot(member("m").nodes(1), unit("u"))
    said = explain(world, "u", NOTHING, now=NOW, improve=lambda _: Estimate(0.0, 0.0, 0.0, 20))
    assert said.outcome == Estimate(NOW, NOW, NOW, 1)


def test_devices_are_counted_over_the_gang() -> None:
    assert devices(unit("u").gpus(8, pods=3).value) == 24


def test_a_place_counts_the_leaf_and_what_is_ahead_the_whole_fleet() -> None:
    world = snapshot(
        member("m").nodes(1, free_gpu=0),
        tree(a={}, b={}),
        unit("urgent").gpus(8).queue("root/b").priority(5),
        unit("old").gpus(8).queue("root/a").since(900),
        unit("held").gpus(8).queue("root/a").since(9000).having(held=True),
        unit("u").gpus(8).queue("root/a"),
    )
    plan = decide(world, now=NOW, seed=0, solver=None)
    assert position(world, plan, "u") == Position(2, 2, 2, Tier.BORROWED)
    assert position(world, plan, "held") is None and position(world, plan, "nobody") is None
    units = {u.id: u for u in world.units.values()}
    lines = {"root/a": [units["old"], units["u"]], "root/b": [units["urgent"]]}
    assert first_in_line(units.values(), plan.reasons, 9) == lines
    assert first_in_line(units.values(), plan.reasons, 1) == {leaf: line[:1] for leaf, line in lines.items()}


def test_an_explanation_says_everything_as_json() -> None:
    world = full(unit("ahead").gpus(8).since(900), unit("u").gpus(8, pods=1))
    said = document(explain(world, "u", NOTHING, now=NOW), named_kind)
    assert (said["job"], said["starts"], said["reason"]["code"]) == ("default/u", False, "NoMemberFits")
    assert said["position"] == {"place": 2, "of": 2, "ahead": 1, "tier": None}
    assert said["estimate"]["outcome"] == "Estimate" and said["estimate"]["p10"] <= said["estimate"]["p50"]
    assert ("MoreNodes", 2.0) in {(change["kind"], change["cost"]) for change in said["changes"]}


def test_an_explanation_without_time_has_reason_and_position_only() -> None:
    said = explain(full(unit("u").gpus(8)), "u", NOTHING, now=NOW, elapsed_s=lambda: 9.0, limit_s=5.0)
    assert said.position == Position(1, 1, 0, None) and said.answer.reason is not None
    assert isinstance(said.outcome, NotEstimated) and not said.answer.changes


def test_ranges_hold_on_a_stream_of_jobs_whose_durations_are_drawn_anew() -> None:
    """A small fleet with jobs of the same leaf: of the starts that are estimated along the way, most lie in range."""

    rng = Random(12)
    jobs = [TraceJob(f"j{n:03}", "leaf", n * 700.0, rng.lognormvariate(7.5, 1.0), 8, gang(8)) for n in range(120)]
    node = Amounts.of({GPU: 8, "pods": 10})
    place = Member("m", pools=(Pool(free=((node, 4),), allocatable=node),))
    empty = Snapshot.of(members=[place], tree=tree(leaf={}))
    points, truth = replay(jobs, units(jobs, Arrivals(overestimate=None), 1), empty, 10, 2, rng)
    held = asked = 0
    for at_once in points:
        snapshot_then, then = at_once[0].snapshot, at_once[0].at
        said = estimates(snapshot_then, [p.unit for p in at_once], truth.history(then), now=then, samples=8)
        for unit_id, outcome in said.items():
            assert isinstance(outcome, Estimate)
            asked += 1
            held += outcome.p10 - 1 <= truth.started[unit_id] <= (outcome.p90 or math.inf) + 1
    assert asked >= 15 and 0.65 <= held / asked <= 0.95
