"""A snapshot run forward in virtual time: who starts when, and why the run ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleet.core.foresee.forward import Forward, Stop, UnitEventKind, by_walltime, core
from fleet.core.model.plan import Plan
from fleet.core.model.unit import Phase, Unit
from fleet.core.snapshot import Config, Snapshot
from tests.builders import GPU, NOW, MemberBuilder, UnitBuilder, member, snapshot, tree, unit

FOREVER = NOW + 1e9


def forward(of: Snapshot, **options: Any) -> Forward:
    return Forward(of, now=NOW, decider=core(seed=1), runs_s=by_walltime(100.0), **options)


def starts(run: Forward) -> dict[str, float]:
    return {key: at - NOW for key, at in run.started.items()}


def story(run: Forward, key: str) -> list[tuple[float, UnitEventKind]]:
    return [(event.at - NOW, event.what) for event in run.log if event.unit == key]


def eight(name: str, walltime_s: float, since: float = 60) -> UnitBuilder:
    return unit(name).gpus(8).having(walltime_s=walltime_s).since(since)


def one_node() -> MemberBuilder:
    return member("x").nodes(1)


def test_gangs_start_one_after_the_other_as_those_before_them_end() -> None:
    run = forward(snapshot(one_node(), eight("a", 50, since=9), eight("b", 70, since=8), eight("c", 10, since=7)))
    assert run.run(most_events=100, until=FOREVER) is Stop.DONE
    assert starts(run) == {"a": 0, "b": 50, "c": 120}
    assert story(run, "b") == [(50, UnitEventKind.STARTED), (120, UnitEventKind.ENDED)]
    assert run.now == NOW + 130
    assert not run.units


def test_what_runs_already_ends_when_its_walltime_since_its_start_is_over() -> None:
    first = eight("a", 50).runs_in("x")  # for five seconds now
    run = forward(snapshot(member("x").nodes(1, free_gpu=0), first, eight("b", 1)))
    assert run.run(most_events=100, until=FOREVER, watch={"b"}) is Stop.WATCHED
    assert starts(run) == {"b": 45}


def test_a_unit_that_comes_later_is_decided_when_it_comes() -> None:
    run = forward(snapshot(one_node(), eight("a", 50)), cycle_s=30.0)
    run.submit(NOW + 10, replace(unit("b").gpus(8).value, enqueued_at=NOW + 10))
    assert run.run(most_events=100, until=FOREVER) is Stop.DONE
    assert starts(run) == {"a": 0, "b": 60}, "decisions at 0, 30 (b came at 10) and 60 (a ended at 50)"


def test_every_bound_has_its_name() -> None:
    waits = snapshot(one_node(), eight("a", 50), eight("b", 50))
    assert forward(waits).run(most_events=3, until=FOREVER) is Stop.EVENTS
    late = forward(waits)
    assert late.run(most_events=100, until=NOW + 40) is Stop.TIME
    assert late.now == NOW + 40
    assert late.run(most_events=100, until=FOREVER) is Stop.DONE, "it can go on"
    stuck = forward(snapshot(one_node(), unit("big").gpus(8, pods=2)))
    assert stuck.run(most_events=1000, until=FOREVER) is Stop.STUCK
    assert forward(snapshot(one_node())).run(most_events=1, until=FOREVER) is Stop.DONE


def test_work_that_ends_never_by_itself_leaves_the_others_stuck() -> None:
    def runs_s(unit: Unit, now: float) -> float | None:
        return None

    run = Forward(snapshot(one_node(), eight("a", 1), eight("b", 1)), now=NOW, decider=core(1), runs_s=runs_s)
    assert run.run(most_events=1000, until=FOREVER) is Stop.STUCK
    assert set(run.started) == {"a"}


def test_back_off_is_waited_for() -> None:
    run = forward(snapshot(one_node(), eight("a", 5).having(backoff_until=NOW + 5000)))
    assert run.run(most_events=1000, until=FOREVER) is Stop.DONE
    assert starts(run) == {"a": 5000}


def test_who_is_evicted_leaves_after_the_grace_and_waits_again_and_the_claimed_room_goes_to_its_unit() -> None:
    quota = tree(a={"min": {GPU: 8}}, b={})
    borrower = unit("b").gpus(8).queue("root/b").having(walltime_s=1000.0).runs_in("x").having(placed_at=NOW - 900)
    owner = unit("a").gpus(8).queue("root/a").having(walltime_s=50.0)
    world = snapshot(member("x").nodes(1, free_gpu=0), borrower, owner, quota, Config(reclaim=True))
    run = forward(world, grace_s=30.0, cycle_s=1.0)
    assert run.run(most_events=1000, until=FOREVER) is Stop.DONE
    assert story(run, "b")[:2] == [(0, UnitEventKind.EVICTED), (30, UnitEventKind.LEFT)]
    assert starts(run) == {"a": 30, "b": 80}
    assert story(run, "b")[-1] == (80 + 1000, UnitEventKind.ENDED)


def test_the_decider_sees_seats_and_the_same_run_twice_is_the_same() -> None:
    seen: list[Snapshot] = []

    def decider(run: Forward) -> Plan:
        seen.append(run.snapshot())
        return core(3)(run)

    def runs() -> Forward:
        world = [unit(f"u{n}").gpus(1 + n % 4).having(walltime_s=10.0 + n) for n in range(20)]
        run = Forward(snapshot(one_node(), *world), now=NOW, decider=decider, runs_s=by_walltime(1.0))
        assert run.run(most_events=1000, until=FOREVER) is Stop.DONE
        return run

    assert runs().log == runs().log
    running = [u for shot in seen for u in shot.units.values() if u.phase is Phase.PLACED]
    assert running and all(u.seats and sum(s.holds[GPU] for s in u.seats) == u.total[GPU] for u in running)


BOUND = 60.0
TIMES = Config(head_after_s=BOUND, protection_s=0.0, claim_s=1.0)


def behind_a_head(
    delay_s: float, half_s: float | None, promised_s: float, waited_s: float = 2 * BOUND, config: Config = TIMES
) -> Snapshot:
    """A gang of two nodes is a head. One of them is free, on the other a job runs for `half_s` more seconds (None: for
    ever). A guaranteed job of one node comes last, and runs for `promised_s`."""
    return snapshot(
        replace(config, guarantee_delay_s=delay_s),
        member("x").nodes(1, free_gpu=0).nodes(1),
        tree(a={}, b={}, c={"min": {GPU: 8}}),
        eight("half", 1.0).queue("root/a").runs_in("x").having(walltime_s=None if half_s is None else half_s + 5),
        unit("large").gpus(8, pods=2).queue("root/b").since(waited_s).having(walltime_s=10.0),
        eight("promised", promised_s, since=1).queue("root/c"),
    )


def run_to_the_end(world: Snapshot, **options: Any) -> tuple[Forward, list[float]]:
    """The run, and the times of its decisions. Jobs without a walltime do not end."""
    times: list[float] = []

    def decider(run: Forward) -> Plan:
        times.append(run.now - NOW)
        return core(seed=1)(run)

    run = Forward(world, now=NOW, decider=decider, runs_s=by_walltime(), **options)
    run.run(most_events=10_000, until=NOW + 5_000)
    return run, times


@pytest.mark.parametrize("growth", [0.0, 0.5])
def test_guaranteed_work_starts_when_the_window_of_an_overdue_head_ends_however_long_it_is(growth: float) -> None:
    """Nothing happens meanwhile, and the window is longer than the run would look at time alone."""
    run, _ = run_to_the_end(behind_a_head(500, None, 10), growth=growth)
    assert starts(run) == {"promised": 500}
    assert run.stopped is Stop.STUCK


def test_a_decision_is_made_when_a_head_becomes_overdue_and_when_it_ceases_to_be() -> None:
    """While nothing happens, for one whole turn of the head: then time alone changes nothing any more."""
    world = behind_a_head(500, None, 10, waited_s=BOUND)
    world = replace(world, units={key: world.units[key] for key in ("half", "large")})
    run, times = run_to_the_end(world)
    assert run.stopped is Stop.STUCK
    assert times == [0, 60, 120, 180, 560, 620], "ticks for two minutes, then only the changes"


@pytest.mark.parametrize(
    ("delay_s", "half_s", "promised_s", "waited_s"),
    [
        pytest.param(200, 100, 250, 2 * BOUND, id="the head starts in its window, for certain"),
        pytest.param(200, 100, 50, 2 * BOUND, id="the other job ends before the head starts"),
        pytest.param(200, 300, 900, 2 * BOUND, id="the window ends before the head would start"),
        pytest.param(500, 300, 900, 2 * BOUND, id="a window longer than the run looks at time alone"),
        pytest.param(40, 300, 900, 2 * BOUND, id="a window shorter than a tick"),
        pytest.param(40, 300, 250, 2 * BOUND + 39, id="a window that ends in a second"),
        pytest.param(200, 150, 900, BOUND, id="a head that is not overdue yet"),
        pytest.param(200, 30, 900, BOUND + 10, id="a head that starts before it is overdue"),
    ],
)
def test_starts_are_those_of_a_decision_every_second(
    delay_s: float, half_s: float, promised_s: float, waited_s: float
) -> None:
    found, _ = run_to_the_end(behind_a_head(delay_s, half_s, promised_s, waited_s))
    patient = replace(TIMES, claim_s=1_200.0)  # the run looks at time alone for so long
    often, _ = run_to_the_end(behind_a_head(delay_s, half_s, promised_s, waited_s, patient), tick_s=1.0)
    assert set(starts(found)) == {"large", "promised"} and starts(found) == starts(often)
