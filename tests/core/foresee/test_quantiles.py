"""Of few values: between which the next one will lie."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from statistics import NormalDist

import pytest

from fleet.core.foresee.quantiles import four_fifths, quantile

_NORMAL = NormalDist()


def _two_kinds(rng: Random) -> float:
    return rng.gauss(0.0 if rng.random() < 0.6 else 5.0, 1.0)


def _heavy(rng: Random) -> float:
    return math.copysign((1.0 - rng.random()) ** -0.5 - 1.0, rng.random() - 0.5)


Draw = Callable[[Random], float]
Below = Callable[[float], float]
LAWS: dict[str, tuple[Draw, Below]] = {  # a value drawn, and the share of values below one
    "normal": (lambda rng: rng.gauss(0.0, 1.0), _NORMAL.cdf),
    "even": (Random.random, lambda at: min(1.0, max(0.0, at))),
    "logarithm of exponential waits": (
        lambda rng: math.log(rng.expovariate(1.0)),
        lambda at: 1.0 - math.exp(-math.exp(min(at, 50.0))),
    ),
    "skewed": (lambda rng: rng.expovariate(1.0), lambda at: 1.0 - math.exp(-max(0.0, at))),
    "heavy on both sides": (_heavy, lambda at: 0.5 + math.copysign(0.5 * (1.0 - (1.0 + abs(at)) ** -2), at)),
    "of two kinds": (_two_kinds, lambda at: 0.6 * _NORMAL.cdf(at) + 0.4 * _NORMAL.cdf(at - 5.0)),
}


def held(law: str, many: int, samples: int = 1000) -> tuple[float, float]:
    """The shares of next values between the ends, and below the lower one, on average over samples of `many`."""
    draw, below = LAWS[law]
    rng = Random(f"{law}/{many}")
    ends = [four_fifths(sorted(draw(rng) for _ in range(many))) for _ in range(samples)]
    within = sum(below(high) - below(low) for low, high in ends) / samples
    return within, sum(below(low) for low, _ in ends) / samples


@pytest.mark.parametrize("many", [9, 12, 20, 50])
@pytest.mark.parametrize("law", LAWS)
def test_nine_values_or_more_hold_four_fifths_whatever_they_are(law: str, many: int) -> None:
    within, below = held(law, many)
    assert within == pytest.approx(0.8, abs=0.03) and below == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("many", [2, 3, 4, 5, 6, 7, 8])
def test_few_normal_values_hold_four_fifths(many: int) -> None:
    within, below = held("normal", many, 4000)
    assert within == pytest.approx(0.8, abs=0.015) and below == pytest.approx(0.1, abs=0.015)


@pytest.mark.parametrize("many", [5, 6, 7, 8])
@pytest.mark.parametrize("law", LAWS)
def test_five_values_hold_about_four_fifths_of_unlike_kinds_too(law: str, many: int) -> None:
    within, below = held(law, many)
    assert 0.74 <= within <= 0.88 and 0.04 <= below <= 0.13


def test_quantiles_lie_between_the_values_beside_them() -> None:
    assert quantile([1.0, 2.0, 3.0, 4.0, 5.0], 0.5) == 3.0
    assert quantile([1.0, 3.0], 0.5) == 2.0
    assert quantile([float(n) for n in range(1, 20)], 0.1) == pytest.approx(2.0)
    assert quantile([float(n) for n in range(1, 20)], 0.95) == pytest.approx(19.0)
    assert quantile([7.0], 0.9) == 7.0
    assert quantile([1.0, math.inf], 0.9) == math.inf


def test_ends_go_beyond_few_values_on_the_side_where_they_are_spread() -> None:
    low, high = four_fifths([1.0, 2.0, 3.0, 13.0, 23.0])
    assert low == pytest.approx(3.0 - 2.0 * 1.47) and high == pytest.approx(3.0 + 20.0 * 1.47)
    assert four_fifths([4.0]) == (4.0, 4.0)
    assert four_fifths([4.0] * 6) == (4.0, 4.0)


def test_an_infinite_value_among_few_makes_the_upper_end_infinite_and_only_that() -> None:
    low, high = four_fifths([1.0, 2.0, 3.0, 4.0, math.inf])
    assert low == pytest.approx(3.0 - 2.0 * 1.47) and high == math.inf
    assert four_fifths([1.0, math.inf, math.inf, math.inf, math.inf]) == (1.0, math.inf)
    assert four_fifths([math.inf] * 5) == (math.inf, math.inf)
    assert four_fifths([float(n) for n in range(19)] + [math.inf])[1] == pytest.approx(17.9)
