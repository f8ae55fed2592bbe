"""Seats and turns, without a clock: the rule alone."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from api.fairness.scheduler import Flow, Limits, PriorityLevel, Scheduler, WaitingStep

QUEUED = Limits(10, queues=4, hand_size=2, queue_length=50)


def scheduler(seats: int = 40, **levels: Limits) -> Scheduler:
    made = Scheduler(seats)
    made.configure({name: (f"uid-{name}", limits) for name, limits in levels.items()})
    return made


def step(
    level: PriorityLevel, flow: Flow, estimate_s: float = 0.001, *, seats: int = 1, seated: bool = False
) -> WaitingStep:
    return WaitingStep(level, flow, seats, estimate_s, 0.0, seated, None)


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
    assert (borrower.nominal, lender.nominal, lender.unlent_seats) == (20, 20, 10)
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


def test_nothing_more_of_a_flow_is_read_while_its_requests_wait_for_seats() -> None:
    made = scheduler(seats=4, only=QUEUED)
    level = made.levels["only"]
    flood, other = level.flow("flood"), level.flow("other")
    assert made.take(level, flood, 2)
    unread, request = step(level, flood, seats=0), step(level, flood)
    assert made.wait(unread) and made.wait(request)
    assert made.next() is None
    theirs = step(level, other, seats=0)
    assert made.wait(theirs) and made.next() is theirs
    made.leave(level, flood, 1)
    assert [made.next(), made.next()] == [request, unread]
    assert made.waiting == level.waiting == 0


def test_requests_that_are_unread_fill_no_queue() -> None:
    made = scheduler(only=QUEUED)
    level = made.levels["only"]
    flood = level.flow("flood")
    assert all(made.wait(step(level, flood, seats=0)) for _ in range(1000))
    assert [made.wait(step(level, flood)) for _ in range(101)].count(True) == 100
    assert (level.waiting, made.waiting) == (100, 1100)
    assert len(made.overdue(1.0)) == 1100
    assert made.waiting == level.waiting == len(flood) == 0


@settings(max_examples=100, deadline=None)
@given(
    flood=st.lists(st.sampled_from((0, 1, 3)), min_size=1, max_size=60),
    costs=st.lists(st.floats(0.00001, 0.01), min_size=1, max_size=10),
    seats=st.sampled_from((0, 1)),
)
def test_a_light_flow_waits_for_one_step_of_a_flood(flood: list[int], costs: list[float], seats: int) -> None:
    made = scheduler(only=QUEUED)
    level = made.levels["only"]
    for number, wanted in enumerate(flood):
        assert made.wait(step(level, level.flow("flood"), costs[number % len(costs)], seats=wanted))
    begun = made.next()
    assert begun is not None
    mine = step(level, level.flow("light"), seats=seats)
    assert made.light(level, mine.flow)
    assert made.wait(mine) and made.next() is mine


@settings(max_examples=100, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(("a", "b", "c")), st.integers(0, 2), st.booleans(), st.integers(0, 3)), max_size=80
    )
)
def test_each_step_that_waits_gets_its_turn_once_and_in_the_order_of_its_flow(
    steps: list[tuple[str, int, bool, int]],
) -> None:
    made = scheduler(only=QUEUED)
    level = made.levels["only"]
    waiting: list[WaitingStep] = []
    turns: list[WaitingStep] = []

    def serve(count: int) -> None:
        for _ in range(count):
            if (place := made.next()) is not None:
                turns.append(place)
                if not place.seated:
                    made.leave(level, place.flow, place.seats)

    for name, seats, seated, let_go in steps:
        place = step(level, level.flow(name), seats=seats, seated=seated and seats > 0)
        assert made.wait(place)
        waiting.append(place)
        serve(let_go)
    serve(len(waiting))
    assert sorted(map(id, turns)) == sorted(map(id, waiting))
    assert made.waiting == level.waiting == level.in_use == 0
    for flow in {place.flow for place in waiting}:
        for kind in ("seated", "arrived", "unread"):
            line = [place for place in turns if place.flow is flow and kind_of(place) == kind]
            assert line == [place for place in waiting if place.flow is flow and kind_of(place) == kind]


def kind_of(place: WaitingStep) -> str:
    return "seated" if place.seated else "arrived" if place.seats else "unread"
