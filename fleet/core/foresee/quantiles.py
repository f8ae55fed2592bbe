"""Quantiles of a few values: where the next value of the same kind will lie.

Of n values the k-th smallest has, for any distribution, a share of k / (n + 1) of all others below it on average. So a
quantile is the value at the place (n + 1) x share, between two values the mean of both by their nearness. With eight
values or fewer nine tenths lie beyond the largest. Nothing is known there without a distribution, so the ends of a
range are then moved beyond the outermost values, by as much as holds four fifths of normally distributed values: shares
of the way from the median to the outermost value, on either side for itself, so that a skewed sample has a skewed
range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

_BEYOND = {2: 4.437, 3: 1.78, 4: 0.784, 5: 0.47, 6: 0.256, 7: 0.136, 8: 0.06}
"""Of n values: by which share of the way from the median to the outermost value the end lies beyond that value."""


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which a `share` of such values is; the outermost one where that would lie beyond it. Infinity
    beside infinity. IndexError without values."""
    at = min(len(ordered) - 1.0, max(0.0, share * (len(ordered) + 1) - 1.0))
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    if at == low or ordered[high] == ordered[low]:
        return ordered[low]
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def four_fifths(ordered: Sequence[float]) -> tuple[float, float]:
    """The two values between which the next value lies in four of five cases, a tenth on either side. A single value is
    both ends. Infinite values are larger than everything, and an end among them is infinite."""
    beyond = _BEYOND.get(len(ordered))
    if beyond is None:
        return quantile(ordered, 0.1), quantile(ordered, 0.9)
    middle, low, high = median(ordered), ordered[0], ordered[-1]
    below = 0.0 if math.isinf(middle) else beyond * (middle - low)
    above = 0.0 if math.isinf(high) else beyond * (high - middle)
    return low - below, high + above
