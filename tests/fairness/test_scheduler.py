"""Seats and turns, without a clock: the rule alone."""

from __future__ import annotations

from api.fairness.scheduler import Flow, Level, Limits, Place, Scheduler

QUEUED = Limits(10, queues=4, hand_size=2, queue_length=50)


def scheduler(seats: int = 40, **levels: Limits) -> Scheduler:
    made = Scheduler(seats)
    made.configure({name: (f"uid-{name}", limits) for name, limits in levels.items()})
    return made


def step(level: Level, flow: Flow, estimate_s: float = 0.001, *, seats: int = 1, seated: bool = False) -> Place:
    return Place(level, flow, seats, estimate_s, 0.0, seated, None)


def served(made: Scheduler, count: int, cost_s: dict[str, float]) -> dict[str, float]:
    """Time by flow when the next `count` steps have been let go on; each flow has another one ready at once."""
    names = {id(flow): name for level in made.levels.values() for name, flow in level.flows.items()}
    times = dict.fromkeys(cost_s, 0.0)
    for _ in range(count):
        place = made.next()
        assert place is not None
        name = names[id(place.flow)]
        times[name] += cost_s[name]
        made.charge(place.level, place.flow, cost_s[name] - place.estimate_s)
        made.leave(place.level, place.flow, place.seats)
        assert made.wait(step(place.level, place.flow))
    return times


def test_flows_share_the_time_and_not_the_number_of_steps() -> None:
    made = scheduler(only=QUEUED)
    level = made.levels["only"]
    for name in ("heavy", "heavy", "heavy", "light"):
        assert made.wait(step(level, level.flow(name)))
    times = served(made, 1100, {"heavy": 0.01, "light": 0.001})
    assert 0.8 < times["heavy"] / times["light"] < 1.25


def test_levels_share_the_time_by_their_shares() -> None:
    made = scheduler(low=QUEUED, high=Limits(30, queues=4, hand_size=2, queue_length=50))
    for level in made.levels.values():
        assert made.wait(step(level, level.flow(level.name)))
    times = served(made, 1000, {"low": 0.002, "high": 0.002})
    assert 2.7 < times["high"] / times["low"] < 3.3


def test_a_flow_that_comes_late_is_next_and_has_saved_nothing_up() -> None:
    made = scheduler(only=QUEUED)
    level = made.levels["only"]
    for _ in range(50):
        assert made.wait(step(level, level.flow("flood")))
    served(made, 1000, {"flood": 0.001})
    late = level.flow("late")
    assert made.light(level, late)
    for _ in range(20):
        assert made.wait(step(level, late))
    turns = [made.next() for _ in range(20)]
    of_late = sum(place is not None and place.flow is late for place in turns)
    assert (turns[0] is not None and turns[0].flow is late) or (turns[1] is not None and turns[1].flow is late)
    assert 9 <= of_late <= 11


def test_a_full_queue_of_one_flow_leaves_room_for_others() -> None:
    made = scheduler(only=QUEUED)
    level = made.levels["only"]
    assert [made.wait(step(level, level.flow("flood"))) for _ in range(101)].count(True) == 100
    assert made.wait(step(level, level.flow("other")))
    assert [made.wait(step(level, level.flow("second"))) for _ in range(101)].count(True) == 99
    assert level.waiting == made.waiting == 200


def test_no_flow_takes_the_last_seats() -> None:
    made = scheduler(seats=40, only=QUEUED)
    level = made.levels["only"]
    first, second, other = (level.flow(name) for name in ("first", "second", "other"))
    assert [made.take(level, first, 1) for _ in range(40)].count(True) == 20
    assert [made.take(level, second, 1) for _ in range(40)].count(True) == 10
    assert made.take(level, other, 1)
    assert level.in_use == 31


def test_a_level_borrows_what_others_lend_and_do_not_use() -> None:
    lends = Limits(10, lendable_percent=50, queues=4, hand_size=2, queue_length=50)
    made = scheduler(seats=40, borrower=QUEUED, lends=lends)
    borrower, lender = made.levels["borrower"], made.levels["lends"]
    assert (borrower.nominal, lender.nominal, lender.kept) == (20, 20, 10)
    taken = sum(made.take(borrower, borrower.flow(f"user-{number}"), 1) for number in range(60))
    assert taken == 30
    assert [made.take(lender, lender.flow(f"user-{number}"), 1) for number in range(11)].count(True) == 11


def test_a_level_borrows_no_more_than_it_may() -> None:
    made = scheduler(40, borrower=Limits(10, borrowing_percent=10), lends=Limits(10, lendable_percent=100))
    level = made.levels["borrower"]
    assert sum(made.take(level, level.flow(str(number)), 1) for number in range(60)) == 22


def test_a_request_that_is_wider_than_its_level_gets_its_turn_alone() -> None:
    made = scheduler(seats=4, only=QUEUED)
    level = made.levels["only"]
    assert made.take(level, level.flow("wide"), 10)
    assert not made.take(level, level.flow("other"), 1)
    made.leave(level, level.flow("wide"), 10)
    assert made.take(level, level.flow("other"), 1)


def test_a_step_of_a_request_with_a_seat_never_waits_for_seats() -> None:
    made = scheduler(seats=2, only=QUEUED)
    level = made.levels["only"]
    flow = level.flow("only")
    assert made.take(level, flow, 1)
    assert made.wait(step(level, flow))
    assert made.next() is None
    inside = step(level, flow, seated=True)
    assert made.wait(inside)
    assert made.next() is inside


def test_what_waited_too_long_or_went_away_is_taken_out() -> None:
    made = scheduler(only=QUEUED)
    level = made.levels["only"]
    old, gone, new = (step(level, level.flow("only")) for _ in range(3))
    old.since, gone.since, new.since = 1.0, 5.0, 5.0
    assert all([made.wait(old), made.wait(gone), made.wait(new)])
    made.drop(gone)
    made.drop(gone)
    assert made.overdue(2.0) == [old]
    assert made.next() is new
    assert made.next() is None and made.waiting == 0


def test_requests_of_a_level_that_is_gone_end_as_they_began() -> None:
    made = scheduler(old=QUEUED)
    level = made.levels["old"]
    waiting = step(level, level.flow("a"))
    assert made.wait(waiting)
    made.configure({"new": ("uid-new", QUEUED)})
    assert made.next() is waiting
    made.leave(level, waiting.flow, 1)
    assert level.in_use == 0 and list(made.levels) == ["new"]
