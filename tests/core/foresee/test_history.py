"""Which past work a duration is drawn from: the closest likeness there is, mostly what came at the same time."""

from __future__ import annotations

import statistics
from itertools import islice, takewhile
from random import Random

from fleet.core.foresee.history import DAY_S, History, PastUnit
from fleet.core.model.unit import Unit
from tests.builders import NOW, unit

HOUR = 3600.0


def of(name: str, *, ago: float, user: str = "", leaf: str = "root/a", gpus: int = 8) -> Unit:
    """Submitted `ago` seconds before now."""
    return unit(name).gpus(gpus).queue(leaf).having(enqueued_at=NOW - ago, user=user).value


def past(like: Unit, seconds: float | None) -> PastUnit:
    """It started at once, and ran so long; None: it runs until now."""
    at = like.enqueued_at
    return PastUnit(like, at, at, None if seconds is None else at + seconds)


def median(history: History, of: Unit, ran: float = 0.0) -> float:
    return statistics.median(history.runs_s(Random(n), of, ran) for n in range(301))


def test_a_user_is_more_like_the_user_than_like_the_rest_of_the_leaf() -> None:
    pasts = [past(of(f"ann{n}", ago=DAY_S + n, user="ann"), HOUR) for n in range(30)]
    pasts += [past(of(f"bob{n}", ago=DAY_S + n, user="bob"), 60.0) for n in range(30)]
    history = History(pasts, NOW)
    assert median(history, of("u", ago=0, user="ann")) == HOUR
    assert median(history, of("u", ago=0, user="bob")) == 60.0


def test_what_was_submitted_at_the_same_time_tells_more_than_last_month() -> None:
    last_month = [past(of(f"old{n}", ago=30 * DAY_S + n * 60), 60.0) for n in range(300)]
    today = [past(of(f"new{n}", ago=6 * HOUR + n * 60), HOUR) for n in range(60)]
    history = History(last_month + today, NOW)
    assert median(history, of("u", ago=0)) == HOUR
    assert median(history, of("u", ago=30 * DAY_S)) == 60.0
    drawn = {history.runs_s(Random(n), of("u", ago=0)) for n in range(301)}
    assert drawn == {60.0, HOUR}  # but last month is not forgotten


def test_where_all_that_came_along_still_runs_it_will_last_longer_than_that() -> None:
    last_month = [past(of(f"old{n}", ago=30 * DAY_S + n * 60), 60.0 if n % 2 else 9 * HOUR) for n in range(300)]
    today = [past(of(f"new{n}", ago=6 * HOUR + n * 60), None) for n in range(60)]
    assert median(History(last_month + today, NOW), of("u", ago=0)) == 9 * HOUR


def test_what_has_run_long_beside_few_that_did_may_last_as_long_again() -> None:
    pasts = [past(of(f"p{n}", ago=30 * DAY_S + n * 60), 60.0) for n in range(300)]
    pasts += [past(of(f"l{n}", ago=29 * DAY_S + n * 60), 10.5 * HOUR) for n in range(4)]
    history = History(pasts, NOW)
    drawn = [history.runs_s(Random(n), of("u", ago=0), 10 * HOUR) for n in range(400)]
    assert 0.1 < sum(ran == 10.5 * HOUR for ran in drawn) / 400 < 0.5  # that four ended then says little
    assert 15 * HOUR < statistics.median(drawn) < 25 * HOUR
    many = History(
        [past(of(f"m{n}", ago=30 * DAY_S + n * 60), 10.5 * HOUR) for n in range(400)], NOW
    )  # of hundreds it says much
    assert median(many, of("u", ago=30 * DAY_S), 10 * HOUR) == 10.5 * HOUR


def test_the_nearest_in_submission_are_those_on_both_sides() -> None:
    pasts = [past(of(f"p{n}", ago=DAY_S - n * 60), 1000.0 + n) for n in range(200)]
    history = History(pasts, NOW)
    drawn = sorted(history.runs_s(Random(n), of("u", ago=DAY_S - 100.5 * 60)) for n in range(2000))
    near = [ran for ran in drawn if 1081 <= ran <= 1120]
    assert len(near) / len(drawn) > 0.7 and {min(near), max(near)} == {1081.0, 1120.0}


def test_a_burst_of_a_minute_is_not_taken_for_what_comes_every_minute() -> None:
    pasts = [past(of(f"p{n}", ago=60 - n / 10), None) for n in range(500)]
    coming = list(islice(History(pasts, NOW).arrivals(Random(1)), 501))
    assert coming[499][0] <= NOW + HOUR < coming[500][0]
    one = History([past(of("p", ago=0), None)], NOW)  # and one that came just now may come again
    assert [at for at, _ in islice(one.arrivals(Random(1)), 2)] == [NOW + HOUR, NOW + 2 * HOUR]


def test_a_job_that_has_just_started_lasts_as_long_as_its_like_even_if_those_are_few() -> None:
    history = History([past(of(f"p{n}", ago=DAY_S + n * 60), 10 * HOUR) for n in range(10)], NOW)
    drawn = [history.runs_s(Random(n), of("u", ago=60), 5.0) for n in range(100)]
    assert set(drawn) == {10 * HOUR}


def test_days_of_which_only_the_long_jobs_are_still_known_are_no_days_on_which_few_came() -> None:
    """Jobs that are over are forgotten after two days, say; a job of 20 days ago that still runs is there."""
    kept = [past(of(f"p{n}", ago=2 * DAY_S - n * 800), 60.0) for n in range(216)]
    history = History([past(of("long", ago=20 * DAY_S), None), *kept], NOW)
    coming = [at for at, _ in takewhile(lambda came: came[0] < NOW + 10 * DAY_S, history.arrivals(Random(1)))]
    assert 1000 < len(coming) < 1100
