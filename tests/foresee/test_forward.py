"""A snapshot run forward in virtual time: who starts when, and why the run ends."""

from __future__ import annotations

from dataclasses import replace

from fleet.foresee.forward import Forward, Stop, What, by_walltime, core
from fleet.model.unit import Phase, Unit
from fleet.snapshot import Config, Snapshot
from tests.builders import GPU, NOW, MemberBuilder, UnitBuilder, member, snapshot, tree, unit

FOREVER = NOW + 1e9


def forward(of: Snapshot, **options: float) -> Forward:
    return Forward(of, now=NOW, decider=core(seed=1), runs_s=by_walltime(100.0), **options)


def starts(run: Forward) -> dict[str, float]:
    return {key: at - NOW for key, at in run.started.items()}


def story(run: Forward, key: str) -> list[tuple[float, What]]:
    return [(event.at - NOW, event.what) for event in run.log if event.unit == key]


def eight(name: str, walltime_s: float, since: float = 60) -> UnitBuilder:
    return unit(name).gpus(8).having(walltime_s=walltime_s).since(since)


def one_node() -> MemberBuilder:
    return member("x").nodes(1)


def test_gangs_start_one_after_the_other_as_those_before_them_end() -> None:
    run = forward(snapshot(one_node(), eight("a", 50, since=9), eight("b", 70, since=8), eight("c", 10, since=7)))
    assert run.run(most_events=100, until=FOREVER) is Stop.DONE
    assert starts(run) == {"a": 0, "b": 50, "c": 120}
    assert story(run, "b") == [(50, What.STARTED), (120, What.ENDED)]
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
    assert story(run, "b")[:2] == [(0, What.EVICTED), (30, What.LEFT)]
    assert starts(run) == {"a": 30, "b": 80}
    assert story(run, "b")[-1] == (80 + 1000, What.ENDED)


def test_the_decider_sees_seats_and_the_same_run_twice_is_the_same() -> None:
    seen: list[Snapshot] = []

    def runs() -> Forward:
        world = [unit(f"u{n}").gpus(1 + n % 4).having(walltime_s=10.0 + n) for n in range(20)]
        run = Forward(
            snapshot(one_node(), *world), now=NOW, decider=lambda r: (seen.append(r.snapshot()), core(3)(r))[1],
            runs_s=by_walltime(1.0),
        )  # fmt: skip
        assert run.run(most_events=1000, until=FOREVER) is Stop.DONE
        return run

    assert runs().log == runs().log
    running = [u for shot in seen for u in shot.units.values() if u.phase is Phase.PLACED]
    assert running and all(u.seats and sum(s.holds[GPU] for s in u.seats) == u.total[GPU] for u in running)
