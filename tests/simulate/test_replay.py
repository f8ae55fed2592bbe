"""Replays of small traces with known answers: each policy does what its definition says, and each figure too."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.core.foresee.forward import Stop, UnitEventKind
from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Member, Pool
from fleet.core.snapshot import Config
from fleet.simulate.replay import metrics, world
from fleet.simulate.replay.policies import Policy
from fleet.simulate.replay.run import Options, ReplayResult, replay
from fleet.simulate.replay.trace import GPU, TraceJob, gang

HOUR = 3600.0


def job(name: str, at: float, runs: float, gpus: int, queue: str = "a") -> TraceJob:
    return TraceJob(name, queue, at, runs, gpus, gang(gpus))


def nodes(count: int, gpus: int = 8) -> list[world.WorldNode]:
    return [world.WorldNode("A", Amounts.of({GPU: gpus}))] * count


def run(
    policy: Policy,
    jobs: list[TraceJob],
    members: int = 1,
    each: int = 1,
    *,
    seed: int = 0,
    quota: world.Quota | None = None,
    overestimate: float | None = 1.0,
    **options: Any,
) -> tuple[ReplayResult, dict[str, Any]]:
    """On `members` members of `each` nodes with 8 GPUs, decided as soon as something happens."""
    tree = world.tree(jobs, nodes(members * each), quota or world.Quota(guarantee=0.0))
    made = [
        Member(f"m{n}", pools=(Pool(free=((Amounts.of({GPU: 8}), each),), allocatable=Amounts.of({GPU: 8})),))
        for n in range(members)
    ]
    options = {"cycle_s": 0.0, "policy": policy, "seed": seed, **options}
    units = world.units(jobs, world.Arrivals(overestimate=overestimate), seed)
    done = replay(jobs, units, made, tree, Options(**options))
    return done, metrics.report(done, tree, metrics.series(done, tree))


def starts(done: ReplayResult) -> dict[str, float]:
    """By job, the seconds after the beginning at which it first started."""
    found: dict[str, float] = {}
    for event in done.log:
        if event.what is UnitEventKind.STARTED:
            found.setdefault(event.unit, event.at - world.ZERO)
    return found


# `big` waits for `long`; `small` would end before that, `late` would not.
STORY = [
    job("long", 0, 100, 4),
    job("big", 1, 10, 8),
    job("small", 2, 50, 4),
    job("late", 3, 200, 4),
]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Policy.fifo, {"long": 0, "big": 100, "small": 110, "late": 110}),
        (Policy.backfill, {"long": 0, "big": 100, "small": 2, "late": 110}),
        (Policy.race, {"long": 0, "big": 252, "small": 2, "late": 52}),
    ],
)
def test_each_policy_starts_whom_its_definition_says(policy: Policy, expected: dict[str, float]) -> None:
    done, _ = run(policy, STORY)
    assert done.stopped is Stop.DONE
    assert starts(done) == expected


def test_backfill_lets_long_work_in_where_it_fits_beside_the_head() -> None:
    jobs = [job("long", 0, 100, 16), job("half", 0.5, 1000, 8), job("big", 1, 10, 16), job("beside", 2, 500, 8)]
    done, _ = run(Policy.backfill, jobs, each=4)
    assert starts(done) == {"long": 0, "half": 0.5, "big": 100, "beside": 2}


def test_backfill_keeps_one_member_only_and_the_others_are_free_for_anybody() -> None:
    jobs = [job("x", 0, 100, 16), job("y", 0, 300, 4), job("big", 1, 10, 16), job("long", 2, 500, 8)]
    done, _ = run(Policy.backfill, jobs, members=2, each=2)
    assert starts(done) == {"x": 0, "y": 0, "big": 100, "long": 2}


def test_backfill_believes_walltimes_and_without_them_lets_nobody_pass_but_beside_the_head() -> None:
    early, _ = run(Policy.backfill, STORY, overestimate=3.0)
    assert starts(early)["small"] == 2, "three times 50 s still end before three times 100"
    blind, _ = run(Policy.backfill, STORY, overestimate=None)
    assert starts(blind)["big"] > starts(blind)["small"], "a head that nobody can promise a time holds nothing"


def test_fleet_starts_what_fits_and_owners_take_back_what_they_were_promised() -> None:
    jobs = [job("b1", 0, 10 * HOUR, 8, "b"), job("b2", 0, 20 * HOUR, 8, "b"), job("a1", 2 * HOUR, HOUR, 8, "a")]
    quota = world.Quota(min={"a": 8, "b": 0})
    options: dict[str, Any] = {"config": Config(reclaim=True), "grace_s": 60.0, "checkpoint_s": HOUR}
    done, said = run(Policy.fleet, jobs, each=2, quota=quota, **options)
    assert done.stopped is Stop.DONE
    assert starts(done) == {"b1": 0, "b2": 0, "a1": 2 * HOUR + 60}
    assert said["evictions"] == 1
    assert said["lost_gpu_h"] == 0, "evicted at a whole hour: its last checkpoint"
    assert said["wait_s_by_leaf"]["a"]["max"] == 60
    assert said["unmet"]["leaves"]["a"]["longest_s"] == 0, "eight short of eight is its next unit and no more"
    unlucky, lost = run(Policy.fleet, jobs, each=2, quota=quota, **{**options, "checkpoint_s": 0.0})
    assert lost["lost_gpu_h"] == 2 * 8
    victim = next(event.unit for event in unlucky.log if event.what is UnitEventKind.EVICTED)
    ended = {event.unit: event.at - world.ZERO for event in unlucky.log if event.what is UnitEventKind.ENDED}
    assert ended[victim] == 3 * HOUR + 60 + (10 if victim == "b1" else 20) * HOUR, "everything is done again"


def test_gpus_count_as_kept_while_a_reservation_keeps_them_from_a_job_that_waits() -> None:
    jobs = [job("runs", 0, 2 * HOUR, 8), job("big", 1, HOUR, 16), job("long", 900, 3 * HOUR, 8, "b")]
    done, said = run(Policy.fleet, jobs, each=2)
    assert starts(done) == {"runs": 0, "big": 2 * HOUR, "long": 3 * HOUR}
    assert said["kept_gpu_h"] == round(8 * (2 * HOUR - 900) / HOUR, 3), "from its arrival until the head starts"
    _, ends_in_time = run(Policy.fleet, [*jobs[:2], job("short", 900, HOUR, 8, "b")], each=2)
    assert ends_in_time["kept_gpu_h"] == 0


def test_the_figures_of_a_story_are_what_one_counts_by_hand() -> None:
    _, said = run(Policy.fifo, STORY)
    waits = [0, 99, 108, 107]
    assert said["wait_s"] == {"n": 4, "mean": 78.5, "p50": 103.0, "p95": 107.8, "p99": 108.0, "max": 108.0}
    assert said["wait_s_by_gpus"]["8"]["mean"] == 99
    assert said["wait_s_by_leaf"] == {"a": said["wait_s"]}
    assert said["jct_s"]["mean"] == (sum(waits) + 100 + 10 + 50 + 200) / 4
    assert said["delay_s"]["mean"] == 78.5
    assert said["makespan_s"] == 310
    assert said["allocated"] == 0.5, "four of eight GPUs from the first arrival to the last"
    assert (said["ended"], said["evictions"], said["stopped"]) == (4, 0, "DONE")


def test_a_leaf_is_owed_from_when_its_next_unit_would_fit_its_promise_until_it_does_not() -> None:
    """8 GPUs; b fills them for 100 s. a is promised 4: its first job of 4 is what it may be short of, with a second
    of 2 it is still within; jobs of 1 and 2 of them waiting make it owed 2 more than its next one."""
    jobs = [job("b", 0, 100, 8, "b"), job("a1", 10, 5, 1), job("a2", 20, 5, 2)]
    _, said = run(Policy.fifo, jobs, quota=world.Quota(min={"a": 4, "b": 0}))
    unmet = said["unmet"]
    assert unmet["leaves"]["a"] == {"min": 4, "longest_s": 80.0, "most_gpus": 3, "gpu_h": round(3 * 80 / 3600, 2)}
    assert unmet["leaves"]["b"]["longest_s"] == 0
    assert unmet["longest_s"] == 80 and unmet["largest_share"] == 0.75


def test_fragmentation_counts_what_is_free_outside_whole_eights() -> None:
    jobs = [job("a", 0, 100, 4), job("b", 50, 1, 1)]
    _, said = run(Policy.fifo, jobs, each=2, sample_s=1.0)
    assert said["fragmentation"] == pytest.approx(4 / 16, abs=1e-4)


def test_fragmentation_is_looked_at_when_nothing_is_decided_too() -> None:
    """The half node is broken for ten seconds of a hundred, and nobody waits while it is not."""
    jobs = [job("a", 0, 10, 4), job("b", 100, 1, 8)]
    _, said = run(Policy.fifo, jobs, sample_s=1.0)
    assert said["fragmentation"] == pytest.approx(4 / 8 * 10 / 100, abs=1e-4)


def test_jobs_that_come_at_once_are_watched_until_the_last_has_ended() -> None:
    _, said = run(Policy.fifo, [job("a", 0, 100, 4), job("b", 0, 300, 4)])
    assert said["allocated"] == pytest.approx((100 * 8 + 200 * 4) / (300 * 8), abs=1e-4)


def test_who_never_starts_is_counted_and_in_no_figure() -> None:
    done, said = run(Policy.fleet, [job("a", 0, 10, 8), job("b", 0, 10, 8, "b")], quota=world.Quota(max={"a": 4}))
    assert done.stopped is Stop.STUCK
    assert (said["jobs"], said["never_started"], said["wait_s"]["n"], said["makespan_s"]) == (2, 1, 1, 10)
    _, none = run(Policy.fleet, [job("a", 0, 10, 8)], quota=world.Quota(max={"a": 4}))
    assert (none["never_started"], none["wait_s"], none["makespan_s"]) == (1, {"n": 0}, 0.0)


# Two members of one node of 8; a is promised 8, b nothing. `x` keeps its work every 100 s.
FIVE = [
    job("w", 0, 300, 8, "b"),
    job("x", 0, 400, 8, "b"),
    job("y", 150, 100, 8, "a"),
    job("z", 160, 50, 4, "a"),
    job("q", 200, 100, 4, "b"),
]


def test_five_jobs_by_hand_where_one_is_evicted() -> None:
    """At 150 `y` takes back the node of `x` (of those that borrow the last by name), which loses 50 of its 150 seconds
    and is gone 10 s later. `z` is within the share of a (12 of 16), and `w` takes b past its own: so it leaves as well,
    and loses 60 s. `q` fits the share of b beside `z`. At 260 `w` returns, 200 s before its end, and at 300 `x`."""
    done, said = run(
        Policy.fleet,
        FIVE,
        members=2,
        quota=world.Quota(min={"a": 8, "b": 0}),
        sample_s=1.0,
        config=Config(reclaim=True, protection_s=100.0, head_after_s=0.0),
        grace_s=10.0,
        checkpoint_s=100.0,
    )
    ended = {event.unit: event.at - world.ZERO for event in done.log if event.what is UnitEventKind.ENDED}
    assert starts(done) == {"w": 0, "x": 0, "y": 160, "z": 170, "q": 200}
    assert ended == {"w": 460, "x": 600, "y": 260, "z": 220, "q": 300}
    assert (said["evictions"], said["lost_gpu_h"], said["never_started"]) == (2, round((50 + 60) * 8 / 3600, 3), 0)
    assert said["wait_s"] == {"n": 5, "mean": 4.0, "p50": 0.0, "p95": 10.0, "p99": 10.0, "max": 10.0}
    assert said["wait_s_by_leaf"]["a"]["mean"] == 10 and said["wait_s_by_leaf"]["b"]["mean"] == 0
    assert said["wait_s_by_gpus"]["4"]["mean"] == 5 and said["wait_s_by_gpus"]["8"]["mean"] == round(10 / 3, 1)
    assert said["jct_s"]["mean"] == (460 + 600 + 110 + 60 + 100) / 5
    assert said["delay_s"]["max"] == 200, "x: 600 s for 400 s of work"
    assert said["makespan_s"] == 600
    assert said["allocated"] == round((16 * 200 - 4 * 30) / (16 * 200), 4), "z uses half a node from 170 to 200"
    assert said["fragmentation"] == round(4 * 30 / (16 * 200), 4), "the other half of it is no whole node"
    assert said["unmet"]["largest_share"] == 1.0, "a has nothing of its 8 from 150 to 160"
    assert said["unmet"]["longest_s"] == 0, "and is short of no more than its next job"


traces = st.lists(
    st.tuples(
        st.integers(0, 500), st.integers(1, 300), st.sampled_from((1, 2, 3, 4, 8, 12, 16)), st.sampled_from("ab")
    ),
    min_size=1,
    max_size=14,
)


@settings(max_examples=40, deadline=None)
@given(traces, st.sampled_from(list(Policy)), st.integers(0, 3))
def test_every_job_ends_no_node_is_overcommitted_and_the_same_seed_tells_the_same(
    rows: list[tuple[int, int, int, str]], policy: Policy, seed: int
) -> None:
    jobs = [job(f"j{n}", at, runs, gpus, queue) for n, (at, runs, gpus, queue) in enumerate(sorted(rows))]
    options: dict[str, Any] = {
        "members": 2,
        "each": 2,
        "seed": seed,
        "quota": world.Quota(guarantee=0.8),
        "cycle_s": 5.0,
        "config": Config(reclaim=True, protection_s=60.0),
        "sample_s": 1.0,
    }
    done, said = run(policy, jobs, **options)
    assert said["stopped"] == "DONE" and said["ended"] == len(jobs)
    used = {"m0": 0, "m1": 0}
    for event in done.log:
        change = {UnitEventKind.STARTED: 1, UnitEventKind.ENDED: -1, UnitEventKind.LEFT: -1}.get(event.what, 0)
        used[event.member or "m0"] += change * done.jobs[event.unit].gpus
        assert 0 <= used[event.member or "m0"] <= 16
    assert all(0 <= sample.free <= 32 for sample in done.samples)
    again, repeated = run(policy, jobs, **options)
    assert again.log == done.log
    assert {**repeated, "timing": None} == {**said, "timing": None}
